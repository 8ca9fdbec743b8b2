"""``deepgemm``: matrix products, and a look at what is installed."""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

# Module under deepgemm.cli of each subcommand, imported only when its help or its run needs it.
COMMANDS = ("info", "demo", "gemm_files", "warmup", "bench", "explain", "cache")


def build_parser() -> argparse.ArgumentParser:
    """The parser with every subcommand; their modules import nothing heavy at their top."""
    parser = argparse.ArgumentParser(
        prog="deepgemm", description="Tensor-core matrix products for NVIDIA Hopper."
    )
    parser.add_argument("--version", action="store_true", help="print the version")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name in COMMANDS:
        import_module(f"deepgemm.cli.{name}").add_parser(subparsers)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code: 0 well, 1 a failure, 2 a wrong use."""
    parser = build_parser()
    args = parser.parse_args(arguments)
    if args.version:
        from deepgemm import __version__

        print(f"deepgemm {__version__}")
        return 0
    if args.command is None:
        parser.print_help()
        return 2
    try:
        return int(args.run(args))
    except (ValueError, TypeError, RuntimeError, OSError) as error:
        print(f"deepgemm {args.command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"deepgemm {args.command}: interrupted", file=sys.stderr)
        return 130
