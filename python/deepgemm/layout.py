"""Memory layouts of scale factors."""

import sys
from typing import Any

_ROW_BYTES = 16  # TMA moves multiples of 16 bytes between rows


def sf_fast(sf: Any) -> Any:
    """Copy scale factors into the layout that the kernels read fastest.

    Args:
        sf: [rows, K/k] float32 of numpy, torch or cupy; any strides.

    Returns:
        An array of the same shape, values, dtype and framework whose rows are contiguous
        (stride 1) and whose second stride is padded to a multiple of 16 bytes; ``sf`` itself if it
        already is so.

    Raises:
        TypeError: ``sf`` is of another framework. ValueError: it is not of rank 2.
    """
    framework = type(sf).__module__.partition(".")[0]
    if framework not in ("numpy", "torch", "cupy"):
        raise TypeError(
            f"sf: found an object of type {type(sf).__module__}.{type(sf).__qualname__}, "
            "need an array of numpy, torch or cupy"
        )
    if sf.ndim != 2:
        raise ValueError(f"sf: found rank {sf.ndim}, need rank 2")
    rows, blocks = sf.shape
    size = sf.element_size() if framework == "torch" else sf.itemsize
    padded = -(-rows * size // _ROW_BYTES) * _ROW_BYTES // size
    if _strides(sf, framework, size) == (1, padded):
        return sf
    module = sys.modules[framework]
    place = {"device": sf.device} if framework == "torch" else {}
    base = module.empty((blocks, padded), dtype=sf.dtype, **place)
    fast = base.T[:rows]
    fast[...] = sf
    return fast


def _strides(sf: Any, framework: str, size: int) -> tuple[int, ...]:
    """Strides in elements."""
    if framework == "torch":
        return tuple(sf.stride())
    return tuple(stride // size for stride in sf.strides)
