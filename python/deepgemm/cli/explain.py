"""``deepgemm explain M N K``: which kernel and config, and why."""

import argparse
import json
from dataclasses import asdict
from typing import Any

from deepgemm._runtime import Report
from deepgemm.cli.problems import add_problem_options, problem_options


def add_parser(subparsers: Any) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "explain",
        help="which kernel computes a product, and why",
        description="Shows the kernel and config chosen for a product of aligned arrays, and what "
        "else was weighed; compiles nothing and needs no GPU, unless --measure is given.",
    )
    for name in "MNK":
        parser.add_argument(name.lower(), type=int, metavar=name)
    add_problem_options(parser)
    parser.add_argument("--device", type=int, help="CUDA device; default: the figures of an H200")
    parser.add_argument("--json", action="store_true", help="for scripts")
    parser.add_argument(
        "--measure", action="store_true", help="also time every candidate (needs a GPU and torch)"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the report."""
    import deepgemm

    options = problem_options(args)
    report = deepgemm.explain("gemm", args.m, args.n, args.k, device=args.device, **options)
    if args.measure:
        from deepgemm.bench.dense import measure_candidates

        measure_candidates(args.m, args.n, args.k, report.candidates)
    print(json.dumps(asdict(report), indent=2) if args.json else text(report))
    return 0


def text(report: Report) -> str:
    """The report, then the candidates as a table."""
    lines = [str(report)]
    if report.candidates:
        measured = any("measured_us" in candidate for candidate in report.candidates)
        lines += ["", f"  {'predicted us':>12}{'  measured us' if measured else ''}  candidate"]
    for candidate in report.candidates:
        times = f"{candidate['predicted_us']:>12.1f}"
        if "measured_us" in candidate:
            times += f"  {candidate['measured_us']:>11.1f}"
        lines.append(f"  {times}  {candidate['policy']['kernel']}: {candidate['config']}")
    return "\n".join(lines)
