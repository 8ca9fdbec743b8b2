"""python/deepgemm/_ext.pyi says what nanobind's stubgen makes of the module.

After a change of the bindings: python tests/python/test_stubs.py && ruff format python
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "python" / "deepgemm" / "_ext.pyi"
PATTERNS = ROOT / "src" / "bindings" / "stub_patterns.txt"


def generate(target: Path) -> str:
    subprocess.run(
        [
            *(sys.executable, "-m", "nanobind.stubgen", "-m", "deepgemm._ext"),
            *("-p", str(PATTERNS), "-o", str(target)),
        ],
        check=True,
        timeout=120,
        stdout=subprocess.DEVNULL,
    )
    return target.read_text(encoding="utf-8")


def normalised(stub: str) -> str:
    """Without what a formatter changes: line breaks, quotes, the indent of docstrings."""
    tree = ast.parse(stub)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = inspect.cleandoc(node.value)
    return ast.unparse(tree)


@pytest.mark.skipif(not importlib.util.find_spec("nanobind"), reason="nanobind is not installed")
@pytest.mark.skipif(not GOLDEN.exists(), reason="not run from the source tree")
def test_stub_is_current(tmp_path):
    made = normalised(generate(tmp_path / "_ext.pyi"))
    assert made == normalised(GOLDEN.read_text(encoding="utf-8")), "see the head of this file"


def test_stub_is_installed():
    import deepgemm

    installed = Path(deepgemm.__file__).parent
    assert (installed / "_ext.pyi").exists()
    assert (installed / "py.typed").exists()


if __name__ == "__main__":
    generate(GOLDEN)
    print(f"written: {GOLDEN}")
