"""The benchmark's suites, result files and command line; no speed is asserted here."""

import argparse
import json
import math
from collections import Counter
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

import deepgemm
from deepgemm._library import ext
from deepgemm.bench import cublaslt, dense, jit, machine, report, suites
from deepgemm.bench.machine import hopper_gpus
from deepgemm.cli import bench

HEAD = {
    "card": "NVIDIA H200", "driver": "580.159", "nvrtc": "13.0", "commit": "abc",
    "date": "2026-01-01", "clock_mhz": 1980,
}  # fmt: skip
ROW = {
    "op": "gemm", "m": 4096, "n": 7168, "k": 2048, "layout": "nt", "in_dtype": "float8_e4m3fn",
    "out_dtype": "bfloat16", "accumulate": False, "mode": "burst", "us": 90.0, "tflops": 1336.0,
    "gbps": 910.0, "error": 1e-6, "rival": "cublaslt-tensorwise", "rival_us": 99.0, "ratio": 1.1,
}  # fmt: skip
# How many rows of BF16 there are of each layout, output and whether it is added to.
BF16_KINDS = {
    ("nt", "bfloat16", False): 21, ("nt", "bfloat16", True): 21, ("nt", "float32", False): 6,
    ("nn", "bfloat16", False): 9, ("tn", "bfloat16", False): 9, ("tn", "float32", True): 9,
}  # fmt: skip
kind = attrgetter("layout", "out_dtype", "accumulate")
PUBLISHED = (  # the peer's TFLOP/s and GB/s
    ("4096x7168x16384", 1515, 386), ("4096x7168x2048,nt,bf16", 763, 666),
    ("4096x7168x2048,nt,bf16+=", 717, 976), ("2112x4096x7168,tn,fp32+=", 647, 826),
    ("4096x129280x7168,nt,fp32", 641, 340),
)  # fmt: skip


def row(**changes: Any) -> dict[str, Any]:
    return {**ROW, **changes}


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


def test_bf16_suite() -> None:
    assert Counter(kind(case) for case in suites.BF16_DENSE) == BF16_KINDS
    assert len({case.label for case in suites.BF16_DENSE}) == 75
    ratios = [case.peer_ratio for case in suites.BF16_DENSE if case.peer_ratio]
    assert report.geometric_mean(ratios) == pytest.approx(0.95, abs=0.0005)
    assert {kind(case) for case in suites.BF16_QUICK} == set(BF16_KINDS)
    assert not [case for case in suites.BF16_QUICK if "129280" in case.label]


@pytest.mark.parametrize("published", PUBLISHED)
def test_peer_rates_agree_with_the_cases(published: tuple[str, float, float]) -> None:
    name, tflops, gbps = published
    (case,) = (c for c in (*suites.DENSE, *suites.BF16_DENSE) if c.label == name)
    assert case.peer_us is not None
    assert case.flops / case.peer_us / 1e6 == pytest.approx(tflops, abs=1)
    assert case.bytes / case.peer_us / 1e3 == pytest.approx(gbps, rel=0.02)


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
    assert len(suites.select(suites.BF16_DENSE, ["4096x4096x7168"])) == 4
    assert len(suites.select(suites.BF16_DENSE, ["4096x4096x7168,tn,fp32+="])) == 1
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
    "change", [{"mode": "warm"}, {"us": "90"}, {"error": math.nan}, {"colour": "red"}]
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


def test_markdown_of_several_layouts() -> None:
    content = report.document(HEAD, [row(), row(layout="tn", out_dtype="float32", accumulate=True)])
    lines = report.markdown(content).splitlines()
    assert {line.count("|") for line in lines[:4]} == {13}
    assert lines[0].startswith("| M | N | K | layout | out |")
    assert lines[3].startswith("| 4096 | 7168 | 2048 | tn | fp32 += |")
    assert "4096 x 7168 x 2048 tn fp32 +=</text>" in report.svg(content)


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


@pytest.mark.parametrize("suite", ["dense", "bf16", "call"])
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
    assert bench.run(parse("bf16", "--list", "--rows", "74")) == 0
    assert " 74  129280x4096x7168,tn,bf16 bfloat16" in capsys.readouterr().out


@pytest.mark.torch
@pytest.mark.parametrize(("suite", "peer"), [("dense", "0.68"), ("bf16", "0.97")])
@pytest.mark.parametrize("error", [1e-6, 1e-3])
def test_dense_table(
    suite: str, peer: str, error: float, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    def measured(cases: Any, support: Any, options: Any) -> Iterator[Any]:
        yield cases[0], row(error=error)

    monkeypatch.setattr(machine, "gpu_problem", lambda: "")
    monkeypatch.setattr(dense, "measure_all", measured)
    out = tmp_path / "dense.json"
    assert bench.run(parse(suite, "--json", str(out))) == (0 if error < 1e-5 else 1)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].endswith(f"1.100   {peer}" if error < 1e-5 else "WRONG")
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
    monkeypatch.setattr(jit, "stored", lambda quick: {"disk_ms": {}, "bundle_ms": {}})
    out = tmp_path / "jit.json"
    with pytest.raises(KeyboardInterrupt):  # the command line then exits with 130
        bench.run(parse("jit", "--json", str(out)))
    assert report.load(out)["rows"] == [{"kernel": "x", "cold_ms": 1.0}]


def test_quick_has_one_kernel_of_each_family() -> None:
    kernels = [kernel["kernel"] for kernel in ext.selectable_kernels()]
    assert len(jit.selection(every=True)) == len(kernels)
    assert sorted(kernels[index] for index in jit.selection()) == sorted(set(kernels))


def test_jit_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if problem := deepgemm.info()["nvrtc_problem"]:
        pytest.skip(f"NVRTC is missing: {problem}")
    monkeypatch.setattr(jit, "DENSE", suites.DENSE[-2:-1] + suites.DENSE[-1:])
    stored = jit.stored()
    assert set(stored) == {"disk_ms", "bundle_ms"}
    assert stored["disk_ms"].keys() == stored["bundle_ms"].keys() != set()
    for key in stored["disk_ms"]:
        assert sum(jit.matches(key, name) for name in jit.names()) == 1, key
        assert set(jit.numbers_of([key])) <= set(jit.selection(stored["disk_ms"]))
    monkeypatch.setattr(jit, "selection", lambda keys, every: [0])
    out = tmp_path / "jit.json"
    assert bench.run(parse("jit", "--repeat", "1", "--json", str(out))) == 0
    (row,) = report.load(out)["rows"]
    assert row["cold_ms"] > 0


@pytest.mark.gpu
@pytest.mark.torch
@pytest.mark.skipif(not hopper_gpus(), reason="needs a Hopper GPU")
@pytest.mark.parametrize("words", ["dense --rows 128x2112x7168", "bf16 --quick"])
def test_dense_on_a_gpu(words: str, tmp_path: Path) -> None:
    out = tmp_path / "dense.json"
    assert bench.run(parse(*words.split(), "--repeat", "3", "--json", str(out))) == 0
    for found in report.load(out)["rows"]:
        assert found["us"] > 0
        assert found["rival_us"] > 0


def test_kernels_are_dealt_out_between_flushes() -> None:
    support = pytest.importorskip("deepgemm.torch.bench_support")
    names = ["fill", "ours", "fill", "clear", "rival", "fill", "ours", "fill", "clear", "rival"]
    times = {"fill": 2000.0, "ours": 10.0, "rival": 11.0, "clear": 1.0}  # in the way of the flush
    events = [(at, times[name], name.replace("clear", "fill")) for at, name in enumerate(names)]
    assert support.split(events, events[:1], 2, 2) == [[10.0, 10.0], [12.0, 12.0]]
    for broken in (events[:-3], events[1:], []):
        with pytest.raises(RuntimeError, match="profiler: found"):
            support.split(broken, events[:1], 2, 2)
    with pytest.raises(RuntimeError, match="profiler: found 0"):
        support.split(events, [], 2, 2)


@pytest.mark.parametrize("rival_error", [1e-6, 1.0, math.nan])
def test_a_row_in_bf16(rival_error: float, monkeypatch: pytest.MonkeyPatch) -> None:
    support, gemm = MagicMock(), MagicMock()
    monkeypatch.setattr(deepgemm, "gemm", gemm)
    support.bfloat16_operands.return_value = "a", "b"
    support.error_against_fp64.side_effect = [1e-7, rival_error]
    support.burst_us.return_value = [[2.0], [3.0]]
    (case,) = suites.select(suites.BF16_DENSE, ["4096x4096x7168,tn,fp32+="])
    if rival_error != 1e-6:
        with pytest.raises(RuntimeError, match=r"tn,fp32\+=: cublaslt has an error of"):
            dense.measure(case, support, dense.Options())
        return
    found = dense.measure(case, support, dense.Options())
    out = support.addend.return_value
    gemm.assert_called_once_with("a", "b", out, c=out, layout="tn")
    support.cublaslt.assert_called_once_with("a", "b", "float32", accumulate=True, layout="tn")
    assert not report.problems(report.document(HEAD, [found]))
    words = {"layout": "tn", "in_dtype": "bf16", "accumulate": True, "rival": "cublaslt"}
    assert found.items() >= {**words, "ratio": 1.5, "error": 1e-7}.items()


@pytest.mark.parametrize("layout", ["nt", "nn", "tn", "tt"])
def test_cublaslt_is_told_what_lies_where(layout: str, rng: Any) -> None:
    a, b, d = rng.random((3, 7)), rng.random((7, 5)), np.empty((3, 5))
    stored = {"a": a.T if layout[0] == "t" else a, "b": b.T if layout[1] == "t" else b, "d": d}
    product = cublaslt.Product(3, 5, 7, layout, "bfloat16", "bfloat16", False)
    seen = {}
    for name, (rows, columns, is_transposed) in cublaslt.column_major(product).items():
        memory = np.array(stored[name], order="C")
        x: Any = np.ndarray((rows, columns), buffer=memory, order="F")
        seen[name] = x.T if is_transposed else x
    np.testing.assert_allclose(seen["b"] @ seen["a"], (a @ b).T)
    assert seen["d"].shape == (5, 3)


@pytest.mark.torch
@pytest.mark.parametrize("layout", ["nt", "nn", "tn"])
def test_error_of_layouts(layout: str, torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    support = pytest.importorskip("deepgemm.torch.bench_support")
    monkeypatch.setattr(support, "FP64_ELEMENTS", 4 * 8)  # four rows at once
    a, b, c = (torch.randn(shape).to(torch.bfloat16) for shape in ((10, 8), (6, 8), (10, 6)))
    out = a.double() @ b.double().t() + c.double()
    a, b = a.t() if layout[0] == "t" else a, b.t() if layout[1] == "n" else b
    assert abs(support.error_against_fp64(out, a, b, layout=layout, c=c)) < 1e-12
    found = out + torch.randn(out.shape)
    expected = 1 - 2 * (found * out).sum() / ((found * found).sum() + (out * out).sum())
    error = support.error_against_fp64(found, a, b, layout=layout, c=c)
    assert error == pytest.approx(float(expected), rel=1e-6)
