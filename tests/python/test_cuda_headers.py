"""cmake/CudaHeaders.cmake: both headers from one place if one has both; else it says what to do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

MODULE = Path(__file__).parents[2] / "cmake" / "CudaHeaders.cmake"
CMAKE = shutil.which("cmake", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
HEADERS = ("cuda.h", "nvrtc.h")

pytestmark = pytest.mark.skipif(CMAKE is None, reason="cmake is not installed")


def configure(folder: Path, toolkit: tuple[str, ...], wheels: tuple[str, ...]) -> str:
    """What CMake says where a toolkit and the wheels of a Python have these headers."""
    for place, names in (("toolkit/include", toolkit), ("site/nvidia/cu13/include", wheels)):
        (folder / place).mkdir(parents=True)
        for name in names:
            (folder / place / name).touch()
    (folder / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.25)\nproject(x LANGUAGES NONE)\ninclude({MODULE})\n"
    )
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={folder}/site exec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    assert CMAKE is not None
    done = subprocess.run(
        [CMAKE, "-S.", "-Bbuild", f"-DPython_EXECUTABLE={python}"],
        env={"PATH": "/usr/bin:/bin", "CUDA_HOME": str(folder / "toolkit")},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=folder,
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("toolkit", "wheels", "cuda", "nvrtc"),
    [
        (HEADERS, HEADERS, "toolkit", "toolkit"),
        (("cuda.h",), HEADERS, "site", "site"),
        (("cuda.h",), ("nvrtc.h",), "toolkit", "site"),
    ],
)
def test_one_place_if_possible(
    toolkit: tuple[str, ...], wheels: tuple[str, ...], cuda: str, nvrtc: str, tmp_path: Path
) -> None:
    if (Path("/usr/local/cuda/include") / "nvrtc.h").exists():
        pytest.skip("this machine has a toolkit of its own")
    text = configure(tmp_path, toolkit, wheels)
    assert f"cuda.h from {tmp_path}/{cuda}" in text
    assert f"nvrtc.h from {tmp_path}/{nvrtc}" in text


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    if (Path("/usr/local/cuda/include") / "nvrtc.h").exists():
        pytest.skip("this machine has a toolkit of its own")
    text = configure(tmp_path, ("cuda.h",), ())
    assert "nvrtc.h not found" in text
    assert 'pip install "nvidia-cuda-runtime>=13,<14" "nvidia-cuda-nvrtc>=13,<14"' in text
