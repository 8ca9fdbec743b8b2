"""`deepgemm bench jit`: how long kernels take to compile, and to come from the disk cache."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from deepgemm._library import ext
from deepgemm.bench.report import Row
from deepgemm.bench.suites import DENSE

# Prepares every distinct kernel of the dense suite and prints where each came from.
_CHILD = """
import json, sys
from deepgemm._library import ext
for m, n, k, out, granularity in json.loads(sys.argv[1]):
    e4m3 = "float8_e4m3fn"
    report = ext.report_shape(m, n, k, e4m3, e4m3, out, (1, 128), tuple(granularity), "nt", None,
                               False, False, None, -1, True)
    print(json.dumps([report[x] for x in ("kernel", "config", "origin", "milliseconds")]))
"""


def name(report: dict[str, Any]) -> str:
    """Return the name of a row: kernel and config (E4M3 inputs go without saying)."""
    return f"{report['kernel']} {str(report['config']).removeprefix('e4m3 x e4m3, ')}"


def cold(repeat: int) -> Iterator[Row]:
    """Yield a row with the median compile time of each selectable kernel."""
    for index, _ in enumerate(ext.selectable_kernels()):
        reports = [ext.compile_selectable(index) for _ in range(repeat)]
        median = statistics.median(float(report["milliseconds"]) for report in reports)
        yield {"kernel": name(reports[0]), "cold_ms": round(median, 2)}


def disk() -> dict[str, float]:
    """Return the time in ms to get each kernel of the dense suite from a warm disk cache."""
    problems = [
        (case.m, case.n, case.k, case.out_dtype, case.granularities[1])
        for case in DENSE
        if not case.accumulate
    ]
    times: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="deepgemm-bench-") as folder:
        # Why two children: a process keeps its kernels in memory; only a new one reads the disk.
        for _ in range(2):
            command = ["env", f"DEEPGEMM_CACHE_DIR={folder}", sys.executable, "-c", _CHILD]
            done = subprocess.run(
                [*command, json.dumps(problems)], capture_output=True, text=True, check=False
            )
            if done.returncode != 0:
                raise RuntimeError(done.stderr.strip().splitlines()[-1])
            for line in done.stdout.splitlines():
                kernel, config, origin, ms = json.loads(line)
                if origin == "disk":
                    times.setdefault(name({"kernel": kernel, "config": config}), float(ms))
    return times
