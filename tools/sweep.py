"""Measures configs of the dense kernels on the current GPU, for tools/fit_heuristics.py to fit.

Each problem is run with every tile that a request may use and with several rasters, in burst (see
docs/performance.md), all of a problem in turn. Needs a Hopper GPU and torch.

    python tools/sweep.py blocks  benchmarks/sweeps/h200/sweep_fp8.json
    python tools/sweep.py columns benchmarks/sweeps/h200/sweep_fp8_columns.json
    python tools/sweep.py bf16    benchmarks/sweeps/h200/sweep_bf16.json
    python tools/sweep.py decode  benchmarks/sweeps/h200/sweep_decode.json
    python tools/sweep.py blocks --rows 64 256 small.json      # to be put into the whole by hand

blocks: factors of B per 128 columns, BF16 out. columns: one per column, FP32 out that is stored,
added to D by TMA ("reduce") or added to a C that TMA brings ("accumulate"). bf16: BF16 operands,
BF16 out that is stored or added to C ("store 16", "accumulate 16"), and the same in FP32 as of
columns. decode: FP8 with few rows, by the decode kernel; `deepgemm bundle --only decode` before
compiles most of its configs side by side.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import deepgemm
from deepgemm.bench import machine, suites
from deepgemm.torch import bench_support as support

COLUMNS = "m n k epilogue tile_m tile_n consumers stages cluster_m cluster_n cluster_k ordered"
RASTER = "group along_n us"
RASTERS = ((8, False), (4, True), (8, True), (16, True))  # the default first
SMS = 132  # with no more tiles than these the raster says little
DECODE_N = (512, 1024, 2112, 4096, 7168, 12288, 24576)
DECODE_COLUMNS = "m n k consumers stage_blocks stages cluster_k ctas_per_sm us"
DECODE_CONFIGS = (
    *((1, 1, 2, 1, 3), (1, 1, 2, 4, 4), (1, 1, 3, 1, 2), (1, 1, 3, 2, 2), (1, 1, 4, 1, 3)),
    *((1, 1, 6, 4, 1), (1, 1, 6, 8, 1), (1, 2, 2, 1, 2), (1, 2, 2, 1, 3), (1, 2, 2, 1, 4)),
    *((1, 2, 2, 2, 2), (1, 2, 2, 4, 2), (1, 2, 3, 1, 2), (1, 2, 3, 1, 3), (1, 2, 3, 2, 1)),
    *((1, 2, 3, 4, 1), (1, 2, 3, 8, 1), (1, 2, 4, 1, 1), (1, 2, 4, 1, 2), (1, 2, 4, 2, 2)),
    *((1, 2, 4, 4, 1), (1, 2, 4, 4, 2), (1, 2, 4, 8, 1), (1, 2, 4, 8, 2), (1, 2, 5, 1, 2)),
    *((1, 2, 5, 2, 1), (1, 2, 5, 2, 2), (1, 2, 5, 4, 2), (1, 2, 5, 8, 2), (1, 2, 6, 1, 1)),
    *((1, 4, 2, 2, 2), (1, 4, 2, 8, 2), (1, 4, 3, 1, 2), (1, 4, 3, 8, 1), (1, 4, 4, 1, 1)),
    *((2, 1, 4, 4, 1), (2, 1, 5, 1, 1), (2, 1, 5, 2, 1), (2, 1, 6, 4, 1), (2, 2, 2, 2, 2)),
    *((2, 2, 2, 4, 2), (2, 2, 3, 2, 1), (2, 2, 3, 2, 2), (2, 2, 3, 4, 1), (2, 2, 3, 4, 2)),
)
Shape = tuple[int, int, int]


def block_problems() -> Iterator[Shape]:
    """Weights of common models by row counts from a few tokens to prefill, and the dense suite."""
    weights = (
        *((576, 7168), (1024, 1024), (1024, 4096), (1536, 2048), (1536, 4096), (2112, 7168)),
        *((4096, 7168), (7168, 576), (7168, 2048), (7168, 16384), (12288, 4096), (24576, 1536)),
        (32768, 512),
    )
    seen = set()
    for n, k in weights:
        for m in (64, 128, 192, 256, 512, 1024, 2048, 4096, 8192):
            seen.add((m, n, k))
    for case in suites.DENSE:
        if case.m >= 64 and not case.accumulate:
            seen.add((case.m, case.n, case.k))
    yield from sorted(seen)


def column_problems() -> Iterator[tuple[Shape, str]]:
    """Weight gradients, with each of the three ways to D."""
    shapes = (
        *((512, 4096, 7168), (576, 4096, 7168), (1024, 1024, 4096), (2112, 4096, 7168)),
        *((4096, 2048, 1024), (4096, 4096, 7168), (7168, 4096, 2048), (7168, 4096, 16384)),
        *((24576, 4096, 1536), (32768, 4096, 512), (7168, 2048, 4096), (2048, 2048, 2048)),
    )
    for shape in shapes:
        for epilogue in ("store", "reduce", "accumulate"):
            if epilogue != "reduce" or shape[2] > 1536:  # else TMA's reduction is never taken
                yield shape, epilogue


def bf16_problems() -> Iterator[tuple[Shape, str]]:
    """The same shapes and what they show in BF16."""
    for shape in block_problems():
        yield shape, "store 16"
    for m, n, k in ((4096, 7168, 576), (4096, 256, 7168), (4096, 129280, 7168)):
        yield (m, n, k), "store 16"
    for shape, epilogue in column_problems():
        yield shape, epilogue
        if epilogue == "store":
            yield shape, "accumulate 16"


def decode_problems() -> Iterator[tuple[Shape, str]]:
    """A grid of weights, and those of the dense suite, for each number of tokens of a config."""
    weights = {(n, k) for n in DECODE_N for k in (512, 1024, 2048, 4096, 7168, 16384)}
    weights |= {(576, 7168), (1536, 2048), (24576, 1536), (32768, 512)}
    for m in (8, 16, 32, 64):
        for n, k in sorted(weights):
            yield (m, n, k), "decode"


def operands_of(shape: Shape, kind: str) -> tuple[Any, Any, Any]:
    """Operands and granularity."""
    m, n, k = shape
    if kind == "bf16":
        return *support.bfloat16_operands(m, n, k, "nt"), None
    blocks_b = (1, 128) if kind == "columns" else (128, 128)
    a = deepgemm.quantize(support.random_matrix(m, k, 1), (1, 128))
    b = deepgemm.quantize(support.random_matrix(n, k, 2), blocks_b)
    return a, b, ((1, 128), blocks_b)


def calls_for(shape: Shape, epilogue: str, kind: str) -> tuple[list[list[Any]], list[Any]]:
    """(Fields of the row, call) of every candidate of a problem with every raster."""
    m, n, k = shape
    a, b, granularity = operands_of(shape, kind)
    out_dtype = "bfloat16" if kind == "blocks" or epilogue.endswith("16") else "float32"
    out = support.zeros(m, n, out_dtype)
    c = None
    if not epilogue.startswith("store"):
        c = out if epilogue == "reduce" else support.zeros(m, n, out_dtype)
    found = deepgemm.explain("gemm", a, b, out, c=c, granularity=granularity)
    rows: list[list[Any]] = []
    calls: list[Callable[[], Any]] = []
    for candidate in found.candidates:
        policy = candidate["policy"]
        if policy["kernel"] != "persistent":
            continue
        fields = [policy[name] for name in COLUMNS.split()[4:]]
        tiles = -(-m // policy["tile_m"]) * -(-n // policy["tile_n"])
        for group, along_n in RASTERS if tiles > SMS else RASTERS[:1]:
            wanted = {**policy, "group": group, "raster_along_n": along_n}
            rows.append([m, n, k, epilogue, *fields, group, along_n])
            calls.append(
                partial(deepgemm.gemm, a, b, out, c=c, granularity=granularity, policy=wanted)
            )
    return rows, calls


def decode_calls(shape: Shape) -> tuple[list[list[Any]], list[Any]]:
    """The same of the decode kernel's configs, but for those that this K has no room for."""
    a, b, granularity = operands_of(shape, "decode")
    out = support.zeros(shape[0], shape[1], "bfloat16")
    rows: list[list[Any]] = []
    calls: list[Callable[[], Any]] = []
    for config in DECODE_CONFIGS:
        policy = {**dict(zip(DECODE_COLUMNS.split()[3:], config, strict=False)), "kernel": "decode"}
        call = partial(deepgemm.gemm, a, b, out, granularity=granularity, policy=policy)
        try:
            call()
        except ValueError:  # a rule of the config, or shared memory
            continue
        rows.append([*shape, *config])
        calls.append(call)
    return rows, calls


def problems_of(kind: str) -> Iterator[tuple[Shape, str]]:
    """(Shape, epilogue) of a sweep."""
    if kind == "blocks":
        return ((shape, "store") for shape in block_problems())
    return {"columns": column_problems, "bf16": bf16_problems, "decode": decode_problems}[kind]()


def measure(kind: str, repeat: int, least: int, most: int) -> Iterator[list[Any]]:
    """Rows of the sweep, problem by problem; says on stderr how far it is."""
    problems = [each for each in problems_of(kind) if least <= each[0][0] <= most]
    for i, (shape, epilogue) in enumerate(problems):
        decode = kind == "decode"
        rows, calls = decode_calls(shape) if decode else calls_for(shape, epilogue, kind)
        times = [statistics.median(samples) for samples in support.burst_us(calls, repeat)]
        best = min(times)
        print(f"{i + 1}/{len(problems)} {shape} {epilogue}: {best:.2f} us", file=sys.stderr)
        for row, us in zip(rows, times, strict=True):
            yield [*row, round(us, 3)]


def save(output: Path, columns: list[str], rows: list[list[Any]], repeat: int) -> None:
    """Writes a sweep: the machine, the columns, and a line for each row."""
    head = {
        **machine.describe(),
        "method": f"burst: 8 GB memset before each; median of {repeat} CUPTI times",
        "columns": columns,
    }
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    text = json.dumps(head, indent=1).removesuffix("\n}")
    output.write_text(f'{text},\n "rows": [\n{lines}\n]}}\n')


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(
        description="Measure configs of the dense kernels on this GPU."
    )
    parser.add_argument("kind", choices=("blocks", "columns", "bf16", "decode"))
    parser.add_argument("output", type=Path)
    parser.add_argument("--repeat", type=int, default=5, metavar="N")
    parser.add_argument(
        "--rows",
        nargs=2,
        type=int,
        default=(1, 1 << 30),
        metavar=("FIRST", "LAST"),
        help="only problems of so many rows",
    )
    arguments = parser.parse_args()
    rows = list(measure(arguments.kind, arguments.repeat, *arguments.rows))
    columns = DECODE_COLUMNS if arguments.kind == "decode" else f"{COLUMNS} {RASTER}"
    save(arguments.output, columns.split(), rows, arguments.repeat)
    return 0


if __name__ == "__main__":
    sys.exit(main())
