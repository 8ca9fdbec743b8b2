"""`deep_gemm`: the products' tests once more, with copies of every operand on a device.

Each call gets its tensors there as they lie in memory (strides, offsets, and that `c` is `d`), and
what it wrote comes back. On the CPU that only holds the copying to account.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from typing import Any

import pytest

import test_deep_gemm
import test_deep_gemm_grouped
from test_deep_gemm import (  # noqa: F401
    fresh_state,
    test_bf16,
    test_c,
    test_cublaslt_of_float8_and_another_c,
    test_empty_problems,
    test_fp8,
    test_packed_factors,
    test_pitch_of_d_is_kept,
    test_random_operands_are_close,
    test_recipes,
    test_skip_head_mid,
)
from test_deep_gemm_grouped import (  # noqa: F401
    test_contiguous_by_labels,
    test_contiguous_by_prefix_sums,
    test_contiguous_with_packed_factors,
    test_k_grouped_bf16_tn,
    test_k_grouped_fp8_nt,
    test_k_grouped_fp8_tn,
    test_masked,
)

torch = pytest.importorskip("torch")
deep_gemm = importlib.import_module("deep_gemm")

pytestmark = pytest.mark.torch


class Placed:
    """`deep_gemm` on a device, for callers with tensors in host memory."""

    def __init__(self, device: str) -> None:
        self.device, self.calls = device, 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(deep_gemm, name)
        if not inspect.isfunction(found):
            return found
        return functools.partial(self.call, found)

    def call(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        memories: dict[int, tuple[Any, Any]] = {}
        tensors: dict[int, Any] = {}

        def moved(x: Any) -> Any:
            if isinstance(x, (tuple, list)):
                return type(x)(moved(item) for item in x)
            if not isinstance(x, torch.Tensor):
                return x
            if id(x) not in tensors:
                tensors[id(x)] = self.copied(x, memories)
            return tensors[id(x)]

        result = function(*moved(args), **{name: moved(x) for name, x in kwargs.items()})
        self.calls += 1
        for host, other in memories.values():
            host.copy_(other)
        return result.cpu() if isinstance(result, torch.Tensor) else result

    def copied(self, x: Any, memories: dict[int, tuple[Any, Any]]) -> Any:
        """`x` there, in a copy of the memory that it lies in."""
        memory = x.untyped_storage()
        if memory.data_ptr() not in memories:
            whole = torch.empty(0, dtype=torch.uint8).set_(memory)
            memories[memory.data_ptr()] = whole, whole.to(self.device, copy=True)
        other = memories[memory.data_ptr()][1].untyped_storage()
        empty = torch.empty(0, dtype=x.dtype, device=self.device)
        return empty.set_(other, x.storage_offset(), x.shape, x.stride())


@pytest.fixture(autouse=True, params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def placed(request, monkeypatch):
    library = Placed(request.param)
    monkeypatch.setattr(test_deep_gemm, "deep_gemm", library)
    monkeypatch.setattr(test_deep_gemm_grouped, "deep_gemm", library)
    yield
    assert library.calls
