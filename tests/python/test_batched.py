"""gemm of batches on the CPU reference: exact, each product against NumPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import deepgemm
import oracle
from grouped_oracle import stack

LAYOUTS = ("nt", "nn", "tn", "tt")
B, M, N, K = 3, 5, 34, 200
PAIR = ((1, 128), (128, 128))


def operands(rng, granularity=PAIR, count=B):
    """Batches with factors."""
    a = stack([oracle.exact_operand(rng, M, K, granularity[0]) for _ in range(count)])
    b = stack([oracle.exact_operand(rng, N, K, granularity[1]) for _ in range(count)])
    return a, b


def lying(x, turn):
    """A matrix or a batch as the memory of a layout has it."""
    return np.ascontiguousarray(np.swapaxes(x, -1, -2)) if turn else x


def want(a, b, dtype="float32", count=B, **after):
    """Product by product; what has one matrix serves all."""
    every = []
    for i in range(count):
        own = dict(after)
        if after.get("c") is not None:
            own["c"] = of(after["c"], i)
        every.append(oracle.product(of(a, i), of(b, i), **own))
    return oracle.cast(np.array(every), dtype)


def of(x, i):
    return x if x.ndim == 2 else x[i % len(x)]


def broadcast(x, count=B):
    return as_strided(x, (count, *x.shape), (0, *x.strides))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("out_dtype", ["float32", "bfloat16", None])
def test_unscaled(rng, layout, dtype, out_dtype):
    a = oracle.cast(rng.integers(-3, 4, (B, M, K)).astype(np.float32), dtype)
    b = oracle.cast(rng.integers(-3, 4, (B, N, K)).astype(np.float32), dtype)
    out = deepgemm.gemm(
        lying(a, layout[0] == "t"), lying(b, layout[1] == "n"), layout=layout, out_dtype=out_dtype
    )
    assert out.shape == (B, M, N)
    assert oracle.same_bits(out, want(a, b, out_dtype or dtype))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("granularity", [PAIR, ((1, 128), (1, 128)), ((1, 0), (0, 0))])
@pytest.mark.parametrize("out_dtype", ["float32", "bfloat16", "float8_e4m3fn"])
def test_float8(rng, layout, granularity, out_dtype):
    a, b = operands(rng, granularity)
    turn = layout[0] == "t", layout[1] == "n"
    pairs = [[lying(x.values, t), lying(x.sf, t)] for x, t in zip((a, b), turn, strict=True)]
    out = deepgemm.gemm(*pairs, layout=layout, granularity=granularity, out_dtype=out_dtype)
    assert oracle.same_bits(out, want(a.real, b.real, out_dtype))
    # A Quantized carries the granularity of its memory.
    carried = [
        deepgemm.Quantized(*pair, part[::-1] if t else part)
        for pair, part, t in zip(pairs, granularity, turn, strict=True)
    ]
    out = deepgemm.gemm(*carried, layout=layout, out_dtype=out_dtype)
    assert oracle.same_bits(out, want(a.real, b.real, out_dtype))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("granularity", [(1, 128), (128, 128), (1, None), (None, 1)])
def test_what_was_quantised_is_multiplied(rng, layout, granularity):
    a = rng.standard_normal((B, K, M) if layout[0] == "t" else (B, M, K)).astype(np.float32)
    b = rng.standard_normal((B, N, K) if layout[1] == "t" else (B, K, N)).astype(np.float32)
    b *= np.exp2(rng.integers(-6, 7, (B, 1, 1)))
    x, y = deepgemm.quantize(a, granularity), deepgemm.quantize(b, granularity)
    out = deepgemm.gemm(x, y, layout=layout, out_dtype="float32")
    left, right = deepgemm.dequantize(x), deepgemm.dequantize(y)
    if layout[0] == "t":
        left = left.swapaxes(1, 2)
    if layout[1] == "t":
        right = right.swapaxes(1, 2)
    assert oracle.difference(out, left.astype(np.float64) @ right.astype(np.float64)) < 1e-6
    for i in range(B):
        one = [deepgemm.Quantized(q.values[i], q.sf[i], q.granularity) for q in (x, y)]
        product = deepgemm.gemm(*one, layout=layout, out_dtype="float32")
        assert oracle.same_bits(out[i], product)


FORMS = {
    "each its own": lambda x: x,
    "rank 2": lambda x: x[0],
    "extent 1": lambda x: x[:1],
    "stride 0": lambda x: broadcast(x[0]),
}


@pytest.mark.parametrize(("left", "right"), list(itertools.product(FORMS, FORMS)))
def test_broadcast(rng, left, right):
    a, b = operands(rng)
    pair = [(FORMS[form](x.values), FORMS[form](x.sf)) for form, x in ((left, a), (right, b))]
    out = deepgemm.gemm(*pair, out_dtype="float32")
    real = FORMS[left](a.real), FORMS[right](b.real)
    counts = [len(x) for x in real if x.ndim == 3]
    if counts:
        assert oracle.same_bits(out, want(*real, count=max(counts)))
    else:
        assert oracle.same_bits(out, oracle.cast(oracle.product(*real), "float32"))


@pytest.mark.parametrize("form", FORMS)
def test_factors_of_a_batch(rng, form):
    """Those of each matrix, or one's for all."""
    a, b = operands(rng)
    own = oracle.Operand(a.values[0], a.sf[0], (1, 128))
    one = [oracle.Operand(x, own.sf, (1, 128)).real for x in a.values]
    sf = FORMS[form](a.sf)
    out = deepgemm.gemm((a.values, sf), (b.values, b.sf), out_dtype="float32")
    real = a.real if form == "each its own" else np.stack(one)
    assert oracle.same_bits(out, want(real, b.real))


def test_one_factor_for_all(rng):
    a, b = operands(rng, ((0, 0), (0, 0)))
    four = np.float32(4)
    for sf in (4.0, four, np.full((), four), np.full((1, 1), four), np.full((1, 1, 1), four)):
        out = deepgemm.gemm((a.values, sf), (b.values, b.sf), out_dtype="float32")
        assert oracle.same_bits(out, want(4 * a.values.astype(np.float64), b.real))


@pytest.mark.parametrize("form", [*FORMS, "in place"])
@pytest.mark.parametrize("out_dtype", ["float32", "bfloat16"])
def test_c_and_bias(rng, form, out_dtype):
    a, b = operands(rng)
    c = oracle.cast(rng.integers(-9, 9, (B, M, N)), out_dtype)
    bias = rng.integers(-9, 9, N).astype(np.float32)
    after = {"bias": bias, "activation": "relu", "alpha": 0.5}
    given, out = (c, c) if form == "in place" else (FORMS[form](c), None)
    expected = want(a.real, b.real, out_dtype, c=given, **after)
    result = deepgemm.gemm(
        (a.values, a.sf), (b.values, b.sf), out, c=given, out_dtype=out_dtype, **after
    )
    assert oracle.same_bits(result, expected)
    assert out is None or result is out


def test_out_scale(rng):
    a, b = operands(rng)
    out = deepgemm.gemm(
        (a.values, a.sf), (b.values, b.sf), out_dtype="float8_e4m3fn", out_scale=4.0
    )
    assert oracle.same_bits(out, oracle.cast(want(a.real, b.real, "float64") / 4, "float8_e4m3fn"))


@pytest.mark.parametrize("shape", [(0, M, N, K), (B, 0, N, K), (B, M, 0, K), (B, M, N, 0)])
def test_empty(rng, shape):
    count, m, n, k = shape
    bias = rng.integers(-4, 5, n).astype(np.float32)
    a, b = np.zeros((count, m, k), np.float32), np.zeros((count, n, k), np.float32)
    for left, right in ((a, b), (a, b[0] if count else np.zeros((n, k), np.float32))):
        out = deepgemm.gemm(left, right, bias=bias)
        assert np.array_equal(out, np.broadcast_to(bias, (count, m, n)))
    if count == 0:
        assert deepgemm.gemm(np.zeros((1, m, k), np.float32), b).shape == (0, m, n)


def test_strides(rng):
    """Rows and matrices of out apart; matrices of a between one another's rows; a mirrored b."""
    a, b = operands(rng)
    memory = np.full((2 * B, M + 1, N + 5), 7, np.float32)
    out = memory[1::2, :M, 2 : N + 2]
    between = np.ascontiguousarray(a.values.swapaxes(0, 1)).swapaxes(0, 1)
    assert between.strides[0] < between.strides[1]
    mirrored = np.ascontiguousarray(b.values[::-1])[::-1]
    deepgemm.gemm((between, a.sf), (mirrored, b.sf), out)
    assert oracle.same_bits(out.copy(), want(a.real, b.real))
    out[...] = 7
    assert (memory == 7).all()
    with pytest.raises(ValueError, match=r"out: .*batch dimension is the outermost"):
        deepgemm.gemm(a.real.astype(np.float32), b.real.astype(np.float32),
                      np.zeros((M, B, N), np.float32).swapaxes(0, 1))  # fmt: skip


def test_nan_stays_in_its_product(rng):
    a, b = operands(rng)
    a.values[1, 2, 3] = b.sf[0, 0, 1] = np.nan
    out = deepgemm.gemm((a.values, a.sf), (b.values, b.sf), out_dtype="float32")
    nan = np.zeros((B, M, N), bool)
    nan[1, 2] = nan[0] = True
    assert np.array_equal(np.isnan(out), nan)


def test_explain(rng):
    a, b = operands(rng)
    report = deepgemm.explain("gemm", (a.values, a.sf), (b.values, b.sf))
    assert report.fields["batch"] == str(B)
