"""`deep_gemm`: settings of the process, and environment variables set at any time."""

from __future__ import annotations

import importlib
import os

import pytest

import deepgemm
from test_deep_gemm import fresh_state, operand, poisoned

torch = pytest.importorskip("torch")
deep_gemm = importlib.import_module("deep_gemm")
STATE = importlib.import_module("deep_gemm._state")

pytestmark = pytest.mark.torch
__all__ = ["fresh_state"]  # runs for each test


def test_settings_reach_each_call(monkeypatch, rng):
    a, _ = operand(rng, 4, 256, (1, 128))
    b, _ = operand(rng, 8, 256, (128, 128))
    seen, real = [], deepgemm.gemm

    def spy(*args, **kwargs):
        seen.append({name: deepgemm.get_options()[name] for name in ("num_sms", "pdl")})
        return real(*args, **kwargs)

    monkeypatch.setattr(deepgemm, "gemm", spy)
    before = deepgemm.get_options()
    with deepgemm.options(num_sms=77):
        deep_gemm.fp8_gemm_nt(a, b, poisoned(4, 8))  # never set here: deepgemm's own counts
    deep_gemm.set_num_sms(101)
    deep_gemm.set_pdl(True)
    deep_gemm.fp8_gemm_nt(a, b, poisoned(4, 8))
    assert (deep_gemm.get_num_sms(), deep_gemm.get_pdl()) == (101, True)
    deep_gemm.set_num_sms(0)
    deep_gemm.set_pdl(False)
    deep_gemm.fp8_gemm_nt(a, b, poisoned(4, 8))
    assert [(s["num_sms"], bool(s["pdl"])) for s in seen] == [(77, False), (101, True), (0, False)]
    assert deepgemm.get_options() == before


def test_settings_are_kept(monkeypatch):
    assert (deep_gemm.get_pdl(), deep_gemm.get_tc_util()) == (False, 100)
    monkeypatch.setattr(STATE.state, "tc_util", 100)
    monkeypatch.setattr(STATE.state, "mk_alignment", 128)
    deep_gemm.set_tc_util(40)
    assert deep_gemm.get_tc_util() == 40
    deep_gemm.set_tc_util(0)
    assert deep_gemm.get_tc_util() == 100
    deep_gemm.set_mk_alignment_for_contiguous_layout(64)
    assert deep_gemm.get_m_alignment_for_contiguous_layout() == 64
    assert deep_gemm.get_k_alignment_for_contiguous_layout() == 64
    assert deep_gemm.get_theoretical_mk_alignment_for_contiguous_layout(3) == 128
    monkeypatch.setattr(STATE.state, "block_size_multiple_of", 1)
    deep_gemm.set_block_size_multiple_of((16, 32))
    assert STATE.state.block_size_multiple_of == (16, 32)
    for call, wrong in ((deep_gemm.set_num_sms, -1), (deep_gemm.set_tc_util, 101)):
        with pytest.raises(ValueError, match=f"found {wrong}"):
            call(wrong)


def test_environment_is_followed_after_import(monkeypatch, tmp_path, rng):
    for name in ("DEEPGEMM_CACHE_DIR", "DEEPGEMM_LOG", "DG_JIT_CACHE_DIR", "DG_JIT_DEBUG"):
        monkeypatch.delenv(name, raising=False)

    def after_a_call():
        deep_gemm.bf16_gemm_nt(*(torch.zeros(2, 8, dtype=torch.bfloat16),) * 2, poisoned(2, 2))
        return os.environ.get("DEEPGEMM_CACHE_DIR"), os.environ.get("DEEPGEMM_LOG")

    assert after_a_call() == (None, None)
    monkeypatch.setenv("DG_JIT_CACHE_DIR", str(tmp_path / "one"))
    monkeypatch.setenv("DG_JIT_DEBUG", "1")
    assert after_a_call() == (str(tmp_path / "one"), "debug")
    assert deepgemm.info()["cache_directory"] == str(tmp_path / "one")
    monkeypatch.setenv("DG_JIT_CACHE_DIR", str(tmp_path / "two"))
    monkeypatch.setenv("DG_JIT_DEBUG", "0")
    assert after_a_call() == (str(tmp_path / "two"), None)
    os.environ["DEEPGEMM_CACHE_DIR"] = str(tmp_path / "mine")  # the library's own name wins
    assert after_a_call()[0] == str(tmp_path / "mine")
    del os.environ["DEEPGEMM_CACHE_DIR"]
    assert after_a_call()[0] == str(tmp_path / "two")
    monkeypatch.delenv("DG_JIT_CACHE_DIR")
    assert after_a_call() == (None, None)


def test_configs_are_printed_once(monkeypatch, capfd):
    x = torch.zeros(8, 64, dtype=torch.bfloat16)
    monkeypatch.setattr(STATE, "_printed", set())
    deep_gemm.bf16_gemm_nt(x, x, poisoned(8, 8))
    assert capfd.readouterr().out == ""
    monkeypatch.setenv("DG_PRINT_CONFIGS", "1")
    for _ in range(2):
        deep_gemm.bf16_gemm_nt(x, x, poisoned(8, 8))
    printed = capfd.readouterr().out
    assert printed.count("M=8, N=8, K=64: deepgemm_") == 1
    stack, rows = x.view(1, 8, 64), torch.full((1,), 8, dtype=torch.int32)
    deep_gemm.m_grouped_bf16_gemm_nt_contiguous(
        x, stack, poisoned(8, 8), torch.zeros(8, dtype=torch.int32)
    )
    deep_gemm.m_grouped_bf16_gemm_nt_masked(stack, stack, poisoned(1, 8, 8), rows, 8)
    gradient = torch.empty(1, 64, 64)
    deep_gemm.k_grouped_bf16_gemm_tn_contiguous(x, x, gradient, [8], rows)
    printed = capfd.readouterr().out
    assert printed.count("M=8, N=8, K=64, groups=1: deepgemm_") == 2
    assert printed.count("M=64, N=64, K=8, groups=1: deepgemm_") == 1
