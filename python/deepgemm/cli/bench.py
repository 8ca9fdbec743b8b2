"""`deepgemm bench`: measured speed, as a table, JSON and a plot."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser("bench", help="measure speed", description=__doc__)
    suites = parser.add_subparsers(dest="suite", required=True, metavar="SUITE")
    dense = suites.add_parser("dense", help="FP8 dense products against cuBLASLt; needs a GPU")
    _dense_options(dense)
    jit = suites.add_parser("jit", help="compile times; needs NVRTC, no GPU")
    call = suites.add_parser("call", help="CPU time of one call; needs a GPU")
    for suite, repeat, run_suite in (
        (dense, 20, run_dense),
        (jit, 3, run_jit),
        (call, 20, run_call),
    ):
        suite.add_argument("--repeat", type=int, default=repeat, help=f"samples ({repeat})")
        suite.add_argument("--json", type=Path, metavar="OUT", help="write the result file here")
        suite.set_defaults(run_suite=run_suite)
    show = suites.add_parser("show", help="Markdown table, or SVG plot, of a result file")
    show.add_argument("file", type=Path)
    show.add_argument("--plot", type=Path, metavar="SVG", help="write a bar chart here")
    show.set_defaults(run_suite=run_show)
    parser.set_defaults(run=run)


def _dense_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rows", nargs="+", default=[], metavar="ROW", help="MxNxK, M=4096 or a number from 0"
    )
    parser.add_argument("--decode", action="store_true", help="the rows of M = 2...64 instead")
    parser.add_argument("--quick", action="store_true", help="six rows, one of each kind")
    parser.add_argument("--mode", choices=["burst", "sustained"], default="burst")
    parser.add_argument("--clean-l2", action="store_true", help="read 2 GB after the flush")
    parser.add_argument("--no-rival", action="store_true", help="do not time cuBLASLt")
    parser.add_argument("--plot", type=Path, metavar="SVG", help="write a bar chart here")


def run(args: argparse.Namespace) -> int:
    """Run a suite: 0 if all is right, 1 if a result was wrong, 2 if it cannot run here."""
    from deepgemm import Error

    try:
        return int(args.run_suite(args))
    except (Error, OSError, RuntimeError, ValueError) as error:
        print(f"deepgemm bench: {error}", file=sys.stderr)
        return 2


def _gpu_problem() -> str:
    import deepgemm
    from deepgemm.bench.machine import hopper_gpus

    return "" if hopper_gpus() else str(deepgemm.info()["driver_problem"] or "no Hopper GPU")


def _write(args: argparse.Namespace, rows: Sequence[dict[str, Any]]) -> None:
    from deepgemm.bench import machine, report

    content = report.document(machine.describe(), rows)
    if args.json:
        report.save(content, args.json)
        print(f"written: {args.json}")
    if getattr(args, "plot", None):
        args.plot.write_text(report.svg(content), encoding="utf-8")
        print(f"written: {args.plot}")


def _printer(head: str) -> Callable[[str], None]:
    print(head, flush=True)
    return lambda line: print(line, flush=True)


def run_dense(args: argparse.Namespace) -> int:
    """Measure dense products."""
    from deepgemm.bench import dense, report, suites

    cases = suites.QUICK if args.quick else suites.DECODE if args.decode else suites.DENSE
    cases = suites.select(cases, args.rows)
    if problem := _gpu_problem():
        print(f"deepgemm bench dense needs a GPU: {problem}", file=sys.stderr)
        return 2
    try:
        from deepgemm.torch import bench_support
    except ImportError as error:
        print(f"deepgemm bench dense needs PyTorch, for its timer: {error}", file=sys.stderr)
        return 2
    options = dense.Options(args.mode, args.repeat, args.clean_l2, rival=not args.no_rival)
    say = _printer(
        f"{'row':<20}{'us':>9}{'TFLOP/s':>9}{'GB/s':>7}{'error':>9}{'ratio':>8}{'peer':>7}"
    )
    rows, right = [], True
    for case, row in dense.measure_all(cases, bench_support, options):
        rows.append(row)
        verdict = "" if dense.is_right(row) else "  WRONG"
        right = right and not verdict
        peer = f"{case.peer_ratio:.2f}" if case.peer_ratio else ""
        ratio = f"{row['ratio']:.3f}" if "ratio" in row else ""
        say(
            f"{case.label:<20}{row['us']:>9.1f}{row['tflops']:>9.0f}{row['gbps']:>7.0f}"
            f"{row['error']:>9.1e}{ratio:>8}{peer:>7}{verdict}"
        )
    ratios = [row["ratio"] for row in rows if "ratio" in row]
    if ratios:
        say(f"geometric mean of {len(ratios)} ratios: {report.geometric_mean(ratios):.4f}")
    _write(args, rows)
    return 0 if right else 1


def run_jit(args: argparse.Namespace) -> int:
    """Measure compile times."""
    import statistics

    from deepgemm.bench import jit

    say = _printer(f"{'cold ms':>9}{'disk ms':>9}  kernel")
    on_disk = jit.disk()
    rows = []
    for row in jit.cold(args.repeat):
        times = [ms for key, ms in on_disk.items() if jit.matches(key, row["kernel"])]
        if times:
            row["disk_ms"] = round(min(times), 3)
        rows.append(row)
        read = f"{row['disk_ms']:.2f}" if "disk_ms" in row else ""
        say(f"{row['cold_ms']:>9.1f}{read:>9}  {row['kernel']}")
    times = [row["cold_ms"] for row in rows]
    if times:
        say(
            f"{len(times)} kernels: "
            f"median {statistics.median(times):.0f} ms, worst {max(times):.0f} ms"
        )
    _write(args, rows)
    return 0


def run_call(args: argparse.Namespace) -> int:
    """Measure the CPU time of a call."""
    if problem := _gpu_problem():
        print(f"deepgemm bench call needs a GPU: {problem}", file=sys.stderr)
        return 2
    from deepgemm.bench import call

    rows = call.measure(args.repeat)
    for row in rows:
        print(f"{row['path']:<8}{row['us']:8.2f} us per call")
    _write(args, rows)
    return 0


def run_show(args: argparse.Namespace) -> int:
    """Print a result file as a table."""
    from deepgemm.bench import report

    content = report.load(args.file)
    if wrong := report.problems(content):
        raise ValueError(f"{args.file}: " + "; ".join(wrong))
    print(report.markdown(content), end="")
    if args.plot:
        args.plot.write_text(report.svg(content), encoding="utf-8")
    return 0
