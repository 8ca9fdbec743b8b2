"""`deep_gemm.testing` and the helpers of distributed programs; timing on a GPU if there is one."""

from __future__ import annotations

import importlib
import os
import sys
import time

import numpy as np
import pytest

import oracle

torch = pytest.importorskip("torch")
deep_gemm = importlib.import_module("deep_gemm")
tools = importlib.import_module("deep_gemm.testing")
BENCH = sys.modules["deep_gemm.testing.bench"]

pytestmark = pytest.mark.torch

OURS = [
    ("deepgemm_fp8_gemm", 100.0, 10),
    ("deepgemm_bf16_gemm_decode", 30.0, 10),
    ("deepgemm_general_grouped", 500.0, 5),
    ("dg_quantize", 7.0, 10),
    ("dg_dequantize", 7.0, 10),
    ("dg_scale_layout", 3.0, 10),
    ("nvjet_qqtst_128x256", 50.0, 10),
    ("void at::native::vectorized_elementwise_kernel", 9.0, 20),
]


@pytest.mark.parametrize(
    ("substring", "want"),
    [
        ("fp8_gemm", ["deepgemm_fp8_gemm", "deepgemm_general_grouped"]),
        ("bf16_gemm", ["deepgemm_bf16_gemm_decode", "deepgemm_general_grouped"]),
        ("gemm_", ["deepgemm_fp8_gemm", "deepgemm_bf16_gemm_decode", "deepgemm_general_grouped"]),
        ("gemm", ["deepgemm_fp8_gemm", "deepgemm_bf16_gemm_decode", "deepgemm_general_grouped"]),
        ("quantize", ["dg_quantize", "dg_dequantize"]),
        ("nvjet", ["nvjet_qqtst_128x256"]),
        ("absent", []),
    ],
)
def test_which_kernels_a_substring_finds(substring, want):
    found = [name for name, _, _ in OURS if BENCH._matches(substring, name)]
    assert found == want


def test_mean_times():
    one = [kernel for kernel in OURS if "general" not in kernel[0]]
    assert BENCH.mean_times(one, ("fp8_gemm", "bf16_gemm", "reduce")) == pytest.approx(
        [10e-6, 3e-6, 0.0]
    )
    with pytest.raises(
        RuntimeError, match=r"deepgemm_bf16_gemm_decode, deepgemm_fp8_gemm for 'gemm'"
    ):
        BENCH.mean_times(one, ("gemm",))
    assert BENCH.mean_times(one, ("gemm",), True) == pytest.approx([130e-6 / 20])


def test_kineto_needs_a_gpu_or_steps_aside(monkeypatch):
    calls = []
    monkeypatch.delenv("DG_USE_NVIDIA_TOOLS", raising=False)
    if not torch.cuda.is_available():
        with pytest.raises(RuntimeError, match="bench_kineto: found no CUDA device"):
            tools.bench_kineto(lambda: calls.append(0), "gemm")
        assert calls == []
    monkeypatch.setenv("DG_USE_NVIDIA_TOOLS", "1")
    assert tools.bench_kineto(lambda: calls.append(1), "gemm", num_tests=4) == 1
    assert calls == [1] * 4
    order = []
    found = tools.bench_kineto(
        lambda: order.append("fn"), ("a", "b"), 2, barrier=lambda: order.append("barrier")
    )
    assert found == (1, 1)
    assert order == ["barrier", "fn"] * 2


@pytest.mark.gpu
def test_kineto_measures():
    x = torch.zeros(4096, 4096, dtype=torch.bfloat16, device="cuda")
    d = torch.empty_like(x)

    def work():
        deep_gemm.per_token_cast_to_fp8(x, False)
        deep_gemm.bf16_gemm_nt(x, x, d)

    product, cast = tools.bench_kineto(work, ("bf16_gemm", "quantize"), 5, True)
    assert 1e-4 < product < 1e-3
    assert 1e-6 < cast < product


def test_bench_counts_and_averages():
    calls = []
    seconds = tools.bench(lambda: (calls.append(0), time.sleep(0.01)), 2, 3)
    assert len(calls) == 5
    assert 0.009 < seconds < 0.2


def test_calc_diff(rng):
    x, y = (rng.standard_normal((40, 30)).astype(np.float32) for _ in range(2))
    found = tools.calc_diff(torch.from_numpy(x), torch.from_numpy(y))
    assert float(found) == pytest.approx(oracle.difference(x, y), abs=1e-12)
    assert f"{tools.calc_diff(torch.from_numpy(x), torch.from_numpy(x)):.5f}" == "0.00000"
    zeros = torch.zeros(3, dtype=torch.bfloat16)
    assert tools.calc_diff(zeros, zeros) == 0
    assert tools.calc_diff(zeros, zeros + 1) == 1


def test_count_bytes():
    x, y = torch.zeros(3, 5, dtype=torch.bfloat16), torch.zeros(7)
    assert tools.count_bytes(x, (y, [x, None]), None) == 30 + 28 + 30
    assert tools.count_bytes() == 0


def test_assert_bitwise_equal():
    x = torch.tensor([[0.0, 1.0], [float("nan"), 2.0]])
    tools.assert_bitwise_equal(x, x.t().contiguous().t())
    tools.assert_bitwise_equal(x.to(torch.float8_e4m3fn), x.to(torch.float8_e4m3fn))
    with pytest.raises(AssertionError, match=r"1 of 4 elements differ; the first is number 0"):
        tools.assert_bitwise_equal(x, torch.tensor([[-0.0, 1.0], [float("nan"), 2.0]]))
    with pytest.raises(AssertionError, match=r"found torch.float32 \(2, 2\), need torch.float64"):
        tools.assert_bitwise_equal(x, x.double())
    with pytest.raises(AssertionError, match=r"need torch.float32 \(2, 1\)"):
        tools.assert_bitwise_equal(x, x[:, :1])


def test_conditions(capsys, monkeypatch):
    ran = []

    @tools.test_filter(lambda: len(ran) == 0)
    def once(word, *, times=1):
        """Words."""
        ran.append(word * times)
        return 5

    assert once("a", times=2) == 5
    assert once("b") is None
    assert ran == ["aa"]
    assert "once" in capsys.readouterr().out
    assert once.__doc__ == "Words."

    monkeypatch.setenv("DG_SOMETHING", "1")
    seen = []

    def note():
        seen.append(os.environ.get("DG_SOMETHING"))
        raise KeyError

    for condition in (True, False):
        with pytest.raises(KeyError):
            tools.ignore_env("DG_SOMETHING", lambda condition=condition: condition)(note)()
        assert os.environ["DG_SOMETHING"] == "1"
    assert seen == [None, "1"]
    monkeypatch.delenv("DG_SOMETHING")
    tools.ignore_env("DG_SOMETHING", lambda: True)(lambda: None)()
    assert "DG_SOMETHING" not in os.environ


def test_suppression(capfd):
    with tools.empty_suppress():
        print("kept")

    def chatter():
        with tools.suppress_stdout_stderr():
            print("lost")
            print("lost", file=sys.stderr)
            os.write(1, b"lost")
            os.write(2, b"lost")
            raise KeyError

    with pytest.raises(KeyError):
        chatter()
    print("back")
    os.write(2, b"back")
    found = capfd.readouterr()
    assert (found.out, found.err) == ("kept\nback\n", "back")


def test_arch_major(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    assert tools.get_arch_major() == 9


def _gather(rank, port, results):
    torch.distributed.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", world_size=2, rank=rank
    )
    x = torch.full((2, 3 + rank), float(rank))
    results[rank] = deep_gemm.uneven_all_gather(x, dim=1)
    torch.distributed.destroy_process_group()


def test_uneven_all_gather():
    import socket

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    context = torch.multiprocessing.get_context("spawn")
    with context.Manager() as manager:
        results = manager.dict()
        torch.multiprocessing.spawn(_gather, (port, results), nprocs=2)
        want = torch.tensor([[0.0] * 3 + [1.0] * 4] * 2)
        assert [torch.equal(results[rank], want) for rank in range(2)] == [True, True]
