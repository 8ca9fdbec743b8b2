"""CuPy arrays: their attributes as read by the module, by a stand-in that needs no GPU."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

import deepgemm
import oracle
from deepgemm import _ext


class StandIn:
    """What deepgemm reads of a cupy.ndarray, over host memory that no kernel will touch."""

    def __init__(self, x: np.ndarray, device: int = 0):
        self._x = x
        self.data = SimpleNamespace(ptr=x.ctypes.data, device_id=device)
        self.shape, self.strides, self.dtype = x.shape, x.strides, x.dtype

    @property
    def T(self):  # noqa: N802
        return StandIn(self._x.T, self.data.device_id)

    def __getitem__(self, index):
        return StandIn(self._x[index], self.data.device_id)

    def __dlpack__(self):
        raise BufferError


StandIn.__module__ = "cupy._core.core"


@pytest.fixture
def cupy(monkeypatch):
    """A module of that name that allocates, and says which device and stream are current."""

    class Device:
        entered: list[int] = []  # noqa: RUF012

        def __init__(self, index):
            self._index = index

        def __enter__(self):
            self.entered.append(self._index)

        def __exit__(self, *_):
            pass

    asked: list[int] = []

    def current_stream(device_id=-1):
        asked.append(device_id)
        return SimpleNamespace(ptr=0)

    module = ModuleType("cupy")
    module.asked = asked
    module.empty = lambda shape, dtype: StandIn(np.empty(shape, dtype), Device.entered[-1])
    module.cuda = SimpleNamespace(
        Device=Device, get_current_stream=current_stream, entered=Device.entered
    )
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module


@pytest.mark.parametrize("dtype", ["float32", "uint8", "bfloat16", "float8_e4m3fn"])
def test_read(dtype):
    x = np.zeros((4, 6), getattr(ml_dtypes, dtype, dtype))
    seen = _ext.inspect(StandIn(x[1:, ::2], 3))
    assert seen == {
        "pointer": x[1:].ctypes.data,
        "dtype": dtype,
        "device": "cuda:3",
        "shape": (3, 3),
        "strides": (6, 2),
        "read_only": False,
    }


def test_view_and_mixed_devices():
    x = deepgemm.view(StandIn(np.zeros((4, 16), np.uint8)), "float8_e4m3fn")
    assert _ext.inspect(x)["dtype"] == "float8_e4m3fn"
    host = np.zeros((4, 16), ml_dtypes.float8_e4m3fn)
    with pytest.raises(ValueError, match=r"a: found an array on cpu|b: found an array on cpu"):
        deepgemm.gemm(x, host, np.zeros((4, 4), np.float32), stream=0)


def test_allocation(cupy):
    """Outputs are made on the input's device; what follows needs a driver."""
    if deepgemm.info()["gpus"]:
        pytest.skip("there is a GPU, and the stand-in's memory is not on it")
    x = StandIn(np.ones((4, 256), np.float32), 1)
    with pytest.raises(deepgemm.DriverError):
        deepgemm.quantize(x)
    assert cupy.cuda.entered == [1, 1]
    assert cupy.asked == [1]  # the stream of the array's device, not of the current one


@pytest.mark.gpu
@pytest.mark.cupy
def test_gemm_on_the_gpu(rng):
    cp = pytest.importorskip("cupy")
    x = rng.standard_normal((33, 256)).astype(np.float32)
    q = deepgemm.quantize(cp.asarray(x))
    values, sf = oracle.quantize(x, (1, 128))
    assert isinstance(q.values, deepgemm.View)
    assert np.array_equal(cp.asnumpy(q.values.array), values.view(np.uint8))
    assert np.array_equal(cp.asnumpy(q.sf), sf)
    with cp.cuda.Stream(non_blocking=True) as stream:
        out = deepgemm.gemm(q, q, granularity=(1, 128), out_dtype="float32")
        stream.synchronize()
    real = values.astype(np.float64) * oracle.expand(sf, (1, 128), x.shape)
    assert oracle.difference(cp.asnumpy(out), real @ real.T) < 1e-6
