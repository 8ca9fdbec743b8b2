"""`deepgemm bench grouped`: FP8 or BF16 products of many groups, checked in the same run.

Their rival is cuBLASLt's product of one group with all rows, or all of K (of FP8 the tensor-wise
one): the same operations, but one matrix for all and no block scales.

Sizes as they come are also measured in the way of a kernel that needs groups of whole blocks of
rows: rows copied into such a layout, the product there, and its rows copied out of it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

import deepgemm
from deepgemm.bench.report import Row

RIVALS = {"fp8": "cublaslt-tensorwise, one group", "bf16": "cublaslt, one group"}
IN_DTYPES = {"fp8": "float8_e4m3fn", "bf16": "bf16"}
MAX_ERROR = {"bfloat16": 1e-5, "float32": 1e-6}
MASKED_ROWS = 4096
MULTIPLE = 128
BLOCKS = ((1, 128), (128, 128))


@dataclass(frozen=True)
class Case:
    """Groups of rows [rows, K], each times a matrix [N, K] of its own, BF16 out; or groups of K.

    kind "padded", "natural": `rows` are those of all groups together; in sizes that are multiples
    of 128, or as they come. "masked": each group has a matrix of MASKED_ROWS rows of which about
    `rows` count. "along K": [rows, k_g] times [N, k_g]^T added to a matrix in FP32 for each group;
    `k` is that of all groups.
    """

    kind: str
    groups: int
    rows: int
    n: int
    k: int
    peer_us: float | None = None  # of the torch-only DeepGEMM on such a card, as published
    dtype: str = "fp8"  # or "bf16"

    @property
    def layout(self) -> str:
        """Gradients of BF16 weights are computed from tokens as they lie, K first."""
        return "tn" if (self.kind, self.dtype) == ("along K", "bf16") else "nt"

    @property
    def label(self) -> str:
        """Short name."""
        return f"{self.kind} {self.groups}x{self.rows}x{self.n}x{self.k}"

    @property
    def op(self) -> str:
        """The operation's name."""
        return {"masked": "masked_gemm", "along K": "k_grouped_gemm"}.get(self.kind, "grouped_gemm")

    def sizes(self) -> np.ndarray[Any, Any]:
        """Rows, or K, of each group: 0.7 to 1.3 of the mean, the same for each call."""
        rng = np.random.default_rng(self.groups * self.rows + self.n)
        spread = rng.uniform(0.7, 1.3, self.groups)
        if self.kind == "masked":
            return np.asarray(np.maximum(1, self.rows * spread), np.int32)
        total, step = self.k if self.kind == "along K" else self.rows, MULTIPLE
        if self.kind == "natural":
            step = 1
        sizes = np.asarray(spread / spread.sum() * total / step, np.int32) * step
        sizes[-1] += total - sizes.sum()
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
_ALONG_K = (
    (4, 4096, 7168, 34304, 1988),
    (4, 7168, 2048, 32896, 980),
    (8, 4096, 7168, 35968, 2176),
    (8, 7168, 2048, 33920, 1057),
    (16, 4096, 7168, 34432, 2314),
    (16, 7168, 2048, 34304, 1146),
)
CASES = (
    *(Case("padded", g, m, n, k, us) for g, m, n, k, us in _CONTIGUOUS),
    *(Case("natural", g, m - 100, n, k) for g, m, n, k, _ in _CONTIGUOUS),
    *(Case("masked", g, m, n, k, us) for g, m, n, k, us in _MASKED),
    *(Case("along K", g, m, n, k, us) for g, m, n, k, us in _ALONG_K),
)
QUICK = (CASES[3], CASES[11], CASES[19], CASES[23], CASES[27], CASES[31], CASES[33])


def cases_of(dtype: str, *, quick: bool = False) -> tuple[Case, ...]:
    """Return the cases of a suite, "fp8" or "bf16". The peer's figures are of FP8."""
    cases = QUICK if quick else CASES
    if dtype == "fp8":
        return cases
    return tuple(replace(case, dtype=dtype, peer_us=None) for case in cases)


class Calls(NamedTuple):
    """What is timed, and the largest error of all but the rival's."""

    ours: Callable[[], Any]
    rival: Callable[[], Any]
    error: float
    through_padded: Callable[[], Any] | None = None


def _operand(case: Case, support: Any, rows: int, seed: int, block: tuple[int, int]) -> Any:
    """Return [rows, K]: quantised, or in BF16."""
    x = support.random_matrix(rows, case.k, seed)
    return deepgemm.quantize(x, block) if case.dtype == "fp8" else x.bfloat16()


def _values(x: Any) -> Any:
    return x.values if isinstance(x, deepgemm.Quantized) else x


def _arrays(x: Any) -> tuple[Any, ...]:
    return (x.values, x.sf) if isinstance(x, deepgemm.Quantized) else (x,)


def _part(x: Any, which: Any) -> Any:
    """Return some rows of an operand, or a matrix of a stack."""
    if isinstance(x, deepgemm.Quantized):
        return deepgemm.Quantized(x.values[which], x.sf[which], x.granularity)
    return x[which]


def _through_padded(
    a: Any, sizes: np.ndarray[Any, Any], out: Any, support: Any, product: Any
) -> Any:
    """Return a call that copies groups into rows of whole blocks, multiplies, and copies back.

    `product` is called with such an `a`, sizes and `out`. The copies are one for each group and
    array; of them too only the time on the device counts, not the gaps between them.
    """
    blocks = -(-sizes // MULTIPLE) * MULTIPLE
    total = int(blocks.sum())
    spread = support.padded_rows(a, total)
    result = out.new_zeros((total, out.shape[1]))
    vector = support.upload(blocks.astype(np.int32))
    begins, starts = (np.cumsum(x) - x for x in (sizes, blocks))
    places = [
        (slice(int(b), int(b + n)), slice(int(s), int(s + n)))
        for b, s, n in zip(begins, starts, sizes, strict=True)
    ]

    def call() -> Any:
        for narrow, padded in zip(_arrays(a), _arrays(spread), strict=True):
            for mine, there in places:
                padded[there].copy_(narrow[mine])
        product(spread, vector, result)
        for mine, there in places:
            out[mine].copy_(result[there])

    return call


def _rows(case: Case, support: Any) -> Calls:
    sizes = case.sizes()
    total = int(sizes.sum())
    a = _operand(case, support, total, 1, BLOCKS[0])
    b = support.stack(
        [_operand(case, support, case.n, 2 + g, BLOCKS[1]) for g in range(case.groups)]
    )
    options: dict[str, Any] = {"granularity": BLOCKS} if case.dtype == "fp8" else {}
    vector, masked = support.upload(sizes), case.kind == "masked"
    rows = case.groups * MASKED_ROWS if masked else total
    out = support.empty(rows, case.n, "bfloat16")
    if masked:
        spread = support.masked_stack(a, sizes, MASKED_ROWS)
        out = out.view(case.groups, MASKED_ROWS, case.n)

        def ours() -> Any:
            return deepgemm.masked_gemm(spread, b, vector, out, expected_rows=case.rows, **options)
    else:

        def product(a: Any, vector: Any, out: Any) -> Any:
            return deepgemm.grouped_gemm(a, b, vector, out, **options)

        def ours() -> Any:
            return product(a, vector, out)

    padded = None
    if case.kind == "natural":
        padded = _through_padded(a, sizes, out, support, product)

    begins = np.cumsum(sizes) - sizes
    error = 0.0
    for call in [ours] if padded is None else [padded, ours]:
        out[:] = math.nan
        call()
        for g in {0, case.groups // 2, case.groups - 1}:
            mine = slice(int(begins[g]), int(begins[g] + sizes[g]))
            found = out[g, : sizes[g]] if masked else out[mine]
            left, right = _part(a, mine), _part(b, g)
            error = max(error, support.error_against_fp64(found, left, right, BLOCKS))
    if case.dtype == "fp8":
        rival = support.cublaslt_tensorwise(a.values, b.values[0], "bfloat16")
    else:
        rival = support.cublaslt(a, b[0], "bfloat16", accumulate=False)
    return Calls(ours, rival, error, padded)


def _along_k(case: Case, support: Any) -> Calls:
    sizes, rows = case.sizes(), (1, 128)
    a = _operand(case, support, case.rows, 1, rows)
    b = _operand(case, support, case.n, 2, rows)
    if case.layout == "tn":
        a, b = (x.t().contiguous() for x in (a, b))
    out = support.zeros(case.groups * case.rows, case.n, "float32")
    out = out.view(case.groups, case.rows, case.n)
    vector = support.upload(sizes)

    def ours() -> Any:
        return deepgemm.k_grouped_gemm(a, b, vector, out, c=out, layout=case.layout)

    ours()
    end = np.cumsum(sizes)
    error = 0.0
    for g in {0, case.groups - 1}:
        k = slice(int(end[g] - sizes[g]), int(end[g]))
        blocks = slice(k.start // 128, k.stop // 128)
        if case.dtype == "fp8":
            left, right = (
                deepgemm.Quantized(x.values[:, k], x.sf[:, blocks], rows) for x in (a, b)
            )
        else:
            left, right = a[k], b[k]
        error = max(
            error,
            support.error_against_fp64(out[g], left, right, (rows, rows), layout=case.layout),
        )
    rival = support.cublaslt(_values(a), _values(b), "float32", accumulate=True, layout=case.layout)
    return Calls(ours, rival, error)


def _moved(case: Case, rows: int) -> float:
    """Return the bytes that cross the memory at least once, factors included."""
    per_row, per_block = (1 + 4 / 128, 1 + 4 / 128 / 128) if case.dtype == "fp8" else (2.0, 2.0)
    if case.kind == "along K":
        return (rows + case.n) * case.k * per_row + 8.0 * case.groups * rows * case.n
    inputs = rows * case.k * per_row + case.groups * case.n * case.k * per_block
    return inputs + 2.0 * rows * case.n


def measure(case: Case, support: Any, repeat: int) -> Row:
    """Measure one case in burst and return its row."""
    along_k = case.kind == "along K"
    ours, rival, error, padded = (_along_k if along_k else _rows)(case, support)
    timed = [ours, rival, *([padded] if padded else [])]
    us, rival_us, *through_padded_us = (
        statistics.median(samples) for samples in support.burst_us(timed, repeat)
    )
    rows = case.rows if along_k else int(case.sizes().sum())
    return {
        "op": case.op,
        "m": rows,
        "n": case.n,
        "k": case.k,
        "groups": case.groups,
        "layout": case.layout,
        "in_dtype": IN_DTYPES[case.dtype],
        "out_dtype": "float32" if along_k else "bfloat16",
        "accumulate": along_k,
        "mode": "burst",
        "us": round(us, 3),
        "tflops": round(2.0 * rows * case.n * case.k / us / 1e6, 1),
        "gbps": round(_moved(case, rows) / us / 1e3, 1),
        "error": float(error),
        "rival": RIVALS[case.dtype],
        "rival_us": round(rival_us, 3),
        "ratio": round(rival_us / us, 4),
        **({"through_padded_us": round(through_padded_us[0], 3)} if through_padded_us else {}),
    }


def measure_all(cases: tuple[Case, ...], support: Any, repeat: int) -> Iterator[tuple[Case, Row]]:
    """Yield each case with its row as soon as it is measured."""
    for case in cases:
        yield case, measure(case, support, repeat)


def is_right(row: Row) -> bool:
    """Tell whether a row's error is within the numbers contract; NaN is not."""
    return bool(row["error"] <= MAX_ERROR[row["out_dtype"]])
