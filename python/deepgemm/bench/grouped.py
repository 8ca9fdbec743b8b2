"""`deepgemm bench grouped`: FP8 products of many groups, checked in the same run.

Their rival is cuBLASLt's tensor-wise product of as many rows with one matrix: what the rows would
take if they all belonged to one group, and without block scales.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import deepgemm
from deepgemm.bench.report import Row

RIVAL = "cublaslt-tensorwise, one group"
MAX_ERROR = 1e-5
MASKED_ROWS = 4096
BLOCKS = ((1, 128), (128, 128))


@dataclass(frozen=True)
class Case:
    """Groups of rows [rows, K], each times a matrix [N, K] of its own, BF16 out.

    masked: each group has a matrix of MASKED_ROWS rows of which about `rows` count; else `rows` are
    those of all groups together. `natural`: sizes as they come; else multiples of 128.
    """

    groups: int
    rows: int
    n: int
    k: int
    masked: bool = False
    natural: bool = False
    peer_us: float | None = None  # of the torch-only DeepGEMM on such a card, as published

    @property
    def label(self) -> str:
        """Short name."""
        kind = "masked" if self.masked else "natural" if self.natural else "padded"
        return f"{kind} {self.groups}x{self.rows}x{self.n}x{self.k}"

    def sizes(self) -> np.ndarray[Any, Any]:
        """Rows of each group: 0.7 to 1.3 of the mean, the same for each call."""
        rng = np.random.default_rng(self.groups * self.rows + self.n)
        spread = rng.uniform(0.7, 1.3, self.groups)
        if self.masked:
            return np.maximum(1, self.rows * spread).astype(np.int32)
        step = 1 if self.natural else 128
        sizes = (spread / spread.sum() * self.rows / step).astype(np.int32) * step
        sizes[-1] += self.rows - sizes.sum()
        return sizes


_CONTIGUOUS = (
    (4, 35456, 6144, 7168, 2094),
    (4, 36096, 7168, 3072, 1108),
    (4, 31104, 4096, 4096, 725),
    (4, 32896, 4096, 2048, 397),
    (8, 31232, 6144, 7168, 1863),
    (8, 38272, 7168, 3072, 1181),
    (8, 33280, 4096, 4096, 780),
    (8, 30976, 4096, 2048, 381),
)
_MASKED = (
    (32, 192, 6144, 7168, 520),
    (32, 192, 7168, 3072, 284),
    (32, 192, 4096, 4096, 215),
    (32, 192, 4096, 2048, 121),
    (6, 1024, 6144, 7168, 420),
    (6, 1024, 7168, 3072, 201),
    (6, 1024, 4096, 4096, 163),
    (6, 1024, 4096, 2048, 84),
    (32, 20, 6144, 7168, 368),
    (32, 20, 7168, 3072, 202),
    (32, 20, 4096, 4096, 158),
    (32, 20, 4096, 2048, 87),
    (6, 20, 6144, 7168, 83),
    (6, 20, 7168, 3072, 45),
    (6, 20, 4096, 4096, 36),
    (6, 20, 4096, 2048, 21),
)
CASES = (
    *(Case(g, m, n, k, peer_us=us) for g, m, n, k, us in _CONTIGUOUS),
    *(Case(g, m - 100, n, k, natural=True) for g, m, n, k, _ in _CONTIGUOUS),
    *(Case(g, m, n, k, masked=True, peer_us=us) for g, m, n, k, us in _MASKED),
)
QUICK = (CASES[3], CASES[11], CASES[23], CASES[27], CASES[31])


def _prepare(case: Case, support: Any) -> tuple[Callable[[], Any], Callable[[], Any], float]:
    """Return (our call, the rival's call, our error against FP64 over three groups)."""
    sizes = case.sizes()
    total = int(sizes.sum())
    a = deepgemm.quantize(support.random_matrix(total, case.k, 1), BLOCKS[0])
    b = support.stack(
        [deepgemm.quantize(support.random_matrix(case.n, case.k, 2 + g), BLOCKS[1])
         for g in range(case.groups)]
    )  # fmt: skip
    vector = support.upload(sizes)
    rival = support.cublaslt_tensorwise(a.values, b.values[0], "bfloat16")
    if case.masked:
        spread = support.masked_stack(a, sizes, MASKED_ROWS)
        out = support.empty(case.groups * MASKED_ROWS, case.n, "bfloat16")
        out = out.view(case.groups, MASKED_ROWS, case.n)

        def ours() -> Any:
            return deepgemm.masked_gemm(
                spread, b, vector, out, expected_rows=case.rows, granularity=BLOCKS
            )
    else:
        out = support.empty(total, case.n, "bfloat16")

        def ours() -> Any:
            return deepgemm.grouped_gemm(a, b, vector, out, granularity=BLOCKS)

    ours()
    begins = np.cumsum(sizes) - sizes
    error = 0.0
    for g in {0, case.groups // 2, case.groups - 1}:
        rows = slice(int(begins[g]), int(begins[g] + sizes[g]))
        found = out[g, : sizes[g]] if case.masked else out[rows]
        mine = deepgemm.Quantized(a.values[rows], a.sf[rows], BLOCKS[0])
        matrix = deepgemm.Quantized(b.values[g], b.sf[g], BLOCKS[1])
        error = max(error, support.error_against_fp64(found, mine, matrix, BLOCKS))
    return ours, rival, float(error)


def measure(case: Case, support: Any, repeat: int) -> Row:
    """Measure one case in burst and return its row."""
    ours, rival, error = _prepare(case, support)
    us, rival_us = (
        statistics.median(samples) for samples in support.burst_us([ours, rival], repeat)
    )
    rows = int(case.sizes().sum())
    moved = rows * case.k * (1 + 4 / 128) + rows * case.n * 2
    moved += case.groups * case.n * case.k * (1 + 4 / 128 / 128)
    return {
        "op": "masked_gemm" if case.masked else "grouped_gemm",
        "m": rows,
        "n": case.n,
        "k": case.k,
        "groups": case.groups,
        "layout": "nt",
        "in_dtype": "float8_e4m3fn",
        "out_dtype": "bfloat16",
        "mode": "burst",
        "us": round(us, 3),
        "tflops": round(2.0 * rows * case.n * case.k / us / 1e6, 1),
        "gbps": round(moved / us / 1e3, 1),
        "error": error,
        "rival": RIVAL,
        "rival_us": round(rival_us, 3),
        "ratio": round(rival_us / us, 4),
    }


def measure_all(cases: tuple[Case, ...], support: Any, repeat: int) -> Iterator[tuple[Case, Row]]:
    """Yield each case with its row as soon as it is measured."""
    for case in cases:
        yield case, measure(case, support, repeat)


def is_right(row: Row) -> bool:
    """Tell whether a row's error is within the numbers contract; NaN is not."""
    return bool(row["error"] <= MAX_ERROR)
