"""``deepgemm warmup``: compile the kernels of a list of problems ahead of time."""

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from deepgemm.cli.cache import problem_of
from deepgemm.cli.exits import FAILED, WELL, count
from deepgemm.cli.explain import as_dict
from deepgemm.cli.problems import add_problem_options, parse_shape, problem_options

_BAR = 30


def add_parser(subparsers: Any) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "warmup",
        help="compile kernels into the cache ahead of time",
        description="Compiles the kernel of every problem into the cache; needs NVRTC, no GPU. "
        "Exit code 1 if the cache keeps nothing.",
    )
    parser.add_argument("problems", nargs="*", metavar="M,N,K")
    parser.add_argument(
        "--file", type=Path, help='one M,N,K a line ("#": a comment); - is the standard input'
    )
    add_problem_options(parser)
    parser.add_argument(
        "--device", type=int, help="choose for this CUDA device, and load the kernels there"
    )
    parser.add_argument("--json", action="store_true", help="for scripts")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Compile, with a progress bar on the standard error."""
    import deepgemm

    shapes = [parse_shape(text) for text in [*args.problems, *_lines(args.file)]]
    if not shapes:
        raise ValueError("problems: found none, need M,N,K arguments or --file")
    problem = problem_of(deepgemm.cache_info())
    if problem and not deepgemm.cache_info()["entries"]:
        return _refuse(problem)
    options = problem_options(args)
    problems = [{"m": m, "n": n, "k": k, **options} for m, n, k in shapes]
    reports = deepgemm.warmup(problems, device=args.device, progress=_progress)
    compiled = sum(report.origin == "compiled" for report in reports)
    if compiled and (problem or not deepgemm.cache_info()["entries"]):
        return _refuse(problem or "nothing could be written")
    if args.json:
        print(json.dumps([as_dict(report, report.reason) for report in reports], indent=2))
        return WELL
    kernels = {(report.kernel, report.config): report for report in reports}
    milliseconds = sum(report.milliseconds for report in reports)
    there = len(reports) - compiled
    print(
        f"{count(len(reports), 'problem')}, {count(len(kernels), 'kernel')}: {compiled} compiled, "
        f"{there} {'was' if there == 1 else 'were'} there; {milliseconds / 1e3:.1f} s"
    )
    return WELL


def _refuse(problem: str) -> int:
    print(f"deepgemm warmup: the cache keeps nothing: {problem}", file=sys.stderr)
    return FAILED


def _lines(file: Path | None) -> Iterable[str]:
    if file is None:
        return []
    text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return [line for line in lines if line]


def _progress(number: int, count: int, report: Any) -> None:
    """One line that is redrawn on a terminal, one line per problem elsewhere."""
    done = _BAR * number // count
    bar = "#" * done + "." * (_BAR - done)
    shape = "x".join(str(report.problem[name]) for name in "mnk")
    line = f"[{bar}] {number}/{count} {shape} {report.origin} {report.milliseconds:.0f} ms"
    if sys.stderr.isatty():
        end = "\n" if number == count else ""
        print(f"\r\x1b[K{line}", end=end, file=sys.stderr, flush=True)
    else:
        print(line, file=sys.stderr)
