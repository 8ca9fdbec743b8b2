"""`deepgemm bench dense` and `bench bf16`: against cuBLASLt, checked in the same run."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import deepgemm
from deepgemm.bench.report import SHORT, Row
from deepgemm.bench.suites import BF16, FP8, Case

MAX_ERROR = {"bfloat16": 1e-5, "float32": 1e-6}
RIVALS = {FP8: "cublaslt-tensorwise", BF16: "cublaslt"}  # they accumulate too in rows that do
# Why so far above ours: it may sum parts of K in BF16. A product of other operands errs by about 1.
MAX_RIVAL_ERROR = 1e-3


@dataclass(frozen=True)
class Options:
    """How to measure."""

    mode: str = "burst"
    repeat: int = 20
    clean_l2: bool = False
    seconds: float = 2.0
    rival: bool = True


def _prepare(
    case: Case, support: Any, with_rival: bool
) -> tuple[Callable[[], Any], Callable[[], Any] | None, float]:
    """Return (our call, the rival's call or None, our error against FP64)."""
    a, b, keywords = _operands(case, support)
    if case.accumulate:
        out = support.addend(case.m, case.n, case.k, case.out_dtype)
    else:
        out = support.empty(case.m, case.n, case.out_dtype)
    before = out.clone() if case.accumulate else None

    def ours() -> Any:
        return deepgemm.gemm(a, b, out, c=out if case.accumulate else None, **keywords)

    ours()
    error = float(support.error_against_fp64(out, a, b, c=before, **keywords))
    rival = None
    if with_rival:
        try:
            rival = _rival(case, support, a, b)
            found = rival()
        except RuntimeError:
            return ours, None, error
        if not case.is_scaled:  # else it computes something else, without the scales
            _check_rival(case, support.error_against_fp64(found, a, b, **keywords))
    return ours, rival, error


def _operands(case: Case, support: Any) -> tuple[Any, Any, dict[str, Any]]:
    """Return A, B and the keywords that say how to read them."""
    if not case.is_scaled:
        a, b = support.bfloat16_operands(case.m, case.n, case.k, case.layout)
        return a, b, {"layout": case.layout}
    blocks_a, blocks_b = case.granularities
    a = deepgemm.quantize(support.random_matrix(case.m, case.k, 1), blocks_a)
    b = deepgemm.quantize(support.random_matrix(case.n, case.k, 2), blocks_b)
    return a, b, {"granularity": (blocks_a, blocks_b)}


def _rival(case: Case, support: Any, a: Any, b: Any) -> Callable[[], Any]:
    if case.is_scaled and not case.accumulate:
        tensorwise: Callable[[], Any] = support.cublaslt_tensorwise(
            a.values, b.values, case.out_dtype
        )
        return tensorwise
    values = (a.values, b.values) if case.is_scaled else (a, b)
    product: Callable[[], Any] = support.cublaslt(
        *values, case.out_dtype, accumulate=case.accumulate, layout=case.layout
    )
    return product


def _check_rival(case: Case, error: float) -> None:
    if not error <= MAX_RIVAL_ERROR:
        raise RuntimeError(f"{case.label}: {RIVALS[case.in_dtype]} has an error of {error:.1e}")


def measure(case: Case, support: Any, options: Options) -> Row:
    """Measure one case and return its row."""
    ours, rival, error = _prepare(case, support, options.rival)
    calls = [ours, rival] if rival is not None else [ours]
    if options.mode == "burst":
        times = [
            statistics.median(samples)
            for samples in support.burst_us(calls, options.repeat, options.clean_l2)
        ]
    else:
        times = [support.sustained_us(call, options.seconds) for call in calls]
    row: Row = {
        "op": "gemm",
        "m": case.m,
        "n": case.n,
        "k": case.k,
        "layout": case.layout,
        "in_dtype": SHORT.get(case.in_dtype, case.in_dtype),
        "out_dtype": case.out_dtype,
        "accumulate": case.accumulate,
        "mode": options.mode,
        "us": round(times[0], 3),
        "tflops": round(case.flops / times[0] / 1e6, 1),
        "gbps": round(case.bytes / times[0] / 1e3, 1),
        "error": error,
    }
    if options.clean_l2:
        row["l2"] = "clean"
    if len(times) > 1:
        row["rival"] = RIVALS[case.in_dtype]
        row["rival_us"] = round(times[1], 3)
        row["ratio"] = round(times[1] / times[0], 4)
    return row


def measure_candidates(m: int, n: int, k: int, candidates: list[dict[str, Any]]) -> None:
    """Time every candidate of ``deepgemm.explain`` on the current GPU, in burst.

    Each gets ``"measured_us"``. FP8 with (1, 128) and (128, 128) factors, BF16 out. Needs torch.
    """
    from deepgemm.torch import bench_support as support

    a = deepgemm.quantize(support.random_matrix(m, k, 1), (1, 128))
    b = deepgemm.quantize(support.random_matrix(n, k, 2), (128, 128))
    out = support.empty(m, n, "bfloat16")

    def call(policy: dict[str, Any]) -> Callable[[], Any]:
        return lambda: deepgemm.gemm(a, b, out, policy=policy)

    calls = [call(candidate["policy"]) for candidate in candidates]
    for candidate, samples in zip(candidates, support.burst_us(calls, 9), strict=True):
        candidate["measured_us"] = round(statistics.median(samples), 2)


def measure_all(
    cases: tuple[Case, ...], support: Any, options: Options
) -> Iterator[tuple[Case, Row]]:
    """Yield each case with its row as soon as it is measured."""
    for case in cases:
        yield case, measure(case, support, options)


def is_right(row: Row) -> bool:
    """Tell whether a row's error is within the numbers contract; NaN is not."""
    return bool(row["error"] <= MAX_ERROR[row["out_dtype"]])
