"""Grouped products on the CPU reference: exact, with sentinels around what is not to be written."""

from __future__ import annotations

import numpy as np
import pytest

import deepgemm
import oracle
from grouped_oracle import (
    SENTINEL,
    every_form,
    experts,
    filled,
    labels_of,
    skewed,
    slices,
    stack,
    want_rows,
)

PAIRS = [((1, 128), (128, 128)), ((1, 128), (1, 128)), ((1, 32), (1, 32)), ((1, 0), (1, 0))]


@pytest.mark.parametrize("granularity", PAIRS)
@pytest.mark.parametrize("out_dtype", ["bfloat16", "float16", "float32"])
def test_exact(rng, granularity, out_dtype):
    sizes, m, n, k = [5, 0, 1, 130, 0, 17], 160, 133, 288
    a = oracle.exact_operand(rng, m, k, granularity[0])
    b = experts(rng, len(sizes), n, k, granularity[1])
    want = want_rows(a.real, b.real, labels_of(sizes, m), out_dtype)
    for form in every_form(sizes, m):
        out = filled((m, n), out_dtype)
        result = deepgemm.grouped_gemm(
            (a.values, a.sf), (b.values, b.sf), out=out, granularity=granularity, **form
        )
        assert result is out
        assert oracle.same_bits(out, want)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float8_e5m2"])
def test_unscaled(rng, dtype):
    a = oracle.cast(rng.integers(-3, 4, (19, 90)).astype(np.float32), dtype)
    b = oracle.cast(rng.integers(-3, 4, (3, 23, 90)).astype(np.float32), dtype)
    default = {"float8_e5m2": "bfloat16"}.get(dtype, dtype)
    out = deepgemm.grouped_gemm(a, b, np.array([4, 8, 7], np.int32))
    assert oracle.same_bits(out, want_rows(a, b, labels_of([4, 8, 7], 19), default))


@pytest.mark.parametrize("seed", range(40))
def test_random_groups(seed):
    rng = np.random.default_rng(seed)
    groups, total = int(rng.integers(1, 40)), int(rng.integers(0, 90))
    m, n, k = total + int(rng.integers(0, 9)), int(rng.integers(1, 20)), int(rng.integers(1, 200))
    a, b = oracle.exact_operand(rng, m, k, (1, 128)), experts(rng, groups, n, k)
    sizes = skewed(rng, groups, total)
    want = want_rows(a.real, b.real, labels_of(sizes, m))
    for form in every_form(sizes, m):
        out = filled((m, n))
        deepgemm.grouped_gemm(
            (a.values, a.sf), (b.values, b.sf), out=out, granularity=((1, 128), (128, 128)), **form
        )
        assert oracle.same_bits(out, want), form


@pytest.mark.parametrize("seed", range(20))
def test_aligned_ends(seed):
    """Group g starts where the one before ended, rounded up; the gap's rows stay as they are."""
    rng = np.random.default_rng(seed)
    groups, alignment = int(rng.integers(1, 12)), int(rng.choice([1, 2, 3, 8, 64, 128]))
    sizes, ends, labels = skewed(rng, groups, int(rng.integers(0, 60))), [], []
    for g, size in enumerate(sizes):
        labels += [-1] * (-len(labels) % alignment) + [g] * int(size)
        ends.append(len(labels))
    labels += [-1] * int(rng.integers(0, 5))
    a, b = oracle.exact_operand(rng, len(labels), 40, (1, 128)), experts(rng, groups, 6, 40)
    for form in (
        {"group_ends": np.array(ends), "alignment": alignment},
        {"labels": np.array(labels, np.int64)},
    ):
        out = filled((len(labels), 6))
        deepgemm.grouped_gemm((a.values, a.sf), (b.values, b.sf), out=out, **form)
        assert oracle.same_bits(out, want_rows(a.real, b.real, labels)), form


def test_an_end_before_its_groups_start_is_an_empty_group(rng):
    a, b = oracle.exact_operand(rng, 12, 64, (1, 128)), experts(rng, 4, 5, 64)
    out = filled((12, 5))
    ends = np.array([3, 3, 6, 11], np.int32)  # starts 0, 4, 4, 8
    deepgemm.grouped_gemm((a.values, a.sf), (b.values, b.sf), out=out, group_ends=ends, alignment=4)
    labels = [0, 0, 0, -1, 2, 2, -1, -1, 3, 3, 3, -1]
    assert oracle.same_bits(out, want_rows(a.real, b.real, labels))


def test_labels_in_any_order(rng):
    labels = rng.integers(-1, 5, 70).astype(np.int32)
    a, b = oracle.exact_operand(rng, 70, 256, (1, 128)), experts(rng, 5, 9, 256)
    out = filled((70, 9))
    deepgemm.grouped_gemm((a.values, a.sf), (b.values, b.sf), None, out, labels=labels)
    assert oracle.same_bits(out, want_rows(a.real, b.real, labels))


@pytest.mark.parametrize("groups", [256, 1024])
def test_many_groups(rng, groups):
    sizes = rng.multinomial(1500, np.full(groups, 1 / groups))
    a, b = oracle.exact_operand(rng, 1510, 32, (1, 128)), experts(rng, groups, 8, 32)
    out = filled((1510, 8))
    deepgemm.grouped_gemm((a.values, a.sf), (b.values, b.sf), sizes.astype(np.int32), out)
    assert oracle.same_bits(out, want_rows(a.real, b.real, labels_of(sizes, 1510)))


def test_rows_of_no_group_are_not_read(rng):
    a, b = oracle.exact_operand(rng, 20, 256, (1, 128)), experts(rng, 2, 5, 256)
    labels = np.array([-1] * 3 + [0] * 5 + [-1] + [1] * 7 + [-1] * 4, np.int32)
    want = want_rows(a.real, b.real, labels)
    a.values[labels < 0] = np.nan
    a.sf[labels < 0] = np.nan
    out = filled((20, 5))
    deepgemm.grouped_gemm((a.values, a.sf), (b.values, b.sf), out=out, labels=labels)
    assert oracle.same_bits(out, want)


def test_nan_stays_in_its_group(rng):
    a, b = oracle.exact_operand(rng, 9, 64, (1, 128)), experts(rng, 3, 5, 64)
    b.values[1] = np.nan
    out = deepgemm.grouped_gemm((a.values, a.sf), (b.values, b.sf), np.array([3, 3, 3]))
    assert np.isnan(out[3:6].astype(np.float32)).all()
    assert not np.isnan(out[[0, 1, 2, 6, 7, 8]].astype(np.float32)).any()


def test_what_follows_the_sum(rng):
    sizes, m, n, k = [3, 0, 6], 11, 17, 144
    a, b = oracle.exact_operand(rng, m, k, (1, 128)), experts(rng, 3, n, k)
    bias = rng.integers(-99, 99, (3, n)).astype(np.float32)
    c = rng.integers(-99, 99, (m, n)).astype(np.float32)
    options = {"alpha": -2.0, "activation": "relu", "bias": bias}
    want = want_rows(a.real, b.real, labels_of(sizes, m), c=c, **options)
    operands = (a.values, a.sf), (b.values, b.sf), np.array(sizes)
    out = filled((m, n))
    deepgemm.grouped_gemm(*operands, out, c=c, **options)
    assert oracle.same_bits(out, want)
    in_place = c.copy()
    deepgemm.grouped_gemm(*operands, in_place, c=in_place, **options)
    want[9:] = c[9:]
    assert oracle.same_bits(in_place, want)


def test_layout_nn_and_strides(rng):
    sizes, m, n, k = [3, 0, 6], 9, 130, 200
    a, b = oracle.exact_operand(rng, m, k, (1, 128)), experts(rng, 3, n, k)
    want = want_rows(a.real, b.real, labels_of(sizes, m))
    turned = np.ascontiguousarray(b.values.swapaxes(1, 2)), b.sf.swapaxes(1, 2).copy()
    wide = filled((m, 2 * n))
    for weights in (turned, deepgemm.Quantized(*turned, (128, 128))):
        out = wide[:, ::2]
        deepgemm.grouped_gemm((a.values, a.sf), weights, np.array(sizes), out, layout="nn")
        assert oracle.same_bits(np.ascontiguousarray(out), want)
        assert (wide[:, 1::2] == SENTINEL).all()


def test_quantized_weights(rng):
    w = rng.standard_normal((4, 140, 300)).astype(np.float32)
    x = rng.standard_normal((30, 300)).astype(np.float32)
    qw, qx = deepgemm.quantize(w, (128, 128)), deepgemm.quantize(x)
    sizes = np.array([7, 0, 20, 3], np.int32)
    out = deepgemm.grouped_gemm(qx, qw, sizes, out_dtype="float32")
    back, rows = deepgemm.dequantize(qw), deepgemm.dequantize(qx)
    assert oracle.difference(out, want_rows(rows, back, labels_of(sizes, 30))) < 1e-6
    one = deepgemm.grouped_gemm((qx.values, 0.5), (qw.values, 4.0), sizes, out_dtype="float32")
    real = want_rows(qx.values.astype(float), qw.values.astype(float), labels_of(sizes, 30))
    assert oracle.difference(one, 2 * real.astype(np.float64)) < 1e-6


@pytest.mark.parametrize("most", [1, 3, 17, 130])
@pytest.mark.parametrize("granularity", [*PAIRS, ((128, 128), (128, 128))])
def test_masked(rng, most, granularity):
    groups, n, k = 5, 9, 288
    a = experts(rng, groups, most, k, granularity[0])
    b = experts(rng, groups, n, k, granularity[1])
    for rows in ([0, most, 1, most // 2, 0], [0] * 5, [most] * 5, rng.integers(0, most + 1, 5)):
        poisoned, out = a.values.copy(), filled((groups, most, n))
        want = out.copy()
        for g, count in enumerate(rows):
            poisoned[g, count:] = np.nan
            want[g, :count] = oracle.product(a.real[g, :count], b.real[g])
        for dtype, expected in ((np.int32, None), (np.int64, 0), (np.int32, 10**9)):
            out[...] = SENTINEL
            result = deepgemm.masked_gemm(
                (poisoned, a.sf),
                (b.values, b.sf),
                np.asarray(rows, dtype),
                out,
                expected_rows=expected,
                granularity=granularity,
            )
            assert result is out
            assert oracle.same_bits(out, want)


def test_masked_after_the_sum(rng):
    a, b = experts(rng, 2, 6, 64, (1, 128)), experts(rng, 2, 5, 64)
    rows, bias = np.array([4, 1]), rng.integers(-9, 9, (2, 5)).astype(np.float32)
    out = c = rng.integers(-9, 9, (2, 6, 5)).astype(np.float32)
    want = c.copy()
    for g, count in enumerate(rows):
        want[g, :count] = oracle.product(
            a.real[g, :count], b.real[g], alpha=3, bias=bias[g], activation="relu",
            c=c[g, :count],
        )  # fmt: skip
    deepgemm.masked_gemm(
        (a.values, a.sf), (b.values, b.sf), rows, out, c=c, bias=bias, alpha=3, activation="relu"
    )
    assert oracle.same_bits(out, want)


def test_the_skewed_vector_that_hung_elsewhere(rng):
    """masked_m of a report of a kernel that did not return, at 1/16 of its rows."""
    rows = [4001, 1425, 0, 0, 0, 0, 0, 571, 503, 0, 26, 12, 1232, 0, 0, 224]
    rows = [-(-count // 16) for count in rows]
    a, b = experts(rng, 16, 256, 32, (1, 128)), experts(rng, 16, 8, 32)
    out = filled((16, 256, 8))
    deepgemm.masked_gemm((a.values, a.sf), (b.values, b.sf), np.array(rows), out, expected_rows=114)
    for g, count in enumerate(rows):
        want = oracle.product(a.real[g, :count], b.real[g])
        assert oracle.same_bits(out[g, :count], oracle.cast(want, "float32"))
        assert (out[g, count:] == SENTINEL).all()


def test_arrays_without_a_framework(rng):
    """DeviceArrays in host memory: stacks of factors in the fast layout, new outputs."""
    x, w = rng.standard_normal((9, 256)), rng.standard_normal((2, 130, 256))
    own = [deepgemm.DeviceArray.from_numpy(z.astype(np.float32), device=-1) for z in (x, w)]
    sizes = deepgemm.DeviceArray.from_numpy(np.array([4, 5], np.int32), device=-1)
    qx, qw = deepgemm.quantize(own[0]), deepgemm.quantize(own[1], (1, 128))
    assert (qw.sf.shape, qw.sf.strides) == ((2, 130, 2), (264, 1, 132))
    out = deepgemm.grouped_gemm(qx, qw, sizes)
    plain = [deepgemm.quantize(z.astype(np.float32)) for z in (x, w)]
    want = deepgemm.grouped_gemm(*plain, np.array([4, 5], np.int32))
    assert isinstance(out, deepgemm.DeviceArray)
    assert oracle.same_bits(out.to_numpy(), want)
    masked = deepgemm.masked_gemm(own[1], own[1], sizes, out_dtype="float32")
    assert masked.shape == (2, 130, 130)


def test_empty_problems(rng):
    b = np.ones((3, 8, 16), np.float32)
    zeros = np.zeros(3, np.int32)
    assert deepgemm.grouped_gemm(np.ones((0, 16), np.float32), b, zeros).shape == (0, 8)
    none = np.ones((0, 8, 16), np.float32)
    assert deepgemm.grouped_gemm(np.ones((4, 16), np.float32), none, zeros[:0]).shape == (4, 8)
    assert deepgemm.masked_gemm(np.ones((3, 0, 16), np.float32), b, zeros).shape == (3, 0, 8)
    no_k = deepgemm.grouped_gemm(np.ones((2, 0), np.float32), b[:, :, :0], np.array([1, 1, 0]))
    assert (no_k == 0).all()


def test_same_call_same_bits(rng):
    a, b = (
        oracle.random_operand(rng, 64, 512, (1, 128)),
        stack([oracle.random_operand(rng, 40, 512, (128, 128)) for _ in range(3)]),
    )
    sizes = np.array([40, 1, 23])
    first = deepgemm.grouped_gemm((a.values, a.sf), (b.values, b.sf), sizes)
    for _ in range(5):
        again = deepgemm.grouped_gemm((a.values, a.sf), (b.values, b.sf), sizes)
        assert oracle.same_bits(first, again)
    dense = [
        deepgemm.gemm((a.values[s], a.sf[s]), (b.values[g], b.sf[g]))
        for g, s in enumerate(slices(sizes))
    ]
    assert oracle.same_bits(first, np.concatenate(dense))
