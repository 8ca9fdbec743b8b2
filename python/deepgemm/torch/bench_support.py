"""What the demo and the benchmark need of PyTorch: memory, kernel times, cuBLASLt as a rival.

Only here and in the drop-in `deep_gemm` is torch imported (a law of the project).
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
FP64_ELEMENTS = 1 << 28  # of a matrix of 2 GB


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


def bfloat16_operands(m: int, n: int, k: int, layout: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return A and B with such data, as they lie in memory in a layout of `deepgemm.gemm`."""

    def operand(rows: int, seed: int, k_first: bool) -> torch.Tensor:
        x = random_matrix(rows, k, seed).to(torch.bfloat16)
        return x.t().contiguous() if k_first else x

    return operand(m, 1, layout[0] == "t"), operand(n, 2, layout[1] == "n")


def empty(rows: int, columns: int, dtype: str) -> torch.Tensor:
    """Return an uninitialised output, poisoned with NaN so that unwritten elements show."""
    return torch.full((rows, columns), float("nan"), device="cuda", dtype=getattr(torch, dtype))


def zeros(rows: int, columns: int, dtype: str) -> torch.Tensor:
    """Return zeros, for outputs that are accumulated into."""
    return torch.zeros((rows, columns), device="cuda", dtype=getattr(torch, dtype))


def addend(rows: int, columns: int, k: int, dtype: str) -> torch.Tensor:
    """Return an output to add to, as large as a product of `random_matrix` over k."""
    scaled = random_matrix(rows, columns, 3).mul_(math.sqrt(k))
    return scaled.to(getattr(torch, dtype))


def row_major(x: torch.Tensor) -> torch.Tensor:
    """Return the same elements with columns contiguous."""
    return x.contiguous()


def stack(matrices: list[Any]) -> Any:
    """Put one matrix per group side by side: [G, ...], of quantised ones values and factors."""
    first = matrices[0]
    if isinstance(first, torch.Tensor):
        return torch.stack(matrices)
    values = torch.stack([matrix.values.view(torch.uint8) for matrix in matrices])
    sf = torch.stack([matrix.sf for matrix in matrices])
    return type(first)(values.view(first.values.dtype), sf, first.granularity)


def padded_rows(a: Any, rows: int) -> Any:
    """Return an operand of so many rows of zeros, otherwise like `a`."""
    if isinstance(a, torch.Tensor):
        return a.new_zeros((rows, a.shape[1]))
    values = a.values.view(torch.uint8).new_zeros((rows, a.values.shape[1]))
    sf = a.sf.new_zeros((a.sf.shape[1], rows)).t()  # factors with rows contiguous
    return type(a)(values.view(a.values.dtype), sf, a.granularity)


def masked_stack(a: Any, sizes: np.ndarray[Any, Any], most: int) -> Any:
    """Give each group's rows of `a` a matrix of `most` rows; factors with rows contiguous."""
    if isinstance(a, torch.Tensor):
        spread = a.new_full((len(sizes), most, a.shape[1]), math.nan)
        begin = 0
        for matrix, size in zip(spread, sizes.tolist(), strict=True):
            matrix[:size] = a[begin : begin + size]
            begin += size
        return spread
    groups, blocks = len(sizes), a.sf.shape[1]
    where = a.values.device
    values = torch.full((groups, most, a.values.shape[1]), 0x7F, dtype=torch.uint8, device=where)
    sf = torch.full((groups, blocks, most), math.nan, device=where).transpose(1, 2)
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
    out: torch.Tensor,
    a: Any,
    b: Any,
    granularity: tuple[tuple[int, int], tuple[int, int]] = ((1, 1), (1, 1)),
    *,
    layout: str = "nt",
    c: torch.Tensor | None = None,
) -> float:
    """Return 1 - 2<x,y> / (<x,x> + <y,y>) of out against FP64 on the inputs.

    They are tensors in the layout, or quantised matrices [M, K] and [N, K], which are dequantised.
    `c` is what out held before, if it was accumulated into.
    """
    left = a.t() if layout[0] == "t" else a
    right = _fp64(b.t() if layout[1] == "n" else b, granularity[1], slice(None))
    dot = total = 0.0
    # Rows at once, so that FP64 copies stay below a few GB.
    step = max(1, min(4096, FP64_ELEMENTS // max(right.shape)))
    for begin in range(0, out.shape[0], step):
        rows = slice(begin, begin + step)
        exact, found = _fp64(left, granularity[0], rows) @ right.t(), out[rows].double()
        if c is not None:
            exact += c[rows].double()
        dot += float((exact * found).sum())
        total += float((exact * exact).sum() + (found * found).sum())
    return 1.0 - 2.0 * dot / total if total != 0 else 0.0


def _fp64(x: Any, granularity: tuple[int, int], rows: slice) -> torch.Tensor:
    """Return these rows of a tensor, or of a quantised matrix dequantised."""
    if isinstance(x, torch.Tensor):
        return x[rows].double()
    if granularity[0] != 1:
        return _dequantized(x, granularity)[rows]
    return _dequantized(type(x)(x.values[rows], x.sf[rows], granularity), granularity)


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


def cublaslt(
    a: torch.Tensor, b: torch.Tensor, out_dtype: str, *, accumulate: bool, layout: str = "nt"
) -> Call:
    """Return a call of cuBLASLt's product of BF16, or of FP8 with tensor-wise factors of 1.

    It returns its output, which begins as zeros; `accumulate`: and is added to.
    """
    from deepgemm.bench.cublaslt import WORKSPACE_BYTES, Product, gemm

    m, k = reversed(a.shape) if layout[0] == "t" else a.shape
    n = b.shape[1] if layout[1] == "n" else b.shape[0]
    out = zeros(m, n, out_dtype)
    workspace = torch.empty(WORKSPACE_BYTES, device="cuda", dtype=torch.uint8)
    held = {"a": a, "b": b, "d": out, "workspace": workspace}
    if a.element_size() == 1:
        held["one"] = torch.ones((), device="cuda")
    in_dtype = str(a.dtype).removeprefix("torch.")
    call = gemm(
        Product(m, n, k, layout, in_dtype, out_dtype, accumulate),
        {name: tensor.data_ptr() for name, tensor in held.items()},
    )

    def product() -> torch.Tensor:
        # Why at each call: a CUDA graph is captured on a stream of its own.
        call(torch.cuda.current_stream().cuda_stream)
        return held["d"]

    return product


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
    flushed = _profiled(flush)

    def run() -> None:
        for _ in range(repeat):
            for call in calls:
                flush()
                call()

    return split(_profiled(run), flushed, len(calls), repeat)


def split(events: list[Event], flushed: list[Event], calls: int, repeat: int) -> list[list[float]]:
    """Sum the kernels between flushes and deal the sums out to the calls that took turns.

    A flush is a run of events with the names of `flushed`, in its order. It begins at least half as
    long, since a call may clear memory of its own in the same way.
    """
    flush_names = [name for _, _, name in flushed]
    names = [name for _, _, name in events]
    length, groups, index = len(flush_names), list[float](), 0
    while index < len(events):
        is_flush = length > 0 and names[index : index + length] == flush_names
        if is_flush and events[index][1] >= flushed[0][1] / 2:
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
