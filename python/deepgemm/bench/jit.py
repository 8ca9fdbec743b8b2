"""`deepgemm bench jit`: how long kernels take to compile, and to come from cache or bundle."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence

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
_SHORT = {"bfloat16": "bf16", "float32": "f32"}


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


def names() -> list[str]:
    """Return the selectable kernels as rows name them."""
    return [f"{kernel['kernel']} {kernel['config']}" for kernel in ext.selectable_kernels()]


def numbers_of(keys: Iterable[Key]) -> list[int]:
    """Return the numbers of the selectable kernels that these of the dense suite are."""
    known = list(keys)
    return [
        number for number, name in enumerate(names()) if any(matches(key, name) for key in known)
    ]


def selection(keys: Iterable[Key] = (), *, every: bool = False) -> list[int]:
    """Return the numbers of the selectable kernels to compile.

    The first of each family, and those of `keys`; or `every` one.
    """
    families = [kernel["kernel"] for kernel in ext.selectable_kernels()]
    if every:
        return list(range(len(families)))
    first = {index for index, name in enumerate(families) if name not in families[:index]}
    return sorted(first | set(numbers_of(keys)))


def cold(selected: Sequence[int], repeat: int) -> Iterator[Row]:
    """Yield a row with the median compile time of each selected kernel."""
    for index in selected:
        reports = [ext.compile_selectable(index) for _ in range(repeat)]
        median = statistics.median(float(report["milliseconds"]) for report in reports)
        name = f"{reports[0]['kernel']} {reports[0]['config']}"
        yield {"kernel": name, "cold_ms": round(median, 2)}


# Writes a bundle of the selectable kernels whose numbers it is given.
_BUNDLE = """
import json, sys
from deepgemm._library import ext
kernels = [ext.kernel_for_bundle(number) for number in json.loads(sys.argv[2])]
ext.write_bundle(sys.argv[1], kernels)
"""


def _child(code: str, *arguments: str, **settings: str) -> list[str]:
    """Run code in a new process, which has no kernel in memory; return the lines it prints."""
    done = subprocess.run(
        ["env", *(f"{name}={value}" for name, value in settings.items()),
         sys.executable, "-c", code, *arguments],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"the caches could not be timed:\n{done.stderr.strip()}")
    return done.stdout.splitlines()


def _times(origin: str, lines: Sequence[str]) -> dict[Key, float]:
    """Return the time in ms of each kernel that came from `origin`."""
    times: dict[Key, float] = {}
    for kernel, config, found, ms, out in map(json.loads, lines):
        if found == origin:
            times.setdefault((kernel, config, _SHORT[out]), float(ms))
    return times


def stored(quick: bool = False) -> dict[str, dict[Key, float]]:
    """Return the times in ms to get each kernel of the dense suite: "disk_ms", "bundle_ms"."""
    problems = json.dumps(
        [
            (case.m, case.n, case.k, case.out_dtype, case.granularities[1])
            for case in (QUICK if quick else DENSE)
            if not case.accumulate
        ]
    )
    with tempfile.TemporaryDirectory(prefix="deepgemm-bench-") as folder:
        cache, bundle = f"{folder}/cache", f"{folder}/kernels.bundle"
        _child(_CHILD, problems, DEEPGEMM_CACHE_DIR=cache, DEEPGEMM_BUNDLE="off")
        lines = _child(_CHILD, problems, DEEPGEMM_CACHE_DIR=cache, DEEPGEMM_BUNDLE="off")
        on_disk = _times("disk", lines)
        _child(_BUNDLE, bundle, json.dumps(numbers_of(on_disk)), DEEPGEMM_CACHE_DIR=cache)
        lines = _child(_CHILD, problems, DEEPGEMM_CACHE_DIR=f"{folder}/none",
                       DEEPGEMM_BUNDLE=bundle)  # fmt: skip
        return {"disk_ms": on_disk, "bundle_ms": _times("bundle", lines)}
