"""What a repeated call costs, in instructions: a count, so that any machine can hold the bound.

From C++ the program is tests/cpp/repeated_call.cpp, from Python the loop below. On the fake driver,
whose part is some 300 instructions, a call was counted at the numbers in `COUNTED` (g++ 12,
Release; from C++ its arrays have moved). Before calls were prepared, a gemm from C++ took 7 300 and
a grouped product 9 900.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fake_driver import BUILD, needs_fake_driver

PROGRAM = BUILD / "repeated_call"
COUNTED = {"gemm": 1480, "grouped_gemm": 2330, "plan": 1290}
COUNTED_FROM_PYTHON = {"gemm": 3710, "plan": 3260}  # Python's own loop takes 600 of each
SLACK = 1.3  # other compilers, other C libraries, other Pythons

LOOP = """
import sys, deepgemm
from deepgemm import DeviceArray, Quantized
factors = DeviceArray((2, 64), "float32").strided((64, 2), (1, 64))
a = Quantized(DeviceArray((64, 256), "float8_e4m3fn"), factors, (1, 128))
factors = DeviceArray((2, 2), "float32")
b = Quantized(DeviceArray((256, 256), "float8_e4m3fn"), factors, (128, 128))
out = DeviceArray((64, 256), "bfloat16")
call = deepgemm.gemm if sys.argv[1] == "gemm" else deepgemm.plan("gemm", a, b, out)
def repeat(call, a, b, out, count):
    for _ in range(count):
        call(a, b, out)
repeat(call, a, b, out, int(sys.argv[2]))
"""


def instructions(*program: str | Path, **environment: str) -> int:
    done = subprocess.run(
        ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"Collected : (\d+)", done.stderr)
    assert found, done.stderr
    return int(found[1])


needs_valgrind = pytest.mark.skipif(
    shutil.which("valgrind") is None, reason="valgrind counts the instructions"
)


@needs_fake_driver
@needs_valgrind
@pytest.mark.skipif(not PROGRAM.exists(), reason="repeated_call is not built")
@pytest.mark.parametrize("op", COUNTED)
def test_a_repeated_call_is_cheap(op: str) -> None:
    calls = 500
    more, fewer = (instructions(PROGRAM, op, str(count)) for count in (2 * calls, calls))
    cost = (more - fewer) / calls
    print(f"{op}: {cost:.0f} instructions per call")
    assert 500 < cost < SLACK * COUNTED[op]


@needs_fake_driver
@needs_valgrind
@pytest.mark.parametrize("op", COUNTED_FROM_PYTHON)
def test_a_repeated_call_from_python_is_cheap(op: str, tmp_path: Path) -> None:
    environment = {
        "DEEPGEMM_CUDA_DRIVER_PATH": str(BUILD / "libfake_cuda.so"),
        "DEEPGEMM_NVRTC_PATH": str(BUILD / "libfake_nvrtc.so"),
        "DEEPGEMM_CACHE_DIR": str(tmp_path),
        "FAKE_CUDA_QUIET": "1",
        "PYTHONHASHSEED": "0",  # else two runs differ by more than their calls
    }
    instructions(sys.executable, "-c", LOOP, op, "1", **environment)  # compiles the kernel
    calls = 2000
    more, fewer = (
        instructions(sys.executable, "-c", LOOP, op, str(count), **environment)
        for count in (2 * calls, calls)
    )
    cost = (more - fewer) / calls
    print(f"{op}: {cost:.0f} instructions per call from Python")
    assert 1000 < cost < SLACK * COUNTED_FROM_PYTHON[op]
