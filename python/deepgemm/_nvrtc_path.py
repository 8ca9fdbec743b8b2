"""Where Python wheels keep NVRTC."""

import sys
from pathlib import Path


def directories() -> list[str]:
    """Directories on ``sys.path`` that hold a libnvrtc, in the order of ``sys.path``.

    The wheels ``nvidia-cuda-nvrtc`` (CUDA 13: ``nvidia/cu13/lib``) and ``nvidia-cuda-nvrtc-cu12``
    (``nvidia/cuda_nvrtc/lib``) install there; torch and jax bring them along. Nothing is imported
    or loaded.
    """
    found: list[str] = []
    for entry in sys.path:
        root = Path(entry or ".") / "nvidia"
        try:
            candidates = sorted(root.glob("*/lib/libnvrtc.so*"))
        except OSError:
            continue
        for library in candidates:
            directory = str(library.parent)
            if directory not in found:
                found.append(directory)
    return found
