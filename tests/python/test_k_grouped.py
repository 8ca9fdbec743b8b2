"""Products grouped along K on the CPU reference: exact, and factors counted per group."""

from __future__ import annotations

import numpy as np
import pytest

import deepgemm
import oracle
from grouped_oracle import skewed, slices


def side(rng, rows, sizes, rest, turn):
    """The operand of each group, and (values, sf) of all of them side by side; then NaN."""
    parts = [oracle.exact_operand(rng, rows, size, (1, 128)) for size in sizes]
    nan = np.full((rows, rest), np.nan).astype(oracle.DTYPES["float8_e4m3fn"])
    values = np.concatenate([*(part.values for part in parts), nan], axis=1)
    sf = np.concatenate([*(part.sf for part in parts), np.zeros((rows, 0), np.float32)], axis=1)
    return parts, (values.T.copy(), sf.T.copy()) if turn else (values, sf)


@pytest.mark.parametrize("layout", ["nt", "nn", "tn", "tt"])
@pytest.mark.parametrize("sizes", [[144, 0, 16, 256], [128, 384], [0, 0], [], [32] * 9])
def test_float8(rng, layout, sizes):
    m, n = 13, 21
    lefts, a = side(rng, m, sizes, 48, layout[0] == "t")
    rights, b = side(rng, n, sizes, 48, layout[1] == "n")
    want = np.zeros((len(sizes), m, n))
    for g, (left, right) in enumerate(zip(lefts, rights, strict=True)):
        want[g] = oracle.product(left.real, right.real)
    k_sizes = np.array(sizes, np.int32)
    for out_dtype in ("float32", "bfloat16"):
        out = deepgemm.k_grouped_gemm(a, b, k_sizes, out_dtype=out_dtype, layout=layout)
        assert oracle.same_bits(out, oracle.cast(want, out_dtype))
    c = rng.integers(-9, 9, want.shape).astype(np.float32)
    added = oracle.cast(want + c, "float32")
    out = deepgemm.k_grouped_gemm(a, b, k_sizes, c=c, layout=layout)
    assert oracle.same_bits(out, added)
    assert deepgemm.k_grouped_gemm(a, b, k_sizes, c, c=c, layout=layout) is c
    assert oracle.same_bits(c, added)
    rounded = deepgemm.k_grouped_gemm(
        a, b, k_sizes, c=c, alpha=-2, out_dtype="bfloat16", layout=layout
    )
    assert oracle.same_bits(rounded, oracle.cast(c - 2 * want, "bfloat16"))


@pytest.mark.parametrize("seed", range(30))
def test_random_groups(seed):
    rng = np.random.default_rng(seed)
    groups, m, n = int(rng.integers(1, 20)), int(rng.integers(1, 9)), int(rng.integers(1, 70))
    sizes = 16 * skewed(rng, groups, int(rng.integers(0, 50)))
    lefts, a = side(rng, m, sizes, 16 * int(rng.integers(0, 3)), False)
    rights, b = side(rng, n, sizes, a[0].shape[1] - int(sum(sizes)), False)
    out = deepgemm.k_grouped_gemm(a, b, sizes.astype(np.int32))
    for g, (left, right) in enumerate(zip(lefts, rights, strict=True)):
        assert oracle.same_bits(
            out[g], oracle.cast(oracle.product(left.real, right.real), "float32")
        )


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_k_grouped_unscaled(rng, dtype):
    sizes = np.array([5, 0, 130, 1, 77])
    a = oracle.cast(rng.integers(-3, 4, (sum(sizes) + 3, 7)).astype(np.float32), dtype)
    b = oracle.cast(rng.integers(-3, 4, (sum(sizes) + 3, 10)).astype(np.float32), dtype)
    want = [oracle.product(a[s].T, b[s].T, alpha=0.5) for s in slices(sizes)]
    out = deepgemm.k_grouped_gemm(a, b, sizes, layout="tn", alpha=0.5)
    assert oracle.same_bits(out, np.stack(want).astype(np.float32))


def test_k_grouped_factors_are_those_of_quantize(rng):
    """Sizes of whole blocks: the factors of the whole array; else each group's, side by side."""
    x, y = (rng.standard_normal((r, 512)).astype(np.float32) for r in (6, 9))
    qx, qy = deepgemm.quantize(x), deepgemm.quantize(y)
    out = deepgemm.k_grouped_gemm(qx, qy, np.array([128, 0, 384]))
    rx, ry = deepgemm.dequantize(qx), deepgemm.dequantize(qy)
    want = np.stack([oracle.product(rx[:, s], ry[:, s]) for s in slices([128, 0, 384])])
    assert oracle.difference(out, want) < 1e-6
    sides = []
    for z in (x, y):
        groups = [deepgemm.quantize(z[:, s]) for s in slices([160, 352])]
        sides.append(
            [np.concatenate(part, axis=1) for part in zip(*[q[:2] for q in groups], strict=True)]
        )
    out = deepgemm.k_grouped_gemm(*sides, np.array([160, 352]))
    want = np.stack([oracle.product(x[:, s], y[:, s]) for s in slices([160, 352])])
    assert sides[0][1].shape == (6, 2 + 3)
    assert oracle.difference(out, want) < 1e-2
