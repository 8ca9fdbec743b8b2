"""`deepgemm bench factors`: what row-major factors of A cost an FP8 product.

Against factors whose rows are contiguous, which it reads fastest: the product reads the row-major
ones itself, or `deepgemm.layout.sf_fast` lays them out before it.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from typing import Any

import deepgemm
from deepgemm.bench.report import SHORT, Row
from deepgemm.bench.suites import FP8

SHAPES = tuple((m, n, k) for n, k in ((7168, 2048), (4096, 7168)) for m in (64, 512, 4096))
WAYS = ("row-major factors", "sf_fast, then the product")
MODES = ("burst", "sustained")
OUT = "bfloat16"
GRANULARITY = ((1, 128), (128, 128))

Calls = list[Callable[[], Any]]


def _calls(m: int, n: int, k: int, support: Any) -> tuple[Calls, float]:
    """Return the product on contiguous rows and the two ways of WAYS, and their largest error."""
    a = deepgemm.quantize(support.random_matrix(m, k, 1), GRANULARITY[0])
    b = deepgemm.quantize(support.random_matrix(n, k, 2), GRANULARITY[1])
    rows_first = support.row_major(a.sf)
    out = support.empty(m, n, OUT)

    def product(sf: Any) -> Any:
        return deepgemm.gemm((a.values, sf), b, out, granularity=GRANULARITY)

    calls: Calls = [
        lambda: product(a.sf),
        lambda: product(rows_first),
        lambda: product(deepgemm.layout.sf_fast(rows_first)),
    ]
    errors = []
    for call in calls:
        call()
        errors.append(float(support.error_against_fp64(out, a, b, GRANULARITY)))
    return calls, max(errors)


def measure(m: int, n: int, k: int, support: Any, repeat: int, seconds: float = 2.0) -> list[Row]:
    """Return a row for each mode and way; its "rival" is the way, "us" the contiguous rows'."""
    calls, error = _calls(m, n, k, support)
    rows: list[Row] = []
    for mode in MODES:
        if mode == "burst":
            times = [statistics.median(samples) for samples in support.burst_us(calls, repeat)]
        else:
            times = [support.sustained_us(call, seconds) for call in calls]
        for way, us in zip(WAYS, times[1:], strict=True):
            rows.append(
                {
                    "op": "gemm",
                    "m": m,
                    "n": n,
                    "k": k,
                    "layout": "nt",
                    "in_dtype": SHORT.get(FP8, FP8),
                    "out_dtype": OUT,
                    "mode": mode,
                    "us": round(times[0], 3),
                    "error": error,
                    "rival": way,
                    "rival_us": round(us, 3),
                    "ratio": round(us / times[0], 4),
                }
            )
    return rows


def measure_all(support: Any, repeat: int) -> Iterator[list[Row]]:
    """Yield the rows of each shape as soon as it is measured."""
    for m, n, k in SHAPES:
        yield measure(m, n, k, support, repeat)
