"""The benchmark's suites, result files and command line; no speed is asserted here."""

import argparse
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import deepgemm
from deepgemm._library import ext
from deepgemm.bench import dense, grouped, jit, machine, report, suites
from deepgemm.bench.machine import hopper_gpus
from deepgemm.cli import bench

HEAD = {
    "card": "NVIDIA H200",
    "driver": "580.159",
    "nvrtc": "13.0",
    "commit": "abc",
    "date": "2026-01-01",
    "clock_mhz": 1980,
}


def row(**changes: Any) -> dict[str, Any]:
    base = {
        "op": "gemm",
        "m": 4096,
        "n": 7168,
        "k": 2048,
        "layout": "nt",
        "in_dtype": "float8_e4m3fn",
        "out_dtype": "bfloat16",
        "accumulate": False,
        "mode": "burst",
        "us": 90.0,
        "tflops": 1336.0,
        "gbps": 910.0,
        "error": 1e-6,
        "rival": "cublaslt-tensorwise",
        "rival_us": 99.0,
        "ratio": 1.1,
    }
    return {**base, **changes}


def parse(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    bench.add_parser(parser.add_subparsers())
    return parser.parse_args(["bench", *words])


def test_dense_suite() -> None:
    assert len(suites.DENSE) == 42
    assert len(set(suites.DENSE)) == 42
    assert sum(case.accumulate for case in suites.DENSE) == 7
    ratios = [case.peer_ratio for case in suites.DENSE if case.peer_ratio]
    assert len(ratios) == 42
    assert report.geometric_mean(ratios) == pytest.approx(0.92, abs=0.005)


def test_peer_rates_agree_with_the_cases() -> None:
    (case,) = suites.select(suites.DENSE, ["4096x7168x16384"])
    assert case.peer_us is not None
    assert case.flops / case.peer_us / 1e6 == pytest.approx(1515, abs=1)
    assert case.bytes / case.peer_us / 1e3 == pytest.approx(386, rel=0.02)


def test_decode_suite() -> None:
    assert len(suites.DECODE) == 42
    assert {case.m for case in suites.DECODE} == {2, 4, 8, 16, 32, 64}
    assert len(suites.QUICK) == 6


def test_select() -> None:
    assert suites.select(suites.DENSE, []) == suites.DENSE
    assert [case.m for case in suites.select(suites.DENSE, ["M=128"])] == [128] * 7
    assert suites.select(suites.DENSE, ["0"]) == suites.DENSE[:1]
    both = suites.select(suites.DENSE, ["4096x4096x7168"])
    assert [case.accumulate for case in both] == [False, True] or len(both) == 3
    for wrong in ("1x2x3", "42"):
        with pytest.raises(ValueError, match="rows: found"):
            suites.select(suites.DENSE, [wrong])


def test_geometric_mean() -> None:
    assert report.geometric_mean([1, 4]) == pytest.approx(2)
    assert math.isnan(report.geometric_mean([]))


def test_result_file_round_trip(tmp_path: Path) -> None:
    content = report.document(HEAD, [row(), row(mode="sustained", l2="clean")])
    path = tmp_path / "h200" / "dense.json"
    report.save(content, path)
    assert report.load(path) == content
    assert len(path.read_text().splitlines()) < 20  # one row a line: it must read well in a diff


@pytest.mark.parametrize(
    "change",
    [
        {"mode": "warm"},
        {"us": "90"},
        {"error": math.nan},
        {"colour": "red"},
    ],
)
def test_wrong_rows_are_refused(change: dict[str, Any], tmp_path: Path) -> None:
    content = report.document(HEAD, [row(**change)])
    assert report.problems(content)
    with pytest.raises(ValueError, match="rows"):
        report.save(content, tmp_path / "x.json")
    assert not list(tmp_path.iterdir())


def test_missing_fields_are_found() -> None:
    without = {name: value for name, value in row().items() if name != "us"}
    assert report.problems(report.document(HEAD, [without])) == ["rows[0].us: missing"]
    head = {name: value for name, value in HEAD.items() if name != "card"}
    assert report.problems(report.document(head, [])) == ["card: missing"]


@pytest.mark.parametrize("content", [[], 3, {**HEAD, "rows": [3, [row()]]}, {**HEAD, "rows": 3}])
def test_another_form_is_refused(content: Any) -> None:
    assert report.problems(content)


def test_jit_and_call_rows() -> None:
    rows = [
        {"kernel": "fp8 128x128", "cold_ms": 240.0, "disk_ms": 1.2},
        {"path": "python", "us": 4.2, "launch_us": 3},
    ]
    assert not report.problems(report.document(HEAD, rows))
    assert report.problems(report.document(HEAD, [{"kernel": "x", "cold_ms": 1.0, "us": 2.0}]))


def test_markdown() -> None:
    text = report.markdown(report.document(HEAD, [row(), row(ratio=0.9, accumulate=True)]))
    lines = text.splitlines()
    columns = {line.count("|") for line in lines[:4]}
    assert columns == {12}
    assert "geometric mean of 2 rows 0.995, lowest 0.900" in text
    assert "NVIDIA H200" in text


def test_plot_is_svg() -> None:
    from xml.etree import ElementTree

    text = report.svg(report.document(HEAD, [row(), row(ratio=0.9)]))
    bars = ElementTree.fromstring(text).findall("{http://www.w3.org/2000/svg}rect")
    assert len(bars) == 2


def test_results_in_the_repository_have_the_right_form() -> None:
    folder = Path(__file__).resolve().parents[2] / "benchmarks" / "results"
    for path in folder.rglob("*.json"):
        assert not report.problems(report.load(path)), path


def test_machine() -> None:
    head = machine.describe()
    assert not report.problems(report.document(head, []))


def test_nan_is_wrong() -> None:
    assert dense.is_right(row(error=1e-6))
    assert not dense.is_right(row(error=math.nan))
    assert not dense.is_right(row(error=2e-5))


@pytest.mark.parametrize("suite", ["dense", "call"])
def test_without_a_gpu_it_says_so(suite: str, capsys: pytest.CaptureFixture[str]) -> None:
    if hopper_gpus():
        pytest.skip("this machine has a GPU")
    assert bench.run(parse(suite)) == 2
    assert "needs a GPU" in capsys.readouterr().err


def test_wrong_rows_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    for word in ("1x2x3", "M=5", "42"):  # before a GPU is looked for
        assert bench.run(parse("dense", "--rows", word)) == 2
        assert f"rows: found '{word}'" in capsys.readouterr().err


def test_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "dense.json"
    report.save(report.document(HEAD, [row()]), path)
    assert bench.run(parse("show", str(path), "--plot", str(tmp_path / "dense.svg"))) == 0
    assert "| 4096 | 7168 | 2048 |" in capsys.readouterr().out
    assert (tmp_path / "dense.svg").read_text().startswith("<svg")
    path.write_text(json.dumps({"card": "x"}))
    assert bench.run(parse("show", str(path))) == 2


@pytest.mark.parametrize("text", ["no JSON", "[1]", '{"rows": [1]}', json.dumps({"card": "x"})])
def test_show_of_another_form(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    assert bench.run(parse("show", str(path))) == 2
    assert f"{path} is no result file of `deepgemm bench`: " in capsys.readouterr().err


def test_no_plot_of_compile_times(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "jit.json"
    report.save(report.document(HEAD, [{"kernel": "x", "cold_ms": 1.0}]), path)
    assert bench.run(parse("show", str(path), "--plot", str(tmp_path / "x.svg"))) == 2
    assert "rows that are no products" in capsys.readouterr().err


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.run(parse("dense", "--list", "--rows", "M=1")) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 8
    assert lines[1].split() == ["0", "1x2112x7168", "bfloat16", "14.2", "0.68"]


@pytest.mark.torch
@pytest.mark.parametrize("error", [1e-6, 1e-3])
def test_dense_table(
    error: float,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def measured(cases: Any, support: Any, options: Any) -> Iterator[Any]:
        yield cases[0], row(error=error)

    monkeypatch.setattr(machine, "gpu_problem", lambda: "")
    monkeypatch.setattr(dense, "measure_all", measured)
    out = tmp_path / "dense.json"
    assert bench.run(parse("dense", "--json", str(out))) == (0 if error < 1e-5 else 1)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].endswith("1.100   0.68" if error < 1e-5 else "WRONG")
    assert lines[2] == "geometric mean of 1 ratio: 1.1000"
    assert "as published for the same kind" in lines[3]
    assert len(report.load(out)["rows"]) == 1


@pytest.mark.parametrize("value", ["0", "-1", "x"])
def test_repeat_is_at_least_one(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        parse("jit", "--repeat", value)
    assert exit.value.code == 2
    assert "--repeat" in capsys.readouterr().err


def test_interrupted_times_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if problem := deepgemm.info()["nvrtc_problem"]:
        pytest.skip(f"NVRTC is missing: {problem}")

    def cold(selected: list[int], repeat: int) -> Iterator[dict[str, Any]]:
        yield {"kernel": "x", "cold_ms": 1.0}
        raise KeyboardInterrupt

    monkeypatch.setattr(jit, "cold", cold)
    monkeypatch.setattr(jit, "disk", lambda quick: {})
    out = tmp_path / "jit.json"
    with pytest.raises(KeyboardInterrupt):  # the command line then exits with 130
        bench.run(parse("jit", "--json", str(out)))
    assert report.load(out)["rows"] == [{"kernel": "x", "cold_ms": 1.0}]


def test_quick_has_one_kernel_of_each_family() -> None:
    kernels = [kernel["kernel"] for kernel in ext.selectable_kernels()]
    assert len(jit.selection(False)) == len(kernels)
    assert sorted(kernels[index] for index in jit.selection(True)) == sorted(set(kernels))


def test_jit_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if problem := deepgemm.info()["nvrtc_problem"]:
        pytest.skip(f"NVRTC is missing: {problem}")
    monkeypatch.setattr(jit, "DENSE", suites.DENSE[-2:-1] + suites.DENSE[-1:])
    on_disk = jit.disk()
    assert on_disk
    kernels = ext.selectable_kernels()
    names = [f"{kernel['kernel']} {kernel['config']}" for kernel in kernels]
    for key in on_disk:
        assert sum(jit.matches(key, name) for name in names) == 1, key
    monkeypatch.setattr(jit, "selection", lambda quick: [0])
    out = tmp_path / "jit.json"
    assert bench.run(parse("jit", "--repeat", "1", "--json", str(out))) == 0
    (row,) = report.load(out)["rows"]
    assert row["cold_ms"] > 0


@pytest.mark.gpu
@pytest.mark.torch
@pytest.mark.skipif(not hopper_gpus(), reason="needs a Hopper GPU")
def test_dense_on_a_gpu(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    out = tmp_path / "dense.json"
    words = ("dense", "--rows", "128x2112x7168", "--repeat", "3", "--json", str(out))
    assert bench.run(parse(*words)) == 0
    (found,) = report.load(out)["rows"]
    assert found["us"] > 0
    assert found["error"] <= 1e-5


def test_kernels_are_dealt_out_between_flushes() -> None:
    support = pytest.importorskip("deepgemm.torch.bench_support")
    names = ["fill", "ours", "fill", "rival", "rival2", "fill", "ours", "fill", "rival", "rival2"]
    times = {"fill": 2000.0, "ours": 10.0, "rival": 11.0, "rival2": 1.0}
    events = [(index, times[name], name) for index, name in enumerate(names)]
    assert support.split(events, ["fill"], 2, 2) == [[10.0, 10.0], [12.0, 12.0]]
    for broken in (events[:-3], events[1:], []):
        with pytest.raises(RuntimeError, match="profiler: found"):
            support.split(broken, ["fill"], 2, 2)
    with pytest.raises(RuntimeError, match="profiler: found 0"):
        support.split(events, [], 2, 2)


def test_grouped_cases_have_their_totals() -> None:
    for case in grouped.CASES:
        sizes = case.sizes()
        assert len(sizes) == case.groups
        assert (sizes > 0).all()
        assert (sizes == case.sizes()).all()  # the same for each call
        if case.kind == "masked":
            assert sizes.max() <= grouped.MASKED_ROWS
            assert 0.7 * case.rows - 1 <= sizes.min()
        else:
            assert sizes.sum() == (case.k if case.kind == "along K" else case.rows)
        if case.kind in ("padded", "along K"):
            assert not (sizes % 128).any()
    assert {case.kind for case in grouped.QUICK} == {"padded", "natural", "masked", "along K"}
    assert len({case.label for case in grouped.CASES}) == len(grouped.CASES)


def test_a_table_of_groups_names_them() -> None:
    text = report.markdown(report.document(HEAD, [row(op="masked_gemm", groups=8)]))
    assert "| op | groups | M |" in text
    assert "| masked_gemm | 8 |" in text
