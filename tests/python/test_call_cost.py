"""What a repeated call costs, in instructions: a count, so that any machine can hold the bound.

The program is tests/cpp/repeated_call.cpp. On the fake driver, whose part is some 200 instructions,
a call whose arrays have moved was counted at the numbers in `COUNTED` (g++ 12, Release). Before
calls were prepared, a gemm took 7 300 and a grouped product 9 900.
"""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from fake_driver import BUILD, needs_fake_driver

PROGRAM = BUILD / "repeated_call"
COUNTED = {"gemm": 1730, "grouped_gemm": 2610, "plan": 1570}
SLACK = 1.3  # other compilers, other C libraries


def instructions(op: str, calls: int) -> int:
    done = subprocess.run(
        ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", PROGRAM, op, str(calls)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"Collected : (\d+)", done.stderr)
    assert found, done.stderr
    return int(found[1])


@needs_fake_driver
@pytest.mark.skipif(not PROGRAM.exists(), reason="repeated_call is not built")
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind counts the instructions")
@pytest.mark.parametrize("op", COUNTED)
def test_a_repeated_call_is_cheap(op: str) -> None:
    calls = 500
    cost = (instructions(op, 2 * calls) - instructions(op, calls)) / calls
    print(f"{op}: {cost:.0f} instructions per call")
    assert 500 < cost < SLACK * COUNTED[op]
