"""``deepgemm``: matrix products, and a look at what is installed."""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

# Module under deepgemm.cli of each subcommand, imported only when its help or its run needs it.
COMMANDS = {
    "info": "info",
    "demo": "demo",
    "gemm": "gemm_files",
    "warmup": "warmup",
    "bench": "bench",
    "explain": "explain",
    "cache": "cache",
    "bundle": "bundle",
}


def build_parser(command: str | None = None) -> argparse.ArgumentParser:
    """The parser with one subcommand, or with all of them if it is not known which is meant."""
    parser = argparse.ArgumentParser(
        prog="deepgemm", description="Tensor-core matrix products for NVIDIA Hopper."
    )
    parser.add_argument("--version", action="store_true", help="print the version")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, module in COMMANDS.items():
        if command in (name, None):
            import_module(f"deepgemm.cli.{module}").add_parser(subparsers)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code.

    0: well. 1: a check or the work failed. 2: wrong use, or it cannot run here. 130: interrupted.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = build_parser(given[0] if given and given[0] in COMMANDS else None)
    args = parser.parse_args(given)
    if args.version:
        from deepgemm import __version__

        print(f"deepgemm {__version__}")
        return 0
    if args.command is None:
        parser.print_help()
        return 2
    try:
        return int(args.run(args))
    except BrokenPipeError:  # `deepgemm explain ... | head`: nobody reads on
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (ValueError, TypeError, RuntimeError, OSError, ImportError) as error:
        from deepgemm.cli.exits import exit_code

        print(f"deepgemm {args.command}: {error}", file=sys.stderr)
        return exit_code(error)
    except KeyboardInterrupt:
        print(f"deepgemm {args.command}: interrupted", file=sys.stderr)
        return 130
