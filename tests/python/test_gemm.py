"""gemm on the CPU reference: exact where it can be, else against float64."""

from __future__ import annotations

import inspect
import pydoc
import re

import ml_dtypes
import numpy as np
import pytest

import deepgemm
import oracle

GRANULARITIES = [
    ((1, 128), (128, 128)),
    ((1, 128), (1, 128)),
    ((128, 128), (128, 128)),
    ((1, 0), (1, 0)),
    ((0, 0), (0, 0)),
    ((1, 32), (1, 32)),
]
SHAPES = [(1, 8, 128), (3, 24, 144), (17, 33, 640), (64, 136, 256), (130, 257, 384), (129, 5, 16)]


def run(a: oracle.Operand, b: oracle.Operand, **options: object) -> np.ndarray:
    return deepgemm.gemm(
        (a.values, a.sf), (b.values, b.sf), granularity=(a.granularity, b.granularity), **options
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("out_dtype", ["bfloat16", "float32"])
def test_exact(rng, shape, granularity, out_dtype):
    m, n, k = shape
    a = oracle.exact_operand(rng, m, k, granularity[0])
    b = oracle.exact_operand(rng, n, k, granularity[1])
    out = run(a, b, out_dtype=out_dtype)
    assert oracle.same_bits(out, oracle.cast(oracle.product(a.real, b.real), out_dtype))


@pytest.mark.parametrize("a_dtype", ["float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("b_dtype", ["float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("out_dtype", ["bfloat16", "float16", "float32", "float8_e4m3fn"])
def test_every_float8(rng, a_dtype, b_dtype, out_dtype):
    a = oracle.exact_operand(rng, 9, 200, (1, 128), a_dtype)
    b = oracle.exact_operand(rng, 20, 200, (128, 128), b_dtype)
    out = run(a, b, out_dtype=out_dtype)
    assert oracle.same_bits(out, oracle.cast(oracle.product(a.real, b.real), out_dtype))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_unscaled(rng, dtype):
    a = oracle.cast(rng.integers(-3, 4, (19, 90)).astype(np.float32), dtype)
    b = oracle.cast(rng.integers(-3, 4, (23, 90)).astype(np.float32), dtype)
    out = deepgemm.gemm(a, b)
    default = {"bfloat16": "bfloat16", "float16": "float16", "float32": "float32"}[dtype]
    assert oracle.same_bits(out, oracle.cast(oracle.product(a, b), default))


@pytest.mark.parametrize(("out_dtype", "limit"), [("float32", 1e-6), ("bfloat16", 1e-5)])
def test_random_against_float64(rng, out_dtype, limit):
    a = oracle.random_operand(rng, 70, 1000, (1, 128))
    b = oracle.random_operand(rng, 90, 1000, (128, 128))
    out = run(a, b, out_dtype=out_dtype)
    assert oracle.difference(out, oracle.product(a.real, b.real)) < limit


@pytest.mark.parametrize("layout", ["nt", "nn", "tn", "tt"])
def test_layouts(rng, layout):
    a = oracle.exact_operand(rng, 11, 256, (1, 128))
    b = oracle.exact_operand(rng, 13, 256, (128, 128))
    for order in ("C", "F"):
        out = deepgemm.gemm(
            turned(a, layout[0] == "t", order),
            turned(b, layout[1] == "n", order),
            layout=layout,
            out_dtype="float32",
        )
        assert oracle.same_bits(out, oracle.cast(oracle.product(a.real, b.real), "float32"))


def turned(x: oracle.Operand, turn: bool, order: str = "C") -> tuple[np.ndarray, np.ndarray]:
    """Values and factors as the memory of a layout has them."""
    parts = (x.values.T, x.sf.T) if turn else (x.values, x.sf)
    return np.array(parts[0], order=order), np.array(parts[1], order=order)


@pytest.mark.parametrize("layout", ["nt", "nn", "tn", "tt"])
@pytest.mark.parametrize("shape", [(256, 256, 256), (256, 2, 256), (130, 257, 384), (2, 2, 256)])
@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_factors_lie_as_their_values_do(rng, layout, shape, granularity):
    """Square ones too, where factors of the wrong orientation fit and give other numbers."""
    m, n, k = shape
    a = oracle.exact_operand(rng, m, k, granularity[0])
    b = oracle.exact_operand(rng, n, k, granularity[1])
    pairs = turned(a, layout[0] == "t"), turned(b, layout[1] == "n")
    want = oracle.cast(oracle.product(a.real, b.real), "float32")
    out = deepgemm.gemm(*pairs, layout=layout, granularity=granularity, out_dtype="float32")
    assert oracle.same_bits(out, want)
    # A Quantized carries the granularity of its memory.
    carried = [
        deepgemm.Quantized(*pair, part[::-1] if turn else part)
        for pair, part, turn in zip(
            pairs, granularity, (layout[0] == "t", layout[1] == "n"), strict=True
        )
    ]
    out = deepgemm.gemm(*carried, layout=layout, out_dtype="float32")
    assert oracle.same_bits(out, want)


@pytest.mark.parametrize("layout", ["nt", "nn", "tn", "tt"])
@pytest.mark.parametrize("granularity", [(1, 128), (128, 128), (1, None), (128, 1), (None, 1)])
@pytest.mark.parametrize("shape", [(256, 256, 256), (5, 130, 384)])
def test_what_was_quantised_is_multiplied(rng, layout, granularity, shape):
    """quantize() of the operands as they lie, then gemm(): near the product of the originals."""
    m, n, k = shape
    a = rng.standard_normal((k, m) if layout[0] == "t" else (m, k)).astype(np.float32)
    b = rng.standard_normal((n, k) if layout[1] == "t" else (k, n)).astype(np.float32)
    a *= np.exp2(rng.integers(-6, 7, (a.shape[0], 1))) * np.exp2(rng.integers(-6, 7, a.shape[1]))
    b *= np.exp2(rng.integers(-6, 7, (b.shape[0], 1))) * np.exp2(rng.integers(-6, 7, b.shape[1]))
    x, y = deepgemm.quantize(a, granularity), deepgemm.quantize(b, granularity)
    out = deepgemm.gemm(x, y, layout=layout, out_dtype="float32")
    left, right = deepgemm.dequantize(x), deepgemm.dequantize(y)
    real = left.T if layout[0] == "t" else left, right if layout[1] == "t" else right.T
    assert oracle.difference(out, oracle.product(*real)) < 1e-6


def test_errors_name_the_layout(rng):
    a = oracle.exact_operand(rng, 6, 256, (1, 128))
    b = oracle.exact_operand(rng, 12, 256, (1, 128))
    b_memory = b.values.T.copy()
    with pytest.raises(
        ValueError, match=r'sfb: found shape \[12, 2\], .*\[2, 12\] for \(1, 128\).*"nn"'
    ):
        deepgemm.gemm((a.values, a.sf), (b_memory, b.sf), layout="nn")
    with pytest.raises(ValueError, match=r'sfb: found shape \[12, 2\], need shape \[2, 12\].*"nn"'):
        deepgemm.gemm(
            (a.values, a.sf), (b_memory, b.sf), layout="nn", granularity=((1, 128), (1, 128))
        )
    with pytest.raises(ValueError, match=r'layout "tn" reads a as \[K, M\]'):
        deepgemm.gemm((a.values, a.sf), (b_memory, b.sf.T), layout="tn")


@pytest.mark.parametrize("activation", [None, "relu", "gelu", "gelu_tanh", "silu"])
def test_epilogue(rng, activation):
    a = oracle.random_operand(rng, 10, 256, (1, 128))
    b = oracle.random_operand(rng, 12, 256, (128, 128))
    bias = rng.standard_normal(12).astype(np.float32)
    c = rng.standard_normal((10, 12)).astype(np.float32)
    options = {"activation": activation, "bias": bias, "c": c, "alpha": 0.01}
    out = run(a, b, out_dtype="float32", **options)
    want = oracle.product(a.real, b.real, **options)
    np.testing.assert_allclose(out, want, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("bias_dtype", ["float32", "bfloat16", "float16"])
def test_bias_dtypes(rng, bias_dtype):
    a = oracle.exact_operand(rng, 10, 128, (1, 128))
    b = oracle.exact_operand(rng, 12, 128, (128, 128))
    bias = oracle.cast(rng.integers(-4, 5, 12).astype(np.float32), bias_dtype)
    out = run(a, b, bias=bias, out_dtype="float32")
    want = oracle.product(a.real, b.real, bias=bias)
    assert oracle.same_bits(out, oracle.cast(want, "float32"))


def test_accumulate_in_place(rng):
    a = oracle.exact_operand(rng, 10, 128, (1, 128))
    b = oracle.exact_operand(rng, 12, 128, (128, 128))
    out = rng.integers(-9, 9, (10, 12)).astype(np.float32)
    want = oracle.product(a.real, b.real, c=out)
    assert run(a, b, out=out, c=out) is out
    assert oracle.same_bits(out, oracle.cast(want, "float32"))


def test_c_of_float32_with_bfloat16_out(rng):
    a = oracle.exact_operand(rng, 4, 128, (1, 128))
    b = oracle.exact_operand(rng, 8, 128, (128, 128))
    c = rng.integers(-9, 9, (4, 8)).astype(np.float32)
    want = oracle.product(a.real, b.real, c=c)
    assert oracle.same_bits(run(a, b, c=c), oracle.cast(want, "bfloat16"))


def test_out_scale(rng):
    a = oracle.exact_operand(rng, 6, 128, (1, 128))
    b = oracle.exact_operand(rng, 8, 128, (128, 128))
    out = run(a, b, out_dtype="float8_e4m3fn", out_scale=4.0)
    assert oracle.same_bits(out, oracle.cast(oracle.product(a.real, b.real) / 4, "float8_e4m3fn"))


@pytest.mark.parametrize("shape", [(0, 8, 128), (5, 0, 128), (0, 0, 0), (5, 8, 0)])
def test_empty(rng, shape):
    m, n, k = shape
    bias = rng.integers(-4, 5, n).astype(np.float32)
    a = np.zeros((m, k), ml_dtypes.bfloat16)
    b = np.zeros((n, k), ml_dtypes.bfloat16)
    out = deepgemm.gemm(a, b, bias=bias, out_dtype="float32")
    assert out.shape == (m, n)
    assert np.array_equal(out, np.broadcast_to(bias, (m, n)))


def test_number_as_scale(rng):
    a = oracle.exact_operand(rng, 6, 128, (0, 0))
    b = oracle.exact_operand(rng, 8, 128, (0, 0))
    want = oracle.cast(oracle.product(a.real, b.real), "float32")
    for convert in (float, np.float32, np.float64):
        factors = [convert(x.sf[0, 0]) for x in (a, b)]
        out = deepgemm.gemm((a.values, factors[0]), (b.values, factors[1]), out_dtype="float32")
        assert oracle.same_bits(out, want)
    out = deepgemm.gemm((a.values, a.sf[0, 0:1]), (b.values, b.sf.reshape(())), out_dtype="float32")
    assert oracle.same_bits(out, want)


def test_strides(rng):
    a = oracle.exact_operand(rng, 20, 300, (1, 128))
    b = oracle.exact_operand(rng, 24, 300, (128, 128))
    wide = np.zeros((40, 700), a.values.dtype)
    wide[::2, 1:601:2] = a.values
    base = np.full((20, 100), 7, np.float32)
    out = base[:, 3:75:3]
    sfa = np.asfortranarray(a.sf)
    deepgemm.gemm((wide[::2, 1:601:2], sfa), (np.asfortranarray(b.values), b.sf), out)
    assert oracle.same_bits(out.copy(), oracle.cast(oracle.product(a.real, b.real), "float32"))
    untouched = np.ones(100, bool)
    untouched[3:75:3] = False
    assert (base[:, untouched] == 7).all()


def test_granularity_forms(rng):
    a = oracle.exact_operand(rng, 6, 256, (1, 128))
    b = oracle.exact_operand(rng, 8, 256, (1, 128))
    pairs = ((a.values, a.sf), (b.values, b.sf))
    want = oracle.cast(oracle.product(a.real, b.real), "float32")
    for granularity in (None, (1, 128), [[1, 128], (1, 128)], (None, (1, 128))):
        out = deepgemm.gemm(*pairs, out_dtype="float32", granularity=granularity)
        assert oracle.same_bits(out, want)
    carried = [deepgemm.Quantized(x.values, x.sf, (1, 128)) for x in (a, b)]
    assert oracle.same_bits(deepgemm.gemm(*carried, out_dtype="float32"), want)


@pytest.mark.parametrize("whole", [None, 0, 300])
def test_per_row_granularity(rng, whole):
    a = oracle.exact_operand(rng, 6, 300, (1, 0))
    b = oracle.exact_operand(rng, 8, 300, (1, 0))
    out = deepgemm.gemm(
        (a.values, a.sf), (b.values, b.sf), granularity=(1, whole), out_dtype="float32"
    )
    assert oracle.same_bits(out, oracle.cast(oracle.product(a.real, b.real), "float32"))


def test_e8m0_scales(rng):
    a = oracle.exact_operand(rng, 6, 128, (1, 32))
    b = oracle.exact_operand(rng, 8, 128, (1, 32))
    sfa, sfb = (x.sf.astype(ml_dtypes.float8_e8m0fnu) for x in (a, b))
    out = deepgemm.gemm((a.values, sfa), (b.values, sfb), out_dtype="float32", granularity=(1, 32))
    assert oracle.same_bits(out, oracle.cast(oracle.product(a.real, b.real), "float32"))


def test_nan_stays_in_its_row_and_column(rng):
    a = oracle.exact_operand(rng, 6, 256, (1, 128))
    b = oracle.exact_operand(rng, 8, 256, (128, 128))
    a.sf[2, 1] = np.nan
    b.values[5, 7] = np.nan
    nan = np.isnan(run(a, b, out_dtype="float32"))
    want = np.zeros((6, 8), bool)
    want[2, :] = want[:, 5] = True
    assert np.array_equal(nan, want)


def test_zero_scale_gives_zero(rng):
    a = oracle.exact_operand(rng, 6, 128, (1, 128))
    b = oracle.exact_operand(rng, 8, 128, (128, 128))
    a.sf[:] = 0
    assert (run(a, b, out_dtype="float32") == 0).all()


def test_policy_is_checked():
    with pytest.raises(ValueError, match="tile_x"):
        deepgemm.gemm(np.zeros((1, 1)), np.zeros((1, 1)), policy={"tile_x": 1})
    with pytest.raises(ValueError, match="tile_x"):
        deepgemm.Policy(tile_x=1)
    assert deepgemm.Policy(tile_m=128).tile_m == 128
    assert repr(deepgemm.Policy()) == "Policy()"
    fields = [name for name in dir(deepgemm.Policy) if not name.startswith("_")]
    assert len(fields) == 15
    for name in fields:  # what it means, and for which kernels
        meaning = inspect.getdoc(getattr(deepgemm.Policy, name))
        assert meaning, name
        assert re.search("persistent|decode|general", meaning), name
    assert "rows of out" in pydoc.plain(pydoc.render_doc(deepgemm.Policy))
    policy = deepgemm.Policy(kernel="persistent", tile_m=128, ordered=True)
    assert repr(policy) == "Policy(kernel='persistent', tile_m=128, ordered=True)"
    with pytest.raises(ValueError, match=r"policy.num_sms: found -1"):
        deepgemm.gemm(
            np.zeros((1, 1), np.float32), np.zeros((1, 1), np.float32), policy={"num_sms": -1}
        )


def test_columns_of_one_buffer(rng):
    """[q | k | v] of one buffer: reading one part and writing another is no overlap."""
    buffer = rng.integers(-2, 3, (16, 96)).astype(np.float32)
    q, k, v = buffer[:, :32], buffer[:, 32:64], buffer[:, 64:]
    w = rng.integers(-2, 3, (32, 32)).astype(np.float32)
    want = q @ w.T
    assert np.array_equal(deepgemm.gemm(q, w, out=v), want)
    assert np.array_equal(v, want)
    assert np.array_equal(deepgemm.gemm(v, w, out=q), want @ w.T)
    deepgemm.gemm(q, w, out=v, c=k)
    with pytest.raises(ValueError, match="out: found memory that overlaps a"):
        deepgemm.gemm(q, w, out=buffer[:, 31:63])
    with pytest.raises(ValueError, match="out: found memory that overlaps a"):
        deepgemm.gemm(q, w, out=buffer.reshape(48, 32)[:16])  # of another pitch


@pytest.mark.parametrize("k", [2**58, 2**57, 2**50, 2**61])
def test_sizes_that_overflow(k):
    """Broadcast inputs are as large as they like and hold one byte."""
    x = np.broadcast_to(np.zeros((1, 1), np.uint8), (1, k))
    v = deepgemm.view(x, "float8_e4m3fn")
    with pytest.raises((ValueError, MemoryError)):
        deepgemm.gemm(v, v)
    if k >= 2**60:  # float32 factors of this size would be too large for NumPy
        return
    sf = np.broadcast_to(np.ones((1, 1), np.float32), (1, k))
    with pytest.raises((ValueError, MemoryError)):
        deepgemm.gemm((v, sf), v, granularity=(1, 1))
    rows = deepgemm.view(x.T, "float8_e4m3fn")
    tiny = deepgemm.view(np.zeros((1, 1), np.uint8), "float8_e4m3fn")
    with pytest.raises((ValueError, MemoryError)):
        deepgemm.gemm(tiny, rows)
    with pytest.raises((ValueError, MemoryError)):
        deepgemm.dequantize((v, sf), granularity=(1, 1))
    with pytest.raises((ValueError, MemoryError)):
        deepgemm.quantize(sf)
