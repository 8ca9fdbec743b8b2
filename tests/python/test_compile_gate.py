"""Every selectable kernel compiles for sm_90a, without a GPU, with nothing lost on the way."""

import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import deepgemm
from deepgemm._library import ext

# ptxas notes that mean a slower kernel than written: setmaxnreg ignored (C7504), registers
# (C7508), WGMMA serialised (C7510, C7514, C7518, C7519, C7520).
FORBIDDEN_NOTES = ("C7504", "C7508", "C7510", "C7514", "C7518", "C7519", "C7520", "serialized")
KERNELS = list(ext.selectable_kernels())
_pool: list[ThreadPoolExecutor] = []
_reports: dict[int, "Future[dict[str, Any]]"] = {}


@pytest.fixture(scope="module", autouse=True)
def pool() -> Iterator[None]:
    """NVRTC compiles on several threads at once; what nobody asked for is cancelled at the end."""
    _pool.append(ThreadPoolExecutor(os.cpu_count()))
    yield
    _pool.pop().shutdown(cancel_futures=True)


def compiled(index: int) -> dict[str, Any]:
    if problem := deepgemm.info()["nvrtc_problem"]:
        pytest.skip(f"NVRTC is missing: {problem}")
    for ahead in range(index, min(index + 8, len(KERNELS))):
        if ahead not in _reports:
            _reports[ahead] = _pool[0].submit(ext.compile_selectable, ahead)
    return _reports[index].result()


def numbers(pattern: str, log: str) -> list[int]:
    return [int(found) for found in re.findall(pattern, log)]


def complaints(log: str) -> list[str]:
    """What the gate objects to in a log of ptxas -v."""
    found = [note for note in FORBIDDEN_NOTES if note in log]
    for what, pattern in (
        ("bytes of spill stores", r"(\d+) bytes spill stores"),
        ("bytes of spill loads", r"(\d+) bytes spill loads"),
        ("bytes of stack frame", r"(\d+) bytes stack frame"),
        ("bytes of local memory", r"(\d+) bytes lmem"),
    ):
        values = numbers(pattern, log)
        if any(values):
            found.append(f"{max(values)} {what}")
    if not numbers(r"(\d+) bytes spill stores", log):
        found.append("no report of spills: was it compiled with ptxas -v?")
    return found


def summary(report: dict[str, Any]) -> str:
    registers = numbers(r"Used (\d+) registers", report["log"])
    shared = numbers(r"(\d+) bytes smem", report["log"])
    return (
        f"{report['kernel']} {report['config']}: {max(registers, default=0)} registers, "
        f"{max(shared, default=0)} bytes of static shared memory, "
        f"{report['cubin_bytes']} bytes of cubin, {report['milliseconds']:.0f} ms"
    )


def names(kernel: dict[str, Any]) -> str:
    return re.sub(r"[^\w]+", "-", f"{kernel['kernel']}-{kernel['config']}")


def test_there_are_kernels() -> None:
    assert KERNELS


@pytest.mark.parametrize("index", range(len(KERNELS)), ids=[names(k) for k in KERNELS])
def test_compiles_clean(index: int) -> None:
    report = compiled(index)
    found = complaints(report["log"])
    assert not found, f"{summary(report)}: {', '.join(found)}\n{report['log']}"
    assert numbers(r"Used (\d+) registers", report["log"]), report["log"]
    assert report["cubin"][:4] == b"\x7fELF"


def disassembler() -> str | None:
    wheel = Path(sysconfig.get_paths()["purelib"], "nvidia/cu13/bin/nvdisasm")
    return str(wheel) if wheel.exists() else shutil.which("nvdisasm")


def predicates_of_minima(sass: str) -> list[str]:
    """Minima and maxima that set a predicate, which is wrong on an H200 (src/device/README.md)."""
    return re.findall(r"MNMX\S*\s+\w+,\s+(?:U?PT,\s+)?U?P\d.*", sass)


@pytest.mark.parametrize("index", range(len(KERNELS)), ids=[names(k) for k in KERNELS])
def test_sass(index: int, tmp_path: Path) -> None:
    tool = disassembler()
    if tool is None:
        pytest.skip("nvdisasm is missing: pip install nvidia-cuda-nvdisasm")
    report = compiled(index)
    cubin = tmp_path / "kernel.cubin"
    cubin.write_bytes(report["cubin"])
    done = subprocess.run([tool, "-c", str(cubin)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    opcodes = set(re.findall(r"^\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\d+\s+)?(\w+)", done.stdout, re.M))
    assert opcodes, "no instruction found"
    assert not opcodes & {"LDL", "STL"}, summary(report)
    assert not predicates_of_minima(done.stdout), summary(report)
    if "fp8" in report["kernel"]:
        assert "QGMMA" in opcodes, summary(report)
    if "f16_" in report["kernel"]:  # bf16 and f16
        assert "HGMMA" in opcodes, summary(report)


CLEAN = (
    "ptxas info : Function properties for k\n"
    "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
    "ptxas info : Used 168 registers, used 1 barriers, 16 bytes smem\n"
)


@pytest.mark.parametrize(
    ("log", "word"),
    [
        (CLEAN.replace("0 bytes spill stores", "8 bytes spill stores"), "spill stores"),
        (CLEAN.replace("0 bytes spill loads", "8 bytes spill loads"), "spill loads"),
        (CLEAN.replace("0 bytes stack frame", "32 bytes stack frame"), "stack frame"),
        (CLEAN + "info: (C7514) Potential Performance Loss: wgmma", "C7514"),
        (CLEAN + "wgmma.mma_async instructions are serialized due to ...", "serialized"),
        ("", "no report"),
    ],
)
def test_gate_can_fail(log: str, word: str) -> None:
    assert any(word in complaint for complaint in complaints(log))


def test_gate_can_pass() -> None:
    assert not complaints(CLEAN)


@pytest.mark.parametrize("predicates", ["P3, P3", "P3, PT", "PT, P0", "UP1, UPT", "UPT, UP1"])
def test_predicates_of_minima_are_found(predicates: str) -> None:
    wrong = f"VIMNMX.RELU R2, {predicates}, R3, 0x40, PT ;"
    right = "VIMNMX.RELU R9, R9, 0x40, PT ;\nISETP.GE.AND P0, PT, R3, R4, PT ;"
    assert predicates_of_minima(f"{right}\n{wrong}\n") == [wrong.removeprefix("VI")]
    assert not predicates_of_minima(right)
