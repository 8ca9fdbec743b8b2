"""The runtime on a GPU: CUDA graphs of every operation at its first use, streams, devices, threads,
fork, exit. Each body runs in a child process with a time limit. By hand:

    python tests/python/test_gpu_runtime.py threads 0
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import deepgemm
import oracle
from gpu_place import run_in_a_child
from test_exit import EXIT

pytestmark = [pytest.mark.gpu, pytest.mark.torch]
Call = Callable[[], Any]


def integers(shape: tuple[int, ...], dtype: Any, seed: int) -> Any:
    """Small whole numbers, of which every product and sum here is exact."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-2, 3, shape, generator=generator).to("cuda", torch.float32).to(dtype)


def fp8(rows: int, k: int, seed: int, block: int = 1, stack: int = 0) -> Any:
    """(values, factors of 1 or 2)."""
    import torch

    front = (stack,) if stack else ()
    sf_shape = (*front, -(-rows // block), -(-k // 128))
    sf = 1.0 + (integers(sf_shape, torch.float32, seed + 1) > 0)
    return integers((*front, rows, k), torch.float8_e4m3fn, seed), sf


def int32(*values: int) -> Any:
    import torch

    return torch.tensor(values, dtype=torch.int32, device="cuda")


def every_operation() -> dict[str, tuple[list[Any], Call]]:
    """Name -> (arrays whose contents may change, the call)."""
    import torch

    bf16, f32 = torch.bfloat16, torch.float32
    pair, column = ((1, 128), (128, 128)), ((1, 128), (1, 128))
    made: dict[str, tuple[list[Any], Call]] = {}

    def add(name: str, arrays: list[Any], call: Call) -> None:
        made[name] = (arrays, call)

    for name, m in (("decode", 8), ("prefill", 300)):
        a, b = fp8(m, 512, 1), fp8(640, 512, 3, 128)
        out = torch.zeros(m, 640, dtype=bf16, device="cuda")
        add(f"FP8 {name}", [a[0], b[0], out],
            lambda a=a, b=b, o=out: deepgemm.gemm(a, b, o, granularity=pair))  # fmt: skip
    a, b = fp8(256, 512, 5), fp8(384, 512, 7)
    total = torch.zeros(256, 384, dtype=f32, device="cuda")
    add("FP8 into FP32", [a[0], b[0], total],
        lambda: deepgemm.gemm(a, b, total, granularity=column))  # fmt: skip
    x, y = integers((264, 256), bf16, 9), integers((264, 136), bf16, 10)
    plus = integers((256, 136), bf16, 11)
    add("BF16 tn with c", [x, y, plus],
        lambda: deepgemm.gemm(x, y, plus, c=integers_c, layout="tn"))  # fmt: skip
    integers_c = integers((256, 136), bf16, 12)
    s, t = integers((3, 70, 128), torch.float16, 13), integers((3, 96, 128), torch.float16, 14)
    batch = torch.zeros(3, 70, 96, dtype=torch.float16, device="cuda")
    add("batch", [s, t, batch], lambda: deepgemm.gemm(s, t, batch))
    u, v = integers((65, 33), f32, 15), integers((17, 33), f32, 16)
    general = torch.zeros(65, 17, dtype=f32, device="cuda")
    add("general", [u, v, general], lambda: deepgemm.gemm(u, v, general))
    rows, experts, options = fp8(300, 512, 17), fp8(256, 512, 19, 128, 4), {"granularity": pair}
    grouped = torch.zeros(300, 256, dtype=bf16, device="cuda")
    counts = int32(100, 50, 0, 150)
    add("groups", [rows[0], experts[0], grouped],
        lambda: deepgemm.grouped_gemm(rows, experts, counts, grouped, **options))  # fmt: skip
    masked_rows = fp8(70, 512, 21, 1, 4)
    masked, live = torch.zeros(4, 70, 256, dtype=bf16, device="cuda"), int32(1, 70, 0, 33)
    add("masks", [masked_rows[0], live, masked],
        lambda: deepgemm.masked_gemm(masked_rows, experts, live, masked, **options))  # fmt: skip
    g, h = integers((384, 128), bf16, 23), integers((384, 96), bf16, 24)
    along, ks = torch.zeros(3, 128, 96, dtype=f32, device="cuda"), int32(100, 0, 284)
    add("groups of K", [g, h, along],
        lambda: deepgemm.k_grouped_gemm(g, h, ks, along, layout="tn"))  # fmt: skip
    return made


def graphs() -> None:
    """Each operation's first use is inside a capture; replays follow what the arrays hold then."""
    import torch

    for name, (arrays, call) in every_operation().items():
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
        *inputs, out = arrays
        for step in range(3):
            for x in inputs:
                if x.dtype != torch.int32:
                    x.copy_(x.float().roll(1 + step, -1).to(x.dtype))
            out.zero_()
            call()
            want = out.clone()
            out.fill_(3)
            graph.replay()
            torch.cuda.synchronize()
            untouched = torch.full_like(out, 3)
            # Rows of no group keep what they held: 0 after the call, 3 after the replay.
            same = (out == want) | ((out == untouched) & (want == 0))
            assert bool(same.all()), f"{name}, replay {step}"
            assert bool((want != 0).any()), f"{name}: nothing was computed"
    quantize_in_a_graph()


def quantize_in_a_graph() -> None:
    import torch

    x = torch.randn(129, 577, device="cuda")
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        q = deepgemm.quantize(x)
        back = deepgemm.dequantize(q)
    x.copy_(torch.randn(129, 577))
    graph.replay()
    torch.cuda.synchronize()
    values, sf = oracle.quantize(x.cpu().numpy(), (1, 128))
    assert np.array_equal(q.values.view(torch.uint8).cpu().numpy(), values.view(np.uint8))
    assert np.array_equal(q.sf.cpu().numpy(), sf)
    assert float((back - x).abs().max() / x.abs().max()) < 0.1


def streams() -> None:
    """The legacy stream, that of each thread, and a framework's own, each behind late inputs."""
    import torch

    x, y = integers((256, 256), torch.bfloat16, 1), integers((128, 256), torch.bfloat16, 2)
    want = x.float() @ y.float().T
    side = torch.cuda.Stream()
    for stream in (0, 1, 2, side, side.cuda_stream):
        out = torch.zeros(256, 128, dtype=torch.float32, device="cuda")
        torch.cuda.synchronize()
        deepgemm.gemm(x, y, out, stream=stream)
        torch.cuda.synchronize()
        assert torch.equal(out, want), stream
    # Two products one behind the other on a stream, while another stream works on its own.
    first, second = (torch.zeros(256, 128, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    other = torch.zeros(256, 128, dtype=torch.float32, device="cuda")
    for _ in range(100):
        deepgemm.gemm(x, y, other)
        with torch.cuda.stream(side):
            deepgemm.gemm(x, y, first)
            deepgemm.gemm(x, y, second, c=first)
    torch.cuda.synchronize()
    assert torch.equal(second, (want + want.bfloat16().float()).bfloat16())
    assert torch.equal(other, want)


def threads() -> None:
    """Eight threads with streams and shapes of their own; every result is exact."""
    import torch

    problems: list[str] = []

    def work(index: int) -> None:
        try:
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                for i in range(60):
                    m, n = 1 + 37 * index + i, 16 * (1 + (index + i) % 9)
                    k = 128 * (1 + i % 5)
                    x, y = (integers((rows, k), torch.bfloat16, i) for rows in (m, n))
                    out = deepgemm.gemm(x, y, out_dtype="float32")
                    stream.synchronize()
                    if not torch.equal(out.cpu(), x.float().cpu() @ y.float().cpu().T):
                        problems.append(f"thread {index}: {m}x{n}x{k} is wrong")
        except Exception as error:
            problems.append(f"thread {index}: {error!r}")

    workers = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not problems, problems[:3]


def product_without_torch(device: int = 0) -> None:
    x = np.random.default_rng(os.getpid()).integers(-2, 3, (64, 128)).astype(np.float32)
    a, b = (deepgemm.DeviceArray.from_numpy(v, device=device) for v in (x, x[:32].copy()))
    out = deepgemm.gemm(a, b)
    deepgemm.synchronize()
    assert np.array_equal(out.to_numpy(), x @ x[:32].T)


def fork() -> None:
    """Children forked before the first use compute; a child of a process that has begun gets an
    error of the driver, and neither hangs nor dies."""

    def in_a_child(work: Callable[[], None]) -> int:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # NumPy has threads
            child = os.fork()
        if child == 0:
            code = 1
            try:
                work()
                code = 0
            except deepgemm.Error:
                code = 3
            finally:
                os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    assert [in_a_child(product_without_torch) for _ in range(3)] == [0, 0, 0]
    product_without_torch()
    assert in_a_child(product_without_torch) == 3


def exits() -> None:
    """A process ends well with plans, arrays and a running thread alive."""
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", EXIT], capture_output=True, text=True, timeout=120, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")


def context_is_active(device: int) -> bool:
    driver = ctypes.CDLL("libcuda.so.1")
    flags, active = ctypes.c_uint(), ctypes.c_int()
    assert driver.cuInit(0) == 0
    assert driver.cuDevicePrimaryCtxGetState(device, ctypes.byref(flags), ctypes.byref(active)) == 0
    return bool(active.value)


def no_context() -> None:
    """Importing, info, explain and products in host memory leave the GPU alone."""
    x = np.ones((16, 128), np.float32)
    deepgemm.gemm(deepgemm.quantize(x), deepgemm.quantize(x, (128, 128)))
    deepgemm.info()
    deepgemm.explain("gemm", 64, 256, 512)
    assert not context_is_active(0)
    product_without_torch()
    assert context_is_active(0)


def two_devices() -> None:
    """Arrays on device 1 while device 0 is current, and threads that take one each."""
    import torch

    def on(device: int, seed: int) -> tuple[Any, Any, Any]:
        x, y = (integers((rows, 256), torch.bfloat16, seed).to(device) for rows in (200, 96))
        return x, y, (x.float() @ y.float().T)

    driver = ctypes.CDLL("libcuda.so.1")
    torch.cuda.set_device(0)
    for seed in range(6):
        x, y, want = on(seed % 2, seed)
        torch.cuda.synchronize(seed % 2)
        before, after = ctypes.c_void_p(), ctypes.c_void_p()
        driver.cuCtxGetCurrent(ctypes.byref(before))
        out = deepgemm.gemm(x, y, out_dtype="float32")
        driver.cuCtxGetCurrent(ctypes.byref(after))
        assert (before.value, torch.cuda.current_device()) == (after.value, 0)
        torch.cuda.synchronize(seed % 2)
        assert (out.device, bool(torch.equal(out, want))) == (x.device, True)
    q = deepgemm.quantize(x.float())
    assert q.values.device == x.device
    with pytest.raises(ValueError, match="on cuda:1, need cuda:0"):
        deepgemm.gemm(on(0, 1)[0], on(1, 1)[1])
    problems: list[str] = []

    def work(device: int) -> None:
        for seed in range(50):
            x, y, want = on(device, seed)
            with torch.cuda.device(device):
                out = deepgemm.gemm(x, y, out_dtype="float32")
                torch.cuda.synchronize()
            if not torch.equal(out, want):
                problems.append(f"device {device}, {seed}")

    workers = [threading.Thread(target=work, args=(device,)) for device in (0, 1)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not problems


BODIES: dict[str, Callable[[], None]] = {
    body.__name__: body for body in (graphs, streams, threads, fork, exits, no_context, two_devices)
}


@pytest.mark.parametrize("name", BODIES)
def test_in_a_child(name: str) -> None:
    if name == "two_devices" and len(deepgemm.info()["gpus"]) < 2:
        pytest.skip("one GPU")
    run_in_a_child(__file__, name)


if __name__ == "__main__":
    BODIES[sys.argv[1]]()
    print(f"{sys.argv[1]}: right")
