"""`deepgemm bench jit`: how long kernels take to compile, and to come from the disk cache."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence

from deepgemm._library import ext
from deepgemm.bench.report import Row
from deepgemm.bench.suites import DENSE, QUICK

# Prepares every distinct kernel of the dense suite and prints where each came from.
_CHILD = """
import json, sys
from deepgemm._library import ext
for m, n, k, out, granularity in json.loads(sys.argv[1]):
    e4m3 = "float8_e4m3fn"
    report = ext.report_shape(m, n, k, e4m3, e4m3, out, (1, 128), tuple(granularity), "nt", None,
                               False, False, None, -1, True)
    print(json.dumps([report[x] for x in ("kernel", "config", "origin", "milliseconds")] + [out]))
"""


# A kernel of the dense suite as a report names it: kernel, config, output.
Key = tuple[str, str, str]


def matches(key: Key, row_name: str) -> bool:
    """Tell whether a selectable kernel's name means this kernel of the dense suite.

    A selectable kernel names its dtypes before the config; a report on one product does not.
    """
    kernel, config, out = key
    return (
        row_name.startswith(f"{kernel} ")
        and row_name.endswith(config)
        and ("e5m2" not in row_name)
        and (" out " not in row_name or f" out {out}," in row_name)
    )


def selection(quick: bool) -> list[int]:
    """Return the numbers of the selectable kernels to compile: all, or the first of each family."""
    names = [kernel["kernel"] for kernel in ext.selectable_kernels()]
    if not quick:
        return list(range(len(names)))
    return [index for index, name in enumerate(names) if name not in names[:index]]


def cold(selected: Sequence[int], repeat: int) -> Iterator[Row]:
    """Yield a row with the median compile time of each selected kernel."""
    for index in selected:
        reports = [ext.compile_selectable(index) for _ in range(repeat)]
        median = statistics.median(float(report["milliseconds"]) for report in reports)
        name = f"{reports[0]['kernel']} {reports[0]['config']}"
        yield {"kernel": name, "cold_ms": round(median, 2)}


def disk(quick: bool = False) -> dict[Key, float]:
    """Return the time in ms to get each kernel of the dense suite from a warm disk cache."""
    problems = [
        (case.m, case.n, case.k, case.out_dtype, case.granularities[1])
        for case in (QUICK if quick else DENSE)
        if not case.accumulate
    ]
    times: dict[Key, float] = {}
    with tempfile.TemporaryDirectory(prefix="deepgemm-bench-") as folder:
        # Why two children: a process keeps its kernels in memory; only a new one reads the disk.
        for _ in range(2):
            command = ["env", f"DEEPGEMM_CACHE_DIR={folder}", sys.executable, "-c", _CHILD]
            done = subprocess.run(
                [*command, json.dumps(problems)], capture_output=True, text=True, check=False
            )
            if done.returncode != 0:
                raise RuntimeError(f"the disk cache could not be timed:\n{done.stderr.strip()}")
            for line in done.stdout.splitlines():
                kernel, config, origin, ms, out = json.loads(line)
                if origin == "disk":
                    short = "bf16" if out == "bfloat16" else "f32"
                    times.setdefault((kernel, config, short), float(ms))
    return times
