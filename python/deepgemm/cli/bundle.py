"""``deepgemm bundle``: every kernel, compiled, in one file that a wheel can carry."""

import argparse
import json
import os
import re
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from deepgemm.cli.exits import WELL, count
from deepgemm.cli.progress import show


def add_parser(subparsers: Any) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "bundle",
        help="compile every kernel into one file that a wheel can carry",
        description="Compiles every kernel that the library may choose, and those of quantize and "
        "dequantize, and writes them to one compressed file; needs NVRTC, no GPU. A kernel that is "
        "in the cache already is not compiled again, so that an interrupted run goes on where it "
        "was. DEEPGEMM_BUNDLE names the file to use.",
    )
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("deepgemm.bundle"), help="./deepgemm.bundle"
    )
    parser.add_argument(
        "--jobs", type=int, default=0, help="kernels compiled at once; default: one per core"
    )
    parser.add_argument(
        "--only",
        metavar="PATTERN",
        help='regular expression: the kernels whose "name config" it finds something in',
    )
    parser.add_argument("--limit", type=int, help="the first so many of them")
    parser.add_argument("--json", action="store_true", help="for scripts")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Compile them, with a progress bar on the standard error, and write the file."""
    from deepgemm import _ext

    chosen = _chosen(_ext.selectable_kernels(), args.only, args.limit)
    _check_output(args.output)
    began = time.monotonic()
    kernels: dict[int, dict[str, Any]] = {}
    jobs = args.jobs if args.jobs > 0 else len(os.sched_getaffinity(0))
    for index, kernel in _compiled(chosen, jobs):
        kernels[index] = kernel
        words = f"{kernel['kernel']} {kernel['config']}"
        show(len(kernels), len(chosen), words, every=100)
    compile_seconds = time.monotonic() - began
    # In the order of the list: neighbours are alike, which makes the file small.
    written = _ext.write_bundle(str(args.output), [kernels[index] for index in chosen])
    compiled = sum(kernel["origin"] == "compiled" for kernel in kernels.values())
    summary = {
        "path": str(args.output),
        **written,
        "compiled": compiled,
        "compile_seconds": compile_seconds,
        "pack_seconds": time.monotonic() - began - compile_seconds,
    }
    if args.json:
        print(json.dumps(summary, indent=2))
        return WELL
    there = len(kernels) - compiled
    print(
        f"{args.output}: {count(written['kernels'], 'kernel')}, {written['bytes'] / 1e6:.3g} MB "
        f"({written['cubin_bytes'] / 1e6:.3g} MB of cubins); {compiled} compiled, {there} "
        f"{'was' if there == 1 else 'were'} in the cache; {time.monotonic() - began:.0f} s"
    )
    return WELL


def _chosen(every: list[dict[str, Any]], only: str | None, limit: int | None) -> list[int]:
    """Numbers of the kernels that were asked for."""
    if limit is not None and limit < 1:
        raise ValueError(f"--limit: found {limit}, need 1 or more")
    try:
        pattern = re.compile(only or "")
    except re.error as error:
        raise ValueError(f"--only: found {only!r}, need a regular expression ({error})") from None
    names = (f"{kernel['kernel']} {kernel['config']}" for kernel in every)
    chosen = [number for number, name in enumerate(names) if pattern.search(name)][:limit]
    if not chosen:
        raise ValueError(f"--only: found {only!r}, which fits none of {len(every)} kernels")
    return chosen


def _check_output(output: Path) -> None:
    """Say now, and not after twenty minutes, that the file cannot be written."""
    if output.is_dir():
        raise IsADirectoryError(f"-o: {output} is a directory, need the name of a file")
    folder = output.resolve().parent
    if not folder.is_dir():
        raise FileNotFoundError(f"-o: there is no directory {folder}")
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"-o: {folder} cannot be written to")


def _compiled(chosen: list[int], jobs: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each kernel as it is done. The first error ends it; what is compiled stays in the cache."""
    from deepgemm import _ext

    with ThreadPoolExecutor(jobs) as pool:
        running: dict[Future[dict[str, Any]], int] = {}
        left = iter(chosen)
        try:
            while True:
                while len(running) < jobs and (index := next(left, None)) is not None:
                    running[pool.submit(_ext.kernel_for_bundle, index)] = index
                if not running:
                    return
                for done in wait(running, return_when=FIRST_COMPLETED).done:
                    yield running.pop(done), done.result()
        finally:
            pool.shutdown(cancel_futures=True)
