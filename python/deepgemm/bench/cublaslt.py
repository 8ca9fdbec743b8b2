"""cuBLASLt's products, by ctypes: as a rival that no framework exposes in full.

``torch._scaled_mm`` cannot add to its output, ``torch.mm`` has no FP32 output of BF16 inputs. The
library is the one that the framework has loaded. Constants and signatures are those of cublasLt.h.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import byref, c_float, c_int, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from dataclasses import dataclass
from typing import NamedTuple

_NAMES = ("libcublasLt.so.13", "libcublasLt.so.12")
_KINDS = {"float32": 0, "bfloat16": 14, "float8_e4m3fn": 28}  # cudaDataType
_COMPUTE_32F = 68
# Attributes of a matmul descriptor.
_TRANS_A, _TRANS_B, _A_SCALE_POINTER, _B_SCALE_POINTER = 3, 4, 17, 18
_OP_N, _OP_T = 0, 1
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


@dataclass(frozen=True)
class Product:
    """D [M, N] = A [M, K] B [K, N], or D += A B, all row-major; layout as in ``deepgemm.gemm``."""

    m: int
    n: int
    k: int
    layout: str
    in_dtype: str
    out_dtype: str
    accumulate: bool


class ColumnMajor(NamedTuple):
    """A matrix as cuBLASLt sees it, without padding, and whether it must transpose it."""

    rows: int
    columns: int
    is_transposed: bool = False


def column_major(product: Product) -> dict[str, ColumnMajor]:
    """Return what lies in memory, to compute D^T = B^T A^T: the matrices b, a and d."""
    m, n, k = product.m, product.n, product.k
    k_first_a, k_first_b = product.layout[0] == "t", product.layout[1] == "n"
    return {
        "b": ColumnMajor(n, k) if k_first_b else ColumnMajor(k, n, True),
        "a": ColumnMajor(m, k, True) if k_first_a else ColumnMajor(k, m),
        "d": ColumnMajor(n, m),
    }


def gemm(product: Product, addresses: dict[str, int]) -> Callable[[int], None]:
    """Return a call, which takes a CUDA stream, of the heuristic's first algorithm.

    Args:
        product: what to compute, with FP32 sums.
        addresses: of device memory: ``"a"``, ``"b"``, ``"d"``; ``"workspace"``,
            ``WORKSPACE_BYTES`` bytes; for FP8 also ``"one"``, a float32 of 1, the factor of A and
            of B.

    Raises:
        RuntimeError: no cuBLASLt could be loaded, or it refused something.
    """
    lt, matrices = _Library(), column_major(product)
    handle = lt.create("")

    def layout(dtype: str, matrix: ColumnMajor) -> c_void_p:
        extents = (c_uint64(matrix.rows), c_uint64(matrix.columns), c_int64(matrix.rows))
        return lt.create("MatrixLayout", c_int(_KINDS[dtype]), *extents)

    b, a = (layout(product.in_dtype, matrices[name]) for name in ("b", "a"))
    d = layout(product.out_dtype, matrices["d"])
    description = lt.create("MatmulDesc", c_int(_COMPUTE_32F), c_int(_KINDS["float32"]))
    for attribute, name in ((_TRANS_A, "b"), (_TRANS_B, "a")):
        operation = _OP_T if matrices[name].is_transposed else _OP_N
        lt.set("MatmulDesc", description, attribute, c_int32(operation))
    if "one" in addresses:
        for attribute in (_A_SCALE_POINTER, _B_SCALE_POINTER):
            lt.set("MatmulDesc", description, attribute, c_void_p(addresses["one"]))
    preference = lt.create("MatmulPreference")
    lt.set("MatmulPreference", preference, _MAX_WORKSPACE_BYTES, c_uint64(WORKSPACE_BYTES))
    best, found = _HeuristicResult(), c_int()
    lt.call(
        *("MatmulAlgoGetHeuristic", handle, description, b, a, d, d, preference),
        *(c_int(1), byref(best), byref(found)),
    )
    if found.value == 0:
        raise RuntimeError(f"cuBLASLt has no algorithm for {product}")
    alpha, beta = c_float(1.0), c_float(1.0 if product.accumulate else 0.0)
    at = {name: c_void_p(address) for name, address in addresses.items()}

    def call(stream: int) -> None:
        lt.call(
            *("Matmul", handle, description, byref(alpha), at["b"], b, at["a"], a),
            *(byref(beta), at["d"], d, at["d"], d, byref(best.algorithm)),
            *(at["workspace"], c_size_t(WORKSPACE_BYTES), c_void_p(stream)),
        )

    return call
