"""`deepgemm bundle`, the bundle in use, and what the command line says of it and of the cache."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest

import deepgemm
from deepgemm import _ext
from deepgemm.cli import main as cli

pytestmark = pytest.mark.skipif(
    not deepgemm.info()["nvrtc_path"], reason="NVRTC, which makes the bundle, is not installed"
)

# Small kernels, of 50 ms each.
ONLY = ["--only", "^dg_(de)?quantize .*(128 of K.*warp|any$)"]
KERNELS = 3

USER = """
import json
import deepgemm
report = deepgemm.warmup([{"m": 33, "n": 65, "k": 77, "a_dtype": "float32", "b_dtype": "float32",
                           "out_dtype": "float32"}], device=-1)[0]
print(json.dumps({"origin": report.origin, **deepgemm.cache_info()}))
"""


def run(capsys, *arguments):
    code = cli.main([str(argument) for argument in arguments])
    return code, capsys.readouterr()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DEEPGEMM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("DEEPGEMM_BUNDLE", raising=False)
    return tmp_path / "cache"


def in_a_child(environment, *words):
    return subprocess.run(
        [sys.executable, *words],
        env={name: value for name, value in os.environ.items() if not name.startswith("DEEPGEMM_")}
        | {name: str(value) for name, value in environment.items()},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_bundle_is_made_and_resumed_through_the_cache(capsys, cache, tmp_path):
    path = tmp_path / "small.bundle"
    code, shown = run(capsys, "bundle", "-o", path, *ONLY, "--jobs", 2, "--json")
    assert code == 0, shown.err
    summary = json.loads(shown.out)
    assert summary["kernels"] == summary["compiled"] == KERNELS
    assert summary["bytes"] == path.stat().st_size
    assert summary["cubin_bytes"] > summary["bytes"]
    assert path.stat().st_mode & 0o777 == 0o644
    assert f"] {KERNELS}/{KERNELS} " in shown.err
    first = path.read_bytes()
    code, shown = run(capsys, "bundle", "-o", path, *ONLY)
    assert code == 0
    assert f"{KERNELS} kernels, " in shown.out
    assert f"0 compiled, {KERNELS} were in the cache" in shown.out
    assert path.read_bytes() == first
    code, shown = run(capsys, "bundle", "-o", path, *ONLY, "--limit", 1, "--json")
    assert json.loads(shown.out)["kernels"] == 1


def test_every_selectable_kernel_can_be_bundled():
    kernels = {kernel["kernel"] for kernel in _ext.selectable_kernels()}
    assert {"dg_quantize", "dg_dequantize", "deepgemm_fp8_gemm", "deepgemm_general_gemm"} <= kernels


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--only", "no such kernel"], "--only: found 'no such kernel', which fits none of"),
        (["--only", "("], "--only: found '(', need a regular expression"),
        (["--limit", "0"], "--limit: found 0, need 1 or more"),
        (["-o", "{tmp}/nowhere/x"], "-o: there is no directory"),
        (["-o", "{tmp}"], "is a directory, need the name of a file"),
    ],
)
def test_wrong_use(capsys, cache, tmp_path, arguments, text):
    arguments = [word.replace("{tmp}", str(tmp_path)) for word in arguments]
    code, shown = run(capsys, "bundle", *arguments)
    assert code == 2
    assert text in shown.err


def test_without_nvrtc_no_bundle_can_be_made(tmp_path):
    environment = {"DEEPGEMM_NVRTC_PATH": "/nonexistent", "DEEPGEMM_CACHE_DIR": tmp_path}
    words = ("-m", "deepgemm", "bundle", "-o", str(tmp_path / "x"), *ONLY)
    done = in_a_child(environment, *words)
    assert done.returncode == 2
    assert "a bundle cannot be made: " in done.stderr


def test_a_program_with_a_bundle_needs_no_nvrtc_and_compiles_nothing(capsys, cache, tmp_path):
    path = tmp_path / "general.bundle"
    code, shown = run(capsys, "bundle", "-o", path, "--only", "^deepgemm_general_gemm")
    assert code == 0, shown.err
    environment = {
        "DEEPGEMM_BUNDLE": path,
        "DEEPGEMM_CACHE_DIR": tmp_path / "empty",
        "DEEPGEMM_NVRTC_PATH": "/nonexistent",
        "DEEPGEMM_STRICT_JIT": 1,
    }
    done = in_a_child(environment, "-c", USER)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["origin"] == "bundle"
    assert (found["bundle_hits"], found["disk_hits"], found["compiled"]) == (1, 0, 0)
    assert (found["bundle"], found["bundle_kernels"]) == (str(path), 1)
    assert found["bundle_nvrtc_version"] == list(deepgemm.info()["nvrtc_version"])
    assert not (tmp_path / "empty").exists()
    assert done.stderr == ""

    done = in_a_child(environment, "-m", "deepgemm", "info")
    assert f"bundle     {path}, 1 kernel, " in done.stdout
    assert "The kernels of the bundle run without it" in done.stdout

    done = in_a_child({**environment, "DEEPGEMM_BUNDLE": "off"}, "-c", USER)
    assert "strict mode" in done.stderr

    path.write_bytes(path.read_bytes()[:-1])
    done = in_a_child(environment, "-c", USER)
    assert "strict mode" in done.stderr
    assert done.stderr.count("deepgemm: warning: the kernel bundle ") == 1
    done = in_a_child(environment, "-m", "deepgemm", "info")
    assert f"bundle     {path}, not used" in done.stdout
    assert "the bundle is not used: it is cut off or too long" in done.stdout


def test_warm_up_is_well_where_the_bundle_has_it_and_nothing_can_be_written(
    capsys, cache, tmp_path
):
    path = tmp_path / "small.bundle"
    assert run(capsys, "bundle", "-o", path, "--only", "^deepgemm_general_gemm")[0] == 0
    environment = {"DEEPGEMM_BUNDLE": path, "DEEPGEMM_CACHE_DIR": "/proc/no/such"}
    shape = ["-m", "deepgemm", "warmup", "33,65,77", "--a-dtype", "float32"]
    done = in_a_child(environment, *shape, "--b-dtype", "float32")
    assert (done.returncode, "0 compiled, 1 was there" in done.stdout) == (0, True), done.stderr
    other = in_a_child(environment, *shape[:3], "512,512,512")  # not in it
    assert (other.returncode, "keeps nothing" in other.stderr) == (1, True)


def test_the_cache_is_listed_by_last_use_and_has_a_limit(capsys, cache, tmp_path, monkeypatch):
    run(capsys, "bundle", "-o", tmp_path / "x", *ONLY)
    entries = _ext.list_cache()
    assert len(entries) == KERNELS
    times = {entries[1]["file"]: 2**33, entries[2]["file"]: 0, entries[0]["file"]: time.time()}
    for file, when in times.items():
        os.utime(cache / file, (when, when))
    code, shown = run(capsys, "cache", "list")
    assert code == 0
    lines = shown.out.splitlines()
    assert [line.split()[-1] for line in lines[1:-1]] == [entries[i]["file"] for i in (1, 0, 2)]
    assert lines[1].split()[1].startswith("2242-")
    for entry in entries:  # as explain() words it
        assert entry["config"]
        assert f"  {entry['kernel']}: {entry['config']}  {entry['file']}\n" in shown.out
    stranger = cache / "deepgemm_fp8_gemm-0123-nvrtc1.0.deepgemm"  # of another version
    stranger.write_bytes(b"x" * 1000)
    assert f"  deepgemm_fp8_gemm  {stranger.name}\n" in run(capsys, "cache", "list")[1].out
    stranger.unlink()
    assert lines[-1].startswith(f"{KERNELS} kernels, ")
    assert lines[-1].endswith(" MiB of at most 1024")
    monkeypatch.setenv("DEEPGEMM_CACHE_MAX_BYTES", "0")
    assert run(capsys, "cache", "verify")[1].out.endswith("MiB, no limit, 0 damaged\n")
    shown = run(capsys, "cache", "clear")[1]
    assert shown.out.startswith(f"removed {KERNELS} kernels, 0.")
    run(capsys, "bundle", "-o", tmp_path / "x", *ONLY)
    os.utime(cache / entries[1]["file"], (2**33, 2**33))
    monkeypatch.setenv("DEEPGEMM_CACHE_MAX_BYTES", "1M")
    found = json.loads(run(capsys, "cache", "list", "--json")[1].out)
    assert found["limit"] == 2**20
    assert {entry["config"] for entry in found["list"]} == {e["config"] for e in entries}
    assert {entry["last_used"] for entry in found["list"]} >= {2**33}


def test_the_limit_holds_while_kernels_are_compiled(capsys, cache, tmp_path, monkeypatch):
    monkeypatch.setenv("DEEPGEMM_CACHE_MAX_BYTES", "20K")  # less than two of these kernels
    code, shown = run(capsys, "bundle", "-o", tmp_path / "x", *ONLY, "--json")
    assert code == 0
    assert json.loads(shown.out)["kernels"] == KERNELS
    assert 1 <= len(_ext.list_cache()) < KERNELS
    assert deepgemm.cache_info()["bytes"] <= 20 * 2**10
