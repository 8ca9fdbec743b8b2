"""`deepgemm bench call`: CPU time of one repeated call, and what of it is the driver's launch."""

from __future__ import annotations

import importlib.util
import statistics
import time
from collections.abc import Callable
from typing import Any

import deepgemm
from deepgemm._library import ext
from deepgemm.bench.report import Row

# Why 200: enough that what follows a wait does not count, and far fewer than the launches that a
# stream queues before it makes the caller wait.
_CALLS = 200


def cpu_us(call: Callable[[Any, Any, Any], Any], arrays: tuple[Any, Any, Any]) -> float:
    """Return the time in us for which one call keeps the CPU, in the mean of many in a row."""
    a, b, out = arrays
    deepgemm.synchronize()
    start = time.perf_counter()
    for _ in range(_CALLS):
        call(a, b, out)
    return (time.perf_counter() - start) / _CALLS * 1e6


def arrays(m: int, n: int, k: int) -> tuple[str, tuple[Any, Any, Any]]:
    """(framework, (a, b, out)): torch tensors if torch can use the GPU, else DeviceArrays."""
    import numpy as np

    upload: Callable[[Any], Any] = ext.DeviceArray.from_numpy
    out: Any = None
    name = "deepgemm.DeviceArray"
    if importlib.util.find_spec("torch"):
        from deepgemm.torch import bench_support

        if bench_support.cuda_available():
            upload, out = bench_support.upload, bench_support.empty(m, n, "bfloat16")
            name = "torch"
    if out is None:
        out = ext.DeviceArray((m, n), "bfloat16")

    def matrix(rows: int, granularity: tuple[int, int]) -> Any:
        x = np.random.default_rng(0).standard_normal((rows, k)).astype(np.float32)
        return deepgemm.quantize(upload(x), granularity)

    return name, (matrix(m, (1, 128)), matrix(n, (128, 128)), out)


def measure(repeat: int, m: int = 64, n: int = 256, k: int = 256) -> tuple[str, list[Row]]:
    """Return the framework of the arrays, and a row for each path to the same launch.

    Paths: "python", ``deepgemm.gemm(a, b, out)``; "plan", a :class:`deepgemm.Plan` of it; "cpp",
    ``deepgemm::gemm`` in a loop of C++. ``launch_us`` is the driver's cuLaunchKernelEx alone, of
    the same kernel with the same parameters, in a loop of C++ too.
    """
    name, given = arrays(m, n, k)
    plan = deepgemm.plan("gemm", *given)
    samples: dict[str, list[float]] = {"python": [], "plan": [], "cpp": [], "launch": []}
    # In turns: the machine's clock drifts by more than what is to be told apart. The first is lost.
    for _ in range(repeat + 1):
        samples["python"].append(cpu_us(deepgemm.gemm, given))
        samples["plan"].append(cpu_us(plan, given))
        cost = ext.measure_call(*given, None, _CALLS, 1)
        samples["cpp"].append(cost["call_us"])
        samples["launch"].append(cost["launch_us"])
    times = {path: round(statistics.median(us[1:]), 3) for path, us in samples.items()}
    launch_us = times.pop("launch")
    return name, [{"path": path, "us": us, "launch_us": launch_us} for path, us in times.items()]
