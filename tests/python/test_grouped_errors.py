"""Bad arguments of grouped products: the right exception, its words, and nothing written."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import deepgemm

X = np.ones((6, 256), np.float32)
W = np.ones((4, 8, 256), np.float32)
Q = X.astype(ml_dtypes.float8_e4m3fn)
QW = W.astype(ml_dtypes.float8_e4m3fn)
SFA, SFB = np.ones((6, 2), np.float32), np.ones((4, 1, 2), np.float32)
SIZES = np.array([1, 2, 0, 3], np.int32)
X3 = np.ones((4, 6, 256), np.float32)
K_SIZES = np.array([96, 160], np.int32)


def grouped(a=X, b=W, sizes=SIZES, **options):
    return deepgemm.grouped_gemm, (a, b, sizes), options


def masked(a=X3, b=W, rows=SIZES, **options):
    return deepgemm.masked_gemm, (a, b, rows), options


def k_grouped(a=X, b=X, sizes=K_SIZES, **options):
    return deepgemm.k_grouped_gemm, (a, b, sizes), options


def vector(*values):
    return np.array(values, np.int64)


BAD = {
    "a is a list": (grouped([1.0, 2.0]), TypeError, r"a: found an object of type float"),
    "b is None": (grouped(b=None), TypeError, r"b: found None, need an array"),
    "sizes are a list": (
        grouped(sizes=[1, 2, 0, 3]),
        TypeError,
        r"group_sizes: found an object of",
    ),
    "no groups": (
        grouped(sizes=None),
        ValueError,
        r"group_sizes: found None, need one of group_sizes, group_offsets, group_ends and labels",
    ),
    "two forms": (
        grouped(group_ends=SIZES),
        ValueError,
        r"group_ends: found an argument beside group_sizes, need one of .*\(each says whose rows",
    ),
    "labels too": (
        grouped(sizes=None, group_offsets=SIZES, labels=SIZES),
        ValueError,
        r"labels: found an argument beside group_offsets",
    ),
    "float sizes": (
        grouped(sizes=SIZES * 1.0),
        TypeError,
        r"group_sizes: found float64, need int32",
    ),
    "uint8 sizes": (grouped(sizes=SIZES.astype(np.uint8)), TypeError, r"group_sizes: found uint8"),
    "rank of sizes": (
        grouped(sizes=SIZES[None]),
        ValueError,
        r"group_sizes: .*rank 2, need rank 1",
    ),
    "number of sizes": (
        grouped(sizes=SIZES[:3]),
        ValueError,
        r"group_sizes: found shape \[3\], need \[4\]",
    ),
    "number of offsets": (
        grouped(sizes=None, group_offsets=SIZES),
        ValueError,
        r"group_offsets: found shape \[4\], need \[5\] \(\[G \+ 1\]",
    ),
    "number of labels": (
        grouped(sizes=None, labels=SIZES),
        ValueError,
        r"labels: found shape \[4\], need \[6\] \(\[M\], one for each row",
    ),
    "negative size": (
        grouped(sizes=vector(1, -2, 0, 1)),
        ValueError,
        r"group_sizes: found -2 for group 1",
    ),
    "sum of sizes": (
        grouped(sizes=vector(1, 2, 0, 4)),
        ValueError,
        r"group_sizes: found 4 for group 3 after a sum of 3, need a sum of 6 at most",
    ),
    "offsets decrease": (
        grouped(sizes=None, group_offsets=vector(0, 3, 2, 4, 5)),
        ValueError,
        r"group_offsets: found 2 at 2, need 3 or more",
    ),
    "ends past M": (
        grouped(sizes=None, group_ends=vector(1, 2, 3, 7)),
        ValueError,
        r"group_ends: found 7 at 3, need 6 at most \(a has 6 rows\)",
    ),
    "label out of range": (
        grouped(sizes=None, labels=vector(0, 1, 2, 3, 4, -1)),
        ValueError,
        r"labels: found 4 for row 4, need -1 to 3",
    ),
    "alignment of sizes": (grouped(alignment=8), ValueError, r"alignment: found 8, need 1 \(only"),
    "alignment 0": (
        grouped(sizes=None, group_ends=SIZES, alignment=0),
        ValueError,
        r"alignment: found 0, need 1 or more",
    ),
    "alignment is text": (
        grouped(alignment="8"),
        TypeError,
        r"alignment: found an object of type str, need an integer",
    ),
    "rank of a": (grouped(X3), ValueError, r"a: found .*need rank 2, \[M, K\]"),
    "rank of b": (grouped(b=W[0]), ValueError, r"b: found .*need rank 3, \[G, N, K\]"),
    "K": (
        grouped(b=W[:, :, :99]),
        ValueError,
        r"b: found shape \[4, 8, 99\], K = 99, need K = 256",
    ),
    "dtype of b": (grouped(b=W.astype(np.int32)), TypeError, r"b: found int32"),
    "layout tn": (grouped(layout="tn"), ValueError, r'layout: found "tn", need "nt" or "nn"'),
    "layout nn": (grouped(layout="nn"), ValueError, r"b: found shape \[4, 8, 256\], K = 8"),
    "activation": (grouped(activation="tanh"), ValueError, r'activation: found "tanh"'),
    "out_dtype": (
        grouped(out_dtype="float8_e4m3fn"),
        TypeError,
        r"out: found float8_e4m3fn, need bfloat16",
    ),
    "bias": (
        grouped(bias=np.ones(8, np.float32)),
        ValueError,
        r"bias: found .*need rank 2, \[G, N\]",
    ),
    "c": (grouped(c=np.ones((6, 9), np.float32)), ValueError, r"c: found shape \[6, 9\]"),
    "groups inside": (
        grouped(b=np.ones((8, 256, 4), np.float32).transpose(2, 0, 1)),
        ValueError,
        r"b: found .*strides \[1, 1024, 4\], need a stride of 8189 or more between groups",
    ),
    "blocks of rows of a": (
        grouped((Q, SFA[:1]), (QW, SFB), granularity=(128, 128)),
        ValueError,
        r"a: found granularity \(128, 128\), need \(1, k\), or one factor \(a block of rows would",
    ),
    "factors of b": (
        grouped((Q, SFA), (QW, np.ones((4, 2, 2), np.float32))),
        ValueError,
        r"sfb\[g\]: found shape \[2, 2\], need \[1, 2\] for \(128, 128\)",
    ),
    "factors of three groups": (
        grouped((Q, SFA), (QW, SFB[:3])),
        ValueError,
        r"sfb: found shape \[3, 1, 2\], 3 groups, need 4 groups",
    ),
    "policy": (grouped(policy={"tile": 8}), ValueError, r"policy: found the field 'tile'"),
    "rows past Mmax": (
        masked(rows=vector(0, 6, 7, 1)),
        ValueError,
        r"rows: found 7 for group 2, need 0 to 6 \(a has 6 rows for each group\)",
    ),
    "negative rows": (masked(rows=vector(0, 6, -1, 1)), ValueError, r"rows: found -1 for group 2"),
    "no rows": (masked(rows=None), TypeError, r"rows: found None"),
    "groups of rows": (
        masked(rows=vector(1, 2)),
        ValueError,
        r"rows: found shape \[2\], need \[4\]",
    ),
    "groups of a": (masked(X3[:3]), ValueError, r"b: found .*4 groups, need 3 groups"),
    "rank of masked a": (masked(X), ValueError, r"a: found .*need rank 3, \[G, Mmax, K\]"),
    "masked groups inside": (
        masked(np.ones((6, 4, 256), np.float32).transpose(1, 0, 2)),
        ValueError,
        r"a: found .*need a stride of 5376 or more between groups",
    ),
    "expected_rows": (masked(expected_rows=-3), ValueError, r"expected_rows: found -3, need 0 or"),
    "expected_rows is text": (masked(expected_rows="3"), TypeError, r"expected_rows: found .*str"),
    "k_sizes are None": (k_grouped(sizes=None), TypeError, r"k_sizes: found None"),
    "sum of k_sizes": (
        k_grouped(sizes=vector(256, 1)),
        ValueError,
        r"k_sizes: found 1 for group 1 after a sum of 256, need a sum of 256 at most",
    ),
    "negative k_size": (
        k_grouped(sizes=vector(-16)),
        ValueError,
        r"k_sizes: found -16 for group 0",
    ),
    "odd float8 sizes": (
        k_grouped(Q, Q, vector(120, 8)),
        ValueError,
        r"found 120 for group 0, need multiples of 16",
    ),
    "blocks per group": (
        k_grouped((Q, SFA), (Q, SFA), vector(96, 160)),
        ValueError,
        r"sfa: found shape \[6, 2\], 2 blocks, need 3 or more \(each group starts a block",
    ),
    "granularity of k_grouped": (
        k_grouped(deepgemm.Quantized(Q, SFA[:1], (128, 128)), Q),
        ValueError,
        r"a: found granularity \(128, 128\), need \(1, 128\)",
    ),
    "out of k_grouped": (
        k_grouped(out_dtype="float16"),
        TypeError,
        r"out: found float16, need float32",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_argument(name):
    (function, arguments, options), kind, words = BAD[name]
    with pytest.raises(kind, match=words):
        function(*arguments, **options)


def test_nothing_is_written_when_a_value_is_wrong():
    out = np.full((6, 8), 7, np.float32)
    with pytest.raises(ValueError, match="group 3"):
        deepgemm.grouped_gemm(X, W, vector(2, 2, 2, 1), out)
    assert (out == 7).all()
    out = np.full((4, 6, 8), 7, np.float32)
    with pytest.raises(ValueError, match="group 3"):
        deepgemm.masked_gemm(X3, W, vector(6, 6, 6, 7), out)
    assert (out == 7).all()


def test_out_overlaps_nothing():
    memory = np.ones((4, 6, 256), np.float32)
    with pytest.raises(ValueError, match="out: found memory that overlaps a"):
        deepgemm.masked_gemm(memory, W, SIZES, memory[:, :, :8])
    sizes = np.zeros(48, np.int32)
    with pytest.raises(ValueError, match="out: found memory that overlaps group_sizes"):
        deepgemm.grouped_gemm(X, W, sizes[:4], sizes.view(np.float32).reshape(6, 8))
