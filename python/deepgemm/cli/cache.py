"""``deepgemm cache list|clear|verify``: the compiled kernels on disk."""

import argparse
import json
import sys
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any

from deepgemm.cli.exits import FAILED, WELL, WRONG_USE, count


def add_parser(subparsers: Any) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "cache",
        help="list, verify or clear the compiled kernels",
        description="verify recomputes every checksum; exit code 1 if an entry is damaged. A "
        "damaged entry does no harm: it is compiled anew at its next use. The list begins with "
        "what was used last; what is at its end goes first at DEEPGEMM_CACHE_MAX_BYTES. An entry "
        "without a config is another version's, or one that a Policy asked for.",
    )
    parser.add_argument("action", nargs="?", choices=["list", "clear", "verify"], default="list")
    parser.add_argument("--json", action="store_true", help="for scripts")
    parser.set_defaults(run=run)


def problem_of(cache: dict[str, Any]) -> str:
    """Return why kernels cannot be kept in this cache (of ``cache_info``); empty if they can.

    The directory may not exist yet: then a throw-away one is made where it would be made.
    """
    if cache["problem"] or not cache["directory"]:
        return str(cache["problem"])
    place = directory = Path(cache["directory"])
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        return f"{place} is not a directory"
    if place == directory:
        return ""
    try:
        tempfile.TemporaryDirectory(prefix=".deepgemm-", dir=place).cleanup()
    except OSError as error:
        return f"{directory} cannot be created: {error.strerror}"
    return ""


def size_of(cache: dict[str, Any]) -> str:
    """Return "2.1 MiB of at most 1024": of ``cache_info``."""
    limit = f" of at most {cache['limit'] / 2**20:.0f}" if cache["limit"] else ", no limit"
    return f"{cache['bytes'] / 2**20:.1f} MiB{limit}"


def _day(seconds: int) -> str:
    """The local time of a last use; a clock that was wrong may have made it any number."""
    try:
        return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return f"{seconds:>16}"


def _words(entry: dict[str, Any]) -> str:
    """Return "kernel: config", as ``explain`` says it; the name alone where that is unknown."""
    return f"{entry['kernel']}: {entry['config']}" if entry["config"] else str(entry["kernel"])


def run(args: argparse.Namespace) -> int:
    """Do it."""
    from deepgemm import _ext

    info = _ext.cache_info()
    if args.action != "list" and not info["directory"]:
        print(f"deepgemm cache: no cache directory: {info['problem']}", file=sys.stderr)
        return WRONG_USE
    if args.action == "clear":
        removed = _ext.clear_cache()
        record = {"directory": info["directory"], "removed": removed, "bytes": info["bytes"]}
        size = f"{info['bytes'] / 2**20:.1f} MiB"
        words = f"removed {count(removed, 'kernel')}, {size}, from {info['directory']}"
        print(json.dumps(record) if args.json else words)
        return WELL
    entries = _ext.list_cache(args.action == "verify")
    bad = [entry for entry in entries if args.action == "verify" and not entry["valid"]]
    if args.json:
        print(json.dumps({**info, "list": entries}, indent=2))
    else:
        print(info["directory"] or f"memory only: {info['problem']}")
        for entry in sorted(entries, key=lambda entry: -entry["last_used"]):
            state = f"  damaged: {entry['problem']}" if entry in bad else ""
            used = _day(entry["last_used"])
            print(f"{entry['bytes']:>9}  {used}  {_words(entry)}  {entry['file']}{state}")
        damaged = f", {len(bad)} damaged" if args.action == "verify" else ""
        print(f"{count(len(entries), 'kernel')}, {size_of(info)}{damaged}")
    return FAILED if bad else WELL
