"""The command line, as a user calls it."""

from __future__ import annotations

import json
import platform
import subprocess
import sys

import numpy as np
import pytest

import deepgemm
from deepgemm.cli import explain
from deepgemm.cli import main as cli
from deepgemm.cli.exits import count, exit_code
from deepgemm.cli.problems import parse_granularity, parse_shape

HAS_NVRTC = bool(deepgemm.info()["nvrtc_path"])
needs_nvrtc = pytest.mark.skipif(not HAS_NVRTC, reason="NVRTC is not installed")


def run(capsys, *arguments):
    code = cli.main([str(argument) for argument in arguments])
    return code, capsys.readouterr()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DEEPGEMM_CACHE_DIR", str(tmp_path / "cache"))


def test_help_and_version():
    done = subprocess.run(
        [sys.executable, "-m", "deepgemm", "--help"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    for command in ("info", "demo", "gemm", "warmup", "bench", "explain", "cache"):
        assert command in done.stdout
    done = subprocess.run(
        [sys.executable, "-m", "deepgemm", "--version"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == f"deepgemm {deepgemm.__version__}\n"


@pytest.mark.parametrize(
    ("command", "more"), [("'info'", ["deepgemm.cli.demo"]), ("None", [])], ids=["info", "all"]
)
def test_a_parser_loads_nothing_heavy(command, more):
    code = (
        "import sys\n"
        "from deepgemm.cli.main import build_parser\n"
        f"build_parser({command}).format_help()\n"
        f"heavy = {['numpy', 'torch', 'jax', 'deepgemm._ext', *more]!r}\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"


def test_no_command(capsys):
    code, shown = run(capsys)
    assert code == 2
    assert "usage: deepgemm" in shown.out


def test_info(capsys, cache):
    code, shown = run(capsys, "info")
    usable = deepgemm.info()["usable"]
    assert code == (0 if usable else 1)
    assert "deepgemm   " in shown.out
    if not usable:
        assert "problem    " in shown.out
    assert (
        f"Python     {platform.python_implementation()} {platform.python_version()}, " in shown.out
    )
    assert f"numpy {np.__version__}" in shown.out
    assert "setting    DEEPGEMM_CACHE_DIR=" in shown.out
    code, shown = run(capsys, "info", "--json")
    found = json.loads(shown.out)
    assert found["usable"] == usable
    assert found["system"]["packages"]["numpy"] == np.__version__
    assert found["settings"]["DEEPGEMM_CACHE_DIR"] == deepgemm.cache_info()["directory"]
    assert bool(found["problems"]) == (not usable)


@pytest.mark.parametrize("layout", ["nt", "nn", "tn", "tt"])
def test_gemm(capsys, tmp_path, rng, layout):
    a = rng.integers(-2, 3, (5, 128)).astype(np.float32)
    b = rng.integers(-2, 3, (7, 128)).astype(np.float32)
    a[:, 0] = b[:, 0] = 448  # the factors become 1, and all values exact
    np.save(tmp_path / "a.npy", a.T if layout[0] == "t" else a)
    np.save(tmp_path / "b.npy", b.T if layout[1] == "n" else b)
    paths = [tmp_path / name for name in ("a.npy", "b.npy", "-o", "d.npy")]
    code, shown = run(
        capsys, "gemm", *paths[:2], "-o", paths[3], "--layout", layout, "--device", -1
    )
    assert code == 0
    assert "[5, 128] x [128, 7] on cpu" in shown.out
    assert np.array_equal(np.load(paths[3]), a @ b.T)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e5m2"])
def test_gemm_dtypes(capsys, tmp_path, rng, dtype):
    a, b = (rng.standard_normal((6, 64)).astype(np.float32) for _ in "ab")
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    code, shown = run(
        capsys, "gemm", tmp_path / "a.npy", tmp_path / "b.npy", "-o", tmp_path / "d.npy",
        "--dtype", dtype, "--device", -1, "--json",
    )  # fmt: skip
    assert code == 0
    assert json.loads(shown.out)["m"] == 6
    np.testing.assert_allclose(np.load(tmp_path / "d.npy"), a @ b.T, atol=4)


def test_gemm_errors(capsys, tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((2, 2), np.int32))
    code, shown = run(capsys, "gemm", tmp_path / "a.npy", tmp_path / "a.npy", "-o", tmp_path / "d")
    assert code == 2
    assert "found int32, need float32" in shown.err
    code, shown = run(capsys, "gemm", tmp_path / "no.npy", tmp_path / "a.npy", "-o", tmp_path / "d")
    assert code == 2
    assert "no.npy" in shown.err


def test_gemm_of_bfloat16_says_what_it_wrote(capsys, tmp_path, rng):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    a = rng.integers(-8, 9, (4, 32)).astype(ml_dtypes.bfloat16)
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "bits.npy", a.view(np.uint16))
    for name in ("a.npy", "bits.npy"):
        code, shown = run(
            capsys, "gemm", tmp_path / name, tmp_path / name, "-o", tmp_path / "d",
            "--dtype", "bfloat16", "--device", -1,
        )  # fmt: skip
        assert code == 0, shown.err
        assert f"written to {tmp_path / 'd.npy'}, " in shown.out
        assert "ms in all" in shown.out
        wide = a.astype(np.float32)
        assert np.array_equal(np.load(tmp_path / "d.npy"), wide @ wide.T)


def test_explain(capsys):
    code, shown = run(capsys, "explain", 4096, 4096, 4096)
    assert code == 0
    assert "deepgemm_fp8_gemm" in shown.out
    code, shown = run(
        capsys, "explain", 64, 128, 256, "--a-dtype", "bfloat16", "--b-dtype", "bfloat16", "--json"
    )
    report = json.loads(shown.out)
    assert report["problem"]["m"] == 64
    assert report["origin"] == ""
    assert "us (H200 model)" in run(capsys, "explain", 4096, 4096, 4096)[1].out
    report = json.loads(run(capsys, "explain", 4096, 4096, 4096, "--json")[1].out)
    assert report["fields"]["predicted_us"] > 0
    assert report["fields"]["tiles"] > 0
    for shape in ((0, 4, 5), (4, 0, 5)):
        code, shown = run(capsys, "explain", *shape)
        assert (code, shown.out) == (0, "nothing to compute: the product is empty\n")
    code, shown = run(capsys, "explain", 64, 128, 256, "--measure", "--bias")
    assert code == 2
    assert "--measure times the default product" in shown.err
    code, shown = run(capsys, "explain", 64, 128, 256, "--out-dtype", "int32")
    assert code == 2
    assert "deepgemm explain: out: found int32" in shown.err


def test_explain_in_python():
    report = deepgemm.explain("gemm", 4096, 4096, 4096)
    assert report.kernel in str(report)
    with pytest.raises(ValueError, match="op: found 'conv'"):
        deepgemm.explain("conv", 1, 2, 3)


@needs_nvrtc
def test_warmup_and_cache(capsys, cache, tmp_path):
    (tmp_path / "list").write_text("# shapes\n64,128,256\n64x128x256  # again\n")
    code, shown = run(capsys, "warmup", "4096,4096,4096", "--file", tmp_path / "list")
    assert code == 0, shown.err
    assert shown.out.startswith("3 problems, ")
    assert "] 3/3 " in shown.err
    assert shown.err.count(" 64x128x256 ") == 2
    code, shown = run(capsys, "warmup", "64,128,256", "--json")
    summary = json.loads(shown.out)
    assert (summary["problems"], summary["compiled"], summary["there"]) == (1, 0, 1)
    assert summary["kernels"][0]["origin"] in ("memory", "disk")
    code, shown = run(capsys, "cache", "list", "--json")
    entries = json.loads(shown.out)["list"]
    assert entries
    code, shown = run(capsys, "cache", "verify")
    assert code == 0
    assert f"{len(entries)} kernel" in shown.out
    entry = tmp_path / "cache" / entries[0]["file"]
    entry.write_bytes(entry.read_bytes()[:-5] + b"wrong")
    code, shown = run(capsys, "cache", "verify")
    assert code == 1
    assert "damaged" in shown.out
    code, shown = run(capsys, "cache", "clear")
    assert f"removed {len(entries)}" in shown.out
    code, shown = run(capsys, "cache")
    assert "0 kernels" in shown.out


@needs_nvrtc
def test_strict_jit_forbids_a_compile(cache):
    # A tile that no other test compiles into this process's memory.
    policy = {"tile_m": 128, "tile_n": 48, "consumers": 2, "stages": 5}
    with deepgemm.options(strict_jit=True), pytest.raises(deepgemm.Error, match="strict"):
        deepgemm.warmup([{"m": 512, "n": 4096, "k": 4096, "policy": policy}])


def test_warmup_needs_problems(capsys):
    code, shown = run(capsys, "warmup")
    assert code == 2
    assert "problems: found none" in shown.err


@pytest.mark.parametrize("place", ["file/cache", "/proc/no/such"])
def test_a_cache_that_keeps_nothing(capsys, tmp_path, monkeypatch, place):
    (tmp_path / "file").touch()
    monkeypatch.setenv("DEEPGEMM_CACHE_DIR", str(tmp_path / place))
    code, shown = run(capsys, "warmup", "64,128,256")
    assert code == 1
    assert "the cache keeps nothing: " in shown.err
    code, shown = run(capsys, "info")
    assert "no cache on disk: " in shown.out
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_an_nvrtc_path_that_is_wrong_is_named():
    def deepgemm_in_a_child(*words):
        return subprocess.run(
            [sys.executable, "-m", "deepgemm", *words],
            env={"DEEPGEMM_NVRTC_PATH": "/no/such/libnvrtc.so"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    done = deepgemm_in_a_child("info")
    assert done.returncode == 1
    assert "DEEPGEMM_NVRTC_PATH names no usable NVRTC" in done.stdout
    assert done.stdout.count("/no/such/libnvrtc.so") == 2  # what is set, and what is wrong with it
    assert "pip install" not in done.stdout.partition("NVRTC_PATH")[2]
    for words in (("bench", "jit"), ("cache", "verify")):
        done = deepgemm_in_a_child(*words)
        assert done.returncode == 2, done
    assert "no cache directory" in done.stderr  # no HOME either


def test_exit_codes():
    def driver_error(code):
        error = deepgemm.DriverError("x")
        error.code = code
        return error

    refused = deepgemm.CompileError("x")
    refused.log = "line 3"
    assert [exit_code(error) for error in (refused, driver_error(700), OSError("full"))] == [1] * 3
    for error in (
        *(driver_error(-1), driver_error(101), deepgemm.CompileError("x"), deepgemm.Error("x")),
        *(ValueError("x"), TypeError("x"), ImportError("x"), FileNotFoundError("x")),
    ):
        assert exit_code(error) == 2, error


def test_words():
    assert [count(n, "kernel") for n in (0, 1, 2)] == ["0 kernels", "1 kernel", "2 kernels"]
    assert parse_shape("1,2,3") == parse_shape("1x2x3") == (1, 2, 3)
    assert parse_granularity("1x128/128x128") == ((1, 128), (128, 128))
    assert parse_granularity("1x0") == ((1, 0), (1, 0))
    assert parse_granularity("none") is None
    for text in ("1,2", "a,b,c"):
        with pytest.raises(ValueError, match="need M,N,K"):
            parse_shape(text)
    with pytest.raises(ValueError, match="--granularity"):
        parse_granularity("1x2/3")


@pytest.mark.parametrize(("layout", "k", "b_is"), [("nn", 256, "K, N"), ("tt", 64, "N, K")])
def test_files_are_named_with_the_shape_that_they_have(capsys, tmp_path, layout, k, b_is):
    for name, shape in (("A", (64, 256)), ("B", (128, 96))):
        np.save(tmp_path / f"{name}.npy", np.zeros(shape, np.float32))
    a, b, d = (tmp_path / f"{name}.npy" for name in "ABD")
    code, shown = run(capsys, "gemm", str(a), str(b), "-o", str(d), "--layout", layout)
    assert code == 2
    assert f"B.npy: found shape [128, 96], K = {128 if layout == 'nn' else 96}, " in shown.err
    assert f"need K = {k} " in shown.err
    assert f"B.npy as [{b_is}]" in shown.err
    (tmp_path / "text.npy").write_text("no numbers", encoding="utf-8")
    code, shown = run(capsys, "gemm", str(tmp_path / "text.npy"), str(b), "-o", str(d))
    assert code == 2
    assert "text.npy: found something else, need a .npy file of numbers" in shown.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["64,128,128", "--tensor-parallel", "2"], "--tensor-parallel: found no --model"),
        (["--model", "x", "--a-dtype", "bfloat16"], "--a-dtype: found no M,N,K arguments or"),
        (["--model", "x", "--rows", "1", "--max-rows", "9"], "--max-rows: found --rows too"),
        (["0,128,128"], 'problem: found "0,128,128", need M, N and K of 1 or more'),
    ],
)
def test_options_that_would_change_nothing_are_refused(capsys, arguments, words):
    code, shown = run(capsys, "warmup", *arguments)
    assert (code, words in shown.err) == (2, True), shown.err


def test_b_has_the_dtype_of_a_unless_it_is_said(capsys):
    code, shown = run(capsys, "explain", "4096", "2048", "7168", "--a-dtype", "bfloat16")
    assert (code, "deepgemm_bf16_gemm" in shown.out) == (0, True)


def test_what_a_sweep_found_fastest_is_marked():
    for kernel, (n, k) in {"persistent": (24576, 1536), "decode": (1024, 1024)}.items():
        report = deepgemm.explain("gemm", 64, n, k, device=-1)
        swept = [each["policy"]["kernel"] for each in report.candidates if each["swept"]]
        assert swept == [kernel]
        assert report.candidates[0]["swept"]
        assert explain.text(report).count("(fastest in a sweep)") == 1
    found = deepgemm.explain("gemm", 4096, 24576, 1536, device=-1).candidates
    assert found[0]["swept"]  # before what is predicted to be faster
    assert found[0]["predicted_us"] > min(candidate["predicted_us"] for candidate in found)
