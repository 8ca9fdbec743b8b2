"""``deepgemm explain [KIND] M N K``: which kernel and config, and why."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from deepgemm.cli.problems import add_problem_options, problem_options, unused

if TYPE_CHECKING:
    from deepgemm._runtime import Report

NOTHING = "nothing to compute: the product is empty"
# How the command line calls the operations, and which of its options each has.
_KINDS = {
    "gemm": ("gemm", ()),
    "grouped": ("grouped_gemm", ("groups", "form")),
    "masked": ("masked_gemm", ("groups", "expected_rows")),
    "k-grouped": ("k_grouped_gemm", ("groups",)),
}
_FORMS = {
    "sizes": "group_sizes",
    "offsets": "group_offsets",
    "ends": "group_ends",
    "labels": "labels",
}


def add_parser(subparsers: Any) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "explain",
        help="which kernel computes a product, and why",
        description="Shows the kernel and config chosen for a product of aligned arrays, and what "
        "else was weighed; compiles nothing and needs no GPU, unless --measure is given. Predicted "
        "times come from a model that was fitted to measurements on an H200. Of groups, M is the "
        "rows of all (grouped) or of each (masked), K that of all (k-grouped).",
    )
    parser.add_argument("kind", nargs="?", choices=list(_KINDS), default="gemm", help="what (gemm)")
    for name in "MNK":
        parser.add_argument(name.lower(), type=int, metavar=name)
    add_problem_options(parser)
    parser.add_argument("--groups", type=int, metavar="G", help="how many, of all kinds but gemm")
    parser.add_argument(
        "--form", choices=list(_FORMS), help="of grouped: what says whose rows (sizes)"
    )
    parser.add_argument(
        "--expected-rows", type=int, metavar="N", help="of masked: rows that a group may have"
    )
    parser.add_argument(
        "--device",
        type=int,
        help="CUDA device, -1 for the figures of an H200; default: 0 if it is a Hopper GPU, "
        "else -1",
    )
    parser.add_argument("--json", action="store_true", help="for scripts")
    parser.add_argument(
        "--measure",
        action="store_true",
        help="also time every candidate (needs a GPU and torch; without the other options)",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the report."""
    import deepgemm

    op, _ = _KINDS[args.kind]
    along_k = args.kind == "k-grouped"
    options = {
        **problem_options(args, "float32" if along_k else "bfloat16"),
        **_group_options(args),
    }
    report = deepgemm.explain(op, args.m, args.n, args.k, device=args.device, **options)
    empty = args.m == 0 or args.n == 0 or not report.kernel
    if args.measure and not empty:
        _measure(args, options, report)
    if args.json:
        print(json.dumps(as_dict(report, NOTHING if empty else report.reason), indent=2))
    else:
        print(NOTHING if empty else text(report))
    return 0


def _group_options(args: argparse.Namespace) -> dict[str, Any]:
    """What a kind has beside M, N, K; an option that it has not is refused."""
    _, has = _KINDS[args.kind]
    for name in ("groups", "form", "expected_rows"):
        if getattr(args, name) is not None and name not in has:
            raise ValueError(f"--{name.replace('_', '-')}: found {args.kind}, which has no such")
    if "groups" in has and args.groups is None:
        raise ValueError(f"--groups: found none, need how many groups {args.kind} has")
    if args.kind == "k-grouped" and (args.bias or args.activation):
        raise ValueError("--bias, --activation: found k-grouped, which takes neither")
    given = {name: getattr(args, name) for name in has if getattr(args, name) is not None}
    if "form" in given:
        given["form"] = _FORMS[args.form]
    return given


def _measure(args: argparse.Namespace, options: dict[str, Any], report: Report) -> None:
    usual_options = problem_options(unused(add_problem_options))
    if args.kind != "gemm" or options != usual_options or args.device not in (None, 0):
        raise ValueError("--measure times the default product on device 0: drop other options")
    from deepgemm.bench.dense import measure_candidates
    from deepgemm.bench.machine import gpu_problem

    if problem := gpu_problem():
        raise ValueError(f"--measure needs a GPU: {problem}")
    measure_candidates(args.m, args.n, args.k, report.candidates)


def as_dict(report: Report, reason: str) -> dict[str, Any]:
    """The report with numbers as numbers."""
    fields: dict[str, Any] = dict(report.fields)
    for name, value in report.fields.items():
        if value.isdigit():
            fields[name] = int(value)
    if "predicted_us" in fields:
        fields["predicted_us"] = float(fields["predicted_us"])
    return {**asdict(report), "fields": fields, "reason": reason}


def text(report: Report) -> str:
    """The report, then the candidates as a table."""
    lines = [f"{report.kernel}: {report.config}"]
    for name, value in report.fields.items():
        if name == "predicted_us":
            name, value = "predicted", f"{float(value):.1f} us (H200 model)"
        lines.append(f"  {name:<18} {value}")
    if report.reason:
        lines.append(f"  {'why':<18} {report.reason}")
    if report.candidates:
        measured = any("measured_us" in candidate for candidate in report.candidates)
        head = f"  {'H200 model us':>13}{'  measured us' if measured else ''}  candidate"
        lines += ["", head]
    for candidate in report.candidates:
        times = f"{candidate['predicted_us']:>13.1f}"
        if "measured_us" in candidate:
            times += f"  {candidate['measured_us']:>11.1f}"
        swept = " (fastest in a sweep)" if candidate["swept"] else ""
        lines.append(f"  {times}  {candidate['policy']['kernel']}: {candidate['config']}{swept}")
    return "\n".join(lines)
