"""``deepgemm warmup``: compile the kernels of a list of problems ahead of time."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from deepgemm.cli.cache import problem_of
from deepgemm.cli.exits import FAILED, WELL, count
from deepgemm.cli.problems import add_problem_options, parse_shape, problem_options, unused
from deepgemm.cli.progress import show


def add_parser(subparsers: Any) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "warmup",
        help="compile kernels into the cache ahead of time",
        description="Compiles the kernels of problems, of a model, or of a recorded run into the "
        "cache; needs NVRTC, no GPU. Exit code 1 if the cache keeps nothing.",
    )
    parser.add_argument("problems", nargs="*", metavar="M,N,K")
    parser.add_argument(
        "--file", type=Path, help='one M,N,K a line ("#": a comment); - is the standard input'
    )
    parser.add_argument(
        "--trace", type=Path, help="problems that a run on a GPU recorded with DEEPGEMM_TRACE=FILE"
    )
    _add_model_options(parser.add_argument_group("of a model"))
    add_problem_options(parser.add_argument_group("of M,N,K"))
    parser.add_argument(
        "--device", type=int, help="choose for this CUDA device, and load the kernels there"
    )
    parser.add_argument(
        "--device-sms", type=int, metavar="N", help="choose for a device of so many SMs"
    )
    parser.add_argument(
        "--jobs", type=int, help="kernels that are compiled at once (one for each core)"
    )
    parser.add_argument("--json", action="store_true", help="for scripts")
    parser.set_defaults(run=run)


def _add_model_options(group: Any) -> None:
    group.add_argument(
        "--model", type=Path, metavar="PATH", help="config.json of a decoder, or its directory"
    )
    group.add_argument("--tensor-parallel", type=int, default=1, metavar="N", help="ranks (1)")
    group.add_argument(
        "--expert-parallel", type=int, default=1, metavar="N", help="ranks that share experts (1)"
    )
    group.add_argument("--dtype", choices=["fp8", "bf16"], default="fp8")
    group.add_argument(
        "--rows", type=_rows, metavar="M,...", help="numbers of tokens (all up to --max-rows)"
    )
    group.add_argument("--max-rows", type=int, default=8192, metavar="M", help="8192")
    group.add_argument("--lm-head", action="store_true", help="also the vocabulary's projection")
    group.add_argument(
        "--expert-forms",
        type=_forms,
        default=("sizes", "masked"),
        metavar="FORM,...",
        help="how rows are given to experts: sizes (or offsets, ends), labels, masked "
        "(sizes,masked)",
    )


def _rows(text: str) -> list[int]:
    parts = text.split(",")
    if not all(part.strip().isdigit() and int(part) > 0 for part in parts):
        raise argparse.ArgumentTypeError(f'found "{text}", need numbers above 0: 1,64,4096')
    return [int(part) for part in parts]


def _forms(text: str) -> tuple[str, ...]:
    from deepgemm._models import EXPERT_FORMS

    parts = tuple(text.split(","))
    if not parts or any(part not in EXPERT_FORMS for part in parts):
        raise argparse.ArgumentTypeError(f'found "{text}", need some of {", ".join(EXPERT_FORMS)}')
    return parts


def run(args: argparse.Namespace) -> int:
    """Compile, with a progress bar on the standard error."""
    import deepgemm

    began = time.perf_counter()
    _check_uses(args)
    problems = [*_shapes(args), *_model(args), *_trace(args.trace)]
    if not problems:
        raise ValueError("problems: found none, need M,N,K arguments, --file, --model or --trace")
    cache = deepgemm.cache_info()
    problem = problem_of(cache)
    if problem and not cache["entries"] and not cache["bundle_kernels"]:
        return _refuse(problem)
    jobs = args.jobs if args.jobs is not None else len(os.sched_getaffinity(0))
    reports = deepgemm.warmup(problems, device=args.device, jobs=jobs, progress=_progress)
    compiled = {report.identity for report in reports if report.origin == "compiled"}
    if compiled and (problem or not deepgemm.cache_info()["entries"]):
        return _refuse(problem or "nothing could be written")
    _summarise(reports, time.perf_counter() - began, args.json)
    return WELL


def _check_uses(args: argparse.Namespace) -> None:
    """Refuse an option that would change nothing: who gave it meant something by it."""
    of_model = vars(unused(_add_model_options))
    of_shapes = vars(unused(add_problem_options))
    for wanted, usual, what in (
        (args.model is not None, of_model, "--model"),
        (bool(args.problems) or args.file is not None, of_shapes, "M,N,K arguments or --file"),
    ):
        given = [name for name, value in usual.items() if getattr(args, name) != value]
        if given and not wanted:
            raise ValueError(f"--{given[0].replace('_', '-')}: found no {what}, which it is of")
    if args.rows is not None and args.max_rows != of_model["max_rows"]:
        raise ValueError("--max-rows: found --rows too, need one of them")


def _summarise(reports: list[Any], seconds: float, as_json: bool) -> None:
    kernels: dict[str, dict[str, Any]] = {}
    for report in reports:
        if not report.kernel:  # an empty product
            continue
        record = {
            "kernel": report.kernel,
            "config": report.config,
            "origin": report.origin,
            "milliseconds": report.milliseconds,
            "problems": 0,
        }
        kernel = kernels.setdefault(report.identity, record)
        # One of its problems had it compiled; the others found it in memory.
        if kernel["origin"] == "memory" or report.origin == "compiled":
            kernel.update(origin=report.origin, milliseconds=report.milliseconds)
        kernel["problems"] += 1
    compiled = sum(kernel["origin"] == "compiled" for kernel in kernels.values())
    there = len(kernels) - compiled
    if as_json:
        summary = {"problems": len(reports), "compiled": compiled, "there": there}
        print(json.dumps({**summary, "seconds": seconds, "kernels": [*kernels.values()]}, indent=2))
        return
    print(
        f"{count(len(reports), 'problem')}, {count(len(kernels), 'kernel')}: {compiled} compiled, "
        f"{there} {'was' if there == 1 else 'were'} there; {seconds:.1f} s"
    )


def _refuse(problem: str) -> int:
    print(f"deepgemm warmup: the cache keeps nothing: {problem}", file=sys.stderr)
    return FAILED


def _shapes(args: argparse.Namespace) -> list[dict[str, Any]]:
    options = problem_options(args)
    if args.device_sms is not None:
        options["device_sms"] = args.device_sms
    shapes = [parse_shape(text) for text in [*args.problems, *_lines(args.file)]]
    return [{"m": m, "n": n, "k": k, **options} for m, n, k in shapes]


def _lines(file: Path | None) -> Iterable[str]:
    if file is None:
        return []
    text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return [line for line in lines if line]


def _model(args: argparse.Namespace) -> list[dict[str, Any]]:
    if args.model is None:
        return []
    from deepgemm._models import covering_problems, read_model

    path = args.model / "config.json" if args.model.is_dir() else args.model
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: found no JSON ({error}), need a model's config.json") from None
    if not isinstance(config, dict):
        raise ValueError(f"{path}: found {type(config).__name__}, need a model's config.json")
    if args.max_rows < 1:
        raise ValueError(f"--max-rows: found {args.max_rows}, need 1 or more")
    model = read_model(
        config,
        tensor_parallel=args.tensor_parallel,
        expert_parallel=args.expert_parallel,
        lm_head=args.lm_head,
    )
    print(model, file=sys.stderr)
    return covering_problems(
        model,
        dtype=args.dtype,
        rows=args.rows,
        most_rows=args.max_rows,
        forms=args.expert_forms,
        device=args.device,
        device_sms=args.device_sms,
    )


def _trace(file: Path | None) -> list[dict[str, Any]]:
    """Return the problems of a trace, each once; lines that a full disk has cut are passed over."""
    if file is None:
        return []
    problems: dict[str, dict[str, Any]] = {}
    damaged = 0
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        if not line.strip():
            continue
        try:
            problem = json.loads(line)
        except ValueError:
            problem = None
        if isinstance(problem, dict) and "op" in problem:
            problems.setdefault(line, problem)
        else:
            damaged += 1
    if damaged:
        print(
            f"deepgemm warmup: {file}: {count(damaged, 'damaged line')} passed over",
            file=sys.stderr,
        )
    if not problems:
        raise ValueError(f"{file}: found no problem, need what DEEPGEMM_TRACE has recorded")
    return list(problems.values())


def _name(problem: dict[str, Any]) -> str:
    """``64x128x256``, with the operation if it is another than gemm."""
    op = problem.get("op", "gemm")
    if "m" not in problem:
        return " ".join([op, "x".join(map(str, problem.get("shape", ())))]).rstrip()
    shape = "x".join(str(problem[name]) for name in "mnk")
    groups = f" of {problem['groups']} groups" if "groups" in problem else ""
    return shape if op == "gemm" else f"{op}{groups} {shape}"


def _progress(number: int, total: int, report: Any) -> None:
    where = report.origin or "nothing to do"
    show(number, total, f"{_name(report.problem)} {where} {report.milliseconds:.0f} ms")
