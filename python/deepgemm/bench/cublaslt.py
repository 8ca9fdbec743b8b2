"""cuBLASLt's FP8 product that adds to FP32, by ctypes: a rival that no framework exposes.

``torch._scaled_mm`` cannot add to its output. The library is the one that the framework has loaded.
Constants and signatures are those of cublasLt.h.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import byref, c_float, c_int, c_int32, c_int64, c_size_t, c_uint64, c_void_p

_NAMES = ("libcublasLt.so.13", "libcublasLt.so.12")
_R_32F, _R_8F_E4M3, _COMPUTE_32F = 0, 28, 68
_TRANS_A, _A_SCALE_POINTER, _B_SCALE_POINTER = 3, 17, 18  # attributes of a matmul descriptor
_OP_T = 1
_MAX_WORKSPACE_BYTES = 1  # attribute of a preference
WORKSPACE_BYTES = 64 << 20


class _HeuristicResult(ctypes.Structure):
    _fields_ = (
        ("algorithm", c_uint64 * 8),
        ("workspace_bytes", c_size_t),
        ("state", c_int),
        ("waves", c_float),
        ("reserved", c_int * 4),
    )


def _library() -> ctypes.CDLL:
    for name in _NAMES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise RuntimeError(f"none of {', '.join(_NAMES)} could be loaded")


class _Library:
    """The functions, each raising RuntimeError on a status other than 0."""

    def __init__(self) -> None:
        self._library = _library()

    def call(self, name: str, *arguments: object) -> None:
        status = getattr(self._library, f"cublasLt{name}")(*arguments)
        if status != 0:
            raise RuntimeError(f"cublasLt{name}: status {status}")

    def create(self, name: str, *arguments: object) -> c_void_p:
        handle = c_void_p()
        self.call(f"{name}Create" if name else "Create", byref(handle), *arguments)
        return handle

    def set(self, name: str, descriptor: c_void_p, attribute: int, value: object) -> None:
        size = c_size_t(ctypes.sizeof(value))  # type: ignore[arg-type]
        self.call(f"{name}SetAttribute", descriptor, c_int(attribute), byref(value), size)  # type: ignore[arg-type]


def accumulating_fp8_gemm(
    shape: tuple[int, int, int], addresses: dict[str, int], stream: int
) -> Callable[[], None]:
    """Return a call of D += A B^T with tensor-wise factors.

    Args:
        shape: (M, N, K).
        addresses: of device memory: ``"a"`` and ``"b"``, float8_e4m3fn, (M, K) and (N, K);
            ``"d"``, float32, (M, N), all row-major; ``"one"``, a float32 of 1, the factor of A and
            of B; ``"workspace"``, ``WORKSPACE_BYTES`` bytes.
        stream: the CUDA stream of every call.

    Raises:
        RuntimeError: no cuBLASLt could be loaded, or it refused something.
    """
    m, n, k = shape
    lt = _Library()
    handle = lt.create("")
    # Column-major, so that D^T = B A^T is computed.
    layouts = [
        lt.create("MatrixLayout", c_int(kind), c_uint64(rows), c_uint64(columns), c_int64(rows))
        for kind, rows, columns in ((_R_8F_E4M3, k, n), (_R_8F_E4M3, k, m), (_R_32F, n, m))
    ]
    product = lt.create("MatmulDesc", c_int(_COMPUTE_32F), c_int(_R_32F))
    lt.set("MatmulDesc", product, _TRANS_A, c_int32(_OP_T))
    for attribute in (_A_SCALE_POINTER, _B_SCALE_POINTER):
        lt.set("MatmulDesc", product, attribute, c_void_p(addresses["one"]))
    preference = lt.create("MatmulPreference")
    lt.set("MatmulPreference", preference, _MAX_WORKSPACE_BYTES, c_uint64(WORKSPACE_BYTES))
    rows, columns, sums = layouts
    best, found = _HeuristicResult(), c_int()
    lt.call(
        *("MatmulAlgoGetHeuristic", handle, product, rows, columns, sums, sums, preference),
        *(c_int(1), byref(best), byref(found)),
    )
    if found.value == 0:
        raise RuntimeError(f"cuBLASLt has no algorithm for {m} x {n} x {k}")
    scale = c_float(1.0)
    at = {name: c_void_p(address) for name, address in addresses.items()}

    def call() -> None:
        lt.call(
            *("Matmul", handle, product, byref(scale), at["b"], rows, at["a"], columns),
            *(byref(scale), at["d"], sums, at["d"], sums, byref(best.algorithm)),
            *(at["workspace"], c_size_t(WORKSPACE_BYTES), c_void_p(stream)),
        )

    return call
