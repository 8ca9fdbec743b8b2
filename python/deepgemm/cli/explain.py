"""``deepgemm explain M N K``: which kernel and config, and why."""

import argparse
import json
from dataclasses import asdict
from typing import Any

from deepgemm.cli.problems import add_problem_options, problem_options


def add_parser(subparsers: Any) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "explain",
        help="which kernel computes a product, and why",
        description="Shows the kernel and config chosen for a product of aligned arrays; compiles "
        "nothing and needs no GPU.",
    )
    for name in "MNK":
        parser.add_argument(name.lower(), type=int, metavar=name)
    add_problem_options(parser)
    parser.add_argument("--device", type=int, help="CUDA device; default: the figures of an H200")
    parser.add_argument("--json", action="store_true", help="for scripts")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the report."""
    import deepgemm

    options = problem_options(args)
    report = deepgemm.explain("gemm", args.m, args.n, args.k, device=args.device, **options)
    print(json.dumps(asdict(report), indent=2) if args.json else report)
    return 0
