"""The kernels on the modelled SM90 (docs/sm90-model.md): right under every schedule, and wrong ones
are caught.

Each run is a child process with the model as its CUDA driver and as its NVRTC.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest

import test_gpu_16bit
import test_gpu_batched
import test_gpu_bundle
import test_gpu_gemm
import test_gpu_grouped
import test_gpu_grouped_16bit
import test_gpu_grouped_fp8
import test_gpu_layout
import test_gpu_plans
import test_gpu_quantize
from sm90_cases import CASES, MODES
from sm90_faults import FAULTS, Fault

HERE = Path(__file__).parent
LIBRARIES = HERE.parents[1] / "build" / "cpp"
SEEDS = 20
SECONDS = 240
Done = subprocess.CompletedProcess[str]
BODIES: list[tuple[ModuleType, str]] = [
    (module, name)
    for module in (
        test_gpu_gemm,
        test_gpu_16bit,
        test_gpu_batched,
        test_gpu_grouped,
        test_gpu_grouped_16bit,
        test_gpu_grouped_fp8,
        test_gpu_plans,
        test_gpu_quantize,
        test_gpu_layout,
        test_gpu_bundle,
    )
    for name in module.BODIES
    if name != "repeat"
]

pytestmark = [
    pytest.mark.skipif(
        not (LIBRARIES / "libsm90_driver.so").exists(),
        reason="the model is not built (cmake --build build/cpp)",
    ),
    pytest.mark.skipif(shutil.which("g++") is None, reason="g++ compiles the model's kernels"),
    pytest.mark.timeout(SECONDS + 30),
]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache of kernels for all that run the sources as they are."""
    return tmp_path_factory.mktemp("sm90")


class Ahead:
    """Runs that start a few tests before theirs, so that every core has work."""

    def __init__(self, runs: list[Callable[[], Done]]) -> None:
        self.runs, self.started = runs, dict[int, Future[Done]]()
        self.pool = ThreadPoolExecutor(os.cpu_count())

    def result(self, index: int) -> Done:
        for i in range(index, min(index + 2 * (os.cpu_count() or 1), len(self.runs))):
            if i not in self.started:
                self.started[i] = self.pool.submit(self.runs[i])
        return self.started[index].result()


@pytest.fixture(scope="module")
def ahead(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Ahead]]:
    """By kind of test, the runs of its parameters."""

    def plain(case: str) -> Callable[[], Done]:
        return lambda: cases(cache, case, SEEDS)

    def body(module: ModuleType, name: str) -> Callable[[], Done]:
        return lambda: run(cache, str(module.__file__), name, "0")

    def faulty(fault: Fault) -> Callable[[], Done]:
        own = tmp_path_factory.mktemp("fault")
        return lambda: cases(own, fault.case, SEEDS, SM90_MODEL_MUTATE=fault.wish)

    made = {
        "cases": Ahead([plain(case) for case in CASES]),
        "bodies": Ahead([body(module, name) for module, name in BODIES]),
        "faults": Ahead([faulty(fault) for fault in FAULTS]),
    }
    yield made
    for each in made.values():
        each.pool.shutdown(cancel_futures=True)


def run(cache: Path, *arguments: str, **settings: str) -> Done:
    environment = {
        **os.environ,
        "DEEPGEMM_CUDA_DRIVER_PATH": str(LIBRARIES / "libsm90_driver.so"),
        "DEEPGEMM_NVRTC_PATH": str(LIBRARIES / "libsm90_nvrtc.so"),
        "DEEPGEMM_CACHE_DIR": str(cache),
        **settings,
    }
    return subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def cases(cache: Path, case: str, count: int, **settings: str) -> Done:
    return run(cache, str(HERE / "sm90_cases.py"), case, "0", str(count), **settings)


@pytest.mark.parametrize("index", range(len(CASES)), ids=list(CASES))
def test_every_schedule_gives_the_exact_result(ahead: dict[str, Ahead], index: int) -> None:
    done = ahead["cases"].result(index)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("index", range(len(BODIES)), ids=[name for _, name in BODIES])
def test_bodies_of_the_gpu_tests(ahead: dict[str, Ahead], index: int) -> None:
    done = ahead["bodies"].result(index)
    assert done.returncode == 0, done.stderr


def test_faults_are_planted_in_what_stands_there() -> None:
    device = HERE.parents[1] / "src" / "device"
    for fault in FAULTS:
        assert fault.old in (device / fault.file).read_text(), fault.name


@pytest.mark.parametrize("index", range(len(FAULTS)), ids=[fault.name for fault in FAULTS])
def test_a_planted_fault_is_caught(ahead: dict[str, Ahead], index: int) -> None:
    done, fault = ahead["faults"].result(index), FAULTS[index]
    assert done.returncode != 0, "not caught"
    caught = "DriverError" in done.stderr or "AssertionError" in done.stderr
    assert caught, done.stderr  # and not a compile that failed
    assert fault.report in done.stderr


def test_a_report_says_where_and_how_to_repeat_it(tmp_path: Path) -> None:
    wish = "pipeline/ring.cuh@@ptx::mbarrier_wait(full(), phase);@@"
    done = cases(tmp_path, "64x64", SEEDS, SM90_MODEL_MUTATE=wish)
    for words in (
        "pipeline/consumer.cuh:",
        "CTA ",
        "warp ",
        "SM90_MODEL_MODE=",
        "SM90_MODEL_SEED=",
    ):
        assert words in done.stderr


def test_a_deadlock_names_who_waits_on_what(tmp_path: Path) -> None:
    fault = next(fault for fault in FAULTS if fault.name == "armed for a row too many")
    done = cases(tmp_path, "64x64", 1, SM90_MODEL_MUTATE=fault.wish)
    assert "deadlock" in done.stderr
    assert "warp 0 lanes (all): pipeline/ring.cuh:" in done.stderr
    assert "lacks 0 of 2 arrivals and 128 bytes" in done.stderr


def test_a_crash_names_the_thread(tmp_path: Path) -> None:
    wish = "scheduler/raster.cuh@@rest = at - first@@rest = at / rank - first"
    done = cases(tmp_path, "64x64", 1, SM90_MODEL_MUTATE=wish)
    assert done.returncode < 0
    assert "SM90 model: CTA " in done.stderr
    assert "crashed: integer division by zero" in done.stderr


@pytest.mark.parametrize("mode", sorted(set(MODES)))
def test_a_seed_repeats_its_run(cache: Path, tmp_path: Path, mode: str) -> None:
    seed = str(MODES.index(mode))
    traces = []
    for attempt in ("first", "second"):
        trace = tmp_path / attempt
        done = run(
            *(cache, str(HERE / "sm90_cases.py"), "64x64 cluster 2x1", seed),
            SM90_MODEL_TRACE=str(trace),
        )
        assert done.returncode == 0, done.stderr
        traces.append(trace.read_text())
    assert "completes phase" in traces[0]
    assert traces[0] == traces[1]


def test_seeds_differ(cache: Path, tmp_path: Path) -> None:
    traces = []
    for seed in ("0", "11"):  # both random
        done = run(
            *(cache, str(HERE / "sm90_cases.py"), "64x64", seed),
            SM90_MODEL_TRACE=str(tmp_path / seed),
        )
        assert done.returncode == 0, done.stderr
        traces.append((tmp_path / seed).read_text())
    assert traces[0] != traces[1]
