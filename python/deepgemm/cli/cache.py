"""``deepgemm cache list|clear|verify``: the compiled kernels on disk."""

import argparse
import json
from typing import Any


def add_parser(subparsers: Any) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "cache",
        help="list, verify or clear the compiled kernels",
        description="verify recomputes every checksum; exit code 1 if an entry is damaged. A "
        "damaged entry does no harm: it is compiled anew at its next use.",
    )
    parser.add_argument("action", nargs="?", choices=["list", "clear", "verify"], default="list")
    parser.add_argument("--json", action="store_true", help="for scripts")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Do it."""
    from deepgemm import _ext

    info = _ext.cache_info()
    if args.action == "clear":
        removed = _ext.clear_cache()
        record = {"directory": info["directory"], "removed": removed}
        print(json.dumps(record) if args.json else f"removed {removed} from {info['directory']}")
        return 0
    entries = _ext.list_cache(args.action == "verify")
    bad = [entry for entry in entries if args.action == "verify" and not entry["valid"]]
    if args.json:
        print(json.dumps({**info, "list": entries}, indent=2))
    else:
        print(info["directory"] or f"memory only: {info['problem']}")
        for entry in entries:
            state = f"  damaged: {entry['problem']}" if entry in bad else ""
            print(f"{entry['bytes']:>9}  {entry['kernel']}  {entry['file']}{state}")
        print(f"{len(entries)} kernels, {info['bytes'] / 2**20:.1f} MiB, {len(bad)} damaged")
    return 1 if bad else 0
