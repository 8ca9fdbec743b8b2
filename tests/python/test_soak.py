"""tools/soak.py: a few seconds of it find nothing wrong, and it finds what is wrong."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import deepgemm

TOOLS = Path(__file__).parents[2] / "tools"
sys.path.insert(0, str(TOOLS))
import soak  # noqa: E402

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.skipif(
        not deepgemm.info()["nvrtc_path"], reason="there is no NVRTC to compile kernels with"
    ),
]


def test_a_short_soak_in_host_memory(tmp_path):
    figures = tmp_path / "figures.json"
    done = subprocess.run(
        [sys.executable, str(TOOLS / "soak.py"), "--minutes", "0.2", "--processes", "2",
         "--threads", "2", "--device", "-1", "--json", str(figures)],
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(figures.read_text())
    assert found["wrong"] == []
    assert found["errors"] == 0
    assert found["processes"] >= 2
    assert found["product"] > 0 < found["scaled"]
    assert found["groups"] > 0 < found["prepare"]
    assert found["kernels compiled"] > 0
    assert found["faults injected"] > 5
    assert "errors" in done.stdout


def test_wrong_results_and_exceptions_are_counted(monkeypatch):
    worker = soak.Worker(-1, 3)
    draw = random.Random(1)
    monkeypatch.setattr(deepgemm, "gemm", lambda *_, **__: np.zeros((1, 1), np.float32))

    def integers(*shape):
        return np.ones(shape, np.float32)

    assert worker.product(draw, integers).startswith("gemm ")
    assert worker.scaled(draw, integers).startswith("FP8 gemm ")

    def fails(*_, **__):
        raise deepgemm.Error("the driver is gone")

    monkeypatch.setattr(deepgemm, "gemm", fails)
    monkeypatch.setattr(deepgemm, "warmup", fails)
    worker.run(1, 0.5)
    assert any("the driver is gone" in problem for problem in worker.wrong)


def test_every_fault_changes_the_cache(tmp_path):
    faults = soak.Faults(tmp_path, 5)
    for kind in (faults.flip, faults.cut, faults.empty, faults.remove, faults.foreign, faults.old):
        entry = tmp_path / "kernel.deepgemm"
        entry.write_bytes(b"x" * 100)
        before = entry.stat().st_mtime
        kind(faults.entry())
        same = entry.exists() and entry.read_bytes() == b"x" * 100
        assert not same or entry.stat().st_mtime != before, kind.__name__
    faults.wipe(None)
    assert not tmp_path.exists()
    faults.inject()  # with nothing there it is no error
