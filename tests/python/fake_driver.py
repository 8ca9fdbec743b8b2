"""Programs on the C++ tests' libcuda, which has two H200 and runs nothing, if it is built."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BUILD = Path(__file__).parents[2] / "build" / "cpp"
needs_fake_driver = pytest.mark.skipif(
    not (BUILD / "libfake_cuda.so").exists() or not (BUILD / "libfake_nvrtc.so").exists(),
    reason="the fake driver is not built (cmake --build build/cpp)",
)


def run_on_fake(cache: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the fake driver and the fake NVRTC; nothing is recorded, no call fails."""
    environment = {
        **os.environ,
        "DEEPGEMM_CUDA_DRIVER_PATH": str(BUILD / "libfake_cuda.so"),
        "DEEPGEMM_NVRTC_PATH": str(BUILD / "libfake_nvrtc.so"),
        "DEEPGEMM_CACHE_DIR": str(cache),
        "FAKE_CUDA_QUIET": "1",
    }
    return subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
