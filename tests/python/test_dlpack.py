"""Arrays of every framework, read without a copy and returned in their own kind."""

from __future__ import annotations

import ctypes

import ml_dtypes
import numpy as np
import pytest

import deepgemm
import oracle
from deepgemm import _ext


def pair(rng):
    a = oracle.exact_operand(rng, 6, 256, (1, 128))
    b = oracle.exact_operand(rng, 8, 256, (128, 128))
    return a, b, oracle.product(a.real, b.real)


NUMPY_DTYPES = [
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e8m0fnu",
    "bfloat16",
    "float16",
    "float32",
    "float64",
    "uint8",
    "int8",
    "uint16",
    "int16",
    "int32",
    "int64",
]


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_numpy_is_read_in_place(dtype):
    x = np.zeros((4, 6), getattr(ml_dtypes, dtype, dtype))[1:, ::2]
    seen = _ext.inspect(x)
    assert seen == {
        "pointer": x.ctypes.data,
        "dtype": dtype,
        "device": "cpu",
        "shape": (3, 3),
        "strides": (6, 2),
        "read_only": False,
    }


def test_numpy_details():
    x = np.zeros((4, 6), np.float32)
    assert _ext.inspect(x[::-1, ::-2])["strides"] == (-6, -2)
    assert _ext.inspect(np.broadcast_to(x[:1], (4, 6)))["strides"] == (0, 1)
    assert _ext.inspect(np.float32(1))["shape"] == ()
    assert _ext.inspect(np.zeros((1, 3, 0), np.float32))["shape"] == (1, 3, 0)
    x.flags.writeable = False
    assert _ext.inspect(x)["read_only"]
    with pytest.raises(TypeError, match="byte order"):
        _ext.inspect(x.astype(">f4"))
    record = np.zeros(3, [("a", "u1"), ("b", "f4")])
    with pytest.raises(ValueError, match="not aligned"):
        _ext.inspect(record["b"])
    with pytest.raises(ValueError, match="rank 5, need rank 4 at most"):
        _ext.inspect(np.zeros((1,) * 5, np.float32))
    with pytest.raises(TypeError, match="bool"):
        _ext.inspect(np.zeros(3, bool))
    with pytest.raises(TypeError, match=r"<U1|str"):
        _ext.inspect(np.array(["a"]))


def test_numpy_subclass(tmp_path):
    x = np.memmap(tmp_path / "x", np.float32, "w+", shape=(2, 3))
    assert _ext.inspect(x)["shape"] == (2, 3)


class Producer:
    """A framework of its own, with DLPack as told."""

    def __init__(self, x, *, versioned=True, device=(1, 0)):
        self._x, self._versioned, self._device = x, versioned, device
        self.calls = []

    def __dlpack_device__(self):
        return self._device

    def __dlpack__(self, **arguments):
        self.calls.append(arguments)
        if not self._versioned:
            if "max_version" in arguments:
                raise TypeError("unexpected keyword argument max_version")
            return self._x.__dlpack__()
        return self._x.__dlpack__(**arguments)


@pytest.mark.parametrize("versioned", [True, False])
def test_any_producer(rng, versioned):
    a, b, want = pair(rng)
    x = Producer(a.real.astype(np.float32), versioned=versioned)
    y = Producer(b.real.astype(np.float32), versioned=versioned)
    out = np.zeros((6, 8), np.float32)
    assert deepgemm.gemm(x, y, out) is out
    assert oracle.same_bits(out, want.astype(np.float32))
    assert x.calls[0] == {"max_version": (1, 1)}
    assert len(x.calls) == (1 if versioned else 2)
    with pytest.raises(TypeError, match="out: found None"):
        deepgemm.gemm(x, y)


def test_producer_read_only_flag():
    x = np.zeros((2, 3), np.float32)
    assert not _ext.inspect(Producer(x))["read_only"]
    x.flags.writeable = False
    assert _ext.inspect(Producer(x))["read_only"]


class NullStrides:
    """A versioned-less capsule whose strides are null, as old producers make them."""

    class Tensor(ctypes.Structure):
        _fields_ = (
            ("data", ctypes.c_void_p),
            ("device_type", ctypes.c_int32),
            ("device_index", ctypes.c_int32),
            ("rank", ctypes.c_int32),
            ("code", ctypes.c_uint8),
            ("bits", ctypes.c_uint8),
            ("lanes", ctypes.c_uint16),
            ("shape", ctypes.POINTER(ctypes.c_int64)),
            ("strides", ctypes.c_void_p),
            ("byte_offset", ctypes.c_uint64),
            ("context", ctypes.c_void_p),
            ("deleter", ctypes.c_void_p),
        )

    def __init__(self, device=1, code=2, bits=32, lanes=1, data=True):
        self._memory = (ctypes.c_float * 16)()
        self._shape = (ctypes.c_int64 * 2)(2, 3)
        address = ctypes.addressof(self._memory) if data else None
        shape = ctypes.cast(self._shape, ctypes.POINTER(ctypes.c_int64))
        self.tensor = self.Tensor(address, device, 0, 2, code, bits, lanes, shape, None, 8)
        self._device = device

    def __dlpack_device__(self):
        return (self._device, 0)

    def __dlpack__(self, stream=None):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return new(ctypes.addressof(self.tensor), b"dltensor", None)


def test_null_strides_and_byte_offset():
    x = NullStrides()
    seen = _ext.inspect(x)
    assert seen["strides"] == (3, 1)
    assert seen["pointer"] == x.tensor.data + 8


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"device": 10}, ValueError, "DLPack device type 10, need CPU or CUDA"),
        ({"code": 5, "bits": 64}, TypeError, "found complex64"),
        ({"code": 17, "bits": 4, "lanes": 2}, TypeError, "float4_e2m1fn x 2 lanes"),
        ({"data": False}, TypeError, "found a fake or meta tensor"),
    ],
)
def test_capsules_that_are_refused(options, error, text):
    with pytest.raises(error, match=text):
        _ext.inspect(NullStrides(**options))


def test_device_array_on_the_host(rng):
    x = oracle.cast(rng.standard_normal((3, 5)), "float8_e4m3fn")
    array = deepgemm.DeviceArray.from_numpy(x, device=-1)
    assert oracle.same_bits(array.to_numpy(), x)
    assert (array.shape, array.strides, array.dtype, array.nbytes) == (
        (3, 5),
        (5, 1),
        str(x.dtype),
        15,
    )
    seen = _ext.inspect(array)
    assert seen["pointer"] == array.data_ptr
    assert seen["device"] == "cpu"
    part = array.strided((3, 2), (5, 1), 1)
    assert part.data_ptr == array.data_ptr + 1
    assert "[3, 2]" in repr(part)
    with pytest.raises(ValueError, match="within the 15 bytes"):
        array.strided((3, 5), (5, 1), 1)
    with pytest.raises(ValueError, match="contiguous"):
        part.to_numpy()
    with pytest.raises(ValueError, match="shape: found"):
        deepgemm.DeviceArray((-1,), "float32", -1)


def test_device_array_exports(rng):
    x = rng.standard_normal((3, 5)).astype(np.float32)
    array = deepgemm.DeviceArray.from_numpy(x, device=-1)
    assert array.__dlpack_device__() == (1, 0)
    back = np.from_dlpack(array)
    assert np.array_equal(back, x)
    array.fill(0)
    del array
    assert (back == 0).all()  # the memory is shared and still alive
    for version in (None, (0, 8), (1, 0), (1, 3)):
        deepgemm.DeviceArray((2,), "float32", -1).__dlpack__(max_version=version)
    with pytest.raises(BufferError):
        deepgemm.DeviceArray((2,), "float32", -1).__dlpack__(copy=True)


def test_device_array_in_gemm(rng):
    a, b, want = pair(rng)
    up = lambda x: deepgemm.DeviceArray.from_numpy(x, device=-1)  # noqa: E731
    out = deepgemm.gemm((up(a.values), up(a.sf)), (up(b.values), up(b.sf)))
    assert isinstance(out, deepgemm.DeviceArray)
    assert oracle.same_bits(out.to_numpy(), oracle.cast(want, "bfloat16"))
    q = deepgemm.quantize(up(np.ones((5, 256), np.float32)))
    assert q.sf.strides == (1, 8)
