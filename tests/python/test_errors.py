"""Bad arguments: the right exception, a text that names operand, found and need, no damage done."""

from __future__ import annotations

import threading

import ml_dtypes
import numpy as np
import pytest

import deepgemm
import oracle

E4M3 = ml_dtypes.float8_e4m3fn
A = np.ones((4, 256), np.float32).astype(E4M3)
B = np.ones((8, 256), np.float32).astype(E4M3)
SFA = np.ones((4, 2), np.float32)
SFB = np.ones((1, 2), np.float32)
X = np.ones((4, 256), np.float32)
Y = np.ones((8, 256), np.float32)


def overlapping_out():
    base = np.zeros(4 * 256 + 64, np.float32)
    return base[: 4 * 256].reshape(4, 256), base[32:64].reshape(4, 8)


def read_only(x):
    x = x.copy()
    x.flags.writeable = False
    return x


class Stream:
    cuda_stream = "no"


BAD = {
    "a is a list": (([1.0, 2.0], Y), {}, TypeError, r"a: found an object of type (int|float)"),
    "a is None": ((None, Y), {}, TypeError, r"a: found None, need an array"),
    "b is text": ((X, "b"), {}, TypeError, r"b: found an object of type str, need an array"),
    "four parts": (((A, SFA, None, None), Y), {}, TypeError, r"a: found a sequence of 4 items"),
    "dtype of a": ((X.astype(np.int32), Y), {}, TypeError, r"a: found int32, need float8_e4m3fn"),
    "dtype of b": ((X, Y.astype(np.float64)), {}, TypeError, r"b: found float64, need .*float8"),
    "complex": ((X.astype(np.complex64), Y), {}, TypeError, r"a: found .*complex64, need"),
    "dtype of sf": (
        ((A, SFA.astype(np.float64)), (B, SFB)),
        {},
        TypeError,
        r"sfa: found float64, need float32",
    ),
    "dtype of out": (
        (X, Y, np.zeros((4, 8), np.int32)),
        {},
        TypeError,
        r"out: found int32, need bfloat16",
    ),
    "out against out_dtype": (
        (X, Y, np.zeros((4, 8), np.float32)),
        {"out_dtype": "bfloat16"},
        TypeError,
        r"out: found float32, need bfloat16",
    ),
    "unknown out_dtype": ((X, Y), {"out_dtype": "float7"}, TypeError, r"out_dtype: found .*float7"),
    "dtype of c": (
        (X, Y),
        {"c": np.zeros((4, 8), np.float16)},
        TypeError,
        r"c: found float16, need",
    ),
    "dtype of bias": (
        (X, Y),
        {"bias": np.zeros(8)},
        TypeError,
        r"bias: found float64, need float32",
    ),
    "rank of a": ((X[0], Y), {}, ValueError, r"a: found .*\[256\].*need rank 2"),
    "rank of b": (
        (X, Y[None, None]),
        {},
        ValueError,
        r"b: found \[1, 1, 8, 256\].*need rank 2, \[N, K\], or rank 3, \[B, N, K\]",
    ),
    "matrices of b": (
        (X[None].repeat(2, 0), Y[None].repeat(3, 0)),
        {},
        ValueError,
        r"b: found shape \[3, 8, 256\], 3 matrices, need 2 matrices, or 1 for all \(a has",
    ),
    "rank of out of a batch": (
        (X[None], Y, np.zeros((4, 8), np.float32)),
        {},
        ValueError,
        r"out: found shape \[4, 8\], need \[1, 4, 8\] \(\[B, M, N\]\)",
    ),
    "matrices of sf": (
        ((A[None].repeat(2, 0), SFA[None].repeat(3, 0)), (B, SFB)),
        {},
        ValueError,
        r"sfa: found shape \[3, 4, 2\], 3 matrices, need 2 matrices, or 1 for all \(as a has",
    ),
    "rank of out": (
        (X, Y, np.zeros(32, np.float32)),
        {},
        ValueError,
        r"out: found .*need \[4, 8\]",
    ),
    "rank 5": (
        (np.zeros((1,) * 5, np.float32), Y),
        {},
        ValueError,
        r"a: found rank 5, need rank 4",
    ),
    "K": ((X, Y[:, :100]), {}, ValueError, r"b: found shape \[8, 100\], K = 100, need K = 256"),
    "shape of out": (
        (X, Y, np.zeros((4, 9), np.float32)),
        {},
        ValueError,
        r"out: found shape \[4, 9\], need \[4, 8\]",
    ),
    "shape of c": (
        (X, Y),
        {"c": np.zeros((8, 4), np.float32)},
        ValueError,
        r"c: found shape \[8, 4\], need \[4, 8\]",
    ),
    "shape of bias": (
        (X, Y),
        {"bias": np.zeros(9, np.float32)},
        ValueError,
        r"bias: found shape \[9\], need \[8\]",
    ),
    "shape of sf": (
        ((A, np.ones((4, 3), np.float32)), (B, SFB)),
        {},
        ValueError,
        r"sfa: found shape \[4, 3\], need \[4, 2\] for \(1, 128\)",
    ),
    "granularity against sf": (
        ((A, SFA), (B, SFB)),
        {"granularity": (1, 64)},
        ValueError,
        r"sfa: found shape \[4, 2\], need shape \[4, 4\]",
    ),
    "granularity is no pair": (
        ((A, SFA), (B, SFB)),
        {"granularity": (1, 2, 3)},
        ValueError,
        r"granularity: found \(1, 2, 3\), need \(rows, k\)",
    ),
    "granularity is negative": (
        ((A, SFA), (B, SFB)),
        {"granularity": (1, -7)},
        ValueError,
        r"granularity: found -7, need",
    ),
    "zero stride in out": (
        (X, Y, np.lib.stride_tricks.as_strided(np.zeros(8, np.float32), (4, 8), (0, 4))),
        {},
        ValueError,
        r"out: found .*stride of 0",
    ),
    "rows of out overlap": (
        (X, Y, np.lib.stride_tricks.as_strided(np.zeros(64, np.float32), (4, 8), (16, 4))),
        {},
        ValueError,
        r"out: found .*overlapping",
    ),
    "read-only out": (
        (X, Y, read_only(np.zeros((4, 8), np.float32))),
        {},
        ValueError,
        r"out: found a read-only array, need a writable one",
    ),
    "out overlaps a": (
        (overlapping_out()[0], Y),
        {"out": "overlap"},
        ValueError,
        r"out: found memory that overlaps a",
    ),
    "out_scale": ((X, Y), {"out_scale": 2.0}, ValueError, r"out_scale: found 2, need 1"),
    "out_scale is text": (
        (X, Y),
        {"out_scale": "2"},
        TypeError,
        r"out_scale: found an object of type str",
    ),
    "layout": ((X, Y), {"layout": "xy"}, ValueError, r'layout: found "xy", need one of "nt"'),
    "activation": ((X, Y), {"activation": "tanh"}, ValueError, r'activation: found "tanh", need'),
    "policy": ((X, Y), {"policy": 3}, TypeError, r"policy: found an object of type int"),
    "value of a policy's field": (
        (X, Y),
        {"policy": {"tile_m": "wide"}},
        TypeError,
        r"policy.tile_m: found 'wide', need an int",
    ),
    "field of policy": (
        (X, Y),
        {"policy": {"tile": 3}},
        ValueError,
        r"policy: found the field 'tile'",
    ),
    "stream": ((X, Y), {"stream": "main"}, TypeError, r"stream: found an object of type str, need"),
    "stream attribute": (
        (X, Y),
        {"stream": Stream()},
        TypeError,
        r"stream: found an object of type",
    ),
    "stream below 0": ((X, Y), {"stream": -5}, ValueError, r"stream: found -5, need a CUstream"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_argument(name):
    args, options, error, text = BAD[name]
    if options.get("out") == "overlap":
        a, out = overlapping_out()
        args, options = (a, args[1]), {"out": out}
    with pytest.raises(error, match=text) as caught:
        deepgemm.gemm(*args, **options)
    assert type(caught.value) is error
    out = deepgemm.gemm((A, SFA), (B, SFB), out_dtype="float32")
    assert (out == 256).all()


def test_numbers_that_do_not_convert():
    with pytest.raises(TypeError):
        deepgemm.gemm(X, Y, alpha="1")


def test_other_granularities_must_be_given():
    sf = np.ones((4, 4), np.float32)
    with pytest.raises(ValueError, match=r"sfa: found shape \[4, 4\].*must be given"):
        deepgemm.gemm((A, sf), (B, SFB))
    out = deepgemm.gemm((A, sf), (B, SFB), granularity=((1, 64), (128, 128)), out_dtype="float32")
    assert (out == 256).all()


@pytest.mark.parametrize("value", [0, -1, 258, 1 << 16, 1 << 31])
@pytest.mark.parametrize(
    "name",
    [
        *("tile_m", "tile_n", "stages", "cluster_m", "cluster_n", "consumers", "consumers_n"),
        *("stage_blocks", "cluster_k", "ctas_per_sm"),
    ],
)
def test_values_of_a_policy(name, value):
    with pytest.raises(ValueError, match=rf"policy.*{name}|policy.{name}: found {value}"):
        deepgemm.explain("gemm", 64, 7168, 2048, policy={name: value}, device=-1)


def test_policies_of_two_kernels():
    with pytest.raises(ValueError, match=r"policy.ctas_per_sm: found 2, need no such field"):
        deepgemm.explain("gemm", 8, 7168, 2048, policy={"tile_m": 64, "ctas_per_sm": 2}, device=-1)
    with pytest.raises(ValueError, match=r"policy.tile_m: found 64, .*K is 0"):
        deepgemm.explain("gemm", 8, 7168, 0, policy={"tile_m": 64}, device=-1)
    report = deepgemm.explain("gemm", 8, 7168, 2048, policy={"tile_m": 64}, device=-1)
    assert report.kernel == "deepgemm_fp8_gemm"


def test_a_policy_changes_nothing_in_host_memory():
    policy = {"kernel": "decode", "tile_m": 3}  # two kernels, and an illegal tile
    assert (deepgemm.gemm((A, SFA), (B, SFB), policy=policy, out_dtype="float32") == 256).all()


def test_lists_that_lose_their_arrays_during_a_call():
    rows = 600
    a = [np.ones((rows, 2048), np.float32), None]
    b = [np.ones((rows, 2048), np.float32), None]
    calling = threading.Event()
    results = []

    def call():
        calling.set()
        results.append(deepgemm.gemm(a, b))

    thread = threading.Thread(target=call)
    thread.start()
    calling.wait()
    while thread.is_alive():  # replaced while the reference computes without the GIL
        a[0], b[0] = np.zeros((rows, 2048), np.float32), np.zeros((rows, 2048), np.float32)
    thread.join()
    assert len({float(x) for x in results[0].ravel()[:5]}) == 1


def test_negative_strides_are_read_right():
    a = np.arange(8, dtype=np.float32).reshape(2, 4)
    out = deepgemm.gemm(a[::-1], a[:, ::-1])
    assert np.array_equal(out, a[::-1] @ a[:, ::-1].T)


def test_nan_scales_are_no_error():
    sf = SFA.copy()
    sf[0, 0] = np.nan
    out = deepgemm.gemm((A, sf), (B, SFB), out_dtype="float32")
    assert np.isnan(out[0]).all()
    assert (out[1:] == 256).all()


def test_inputs_are_not_written():
    args = [read_only(x) for x in (A, SFA, B, SFB)]
    c, bias = read_only(np.ones((4, 8), np.float32)), read_only(np.ones(8, np.float32))
    out = deepgemm.gemm((args[0], args[1]), (args[2], args[3]), c=c, bias=bias, out_dtype="float32")
    assert (out == 258).all()


@pytest.mark.parametrize("stream", [None, 0, 1, 123456])
def test_streams_are_read_on_the_cpu_too(stream):
    class Protocol:
        def __cuda_stream__(self):
            return (0, stream or 0)

    class Pointer:
        ptr = stream or 0

    for given in (stream, Protocol(), Pointer()):
        assert deepgemm.gemm(X, Y, stream=given)[0, 0] == 256


def test_exception_types():
    assert issubclass(deepgemm.Error, RuntimeError)
    assert issubclass(deepgemm.CompileError, deepgemm.Error)
    assert issubclass(deepgemm.DriverError, deepgemm.Error)
    if deepgemm.info()["gpus"]:
        pytest.skip("there is a GPU")
    with pytest.raises(deepgemm.DriverError, match="driver") as caught:
        deepgemm.DeviceArray((4,), "float32")
    assert isinstance(caught.value.code, int)


def test_the_other_values_of_a_bad_call_are_untouched():
    out = np.full((4, 8), 3.0, np.float32)
    with pytest.raises(ValueError, match="bias"):
        deepgemm.gemm(X, Y, out, bias=np.zeros(7, np.float32))
    assert (out == 3).all()
    assert oracle.same_bits(deepgemm.gemm(X, Y, out), np.full((4, 8), 256, np.float32))
