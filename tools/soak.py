"""Hours of work with faults: processes and threads compute checked products while the kernel cache
is damaged under them and they are killed.

Every result is compared with an exact one. What may go wrong in the cache must cost a compile at
most. At the end a table says what was done, injected and seen; exit code 1 if anything was wrong.

    python tools/soak.py                     # an hour on GPU 0, or in host memory without one
    python tools/soak.py --minutes 5 --processes 4 --threads 4 --json soak.json
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import deepgemm

Figures = Counter[str]


class Worker:
    """Threads of one process; each draws operations until the time is over."""

    def __init__(self, device: int, seed: int) -> None:
        """Computes on a GPU, or with -1 in host memory."""
        self.device, self.figures, self.lock = device, Counter[str](), threading.Lock()
        self.random = random.Random(seed)
        self.wrong: list[str] = []

    def put(self, x: np.ndarray) -> Any:
        """An array where the worker computes."""
        if self.device < 0:
            return x
        return deepgemm.DeviceArray.from_numpy(np.ascontiguousarray(x), device=self.device)

    def get(self, x: Any) -> np.ndarray:
        """Its contents."""
        found: np.ndarray = x if self.device < 0 else x.to_numpy()
        return found

    def product(self, draw: random.Random, integers: Callable[..., np.ndarray]) -> str:
        """A dense product of whole numbers, which is exact."""
        m, n, k = draw.randint(1, 400), 8 * draw.randint(1, 40), 128 * draw.randint(1, 4)
        x, y = integers(m, k), integers(n, k)
        out = deepgemm.gemm(self.put(x), self.put(y), out_dtype="float32")
        return "" if np.array_equal(self.get(out), x @ y.T) else f"gemm {m}x{n}x{k}"

    def scaled(self, draw: random.Random, integers: Callable[..., np.ndarray]) -> str:
        """FP8, quantised here; the factors of whole numbers up to 2 are powers of two."""
        m, n, k = draw.randint(1, 300), 16 * draw.randint(1, 20), 128 * draw.randint(1, 4)
        x, y = integers(m, k), integers(n, k)
        a = deepgemm.quantize(self.put(x), (1, 128), power_of_two=True)
        b = deepgemm.quantize(self.put(y), (128, 128), power_of_two=True)
        out = deepgemm.gemm(a, b, out_dtype="float32")
        return "" if np.array_equal(self.get(out), x @ y.T) else f"FP8 gemm {m}x{n}x{k}"

    def groups(self, draw: random.Random, integers: Callable[..., np.ndarray]) -> str:
        """Rows of groups of any size, 0 included."""
        counts = [draw.randint(0, 60) for _ in range(draw.randint(1, 6))]
        m, n, k = max(1, sum(counts)), 8 * draw.randint(1, 20), 128
        x, w = integers(m, k), integers(len(counts), n, k)
        sizes = self.put(np.array(counts, np.int32))
        out = self.get(deepgemm.grouped_gemm(self.put(x), self.put(w), sizes, out_dtype="float32"))
        owner = np.repeat(np.arange(len(counts)), counts)
        want = np.einsum("mk,mnk->mn", x[: len(owner)], w[owner]) if len(owner) else out[:0]
        return "" if np.array_equal(out[: len(owner)], want) else f"groups of {counts}"

    def prepare(self, draw: random.Random, _: Callable[..., np.ndarray]) -> str:
        """A kernel from the cache, or compiled."""
        found = deepgemm.warmup([(draw.choice((1, 64, 512)), 128 * draw.randint(1, 8), 512)])
        with self.lock:
            for report in found:
                self.figures[f"kernels {report.origin}"] += 1
        return ""

    def loop(self, end: float, seed: int) -> None:
        """One thread's work until `end`."""
        draw, rng = random.Random(seed), np.random.default_rng(seed)

        def integers(*shape: int) -> np.ndarray:
            return rng.integers(-2, 3, shape).astype(np.float32)

        while time.monotonic() < end:
            work = draw.choice((self.product, self.scaled, self.groups, self.prepare))
            try:
                problem = work(draw, integers)
            except Exception as error:
                problem = f"{work.__name__}: {error!r}"
            with self.lock:
                self.figures[work.__name__] += 1
                if problem:
                    self.wrong.append(problem)

    def run(self, threads: int, seconds: float) -> None:
        """All threads, for so long."""
        end = time.monotonic() + seconds
        seeds = [self.random.getrandbits(32) for _ in range(threads)]
        running = [threading.Thread(target=self.loop, args=(end, seed)) for seed in seeds]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()


class Faults:
    """What is done to the cache, one at a time."""

    def __init__(self, cache: Path, seed: int) -> None:
        """Of the cache in a directory, which may not be there yet."""
        self.cache, self.random, self.done = cache, random.Random(seed), Counter[str]()
        self.kinds = (self.flip, self.cut, self.empty, self.remove, self.foreign, self.clear,
                      self.old, self.wipe)  # fmt: skip

    def entry(self) -> Path | None:
        """One of the entries that are there."""
        entries = [path for path in self.cache.glob("*.deepgemm") if path.is_file()]
        return self.random.choice(entries) if entries else None

    def inject(self) -> None:
        """One fault; what is not there any more cannot be damaged."""
        kind = self.random.choice(self.kinds)
        try:
            kind(self.entry())
        except OSError:
            return
        self.done[kind.__name__] += 1

    def flip(self, entry: Path | None) -> None:
        """A bit of an entry turns."""
        content = bytearray(entry.read_bytes()) if entry is not None else bytearray()
        if entry is None or not content:
            return
        content[self.random.randrange(len(content))] ^= 1 << self.random.randrange(8)
        entry.write_bytes(content)

    def cut(self, entry: Path | None) -> None:
        """An entry loses its end."""
        if entry is not None:
            os.truncate(entry, self.random.randint(0, entry.stat().st_size))

    def empty(self, entry: Path | None) -> None:
        """An entry loses everything."""
        if entry is not None:
            entry.write_bytes(b"")

    def remove(self, entry: Path | None) -> None:
        """An entry goes."""
        if entry is not None:
            entry.unlink()

    def foreign(self, entry: Path | None) -> None:
        """Something else has the name of an entry."""
        if entry is not None:
            entry.write_bytes(self.random.randbytes(4000))

    def clear(self, _: Path | None) -> None:
        """What `deepgemm cache clear` does."""
        deepgemm.clear_cache()

    def old(self, entry: Path | None) -> None:
        """The clock jumps, to 1970 or to 2242."""
        if entry is not None:
            os.utime(entry, (0, 0) if self.random.random() < 0.5 else (2**33, 2**33))

    def wipe(self, _: Path | None) -> None:
        """The directory goes."""
        shutil.rmtree(self.cache, ignore_errors=True)


def start(arguments: argparse.Namespace, seconds: float, seed: int) -> subprocess.Popen[str]:
    """A worker process."""
    command = [sys.executable, __file__, "--worker", str(seconds), "--seed", str(seed)]
    command += ["--device", str(arguments.device), "--threads", str(arguments.threads)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


class Soak:
    """The parent: starts workers of 5 to 20 s, kills some, injects faults, adds up."""

    def __init__(self, arguments: argparse.Namespace, cache: Path) -> None:
        """With the command line's arguments."""
        self.arguments, self.faults = arguments, Faults(cache, arguments.seed)
        self.random, self.figures = random.Random(arguments.seed), Counter[str]()
        self.wrong: list[str] = []
        self.running: list[tuple[subprocess.Popen[str], bool]] = []

    def begin(self, left: float) -> None:
        """Starts a worker; one in five will be killed."""
        seconds = min(left, self.random.uniform(5, 20))
        worker = start(self.arguments, seconds, self.random.getrandbits(32))
        self.running.append((worker, self.random.random() < 0.2))
        self.figures["processes"] += 1

    def end(self, worker: subprocess.Popen[str], killed: bool) -> None:
        """Waits for a worker and adds up what it says."""
        out, err = worker.communicate()
        if killed and worker.returncode == -signal.SIGKILL:
            self.figures["killed"] += 1
            return
        if worker.returncode != 0:
            self.wrong.append(f"exit code {worker.returncode}: {err[-500:]}")
            return
        report = json.loads(out)
        self.figures.update(report["figures"])
        self.figures["warnings"] += sum("deepgemm" in line for line in err.splitlines())
        self.wrong += report["wrong"]

    def step(self, left: float) -> None:
        """A fault, and workers in the place of those that are gone."""
        for worker, kill in list(self.running):
            if kill and worker.poll() is None and self.random.random() < 0.05:
                worker.kill()
            if worker.poll() is not None:
                self.running.remove((worker, kill))
                self.end(worker, kill)
        while left > 5 and len(self.running) < self.arguments.processes:
            self.begin(left)
        self.faults.inject()

    def run(self) -> None:
        """All of it."""
        end = time.monotonic() + self.arguments.minutes * 60
        shown = 0.0
        while time.monotonic() < end:
            self.step(end - time.monotonic())
            if sys.stderr.isatty() and time.monotonic() - shown > 1:
                shown = time.monotonic()
                left, faults = int(end - shown), sum(self.faults.done.values())
                print(f"\r{left} s left, {self.figures['processes']} processes, {faults} faults, "
                      f"{len(self.wrong)} errors ", end="", file=sys.stderr)  # fmt: skip
            time.sleep(0.2)
        for worker, kill in self.running:
            self.end(worker, kill)
        self.running.clear()

    def table(self) -> list[tuple[str, int]]:
        """The figures, in the order in which they are printed."""
        calls = ("product", "scaled", "groups", "prepare")
        rows = [("processes", self.figures["processes"]), ("killed", self.figures["killed"])]
        rows += [("threads in each", self.arguments.threads)]
        rows += [("calls", sum(self.figures[name] for name in calls))]
        rows += [(f"  {name}", self.figures[name]) for name in calls]
        origins = sorted(name for name in self.figures if name.startswith("kernels "))
        rows += [(name, self.figures[name]) for name in origins]
        rows += [("faults injected", sum(self.faults.done.values()))]
        rows += [(f"  {name}", count) for name, count in sorted(self.faults.done.items())]
        return [*rows, ("warnings", self.figures["warnings"]), ("errors", len(self.wrong))]


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Hours of checked work with faults.")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--threads", type=int, default=4, help="in each process")
    parser.add_argument("--device", type=int, help="a GPU, or -1 for host memory; default: if any")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the figures there too")
    parser.add_argument("--worker", type=float, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.device is None:
        arguments.device = 0 if deepgemm.info()["usable"] else -1
    return arguments


def main() -> int:
    """Entry point."""
    arguments = parse()
    if arguments.worker:
        worker = Worker(arguments.device, arguments.seed)
        worker.run(arguments.threads, arguments.worker)
        print(json.dumps({"figures": worker.figures, "wrong": worker.wrong}))
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        cache = Path(scratch) / "cache"
        os.environ["DEEPGEMM_CACHE_DIR"] = str(cache)
        soak = Soak(arguments, cache)
        soak.run()
    rows = soak.table()
    where = "host memory" if arguments.device < 0 else f"GPU {arguments.device}"
    print(f"\n{arguments.minutes:g} minutes, {where}, seed {arguments.seed}")
    print("\n".join(f"{name:<20}{count:>10}" for name, count in rows))
    print("\n".join(soak.wrong[:20]))
    if arguments.json:
        figures = {name.strip(): count for name, count in rows}
        arguments.json.write_text(json.dumps({**figures, "wrong": soak.wrong}, indent=1) + "\n")
    return 1 if soak.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
