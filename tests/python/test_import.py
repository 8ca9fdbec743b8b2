"""What importing the package does not do. Each test is a process of its own."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import deepgemm


def python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_is_light():
    modules = python("import sys, deepgemm; print(sorted(sys.modules))")
    for heavy in ("numpy", "torch", "jax", "cupy", "ml_dtypes", "deepgemm._ext"):
        assert f"'{heavy}'" not in modules, heavy


def test_first_calls_load_no_driver_and_no_compiler():
    maps = python(
        "import numpy as np, deepgemm\n"
        "x = np.ones((4, 256), np.float32)\n"
        "q = deepgemm.quantize(x)\n"
        "assert deepgemm.gemm(q, deepgemm.quantize(x), out_dtype='float32')[0, 0] > 255\n"
        "print(open('/proc/self/maps').read())"
    )
    for library in ("libcuda.so", "libnvrtc", "libcudart", "torch"):
        assert library not in maps, library


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="needs fork")
def test_fork_after_use():
    out = python(
        "import os, numpy as np, deepgemm\n"
        "x = np.ones((64, 256), np.float32)\n"
        "deepgemm.gemm(x, x); deepgemm.info()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os._exit(0 if deepgemm.gemm(x, x)[0, 0] == 256 else 7)\n"
        "print(os.waitpid(child, 0)[1])"
    )
    assert out.strip() == "0"


def test_without_ml_dtypes():
    out = python(
        "import sys; sys.modules['ml_dtypes'] = None\n"
        "import numpy as np, deepgemm\n"
        "x = np.ones((4, 256), np.float32)\n"
        "q = deepgemm.quantize(x)\n"
        "assert isinstance(q.values, deepgemm.View), q\n"
        "d = deepgemm.gemm(q, deepgemm.quantize(x))\n"
        "assert d.dtype == 'bfloat16' and d.array.dtype == 'uint16'\n"
        "assert deepgemm.dequantize(q).dtype == 'float32'\n"
        "print(hex(d.array[0, 0]))"
    )
    assert out.strip() == "0x4380"  # 256


def test_every_name_exists_and_is_documented():
    for name in deepgemm.__all__:
        value = getattr(deepgemm, name)
        assert name == "__version__" or value.__doc__, name
    assert set(deepgemm.__all__) <= set(dir(deepgemm))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = deepgemm.nothing


def test_submodules_import():
    for name in ("layout", "cli.main", "_gemm", "_runtime"):
        importlib.import_module(f"deepgemm.{name}")


def test_versions_agree():
    assert deepgemm.info()["version"] == deepgemm.__version__


def test_nvrtc_directories(tmp_path, monkeypatch):
    from deepgemm import _nvrtc_path

    for version in ("cu12", "cu13"):
        library = tmp_path / "nvidia" / version / "lib" / "libnvrtc.so.13"
        library.parent.mkdir(parents=True)
        library.touch()
    (tmp_path / "nvidia" / "other" / "lib").mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "missing"), str(tmp_path), str(tmp_path)])
    assert _nvrtc_path.directories() == [
        str(tmp_path / "nvidia" / version / "lib") for version in ("cu12", "cu13")
    ]


def test_without_torch_the_import_says_so():
    code = "import sys; sys.modules['torch'] = None\nimport deep_gemm"
    code = f"import importlib.util as u; u.find_spec = lambda name: None\n{code}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ImportError: deep_gemm: found no torch, which programs" in done.stderr
