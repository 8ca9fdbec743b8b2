"""Tensor-core matrix products for NVIDIA Hopper: FP8 with fine-grained scales, BF16, FP16.

Kernels are compiled at run time by NVRTC into cubins cached on disk. Arrays of any framework are
taken through DLPack (PyTorch, CuPy, JAX, NumPy); arrays in host memory are computed by the CPU
reference backend. Importing this package loads no driver, no compiler and no framework: each name
below is fetched from its module at first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "gemm": "_gemm",
    "grouped_gemm": "_grouped",
    "k_grouped_gemm": "_grouped",
    "masked_gemm": "_grouped",
    "Quantized": "_quantize",
    "quantize": "_quantize",
    "dequantize": "_quantize",
    "view": "_view",
    "View": "_view",
    "DeviceArray": "_library",
    "Plan": "_library",
    "Policy": "_library",
    "Error": "_library",
    "CompileError": "_library",
    "DriverError": "_library",
    "options": "_options",
    "plan": "_plan",
    "set_options": "_options",
    "get_options": "_options",
    "Report": "_runtime",
    "info": "_runtime",
    "cache_info": "_runtime",
    "clear_cache": "_runtime",
    "explain": "_runtime",
    "synchronize": "_runtime",
    "warmup": "_runtime",
}
_SUBMODULES = ("layout",)

__all__ = [
    "CompileError",
    "DeviceArray",
    "DriverError",
    "Error",
    "Plan",
    "Policy",
    "Quantized",
    "Report",
    "View",
    "__version__",
    "cache_info",
    "clear_cache",
    "dequantize",
    "explain",
    "gemm",
    "get_options",
    "grouped_gemm",
    "info",
    "k_grouped_gemm",
    "layout",
    "masked_gemm",
    "options",
    "plan",
    "quantize",
    "set_options",
    "synchronize",
    "view",
    "warmup",
]

if TYPE_CHECKING:
    from deepgemm import layout
    from deepgemm._gemm import gemm
    from deepgemm._grouped import grouped_gemm, k_grouped_gemm, masked_gemm
    from deepgemm._library import CompileError, DeviceArray, DriverError, Error, Plan, Policy
    from deepgemm._options import get_options, options, set_options
    from deepgemm._plan import plan
    from deepgemm._quantize import Quantized, dequantize, quantize
    from deepgemm._runtime import (
        Report,
        cache_info,
        clear_cache,
        explain,
        info,
        synchronize,
        warmup,
    )
    from deepgemm._view import View, view


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    elif name in _SUBMODULES:
        value = import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
