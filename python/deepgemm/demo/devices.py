"""Where the demo runs: the CPU backend, or a GPU with torch or with the library's own arrays."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

import deepgemm
from deepgemm._library import ext
from deepgemm.bench.machine import hopper_gpus

Array = NDArray[Any]


class Place(Protocol):
    """Memory in which the demo's arrays live."""

    name: str
    on_gpu: bool

    def upload(self, x: Array) -> Any:
        """Copy a NumPy array to the place."""

    def download(self, x: Any) -> Array:
        """Copy an array of the place to NumPy."""

    def download_bytes(self, x: Any) -> Array:
        """Copy an array of one-byte elements to NumPy as uint8."""

    def synchronize(self) -> None:
        """Wait for the device."""

    def prepare(self, a: Any, b: Any, options: dict[str, Any]) -> dict[str, Any]:
        """Load (on a GPU) or at least compile the kernel of a product, and report on it."""


def kernel_for_h200(a: Any, b: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Compile, with no GPU, the kernel that an H200 would run for this product.

    A missing NVRTC is reported in "failure"; a source that NVRTC refuses raises CompileError.
    """
    (m, k), n = a.values.shape, b.values.shape[0]
    problem = {"m": m, "n": n, "k": k, **options, "bias": True}
    try:
        return vars(deepgemm.warmup([problem], device=-1)[0])
    except deepgemm.Error as error:
        if getattr(error, "log", ""):
            raise
        return {"origin": "", "failure": str(error)}


def loaded_kernel(a: Any, b: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Load the kernel of this product on device 0."""
    bias, activation, out_dtype = (options[x] for x in ("bias", "activation", "out_dtype"))
    head = (a, b, None, None, bias, activation, 1.0, out_dtype)
    return dict(ext.report_gemm(*head, None, "nt", None, None, 0, True))


def plain(x: Any) -> Array:
    """Return a NumPy array; without ml_dtypes, float8 and bfloat16 come as a View of one."""
    return np.asarray(x.array if isinstance(x, deepgemm.View) else x)


class CpuPlace:
    """NumPy arrays on the reference backend."""

    on_gpu = False

    def __init__(self) -> None:
        """Name the place."""
        self.name = "CPU reference backend"

    def upload(self, x: Array) -> Any:
        """Return the array itself."""
        return x

    def download(self, x: Any) -> Array:
        """Return the array itself."""
        return plain(x)

    def download_bytes(self, x: Any) -> Array:
        """Return a uint8 view."""
        return plain(x).view(np.uint8)

    def synchronize(self) -> None:
        """Do nothing: calls on the CPU return when they are done."""

    def prepare(self, a: Any, b: Any, options: dict[str, Any]) -> dict[str, Any]:
        """Compile the kernel that an H200 would run."""
        return kernel_for_h200(a, b, options)


class OwnPlace:
    """`deepgemm.DeviceArray` on a GPU, with no framework."""

    on_gpu = True

    def __init__(self, name: str) -> None:
        """Take the name of the GPU."""
        self.name = f"{name}, arrays of deepgemm itself"
        self._last: Any = None

    def upload(self, x: Array) -> Any:
        """Copy to device 0."""
        return ext.DeviceArray.from_numpy(np.ascontiguousarray(x))

    def download(self, x: Any) -> Array:
        """Copy to the host; scale factors may lie column by column with padding."""
        if len(x.strides) == 2 and x.strides[0] == 1 != x.strides[1]:
            rows, columns = x.shape
            pitch = x.strides[1]
            whole = plain(x.strided((columns, pitch), (pitch, 1)).to_numpy())
            return np.asarray(whole[:, :rows].T)
        return plain(x.to_numpy())

    def download_bytes(self, x: Any) -> Array:
        """Copy to the host."""
        return self.download(x).view(np.uint8)

    def synchronize(self) -> None:
        """Wait for all work of the device."""
        if self._last is None:
            self._last = ext.DeviceArray((1,), "uint8")
        self._last.synchronize()

    def prepare(self, a: Any, b: Any, options: dict[str, Any]) -> dict[str, Any]:
        """Load the kernel."""
        return loaded_kernel(a, b, options)


class TorchPlace(OwnPlace):
    """CUDA tensors of PyTorch."""

    def __init__(self, name: str, torch_support: Any) -> None:
        """Take the name of the GPU and the module that speaks to torch."""
        super().__init__(name)
        self.name = f"{name}, tensors of PyTorch"
        self._torch = torch_support

    def upload(self, x: Array) -> Any:
        """Copy to device 0."""
        return self._torch.upload(x)

    def download(self, x: Any) -> Array:
        """Copy to the host."""
        return np.asarray(self._torch.download(x))

    def synchronize(self) -> None:
        """Wait for the current device."""
        self._torch.synchronize()


def find_place(wanted: str = "auto") -> Place:
    """Return the best place: "auto", or "cpu", "torch" or "own" if one is asked for."""
    gpus = [] if wanted == "cpu" else hopper_gpus()
    if not gpus:
        if wanted in ("torch", "own"):
            raise deepgemm.Error(f"--device {wanted}: no usable GPU on this machine")
        return CpuPlace()
    name = str(gpus[0]["name"])
    if wanted != "own":
        try:
            from deepgemm.torch import bench_support
        except ImportError:
            if wanted == "torch":
                raise
        else:
            if bench_support.cuda_available():
                return TorchPlace(name, bench_support)
    return OwnPlace(name)
