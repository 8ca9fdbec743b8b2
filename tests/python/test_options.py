"""Options belong to a thread, and come back after a with block."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import deepgemm

UNSET = {
    **dict.fromkeys(("num_sms", "pdl", "constant_b", "deterministic")),
    "strict_jit": False,
}


def test_with_block():
    assert deepgemm.get_options() == UNSET
    with deepgemm.options(num_sms=100, pdl=True):
        assert deepgemm.get_options() == {**UNSET, "num_sms": 100, "pdl": True}
        with deepgemm.options(pdl=False, deterministic=True):
            inner = {"num_sms": 100, "pdl": False, "deterministic": True}
            assert deepgemm.get_options() == {**UNSET, **inner}
        with deepgemm.options(constant_b=True):
            assert deepgemm.get_options()["constant_b"] is True
        assert deepgemm.get_options()["pdl"] is True
    assert deepgemm.get_options() == UNSET


def test_comes_back_after_an_error():
    def fails() -> None:
        with deepgemm.options(num_sms=3, strict_jit=True):
            assert deepgemm.get_options()["strict_jit"] is True
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert deepgemm.get_options() == UNSET


def test_per_device():
    with deepgemm.options(num_sms=64, device=1):
        assert deepgemm.get_options(device=1)["num_sms"] == 64
        assert deepgemm.get_options()["num_sms"] is None
    assert deepgemm.get_options(device=1)["num_sms"] is None


def test_per_thread():
    seen = []
    with deepgemm.options(num_sms=7):
        other = threading.Thread(target=lambda: seen.append(deepgemm.get_options()["num_sms"]))
        other.start()
        other.join()
        assert deepgemm.get_options()["num_sms"] == 7
    assert seen == [None]


def test_set_options():
    deepgemm.set_options(num_sms=5)
    assert deepgemm.get_options()["num_sms"] == 5
    deepgemm.set_options(num_sms=0)
    assert deepgemm.get_options()["num_sms"] == 0


def test_strict_jit_goes_back_to_the_environment(monkeypatch):
    with deepgemm.options(strict_jit=False):
        monkeypatch.setenv("DEEPGEMM_STRICT_JIT", "1")
        assert deepgemm.get_options()["strict_jit"] is False
    assert deepgemm.get_options()["strict_jit"] is True
    monkeypatch.setenv("DEEPGEMM_STRICT_JIT", "0")
    assert deepgemm.get_options()["strict_jit"] is False
    with deepgemm.options(strict_jit=True), deepgemm.options(strict_jit=False):
        assert deepgemm.get_options()["strict_jit"] is False
    assert deepgemm.get_options()["strict_jit"] is False


def test_explain_honours_num_sms():
    def explained(m):
        return deepgemm.explain("gemm", m, 7168, 2048, device=-1)

    assert explained(4096).grid > 20
    assert explained(8).kernel == "deepgemm_fp8_gemm_decode"
    with deepgemm.options(num_sms=20):
        assert explained(4096).grid <= 20
        assert explained(8).kernel == "deepgemm_fp8_gemm"  # decode would need more CTAs
    report = deepgemm.explain("gemm", 4096, 7168, 2048, device=-1, policy={"num_sms": 10})
    assert report.grid <= 10


def test_errors():
    with pytest.raises(ValueError, match="num_sms: found -1"):
        deepgemm.set_options(num_sms=-1)


def test_threads_compute_at_once():
    x = np.ones((64, 512), np.float32)
    results = []
    threads = [
        threading.Thread(target=lambda: results.append(deepgemm.gemm(x, x)[0, 0])) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [512] * 8


USES_SETTINGS = """
import numpy as np, deepgemm
from deepgemm import _ext
x = np.ones((2, 2), np.float32)
for _ in range(2):
    deepgemm.gemm(x, x)
    assert not _ext.strict()
    assert deepgemm.cache_info()["limit"] == 2**30
"""


def test_a_wrong_value_of_a_setting_is_one_warning_and_stops_nothing():
    wrong = ("CPU_THREADS", "STRICT_JIT", "CACHE_MAX_BYTES", "LOG")
    done = subprocess.run(
        [sys.executable, "-c", USES_SETTINGS],
        env={**os.environ, **{f"DEEPGEMM_{name}": "plenty" for name in wrong}},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == len(wrong), done.stderr
    for name in wrong:
        begin = f'deepgemm: warning: DEEPGEMM_{name}: found "plenty", need '
        assert sum(line.startswith(begin) for line in lines) == 1, done.stderr
