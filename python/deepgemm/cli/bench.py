"""`deepgemm bench`: measured speed, as a table, JSON and a plot."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from deepgemm.cli.exits import FAILED, WELL, WRONG_USE, count, exit_code

PEER = (
    "peer: cuBLASLt's time over that of the torch-only DeepGEMM, as published for the same kind\n"
    "of card (docs/performance.md); not measured here. ratio: cuBLASLt's time over ours, measured."
)


def _at_least_one(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"found {value}, need 1 or more")
    return value


_at_least_one.__name__ = "int"  # argparse names it where the text is no number


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser("bench", help="measure speed", description=__doc__)
    suites = parser.add_subparsers(dest="suite", required=True, metavar="SUITE")
    dense = suites.add_parser("dense", help="FP8 dense products against cuBLASLt; needs a GPU")
    dense.add_argument("--decode", action="store_true", help="the rows of M = 2...64 instead")
    bf16 = suites.add_parser("bf16", help="BF16 dense products against cuBLASLt; needs a GPU")
    bf16.set_defaults(decode=False)
    for suite in (dense, bf16):
        _dense_options(suite)
    grouped = suites.add_parser("grouped", help="groups: MoE shapes; needs a GPU")
    grouped.add_argument("--dtype", choices=("fp8", "bf16"), default="fp8")
    grouped.add_argument("--quick", action="store_true", help="seven rows, of every kind")
    factors = suites.add_parser(
        "factors", help="FP8 products with row-major factors of A, read or laid out; needs a GPU"
    )
    jit = suites.add_parser("jit", help="compile times; needs NVRTC, no GPU")
    which = jit.add_mutually_exclusive_group()
    which.add_argument("--quick", action="store_true", help="one kernel of each family")
    which.add_argument("--every", action="store_true", help="every kernel, for half an hour")
    call = suites.add_parser("call", help="CPU time of one call; needs a GPU")
    for suite, repeat, run_suite in (
        (dense, 20, run_dense),
        (bf16, 20, run_dense),
        (grouped, 10, run_grouped),
        (factors, 20, run_factors),
        (jit, 3, run_jit),
        (call, 50, run_call),
    ):
        suite.add_argument(
            "--repeat", type=_at_least_one, default=repeat, help=f"samples ({repeat})"
        )
        suite.add_argument("--json", type=Path, metavar="OUT", help="write the result file here")
        suite.set_defaults(run_suite=run_suite)
    show = suites.add_parser("show", help="Markdown table, or SVG plot, of a result file")
    show.add_argument("file", type=Path)
    show.add_argument("--plot", type=Path, metavar="SVG", help="write a bar chart here")
    show.set_defaults(run_suite=run_show)
    parser.set_defaults(run=run)


def _dense_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rows", nargs="+", default=[], metavar="ROW", help="MxNxK, M=4096 or as --list has it"
    )
    parser.add_argument("--list", action="store_true", help="print the rows and their numbers")
    parser.add_argument("--quick", action="store_true", help="a few rows, one of each kind")
    parser.add_argument("--mode", choices=["burst", "sustained"], default="burst")
    parser.add_argument("--clean-l2", action="store_true", help="read 2 GB after the flush")
    parser.add_argument("--no-rival", action="store_true", help="do not time cuBLASLt")
    parser.add_argument("--plot", type=Path, metavar="SVG", help="write a bar chart here")


def run(args: argparse.Namespace) -> int:
    """Run a suite: 0 if all is right, 1 if a result was wrong, 2 if it cannot run here."""
    try:
        return int(args.run_suite(args))
    except (OSError, RuntimeError, ValueError) as error:
        print(f"deepgemm bench {args.suite}: {error}", file=sys.stderr)
        return exit_code(error)


def _refuse(suite: str, problem: str) -> int:
    print(f"deepgemm bench {suite} needs {problem}", file=sys.stderr)
    return WRONG_USE


def _support(suite: str) -> Any:
    """Return the timer and the rivals; None, having said why, where they cannot run."""
    from deepgemm.bench import machine

    if problem := machine.gpu_problem():
        _refuse(suite, f"a GPU: {problem}")
        return None
    try:
        from deepgemm.torch import bench_support
    except ImportError as error:
        _refuse(suite, f"PyTorch, for its timer: {error}")
        return None
    return bench_support


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
    """Measure dense products, of FP8 or of BF16."""
    from deepgemm.bench import dense, suites

    whole, quick = {
        "dense": (suites.DENSE, suites.QUICK),
        "bf16": (suites.BF16_DENSE, suites.BF16_QUICK),
    }[args.suite]
    suite = quick if args.quick else suites.DECODE if args.decode else whole
    cases = suites.select(suite, args.rows)
    if args.list:
        print(suites.listing(suite, cases))
        return WELL
    if (support := _support(args.suite)) is None:
        return WRONG_USE
    options = dense.Options(args.mode, args.repeat, args.clean_l2, rival=not args.no_rival)
    width = suites.column(cases)
    say = _printer(
        f"{'row':<{width}}{'us':>9}{'TFLOP/s':>9}{'GB/s':>7}{'error':>9}{'ratio':>8}{'peer':>7}"
    )
    rows: list[dict[str, Any]] = []
    try:
        for case, row in dense.measure_all(cases, support, options):
            rows.append(row)
            say(_dense_line(case, row, width))
    except (KeyboardInterrupt, RuntimeError):
        if rows:  # what was measured is not lost
            _write(args, rows)
        raise
    _dense_foot(cases, rows)
    _write(args, rows)
    return WELL if all(dense.is_right(row) for row in rows) else FAILED


def _dense_line(case: Any, row: dict[str, Any], width: int) -> str:
    from deepgemm.bench import dense

    peer = f"{case.peer_ratio:.2f}" if case.peer_ratio else ""
    ratio = f"{row['ratio']:.3f}" if "ratio" in row else ""
    return (
        f"{case.label:<{width}}{row['us']:>9.1f}{row['tflops']:>9.0f}{row['gbps']:>7.0f}"
        f"{row['error']:>9.1e}{ratio:>8}{peer:>7}{'' if dense.is_right(row) else '  WRONG'}"
    )


def _dense_foot(cases: Sequence[Any], rows: Sequence[dict[str, Any]]) -> None:
    from deepgemm.bench import report

    ratios = [row["ratio"] for row in rows if "ratio" in row]
    if ratios:
        mean = report.geometric_mean(ratios)
        print(f"geometric mean of {count(len(ratios), 'ratio')}: {mean:.4f}")
    if any(case.peer_ratio for case in cases):
        print(PEER)


def run_grouped(args: argparse.Namespace) -> int:
    """Measure grouped products."""
    from deepgemm.bench import grouped

    if (support := _support(args.suite)) is None:
        return WRONG_USE
    say = _printer(
        f"{'groups x rows x N x K':<28}{'us':>9}{'TFLOP/s':>9}{'GB/s':>7}{'error':>9}{'ratio':>8}"
        f"{'peer us':>9}{'through padded':>16}"
    )
    rows: list[dict[str, Any]] = []
    cases = grouped.cases_of(args.dtype, quick=args.quick)
    try:
        for case, row in grouped.measure_all(cases, support, args.repeat):
            rows.append(row)
            peer = f"{case.peer_us:.0f}" if case.peer_us else ""
            padded = f"{row['through_padded_us']:.1f}" if "through_padded_us" in row else ""
            say(
                f"{case.label:<28}{row['us']:>9.1f}{row['tflops']:>9.0f}{row['gbps']:>7.0f}"
                f"{row['error']:>9.1e}{row['ratio']:>8.3f}{peer:>9}{padded:>16}"
                f"{'' if grouped.is_right(row) else '  WRONG'}"
            )
    except KeyboardInterrupt:
        _write(args, rows)
        raise
    _write(args, rows)
    return WELL if all(grouped.is_right(row) for row in rows) else FAILED


def run_factors(args: argparse.Namespace) -> int:
    """Measure row-major factors of A."""
    from deepgemm.bench import dense, factors

    if (support := _support(args.suite)) is None:
        return WRONG_USE
    say = _printer(f"{'M x N x K':<18}{'mode':<11}{'us':>9}  {'against':<27}{'us':>9}{'ratio':>8}")
    rows: list[dict[str, Any]] = []
    for measured in factors.measure_all(support, args.repeat):
        rows += measured
        for row in measured:
            label = "x".join(str(row[name]) for name in "mnk")
            say(
                f"{label:<18}{row['mode']:<11}{row['us']:>9.2f}  {row['rival']:<27}"
                f"{row['rival_us']:>9.2f}{row['ratio']:>8.3f}"
                f"{'' if dense.is_right(row) else '  WRONG'}"
            )
    _write(args, rows)
    return WELL if all(dense.is_right(row) for row in rows) else FAILED


def run_jit(args: argparse.Namespace) -> int:
    """Measure compile times."""
    import deepgemm
    from deepgemm.bench import jit

    if problem := deepgemm.info()["nvrtc_problem"]:
        return _refuse("jit", f"NVRTC: {problem}")
    rows: list[dict[str, Any]] = []
    try:
        print("first cache and bundle, with the kernels of the dense suite ...", flush=True)
        stored = jit.stored(args.quick)
        keys = () if args.quick else stored["disk_ms"]
        _jit_rows(args, jit.selection(keys, every=args.every), stored, rows)
    except KeyboardInterrupt:
        _write(args, rows)
        raise
    _write(args, rows)
    return WELL


def _jit_rows(
    args: argparse.Namespace,
    selected: Sequence[int],
    stored: dict[str, dict[Any, float]],
    rows: list[dict[str, Any]],
) -> None:
    """Append each row as soon as it is measured, and print it with its number."""
    import statistics

    from deepgemm.bench import jit

    total = len(selected)
    say = _printer(
        f"{'':>{2 * len(str(total)) + 1}}{'cold ms':>9}{'disk ms':>9}{'bundle ms':>11}  kernel"
    )
    for number, row in enumerate(jit.cold(selected, args.repeat), start=1):
        for field, found in stored.items():
            times = [ms for key, ms in found.items() if jit.matches(key, row["kernel"])]
            if times:
                row[field] = round(min(times), 3)
        rows.append(row)
        disk, bundle = (f"{row[field]:.2f}" if field in row else "" for field in stored)
        progress = f"{number:>{len(str(total))}}/{total}"
        say(f"{progress}{row['cold_ms']:>9.1f}{disk:>9}{bundle:>11}  {row['kernel']}")
    times = [row["cold_ms"] for row in rows]
    if times:
        median = statistics.median(times)
        say(f"{count(total, 'kernel')}: median {median:.0f} ms, worst {max(times):.0f} ms")


def run_call(args: argparse.Namespace) -> int:
    """Measure the CPU time of a call, and of the driver's launch in it."""
    from deepgemm.bench import machine

    if problem := machine.gpu_problem():
        return _refuse("call", f"a GPU: {problem}")
    from deepgemm.bench import call

    framework, rows = call.measure(args.repeat)
    print(f"{'path':<8}{'us':>8}{'launch':>8}{'above':>8}   arrays: {framework}")
    for row in rows:
        above = row["us"] - row["launch_us"]
        print(f"{row['path']:<8}{row['us']:8.2f}{row['launch_us']:8.2f}{above:8.2f}")
    _write(args, rows)
    return WELL


def run_show(args: argparse.Namespace) -> int:
    """Print a result file as a table."""
    from deepgemm.bench import report

    try:
        content = report.load(args.file)
        wrong = report.problems(content)
    except ValueError as error:  # no JSON, or no text
        wrong = [str(error)]
    if wrong:
        more = f"; and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        raise ValueError(
            f"{args.file} is no result file of `deepgemm bench`: {'; '.join(wrong[:3])}{more}"
        )
    print(report.markdown(content), end="")
    if args.plot:
        args.plot.write_text(report.svg(content), encoding="utf-8")
    return WELL
