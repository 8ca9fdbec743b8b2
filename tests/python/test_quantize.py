"""quantize and dequantize against an independent computation of the contract."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import deepgemm
import oracle

GRANULARITIES = [(1, 128), (128, 128), (1, 0), (0, 0), (1, 32), (64, 16)]


def check(x, granularity, dtype="float8_e4m3fn", **options):
    q = deepgemm.quantize(x, granularity, dtype, **options)
    values, sf = oracle.quantize(np.asarray(x), granularity, dtype, **options)
    assert oracle.same_bits(q.sf.copy(), sf)
    assert oracle.same_bits(q.values, values)
    return q


@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("power_of_two", [False, True])
def test_bit_equal(rng, granularity, dtype, power_of_two):
    x = rng.standard_normal((150, 300)).astype(np.float32)
    x *= 10.0 ** rng.integers(-3, 4, (150, 1))
    check(x, granularity, dtype, power_of_two=power_of_two)


@pytest.mark.parametrize("source", ["float32", "bfloat16", "float16", "float64"])
def test_source_dtypes(rng, source):
    x = oracle.cast(rng.standard_normal((5, 200)), source)
    if source == "float64":
        x = x.astype(np.float32).astype(np.float64)
    check(x, (1, 128))


def test_zero_blocks_have_the_floor():
    x = np.zeros((3, 256), np.float32)
    q = check(x, (1, 128))
    assert (q.values.astype(np.float32) == 0).all()
    assert (q.sf == np.float32(1e-4) / np.float32(448)).all()


def test_amax_floor(rng):
    x = rng.standard_normal((3, 256)).astype(np.float32) * 1e-6
    check(x, (1, 128), amax_floor=1e-8)
    check(x, (1, 128), amax_floor=1.0)


def test_power_of_two_is_exact():
    amax = 448.0 * 2.0 ** np.arange(-6, 7)
    for factor, step in ((amax, 0), (np.nextafter(amax.astype(np.float32), np.inf), 1)):
        x = np.zeros((amax.size, 128), np.float32)
        x[:, 5] = factor
        q = check(x, (1, 128), power_of_two=True)
        assert np.array_equal(np.log2(q.sf[:, 0]), np.arange(-6, 7) + step)


def test_nan_stays_in_its_block(rng):
    x = rng.standard_normal((4, 256)).astype(np.float32)
    x[1, 130] = np.nan
    q = check(x, (1, 128))
    assert np.isnan(q.sf[1, 1])
    assert np.isnan(q.sf).sum() == 1
    nan = np.isnan(q.values.astype(np.float32))
    assert nan[1, 128:].all()
    assert nan.sum() == 128


def test_infinity_makes_an_infinite_factor(rng):
    x = rng.standard_normal((2, 128)).astype(np.float32)
    x[0, 3] = np.inf
    q = deepgemm.quantize(x)
    assert np.isinf(q.sf[0, 0])
    assert np.isfinite(q.sf[1, 0])


@pytest.mark.parametrize("shape", [(1, 1), (3, 127), (129, 129), (5, 385), (0, 128), (4, 0)])
def test_tails(rng, shape):
    x = rng.standard_normal(shape).astype(np.float32)
    check(x, (1, 128))
    check(x, (128, 128))


def test_fast_layout_of_factors(rng):
    q = deepgemm.quantize(rng.standard_normal((33, 512)).astype(np.float32))
    assert q.sf.shape == (33, 4)
    assert q.sf.strides == (4, 36 * 4)
    assert q.granularity == (1, 128)
    q = deepgemm.quantize(rng.standard_normal((33, 512)).astype(np.float32), (128, 128))
    assert q.sf.flags.c_contiguous


def test_strided_input(rng):
    base = rng.standard_normal((64, 600)).astype(np.float32)
    check(base[::2, 10:400:3], (1, 128))
    check(base.T, (1, 128))


@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("out_dtype", ["float32", "bfloat16", "float16"])
def test_dequantize(rng, granularity, out_dtype):
    x = rng.standard_normal((70, 200)).astype(np.float32)
    q = deepgemm.quantize(x, granularity)
    real = q.values.astype(np.float64) * oracle.expand(q.sf, granularity, x.shape)
    want = oracle.cast(real.astype(np.float32), out_dtype)
    assert oracle.same_bits(deepgemm.dequantize(q, out_dtype=out_dtype), want)
    out = np.empty((70, 200), oracle.DTYPES[out_dtype])
    assert deepgemm.dequantize((q.values, q.sf), out, granularity=granularity) is out
    assert oracle.same_bits(out, want)


def test_round_trip_is_close(rng):
    x = rng.standard_normal((40, 512)).astype(np.float32)
    back = deepgemm.dequantize(deepgemm.quantize(x))
    assert np.abs(back - x).max() <= np.abs(x).max() / 16
    assert oracle.difference(back, x) < 1e-3


def test_quantized_feeds_gemm(rng):
    x, w = (rng.standard_normal((r, 256)).astype(np.float32) for r in (9, 140))
    qx, qw = deepgemm.quantize(x), deepgemm.quantize(w, (128, 128))
    out = deepgemm.gemm(qx, qw, out_dtype="float32")
    want = oracle.product(deepgemm.dequantize(qx), deepgemm.dequantize(qw))
    assert oracle.difference(out, want) < 1e-6


@pytest.mark.parametrize("granularity", [(1, 128), (128, 128), (1, None), None])
@pytest.mark.parametrize("shape", [(3, 130, 200), (1, 5, 256), (2, 0, 128), (0, 4, 128)])
def test_a_stack_is_quantised_matrix_by_matrix(rng, granularity, shape):
    x = rng.standard_normal(shape).astype(np.float32) * np.float32(7)
    q = deepgemm.quantize(x, granularity)
    back = deepgemm.dequantize(q)
    assert q.values.shape == back.shape == x.shape
    parts = [deepgemm.quantize(matrix, granularity) for matrix in x]
    for g, part in enumerate(parts):
        assert oracle.same_bits(q.values[g], part.values)
        assert oracle.same_bits(q.sf[g], part.sf)
        assert q.sf[g].strides == part.sf.strides  # the fast layout, each
        assert oracle.same_bits(back[g], deepgemm.dequantize(part))
    blocks = deepgemm.quantize(x[0] if shape[0] else np.ones(shape[1:], np.float32), granularity)
    assert q.sf.shape == (shape[0], *blocks.sf.shape)


def test_errors(rng):
    x = rng.standard_normal((4, 128)).astype(np.float32)
    with pytest.raises(TypeError, match=r"dtype: found bfloat16, need float8_e4m3fn or"):
        deepgemm.quantize(x, dtype="bfloat16")
    with pytest.raises(TypeError, match=r"x: found int32"):
        deepgemm.quantize(x.astype(np.int32))
    with pytest.raises(ValueError, match=r"x: found .*rank 2"):
        deepgemm.quantize(x[0])
    with pytest.raises(ValueError, match=r"x: found .*need rank 2, \[rows, K\], or 3"):
        deepgemm.quantize(x[None, None])
    with pytest.raises(ValueError, match=r"granularity: found"):
        deepgemm.quantize(x, (1,))
    with pytest.raises(ValueError, match=r"granularity: found"):
        deepgemm.quantize(x, (1, -5))
    with pytest.raises(ValueError, match="amax_floor"):
        deepgemm.quantize(x, amax_floor=float("nan"))
    with pytest.raises(TypeError, match="without scale factors"):
        deepgemm.dequantize(x.astype(ml_dtypes.float8_e4m3fn))
    deepgemm.quantize(x)
