"""Every program under examples/ runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import deepgemm

EXAMPLES = Path(__file__).parents[2] / "examples"
CMAKE = shutil.which("cmake", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")


def run(*command: str | Path, folder: Path) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        cwd=folder,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["numpy_gemm", "torch_linear"])
def test_python(name: str, tmp_path: Path) -> None:
    if name.startswith("torch"):
        pytest.importorskip("torch")
    out = run(sys.executable, EXAMPLES / "python" / f"{name}.py", folder=tmp_path)
    error = float(out.split("relative error of FP8:")[1].split()[0])
    assert 0 < error < 0.06


needs_cmake = pytest.mark.skipif(
    CMAKE is None or not shutil.which("c++"), reason="no cmake or no C++ compiler"
)


def block(page: str, language: str) -> str:
    """The first fenced block of a page in this language."""
    text = (EXAMPLES.parent / page).read_text(encoding="utf-8")
    return text.partition(f"```{language}\n")[2].partition("```")[0]


@needs_cmake
def test_program_of_the_documentation(tmp_path: Path) -> None:
    (tmp_path / "example.cpp").write_text(block("docs/api.md", "cpp"))
    (tmp_path / "CMakeLists.txt").write_text(block("docs/api.md", "cmake"))
    prefix = Path(deepgemm.__file__).parent
    assert CMAKE is not None
    run(CMAKE, "-S.", "-Bbuild", f"-DCMAKE_PREFIX_PATH={prefix}", folder=tmp_path)
    run(CMAKE, "--build", "build", folder=tmp_path)
    assert run(tmp_path / "build" / "example", folder=tmp_path) == "4 2 10 5\n"


def test_numpy_program_of_the_readme(tmp_path: Path) -> None:
    text = (EXAMPLES.parent / "README.md").read_text(encoding="utf-8")
    program = text.partition("With NumPy")[2].partition("```python\n")[2].partition("```")[0]
    assert 0 < float(run(sys.executable, "-c", program, folder=tmp_path)) < 0.06


@needs_cmake
def test_cpp_finds_the_library_in_the_wheel(tmp_path: Path) -> None:
    prefix = Path(deepgemm.__file__).parent
    source = EXAMPLES / "cpp"
    assert CMAKE is not None
    run(CMAKE, "-S", source, "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={prefix}", folder=tmp_path)
    run(CMAKE, "--build", tmp_path, folder=tmp_path)
    assert "out[0] = 3136," in run(tmp_path / "gemm", folder=tmp_path)
    assert run(tmp_path / "gemm_c", folder=tmp_path).startswith("4 2 10 5,")
