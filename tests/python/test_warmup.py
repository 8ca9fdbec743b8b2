"""Warm-up: from shapes, from recorded runs, over threads; and that it leaves nothing to compile."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deepgemm
from deepgemm.cli import main as cli

HERE = Path(__file__).parent
FAKE_DRIVER = HERE.parents[1] / "build" / "cpp" / "libfake_cuda.so"
HAS_NVRTC = bool(deepgemm.info()["nvrtc_path"])
needs_nvrtc = pytest.mark.skipif(not HAS_NVRTC, reason="NVRTC is not installed")
needs_fake_driver = pytest.mark.skipif(
    not FAKE_DRIVER.exists(), reason="the fake driver is not built (cmake --build build/cpp)"
)
FAKE = {"DEEPGEMM_CUDA_DRIVER_PATH": str(FAKE_DRIVER)}
QUANTISERS = ("quantize", "dequantize", "scale_layout")
ROWS_OF_A_GROUP = {"n": 256, "k": 512, "groups": 4}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    directory = tmp_path / "cache"
    monkeypatch.setenv("DEEPGEMM_CACHE_DIR", str(directory))
    return directory


def traced_run(*parts: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """tests/python/traced_run.py in a child, on the driver that the settings name."""
    return subprocess.run(
        [sys.executable, HERE / "traced_run.py", *parts],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def counters(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def check_trace_and_warm_up(place: Path, **driver: str) -> None:
    """Record a run, warm a second cache up from that, and run again with it under strict JIT."""
    trace, first_cache, second_cache = place / "trace.jsonl", place / "first", place / "second"
    first = counters(
        traced_run(
            *("run", "run"),
            DEEPGEMM_TRACE=str(trace),
            DEEPGEMM_CACHE_DIR=str(first_cache),
            **driver,
        )
    )
    lines = trace.read_text(encoding="utf-8").splitlines()
    assert first["compiled"] == first["loaded"] > 10
    assert len(lines) == len(set(lines)) > first["compiled"]
    ops = {json.loads(line)["op"] for line in lines}
    assert ops == {*("gemm", "grouped_gemm", "masked_gemm", "k_grouped_gemm"), *QUANTISERS}
    # In another process, without a driver: this one may hold kernels in memory.
    done = subprocess.run(
        [sys.executable, "-m", "deepgemm", "warmup", "--trace", trace, "--jobs", "2", "--json"],
        env={**os.environ, "DEEPGEMM_CACHE_DIR": str(second_cache)},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    summary = json.loads(done.stdout)
    assert (summary["problems"], summary["compiled"]) == (len(lines), first["compiled"])
    assert all(kernel["milliseconds"] > 0 for kernel in summary["kernels"])
    names = {path.name for path in first_cache.iterdir()}
    assert {path.name for path in second_cache.iterdir()} == names
    strict = {"DEEPGEMM_STRICT_JIT": "1", "DEEPGEMM_CACHE_DIR": str(second_cache), **driver}
    again = counters(traced_run("run", **strict))
    assert (again["compiled"], again["loaded"]) == (0, first["loaded"])
    # What the trace had not met is refused by name, and recorded.
    more = place / "more.jsonl"
    refused = traced_run("run", "extra", **strict, DEEPGEMM_TRACE=str(more))
    assert refused.returncode == 1
    assert (
        "gemm 512x4096x4096 float16 x float16 to float32: strict mode: deepgemm_" in refused.stderr
    )
    assert len(more.read_text(encoding="utf-8").splitlines()) == len(lines) + 1


@needs_nvrtc
@needs_fake_driver
@pytest.mark.timeout(600)
def test_after_a_warm_up_from_its_trace_a_run_compiles_nothing(tmp_path):
    check_trace_and_warm_up(tmp_path, **FAKE)


@needs_nvrtc
@needs_fake_driver
@pytest.mark.timeout(300)
def test_processes_share_a_trace(cache, tmp_path):
    counters(traced_run("run", **FAKE))  # so that the others compile nothing
    trace = tmp_path / "trace.jsonl"
    command = [sys.executable, str(HERE / "traced_run.py"), "run"]
    settings = {**FAKE, "DEEPGEMM_TRACE": str(trace)}
    runs = [subprocess.Popen(command, env={**os.environ, **settings}) for _ in range(4)]
    assert [run.wait(timeout=200) for run in runs] == [0] * 4
    lines = trace.read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["op"] for line in lines].count("dequantize") == 4
    assert {lines.count(line) for line in lines} == {4}


@needs_nvrtc
@needs_fake_driver
@pytest.mark.timeout(300)
def test_a_full_disk_stops_no_run(cache):
    done = traced_run("run", DEEPGEMM_TRACE="/dev/full", **FAKE)
    assert done.returncode == 0
    assert done.stderr.count("DEEPGEMM_TRACE: cannot write /dev/full") == 1


def records() -> list[dict[str, Any]]:
    """Recorded problems of every operation, by hand."""
    dense = {
        "op": "gemm",
        "a": {"dtype": "bfloat16", "shape": [64, 128]},
        "b": {"dtype": "bfloat16", "shape": [96, 128]},
        "out": {"dtype": "bfloat16", "shape": [64, 96]},
        "device_sms": 132,
    }
    stack = {"dtype": "bfloat16", "shape": [2, 96, 128]}
    grouped = {**dense, "op": "grouped_gemm", "b": stack}
    grouped["group_ends"] = {"dtype": "int64", "shape": [2]}
    masked = {**grouped, "op": "masked_gemm", "rows": {"dtype": "int32", "shape": [2]}}
    masked["a"] = {"dtype": "bfloat16", "shape": [2, 64, 128]}
    masked["out"] = {"dtype": "bfloat16", "shape": [2, 64, 96]}
    along_k = {**dense, "op": "k_grouped_gemm", "k_sizes": {"dtype": "int32", "shape": [3]}}
    along_k["out"] = {"dtype": "float32", "shape": [3, 64, 96]}
    quantize = {"op": "quantize", "shape": [64, 128], "dtype": "float8_e4m3fn"}
    quantize["granularity"] = [1, 128]
    dequantize = {"op": "dequantize", "shape": [64, 128], "dtype": "float8_e4m3fn"}
    return [dense, grouped, masked, along_k, quantize, dequantize, {"op": "scale_layout"}]


@needs_nvrtc
def test_records_are_problems(cache):
    reports = deepgemm.warmup(records(), jobs=2)
    assert [report.problem["op"] for report in reports] == [record["op"] for record in records()]
    assert len({report.identity for report in reports}) == 6  # groups and masks share one
    assert all(report.origin for report in reports)
    assert deepgemm.cache_info()["entries"] >= 1


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"op": "conv"}, ValueError, 'op: found "conv", need gemm, '),
        ({"b": None}, ValueError, 'problem: found none, need "b"'),
        ({"b": 3}, TypeError, "b: found an object of type int"),
        ({"b": {"dtype": "bfloat16"}}, ValueError, "b: found no shape"),
        ({"b": {"dtype": "bf16", "shape": [96, 128]}}, TypeError, "b"),
        ({"b": {"dtype": "bfloat16", "shape": "wide"}}, ValueError, "b: found 'wide', need a list"),
        ({"b": {"dtype": "bfloat16", "shape": [1, 2, 3, 4, 5]}}, ValueError, "1 to 4 integers"),
        ({"b": {"dtype": "bfloat16", "shape": [96, 64]}}, ValueError, "K = 64"),
        ({"b": {"dtype": "bfloat16", "shape": [96, 2**60]}}, ValueError, "2^44 at most"),
        (
            {"b": {"dtype": "bfloat16", "shape": [96, 128], "strides": [128]}},
            ValueError,
            "a stride for each",
        ),
        ({"policy": {"tiles": 1}}, ValueError, "policy: found the field 'tiles'"),
        ({"device_sms": -4}, ValueError, "device_sms"),
        ({"num_sms": -4}, ValueError, "num_sms"),
    ],
)
def test_wrong_records(change, error, words):
    with pytest.raises(error) as raised:
        deepgemm.warmup([{**records()[0], **change}])
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        ({"op": "grouped_gemm", "m": 1, "n": 16, "k": 16}, "groups: found none"),
        ({"op": "conv", "m": 1, "n": 16, "k": 16}, "op: found 'conv'"),
        ({**ROWS_OF_A_GROUP, "op": "grouped_gemm", "m": 8, "form": "rows"}, "form: found 'rows'"),
        ({**ROWS_OF_A_GROUP, "op": "masked_gemm", "m": -8}, "M: found -8, need 0 or more"),
    ],
)
@needs_nvrtc
def test_wrong_shapes(problem, words):
    with pytest.raises(ValueError, match=words):
        deepgemm.warmup([problem])
    with pytest.raises(ValueError, match=f"problem 2 of 2: {words}"):
        deepgemm.warmup([records()[-1], problem], jobs=2)
    with pytest.raises(ValueError, match="jobs: found 0"):
        deepgemm.warmup([(1, 2, 3)], jobs=0)


def combinations() -> list[tuple[str, str, str]]:
    """Those that there are; one matrix of float8 has fewer blocks than shapes along K allow for."""
    return [
        (op, layout, dtype)
        for op in ("grouped_gemm", "masked_gemm", "k_grouped_gemm")
        for layout in ("nt", "nn", "tn")
        for dtype in ("bfloat16", "float16", "float8_e4m3fn", "float32")
        if (dtype != "float8_e4m3fn" if op == "k_grouped_gemm" else layout != "tn")
    ]


@pytest.mark.parametrize(("op", "layout", "dtype"), combinations())
def test_explain_of_shapes_is_that_of_arrays(op, layout, dtype):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    g, m, n, k = 4, 96, 160, 256
    kind = getattr(ml_dtypes, dtype, None) or getattr(np, dtype)
    a_shape = [k, m] if layout[0] == "t" else [m, k]
    b_shape = [k, n] if layout[1] == "n" else [n, k]
    a = np.zeros(([g] if op == "masked_gemm" else []) + a_shape, kind)
    b = np.zeros(([] if op == "k_grouped_gemm" else [g]) + b_shape, kind)
    granularity = None
    if dtype.startswith("float8"):
        a = deepgemm.quantize(a.astype(np.float32), (1, 128))
        b = deepgemm.quantize(b.astype(np.float32), (128, 128))
        granularity = ((1, 128), (128, 128))
    vector = np.zeros(g, np.int32)
    by_arrays = deepgemm.explain(op, a, b, vector, device=-1, layout=layout)
    default = dtype.startswith("float8") or op == "k_grouped_gemm"
    by_shape = deepgemm.explain(
        op, m, n, k, groups=g, a_dtype=dtype, b_dtype=dtype, layout=layout, granularity=granularity,
        device=-1, out_dtype=None if default else dtype,
    )  # fmt: skip
    assert by_arrays.identity == by_shape.identity
    assert by_arrays.problem == by_shape.problem
    assert by_shape.problem["groups"] == g
    assert by_shape.grid > 0


def test_an_option_that_is_none_is_named():
    with pytest.raises(TypeError, match="grouped_gemm: found the keyword 'foo', which it has not"):
        deepgemm.explain("grouped_gemm", 64, 512, 512, groups=4, foo=1)


def test_explain_of_groups_says_why():
    tiles = deepgemm.explain("grouped_gemm", 4096, 4096, 7168, groups=8, device=-1)
    assert tiles.kernel == "deepgemm_fp8_gemm"
    assert "groups of rows" in tiles.config
    labels = deepgemm.explain("grouped_gemm", 4096, 4096, 7168, groups=8, form="labels", device=-1)
    assert labels.identity != tiles.identity
    general = deepgemm.explain(
        "grouped_gemm", 64, 64, 64, groups=2, device=-1, policy={"kernel": "general"}
    )
    assert (general.kernel, general.reason) == ("deepgemm_general_grouped", "policy asks for it")
    with pytest.raises(ValueError, match="decode"):
        deepgemm.explain(
            "grouped_gemm", 64, 64, 64, groups=2, device=-1, policy={"kernel": "decode"}
        )
    empty = deepgemm.explain("masked_gemm", 0, 64, 64, groups=2, device=-1)
    assert (empty.kernel, empty.reason) == ("", "the product is empty")
    few = deepgemm.explain("masked_gemm", 2048, 4096, 7168, groups=8, expected_rows=8, device=-1)
    many = deepgemm.explain("masked_gemm", 2048, 4096, 7168, groups=8, device=-1)
    assert few.identity != many.identity


@needs_nvrtc
def test_threads_have_the_options_of_the_caller(cache):
    problems = [(2048, 640, 512), (1, 2048, 512)]
    with deepgemm.options(num_sms=9):
        expected = [deepgemm.explain("gemm", *problem, device=-1) for problem in problems]
        reports = deepgemm.warmup(problems, device=-1, jobs=2)
    assert [report.identity for report in reports] == [report.identity for report in expected]
    assert reports[0].grid == 9
    # Tiles that no other test compiles into this process's memory.
    policy = {"tile_m": 128, "tile_n": 48, "consumers": 2, "stages": 3}
    shape = {"m": 512, "n": 4096, "k": 4096, "policy": policy}
    words = (
        r"strict mode: deepgemm_fp8_gemm \(e4m3 x e4m3, out bf16, 128x48x128, 3 stages, .*\) is in"
    )
    with deepgemm.options(strict_jit=True), pytest.raises(deepgemm.Error, match=words):
        deepgemm.warmup([shape, shape], jobs=2)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@needs_nvrtc
def test_a_terminal_sees_one_line_that_grows(cache, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stderr", shown := Terminal())
    assert cli.main(["warmup", "64,128,256", "64,256,256", "--jobs", "1"]) == 0
    parts = shown.getvalue().split("\r\x1b[K")
    assert len(parts) == 3
    assert parts[1].startswith("[###############...............] 1/2 64x128x256 ")
    assert parts[2].startswith("[##############################] 2/2 64x256x256 ")
    assert shown.getvalue().count("\n") == 1


def test_trace_files(tmp_path, capsys, cache):
    trace = tmp_path / "trace.jsonl"
    trace.write_text("\n", encoding="utf-8")
    assert cli.main(["warmup", "--trace", str(trace)]) == 2
    assert "found no problem" in capsys.readouterr().err
    assert cli.main(["warmup", "--trace", str(tmp_path / "none")]) == 2
    if not HAS_NVRTC:
        return
    line = json.dumps(records()[0])
    trace.write_text(f'{line[:40]}\n{line}\n\n{line}\n[1]\n"x"\n', encoding="utf-8")
    assert cli.main(["warmup", "--trace", str(trace)]) == 0
    shown = capsys.readouterr()
    assert "3 damaged lines passed over" in shown.err
    assert shown.out.startswith("1 problem, 1 kernel: ")
