"""What the demo and the benchmark need of PyTorch: memory, kernel times, cuBLASLt as a rival.

The only file besides the adapters that imports torch (a law of the project).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

Call = Callable[[], Any]
FLUSH_BYTES = 8 << 30
READ_BYTES = 1 << 30


def cuda_available() -> bool:
    """Tell whether torch can use a GPU."""
    return bool(torch.cuda.is_available())


def upload(x: np.ndarray[Any, Any]) -> torch.Tensor:
    """Copy a NumPy array to the current CUDA device."""
    return torch.from_numpy(np.ascontiguousarray(x)).cuda()


def download(x: torch.Tensor) -> np.ndarray[Any, Any]:
    """Copy a tensor to NumPy; float8 as uint8, bfloat16 as float32."""
    if x.element_size() == 1:
        x = x.view(torch.uint8)
    elif x.dtype is torch.bfloat16:
        x = x.float()
    return np.asarray(x.cpu().numpy())


def synchronize() -> None:
    """Wait for the current device."""
    torch.cuda.synchronize()


# ---- Data -----------------------------------------------------------------------------------


def random_matrix(rows: int, columns: int, seed: int) -> torch.Tensor:
    """Return normal data whose scale differs by row and by block of 128, as activations' do."""
    generator = torch.Generator(device="cuda").manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, device="cuda", generator=generator)

    spread = torch.exp(0.5 * normal(rows, -(-columns // 128)))
    x = normal(rows, columns)
    scaled: torch.Tensor = x * spread.repeat_interleave(128, dim=1)[:, :columns]
    return scaled


def empty(rows: int, columns: int, dtype: str) -> torch.Tensor:
    """Return an uninitialised output, poisoned with NaN so that unwritten elements show."""
    return torch.full((rows, columns), float("nan"), device="cuda", dtype=getattr(torch, dtype))


def zeros(rows: int, columns: int, dtype: str) -> torch.Tensor:
    """Return zeros, for outputs that are accumulated into."""
    return torch.zeros((rows, columns), device="cuda", dtype=getattr(torch, dtype))


def stack(matrices: list[Any]) -> Any:
    """Put one quantised matrix per group side by side: values and factors [G, ...]."""
    first = matrices[0]
    values = torch.stack([matrix.values.view(torch.uint8) for matrix in matrices])
    sf = torch.stack([matrix.sf for matrix in matrices])
    return type(first)(values.view(first.values.dtype), sf, first.granularity)


def masked_stack(a: Any, sizes: np.ndarray[Any, Any], most: int) -> Any:
    """Give each group's rows of `a` a matrix of `most` rows; factors with rows contiguous."""
    groups, blocks = len(sizes), a.sf.shape[1]
    values = torch.full((groups, most, a.values.shape[1]), 0x7F, dtype=torch.uint8, device="cuda")
    sf = torch.full((groups, blocks, most), math.nan, device="cuda").transpose(1, 2)
    begin = 0
    for group, size in enumerate(sizes.tolist()):
        values[group, :size] = a.values[begin : begin + size].view(torch.uint8)
        sf[group, :size] = a.sf[begin : begin + size]
        begin += size
    return type(a)(values.view(a.values.dtype), sf, a.granularity)


def _dequantized(quantized: Any, granularity: tuple[int, int]) -> torch.Tensor:
    values, sf = quantized.values.double(), quantized.sf.double()
    sf = sf.repeat_interleave(granularity[0], dim=0)[: values.shape[0]]
    sf = sf.repeat_interleave(granularity[1], dim=1)[:, : values.shape[1]]
    product: torch.Tensor = values * sf
    return product


def error_against_fp64(
    out: torch.Tensor, a: Any, b: Any, blocks: tuple[tuple[int, int], tuple[int, int]]
) -> float:
    """Return 1 - 2<x,y> / (<x,x> + <y,y>) of out against FP64 on the dequantised inputs."""
    right = _dequantized(b, blocks[1])
    dot = total = 0.0
    step = 4096  # rows at once, so that FP64 copies stay below a few GB
    for row in range(0, out.shape[0], step):
        left = _dequantized_rows(a, blocks[0], row, min(row + step, out.shape[0]))
        exact, found = left @ right.t(), out[row : row + step].double()
        dot += float((exact * found).sum())
        total += float((exact * exact).sum() + (found * found).sum())
    return 1.0 - 2.0 * dot / total if total != 0 else 0.0


def _dequantized_rows(
    quantized: Any, granularity: tuple[int, int], begin: int, end: int
) -> torch.Tensor:
    if granularity[0] != 1:
        return _dequantized(quantized, granularity)[begin:end]
    part = type(quantized)(quantized.values[begin:end], quantized.sf[begin:end], granularity)
    return _dequantized(part, granularity)


# ---- Rival ----------------------------------------------------------------------------------


def cublaslt_tensorwise(a: torch.Tensor, b: torch.Tensor, out_dtype: str) -> Call:
    """Return a call of cuBLASLt's tensor-wise scaled FP8 product (it has no block scales to do)."""
    one = torch.ones((), device="cuda")
    dtype = getattr(torch, out_dtype)

    def call() -> torch.Tensor:
        out: torch.Tensor = torch._scaled_mm(
            a, b.t(), scale_a=one, scale_b=one, out_dtype=dtype, use_fast_accum=False
        )
        return out

    return call


def cublaslt_accumulating(a: torch.Tensor, b: torch.Tensor) -> Call:
    """Return a call of cuBLASLt's tensor-wise scaled FP8 product that adds to an FP32 output."""
    from deepgemm.bench.cublaslt import WORKSPACE_BYTES, accumulating_fp8_gemm

    one = torch.ones((), device="cuda")
    out = torch.zeros((a.shape[0], b.shape[0]), device="cuda")
    workspace = torch.empty(WORKSPACE_BYTES, device="cuda", dtype=torch.uint8)
    held = {"a": a, "b": b, "d": out, "one": one, "workspace": workspace}
    call = accumulating_fp8_gemm(
        (a.shape[0], b.shape[0], a.shape[1]),
        {name: tensor.data_ptr() for name, tensor in held.items()},
        torch.cuda.current_stream().cuda_stream,
    )

    def accumulate() -> torch.Tensor:
        call()
        return held["d"]

    return accumulate


# ---- Time -----------------------------------------------------------------------------------


class Flusher:
    """Empties L2 before a run by an 8 GB memset, which also lets the chip rest."""

    def __init__(self, clean: bool = False) -> None:
        """With `clean`, two reads of 1 GB replace the dirty lines that the memset leaves."""
        self.memory = torch.empty(FLUSH_BYTES // 4, dtype=torch.int32, device="cuda")
        self.clean = clean

    def __call__(self) -> None:
        """Enqueue the flush."""
        self.memory.zero_()
        if self.clean:
            for _ in range(2):
                self.memory[: READ_BYTES // 4].sum()


Event = tuple[int, float, str]  # start in ns, duration in us, name


def _profiled(action: Call) -> list[Event]:
    """Run it under the profiler (CUPTI) and return what the device did, in order."""
    from torch.profiler import ProfilerActivity, profile

    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as session:
        action()
        torch.cuda.synchronize()
    return sorted(
        (event.start_ns(), event.duration_ns() / 1e3, event.name())
        for event in session.profiler.kineto_results.events()
        if str(event.device_type()).endswith("CUDA")
    )


def burst_us(calls: list[Call], repeat: int, clean: bool = False) -> list[list[float]]:
    """Return the kernel times in us of each call, alternated, each after a flush (by CUPTI)."""
    flush = Flusher(clean)
    warm_up: list[Call] = [*calls, flush]
    for call in warm_up:
        call()
    _profiled(flush)  # the first session of a process loses events
    flush_names = [name for _, _, name in _profiled(flush)]

    def run() -> None:
        for _ in range(repeat):
            for call in calls:
                flush()
                call()

    return split(_profiled(run), flush_names, len(calls), repeat)


def split(
    events: list[Event], flush_names: list[str], calls: int, repeat: int
) -> list[list[float]]:
    """Sum the kernels between flushes and deal the sums out to the calls that took turns.

    A flush is the run of events with the flush's names, in its order.
    """
    names = [name for _, _, name in events]
    length, groups, index = len(flush_names), list[float](), 0
    while index < len(events):
        if length and names[index : index + length] == flush_names:
            groups.append(0.0)
            index += length
            continue
        if groups:
            groups[-1] += events[index][1]
        index += 1
    if len(groups) != calls * repeat or 0.0 in groups:
        raise RuntimeError(
            f"profiler: found {len(groups)} timed runs, need {calls * repeat} with kernels in each "
            f"(flush: {flush_names}; seen: {sorted(set(names))})"
        )
    return [groups[turn::calls] for turn in range(calls)]


def sustained_us(call: Call, seconds: float = 2.0, launches: int = 50) -> float:
    """Return the mean time in us over >= `seconds` of back-to-back launches in a CUDA graph."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(launches):
            call()
    event: Any = torch.cuda.Event
    begin, end = (event(enable_timing=True) for _ in range(2))
    started = time.perf_counter()
    for _ in range(4):
        graph.replay()
    torch.cuda.synchronize()
    replays = max(4, math.ceil(4 * seconds / (time.perf_counter() - started)))
    begin.record()
    for _ in range(replays):  # all enqueued at once: no gap in which the chip could rest
        graph.replay()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end)) * 1e3 / (replays * launches)
