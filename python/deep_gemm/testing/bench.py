"""Time of functions and of the kernels that they launch."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, overload

import torch

from deep_gemm._state import environment_flag

_BENCH_FLUSH_BYTES = 256_000_000
_KINETO_FLUSH_BYTES = 8_000_000_000
_GENERAL = "deepgemm_general"


class empty_suppress:  # noqa: N801
    """A context that changes nothing."""

    def __enter__(self) -> empty_suppress:
        """Enter."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leave."""


class suppress_stdout_stderr:  # noqa: N801
    """A context in which file descriptors 1 and 2, and Python's streams, write nowhere."""

    def __enter__(self) -> suppress_stdout_stderr:
        """Send both to the null device."""
        sys.stdout.flush()
        sys.stderr.flush()
        self._saved = [(fd, os.dup(fd)) for fd in (1, 2)]
        self._streams = sys.stdout, sys.stderr
        self._nowhere = open(os.devnull, "w")
        for fd in (1, 2):
            os.dup2(self._nowhere.fileno(), fd)
        sys.stdout = sys.stderr = self._nowhere
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Bring them back, whatever happened."""
        sys.stdout, sys.stderr = self._streams
        self._nowhere.flush()
        for fd, saved in self._saved:
            os.dup2(saved, fd)
            os.close(saved)
        self._nowhere.close()


def bench(
    fn: Callable[[], Any], num_warmups: int = 5, num_tests: int = 10, high_precision: bool = False
) -> float:
    """Return the mean time of a call in seconds, by CUDA events (by the clock without a GPU).

    Args:
        fn: what is timed; work on the current stream.
        num_warmups: calls before, untimed.
        num_tests: calls that are timed together, after L2 has been emptied.
        high_precision: launch a long product first, so that the host is ahead of the GPU.
    """
    gpu = torch.cuda.is_available()
    for _ in range(num_warmups):
        fn()
    if not gpu:
        started = time.perf_counter()
        for _ in range(num_tests):
            fn()
        return (time.perf_counter() - started) / num_tests
    torch.cuda.synchronize()
    torch.empty(_BENCH_FLUSH_BYTES // 4, dtype=torch.int32, device="cuda").zero_()
    if high_precision:
        x = torch.randn(8192, 8192, device="cuda")
        x @ x
    event: Any = torch.cuda.Event
    begin, end = (event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(num_tests):
        fn()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end)) / 1e3 / num_tests


def _searched(name: str) -> str:
    """Return the text in which a kernel's name is looked for.

    The general kernel computes what callers look for as "fp8_gemm" or "bf16_gemm".
    """
    return f"{name} fp8_gemm bf16_gemm" if name.startswith(_GENERAL) else name


def _matches(wanted: str, name: str) -> bool:
    return wanted in _searched(name)


def mean_times(
    kernels: Iterable[tuple[str, float, int]],
    wanted: Sequence[str],
    with_multiple_kernels: bool = False,
) -> list[float]:
    """Return the mean time of a launch, in seconds, for each wanted substring; 0 if none has it.

    Args:
        kernels: name, microseconds in all and number of launches of each kernel.
        wanted: substrings of names.
        with_multiple_kernels: whether one substring may match kernels of several names.

    Raises:
        RuntimeError: it does match several, and may not.
    """
    every = list(kernels)
    means = []
    for substring in wanted:
        found = [kernel for kernel in every if _matches(substring, kernel[0])]
        if len(found) > 1 and not with_multiple_kernels:
            names = ", ".join(sorted(name for name, _, _ in found))
            raise RuntimeError(f"kernel_names: found {names} for {substring!r}, need one kernel")
        launches = sum(count for _, _, count in found)
        means.append(sum(us for _, us, _ in found) / 1e6 / launches if launches else 0.0)
    return means


def _profile(run: Callable[[], None], trace_path: str | None) -> list[tuple[str, float, int]]:
    """Return name, microseconds and launches of each kernel that ran."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as session:
        run()
        torch.cuda.synchronize()
    if trace_path is not None:
        session.export_chrome_trace(trace_path)
    return [
        (row.key, float(row.self_device_time_total), int(row.count))
        for row in session.key_averages()
        if str(row.device_type).endswith("CUDA")
    ]


@overload
def bench_kineto(
    fn: Callable[[], Any],
    kernel_names: str,
    num_tests: int = 30,
    suppress_kineto_output: bool = False,
    trace_path: str | None = None,
    flush_l2: bool = True,
    with_multiple_kernels: bool = False,
    barrier: Callable[[], Any] | None = None,
) -> float: ...
@overload
def bench_kineto(
    fn: Callable[[], Any],
    kernel_names: tuple[str, ...],
    num_tests: int = 30,
    suppress_kineto_output: bool = False,
    trace_path: str | None = None,
    flush_l2: bool = True,
    with_multiple_kernels: bool = False,
    barrier: Callable[[], Any] | None = None,
) -> tuple[float, ...]: ...
def bench_kineto(
    fn: Callable[[], Any],
    kernel_names: str | tuple[str, ...],
    num_tests: int = 30,
    suppress_kineto_output: bool = False,
    trace_path: str | None = None,
    flush_l2: bool = True,
    with_multiple_kernels: bool = False,
    barrier: Callable[[], Any] | None = None,
) -> float | tuple[float, ...]:
    """Return the mean device time in seconds of the kernels that a function launches.

    Args:
        fn: what is timed, on the current stream.
        kernel_names: a substring of the kernel's name, or a tuple of such.
        num_tests: calls that are timed, after as many that are not.
        suppress_kineto_output: keep the profiler from writing to stdout and stderr.
        trace_path: file for a Chrome trace.
        flush_l2: empty L2 by a memset of 8 GB before each call.
        with_multiple_kernels: whether one substring may match kernels of several names; the mean
            is over all launches.
        barrier: called before each call, after the flush.

    Returns:
        A number for a string, a tuple for a tuple; 0 where no kernel matched. Ones, with no
        profiler, while DG_USE_NVIDIA_TOOLS is set: Nsight and it exclude each other.

    Raises:
        RuntimeError: there is no GPU, or a substring matches several kernels and may not.
    """
    wanted = (kernel_names,) if isinstance(kernel_names, str) else tuple(kernel_names)
    outside = environment_flag("DG_USE_NVIDIA_TOOLS")
    if not outside and not torch.cuda.is_available():
        raise RuntimeError("bench_kineto: found no CUDA device, need one to measure")

    def run() -> None:
        for _ in range(num_tests):
            if flush_l2 and not outside:
                flush = torch.empty(_KINETO_FLUSH_BYTES // 4, dtype=torch.int32, device="cuda")
                flush.zero_()
            if barrier is not None:
                barrier()
            fn()

    if outside:
        run()
        means = [1.0] * len(wanted)
    else:
        fn()
        with suppress_stdout_stderr() if suppress_kineto_output else empty_suppress():
            _profile(run, None)  # the first session of a process loses events
            means = mean_times(_profile(run, trace_path), wanted, with_multiple_kernels)
    return means[0] if isinstance(kernel_names, str) else tuple(means)
