"""gemm on the CPU reference: exact where it can be, else against float64."""

from __future__ import annotations

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
    a_memory = a.values.T.copy() if layout[0] == "t" else a.values
    b_memory = b.values.T.copy() if layout[1] == "n" else b.values
    out = deepgemm.gemm((a_memory, a.sf), (b_memory, b.sf), layout=layout, out_dtype="float32")
    assert oracle.same_bits(out, oracle.cast(oracle.product(a.real, b.real), "float32"))


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


@pytest.mark.parametrize("whole", [None, -1, 0, 300])
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
