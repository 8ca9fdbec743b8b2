"""Measures the persistent kernel's tiles on grouped products, for tools/fit_heuristics.py to fit.

Each problem is run with every tile that may be taken and three bands, in burst (see
docs/performance.md), all of a problem in turn. Needs a Hopper GPU and torch.

    python tools/sweep_groups.py benchmarks/sweeps/h200/sweep_groups.json
    python tools/sweep_groups.py --part rows fp8 rows_fp8.json

kind "rows": groups of about m rows, each times a matrix [n, k] of its own. "k": [m, k] times
[n, k]^T of about k each, added to a matrix in FP32 for each group. FP8 and BF16.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from sweep import save

import deepgemm
from deepgemm.bench.grouped import Case
from deepgemm.torch import bench_support as support

COLUMNS = "kind in_dtype groups m n k tile_m tile_n consumers consumers_n stages ordered band us"
BANDS = (4, 8, 16)
FP8, BF16 = "fp8", "bf16"
TILES = {
    ("rows", FP8): (
        *((256, 128, 2, 1, 4, True), (128, 256, 2, 2, 3, True), (128, 128, 2, 1, 5, False)),
        *((64, 128, 1, 1, 8, False), (64, 96, 1, 1, 9, False), (64, 64, 1, 1, 12, False)),
        (64, 32, 1, 1, 16, False),
    ),
    ("k", FP8): (
        *((192, 96, 3, 1, 4, False), (128, 128, 2, 1, 4, False), (64, 64, 1, 1, 12, False)),
    ),
    ("rows", BF16): (
        *((256, 128, 2, 1, 4, False), (128, 256, 2, 1, 3, False), (128, 128, 2, 1, 6, False)),
        *((64, 128, 1, 1, 8, False), (64, 64, 1, 1, 12, False)),
    ),
    ("k", BF16): (
        *((256, 128, 2, 1, 4, False), (128, 256, 2, 1, 3, False), (128, 128, 2, 1, 6, False)),
        (64, 64, 1, 1, 12, False),
    ),
}
TILE = ("tile_m", "tile_n", "consumers", "consumers_n", "stages", "ordered")
WEIGHTS = ((6144, 7168), (7168, 3072), (4096, 4096), (4096, 2048), (2048, 7168))
ROWS = (
    *((4, 8192), (8, 4096), (4, 2048), (6, 1024), (8, 512), (32, 192), (32, 96), (64, 40)),
    *((32, 20), (6, 20)),
)
ALONG_K = ((4, 8192), (8, 4096), (16, 2048), (8, 1024))
GRADIENTS = ((4096, 7168), (7168, 2048), (2048, 2048))
Problem = tuple[str, str, int, int, int, int]


def problems() -> Iterator[Problem]:
    """(kind, dtype, groups, m, n, k) with m or k the mean of a group."""
    for dtype in (FP8, BF16):
        for groups, m in ROWS:
            for n, k in WEIGHTS:
                yield "rows", dtype, groups, m, n, k
        for groups, k in ALONG_K:
            for m, n in GRADIENTS:
                yield "k", dtype, groups, m, n, k


def operand(rows: int, k: int, seed: int, dtype: str, block: int) -> Any:
    """One matrix, in FP8 with factors for `block` rows."""
    x = support.random_matrix(rows, k, seed)
    return deepgemm.quantize(x, (block, 128)) if dtype == FP8 else x.bfloat16()


def call_of(problem: Problem) -> Callable[..., Any]:
    """The product as a function of the policy."""
    kind, dtype, groups, m, n, k = problem
    if kind == "k":
        sizes = Case("along K", groups, m, n, groups * k).sizes()
        a, b = (operand(rows, groups * k, rows, dtype, 1) for rows in (m, n))
        out = support.zeros(groups * m, n, "float32").view(groups, m, n)
        return partial(deepgemm.k_grouped_gemm, a, b, support.upload(sizes), out, c=out)
    sizes = Case("natural", groups, groups * m, n, k).sizes()
    a = operand(groups * m, k, 1, dtype, 1)
    b = operand(groups * n, k, 2, dtype, 128)
    if dtype == FP8:
        b = type(b)(b.values.view(groups, n, k), b.sf.view(groups, n // 128, -1), b.granularity)
    else:
        b = b.view(groups, n, k)
    out = support.empty(groups * m, n, "bfloat16")
    return partial(deepgemm.grouped_gemm, a, b, support.upload(sizes), out)


def measure(repeat: int, part: list[str] | None) -> Iterator[list[Any]]:
    """Rows of the sweep, problem by problem; says on stderr how far it is."""
    every = [problem for problem in problems() if part is None or list(problem[:2]) == part]
    for i, problem in enumerate(every):
        product = call_of(problem)
        rows: list[list[Any]] = []
        calls: list[Callable[[], Any]] = []
        for tile in TILES[problem[:2]]:
            if problem[0] == "rows" and tile[0] == 256 and problem[3] > 256:
                continue  # not taken there (is_too_tall() in gemm_cost.cpp)
            for band in BANDS:
                policy = dict(zip(TILE, tile, strict=True)) | {"group": band}
                rows.append([*problem, *tile, band])
                calls.append(partial(product, policy=policy))
        times = [statistics.median(samples) for samples in support.burst_us(calls, repeat)]
        print(f"{i + 1}/{len(every)} {problem}: {min(times):.2f} us", file=sys.stderr)
        for row, us in zip(rows, times, strict=True):
            yield [*row, round(us, 3)]


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description="Measure tiles on grouped products on this GPU.")
    parser.add_argument("output", type=Path)
    parser.add_argument("--repeat", type=int, default=3, metavar="N")
    parser.add_argument(
        "--part",
        nargs=2,
        metavar=("KIND", "DTYPE"),
        help="only these problems, to be put into the whole by hand",
    )
    arguments = parser.parse_args()
    rows = list(measure(arguments.repeat, arguments.part))
    save(arguments.output, COLUMNS.split(), rows, arguments.repeat)
    return 0


if __name__ == "__main__":
    sys.exit(main())
