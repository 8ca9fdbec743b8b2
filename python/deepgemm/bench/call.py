"""`deepgemm bench call`: CPU time of one call, from Python, on a GPU."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import deepgemm
from deepgemm._library import ext
from deepgemm.bench.report import Row

# Why 50: far fewer than the launches that a stream queues before it makes the caller wait.
_CALLS = 50


def cpu_us(call: Callable[[], Any], wait: Callable[[], Any], repeat: int) -> float:
    """Return the median time in us for which one call keeps the CPU; waits only between samples."""
    for _ in range(10):
        call()
    wait()
    samples = []
    for _ in range(repeat):
        start = time.perf_counter()
        for _ in range(_CALLS):
            call()
        samples.append((time.perf_counter() - start) / _CALLS * 1e6)
        wait()
    return statistics.median(samples)


def measure(repeat: int, m: int = 64, n: int = 256, k: int = 256) -> list[Row]:
    """Return a row for the Python path on `deepgemm.DeviceArray`s."""
    import numpy as np

    def matrix(rows: int, granularity: tuple[int, int]) -> Any:
        x = np.random.default_rng(0).standard_normal((rows, k)).astype(np.float32)
        return deepgemm.quantize(ext.DeviceArray.from_numpy(x), granularity)

    a, b = matrix(m, (1, 128)), matrix(n, (128, 128))
    out = ext.DeviceArray((m, n), "bfloat16")

    def call() -> None:
        deepgemm.gemm(a, b, out)

    return [{"path": "python", "us": round(cpu_us(call, out.synchronize, repeat), 3)}]
