"""What a hostile caller passes: objects that lie, run code during a call, or were never made."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import deepgemm
from deepgemm import _ext

X = np.ones((4, 128), np.float32)


class Producer:
    """Speaks DLPack, and does as told while it is asked."""

    def __init__(self, action=None, device=(1, 0)):
        self._x, self._action, self._device = X.copy(), action, device

    def __dlpack_device__(self):
        return self._device

    def __dlpack__(self, **arguments):
        if self._action is not None:
            self._action()
        return self._x.__dlpack__(**arguments)


def test_a_list_emptied_while_it_is_read():
    pair: list[object] = []

    def empty():
        pair.clear()
        gc.collect()
        [np.zeros(1000) for _ in range(100)]

    pair[:] = [Producer(empty), np.ones((1, 1), np.float32)]
    assert (deepgemm.gemm(pair, X, np.zeros((4, 4), np.float32)) == 128).all()

    class Part:
        def __init__(self, owner):
            self.owner = owner

        def __index__(self):
            self.owner.clear()
            gc.collect()
            return 1

    granularity: list[object] = []
    granularity[:] = [Part(granularity), 128]
    deepgemm.quantize(X, granularity)
    both: list[object] = [None, (1, 128)]
    deepgemm.gemm(X, X, granularity=both)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, MemoryError])
def test_interruptions_go_on(error):
    def interrupt():
        raise error

    with pytest.raises(error):
        _ext.inspect(Producer(interrupt))


def test_other_errors_are_type_errors_without_a_traceback():
    def fail():
        raise KeyError("secret\nsecond line")

    with pytest.raises(TypeError, match=r"array: found .*exports no memory: KeyError") as caught:
        _ext.inspect(Producer(fail))
    assert "Traceback" not in str(caught.value)
    assert "At:" not in str(caught.value)


@pytest.mark.parametrize("device", [None, 3, (), ("cpu", 0), (2**70, 0), [1, 0], (1,)])
def test_devices_that_are_none(device):
    with pytest.raises(TypeError, match="array: found a __dlpack_device__ that returns no device"):
        _ext.inspect(Producer(device=device))


def test_objects_that_were_never_initialised():
    view = _ext.View.__new__(_ext.View)
    array = deepgemm.DeviceArray.__new__(deepgemm.DeviceArray)
    policy = deepgemm.Policy.__new__(deepgemm.Policy)
    for x in (view, array):
        with pytest.raises(TypeError, match=r"a: found .* never initialised"):
            deepgemm.gemm(x, X)
        with pytest.raises(TypeError, match="never initialised"):
            deepgemm.view(x, "float32")
    with pytest.raises(TypeError, match="policy: found"):
        deepgemm.gemm(X, X, policy=policy)


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_arrays_that_mean_more_than_their_memory():
    with pytest.raises(TypeError, match=r"a: found a numpy.ma.MaskedArray.*filled"):
        deepgemm.gemm(np.ma.masked_greater(X, 3), X)
    with pytest.raises(TypeError, match=r"b: found a numpy.matrix, need a plain array"):
        deepgemm.gemm(X, np.asmatrix(X))
    assert deepgemm.gemm(np.asmatrix(X).A, np.ma.asarray(X).data).shape == (4, 4)


def test_types_are_not_kept_for_ever():
    kept = []
    for _ in range(600):

        class Own(np.ndarray):
            pass

        _ext.inspect(X.view(Own))
        kept.append(weakref.ref(Own))
        del Own
    gc.collect()
    assert sum(ref() is not None for ref in kept) <= 256


NUMBERS = {
    "alpha": ["2", None, 10**400, 1e300, [1.0]],
    "out_scale": ["2", 10**400],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in NUMBERS.items() for value in values]
)
def test_numbers(name, value):
    with pytest.raises((TypeError, ValueError), match=rf"^{name}: found .*need a number"):
        deepgemm.gemm(X, X, **{name: value})


def test_numbers_of_every_kind():
    for alpha in (2, 2.0, np.float32(2), np.int64(2), np.array(2.0)):
        assert (deepgemm.gemm(X, X, alpha=alpha) == 256).all()
    for flag in (True, np.bool_(True)):
        assert deepgemm.quantize(X, power_of_two=flag).sf[0, 0] == 2.0**-8


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"amax_floor": "x"}, TypeError, "amax_floor: found an object of type str, need a number"),
        ({"amax_floor": None}, TypeError, "amax_floor: found None, need a number"),
        ({"amax_floor": 1e300}, ValueError, "amax_floor: found 1e.300, need"),
        ({"power_of_two": 1}, TypeError, "power_of_two: found 1, need a bool"),
        ({"power_of_two": None}, TypeError, "power_of_two: found None, need a bool"),
        ({"granularity": (1, -(2**70))}, ValueError, "granularity: found -1180591620717411303424"),
        ({"granularity": (1, 2**70)}, ValueError, "granularity: found 1180591620717411303424"),
        ({"granularity": (1, -1)}, ValueError, "granularity: found -1, need a positive integer"),
        ({"granularity": (1, 1.5)}, ValueError, "granularity: found 1.5, need a positive integer"),
    ],
)
def test_quantize(options, error, text):
    with pytest.raises(error, match=text):
        deepgemm.quantize(X, **options)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"num_sms": "x"}, TypeError, "num_sms: found an object of type str, need an integer"),
        ({"num_sms": 2**40}, ValueError, "num_sms: found 1099511627776, need an integer of 32"),
        ({"num_sms": -1}, ValueError, "num_sms: found -1, need 0"),
        ({"pdl": "x"}, TypeError, "pdl: found an object of type str, need a bool"),
        ({"constant_b": 1}, TypeError, "constant_b: found 1, need a bool"),
        ({"deterministic": 1}, TypeError, "deterministic: found 1, need a bool"),
        ({"strict_jit": "x"}, TypeError, "strict_jit: found an object of type str, need a bool"),
        ({"device": "x"}, TypeError, "device: found an object of type str, need an integer"),
        ({"device": 2**40}, ValueError, "device: found 1099511627776, need an integer of 32"),
    ],
)
def test_options(options, error, text):
    before = deepgemm.get_options()
    with pytest.raises(error, match=text):
        deepgemm.set_options(**options)
    with pytest.raises(error, match=text), deepgemm.options(**options):
        pass
    assert deepgemm.get_options() == before


def test_devices_as_numbers():
    for call in (
        lambda: deepgemm.synchronize(2**40),
        lambda: deepgemm.DeviceArray((1,), "float32", 2**40),
        lambda: deepgemm.DeviceArray.from_numpy(X, device=2**40),
        lambda: deepgemm.explain("gemm", 4, 4, 4, device=2**40),
    ):
        with pytest.raises(ValueError, match="device: found 1099511627776, need"):
            call()


@pytest.mark.parametrize(
    ("operands", "options", "error", "text"),
    [
        ((2**64, 4, 4), {}, ValueError, "M: found 18446744073709551616, need an integer of 64"),
        ((-1, 4, 4), {}, ValueError, "need M, N, K of 0 or more"),
        ((64, 128), {}, TypeError, "operands: found 64, 128, need M, N, K or arrays"),
        ((), {}, TypeError, "operands: found none, need M, N, K or arrays"),
        ((64, 64, 64, 64), {}, TypeError, "need M, N, K or arrays"),
        ((X, 64, 64), {}, TypeError, "operands: found an object of type ndarray, 64, 64, need M"),
        ((64, 64, 64), {"granularity": "1x128"}, ValueError, "granularity: found '1x128', need"),
        ((64, 64, 64), {"granularity": 128}, ValueError, "granularity: found 128, need"),
        ((64, 64, 64), {"a_dtype": "float9"}, TypeError, "dtype float9"),
        ((64, 64, 64), {"device": "x"}, TypeError, "device: found an object of type str"),
    ],
)
def test_explain(operands, options, error, text):
    with pytest.raises(error, match=text):
        deepgemm.explain("gemm", *operands, **options)


def test_explain_takes_dtypes_and_numpy_integers(torch):
    shape = (np.int64(64), np.int32(256), 128)
    report = deepgemm.explain("gemm", *shape, device=-1, a_dtype=torch.bfloat16, b_dtype=np.float32)
    assert report.problem["m"] == 64
    for layout in ("nt", "nn", "tn", "tt"):
        deepgemm.explain("gemm", *shape, device=-1, layout=layout)


@pytest.mark.parametrize(
    ("problem", "error", "text"),
    [
        ((1, 2), ValueError, r"problem: found \(1, 2\), need \(M, N, K\)"),
        ({"m": 1}, ValueError, "problem: found a mapping without n, k"),
        (5, TypeError, "problem: found 5, need"),
        ("123", TypeError, "problem: found an object of type str, need"),
        ((1, 2, "k"), TypeError, "K: found an object of type str, need an integer"),
    ],
)
def test_warmup(problem, error, text):
    with pytest.raises(error, match=text):
        deepgemm.warmup([problem])


def test_device_array_export():
    array = deepgemm.DeviceArray((2,), "float32", -1)
    with pytest.raises(ValueError, match="stream: found 1180591620717411303424"):
        array.__dlpack__(stream=2**70)
    with pytest.raises(ValueError, match="stream: found -2"):
        array.__dlpack__(stream=-2)
    with pytest.raises(TypeError, match="stream: found an object of type str"):
        array.__dlpack__(stream="x")
    for version in ("1.0", (1,), 3, ("a", 0)):
        with pytest.raises(TypeError, match="max_version: found"):
            array.__dlpack__(max_version=version)
    array.__dlpack__(stream=-1)


@pytest.mark.parametrize("offset", [2**61, 2**62, 2**63 - 1, -1, -(2**63), 9])
def test_device_array_offsets(offset):
    with pytest.raises(ValueError, match=r"strided: found .* need elements within the 32 bytes"):
        deepgemm.DeviceArray((8,), "float32", -1).strided((1,), (1,), offset)


def test_a_number_as_factor_of_dequantize():
    q = deepgemm.quantize(X)
    got = deepgemm.dequantize((q.values, 2.0))
    assert np.array_equal(got, q.values.astype(np.float32) * 2)
    got = deepgemm.dequantize((q.values, np.float32(0.5)), out_dtype="bfloat16")
    assert np.array_equal(got.astype(np.float32), q.values.astype(np.float32) / 2)
    with pytest.raises(TypeError, match="q: found values without scale factors"):
        deepgemm.dequantize((q.values, None))
