"""The laws of docs/design.md: each holds on this tree, and each can fail on a planted violation."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import cpp_text  # noqa: E402
import gen_performance  # noqa: E402
import gen_settings  # noqa: E402
import laws  # noqa: E402

Law = Callable[[Path], list[str]]
LONG_BODY = "  x = 1;\n" * 130

# law -> (file, text) of trees that break it.
VIOLATIONS: dict[Law, list[tuple[str, str]]] = {
    laws.device_includes_only_itself: [
        ("src/device/kernels/a.cuh", "#include <cuda_fp8.h>\n"),
        ("src/device/kernels/a.cuh", '#include "core/math.hpp"\n'),
        ("src/device/kernels/a.cuh", '#include "../../core/math.hpp"\n'),
    ],
    laws.no_framework_in_cpp: [
        ("src/ops/a.cpp", "#include <torch/extension.h>\n"),
        ("src/bindings/a.cpp", 'auto t = nb::module_::import_("cupy");\n'),
        ("include/deepgemm/a.hpp", "#include <numpy/arrayobject.h>\n"),
        ("src/bindings/a.cpp", 'PyImport_ImportModule("jax.numpy");\n'),
    ],
    laws.no_framework_in_python: [
        ("python/deepgemm/gemm.py", "import torch\n"),
        ("python/deepgemm/bench/timer.py", "def f():\n    from jax import numpy\n"),
        ("python/deepgemm/gemm.py", "import importlib\nimportlib.import_module('cupy')\n"),
        ("python/other/a.py", "import torch\n"),
        ("python/deep_gemm/gemm.py", "from deepgemm._ext import gemm\n"),
        ("python/deep_gemm/gemm.py", "import deepgemm\nx = deepgemm._library.ext\n"),
        ("python/deep_gemm/gemm.py", "from deepgemm import gemm, _ext\n"),
    ],
    laws.layers_point_downward: [
        ("src/core/a.cpp", '#include "driver/driver.hpp"\n'),
        ("src/jit/a.cpp", '#include "plan/plan.hpp"\n'),
        ("src/jit/a.cpp", '#include "tma/descriptor.hpp"\n'),
        ("src/backend/cpu/a.cpp", '#include "ops/check.hpp"\n'),
        ("src/ops/a.cpp", '#include "device/kernels/gemm.cuh"\n'),
    ],
    laws.library_is_quiet: [
        ("src/ops/a.cpp", 'void f() { std::printf("x"); }\n'),
        ("src/core/a.cpp", 'void f() { std::cerr << "x"; }\n'),
        ("src/device/kernels/a.cuh", "void f() { assert(1); }\n"),
        ("src/jit/a.cpp", "void f() { std::abort(); }\n"),
    ],
    laws.environment_is_read_in_one_place: [
        ("src/jit/a.cpp", 'auto x = std::getenv("HOME");\n'),
        ("python/deepgemm/a.py", "import os\nx = os.environ['HOME']\n"),
        ("python/deep_gemm/gemm.py", "import os\nx = os.getenv('DG_A')\n"),
    ],
    laws.hardware_behind_one_line: [
        ("src/device/kernels/a.cuh", 'void f() { asm volatile("bar.sync 0;"); }\n'),
        ("src/device/pipeline/a.cuh", "int f() { return threadIdx.x; }\n"),
        ("src/device/epilogue/a.cuh", "int f() { return __shfl_sync(~0u, 1, 0); }\n"),
    ],
    laws.files_are_short: [("src/core/a.cpp", "\n" * 401), ("tests/python/test_a.py", "\n" * 401)],
    laws.functions_are_short: [
        ("src/core/a.cpp", "namespace a {\nint f(int x) {\n" + LONG_BODY[: 61 * 9] + "}\n}\n"),
        ("src/core/a.hpp", "struct A {\n A(int x)\n : x(x) {\n" + LONG_BODY + "}\n};\n"),
        ("src/device/kernels/a.cuh", "__global__ void k(int x) {\n" + LONG_BODY + "}\n"),
        ("python/deepgemm/a.py", "def f():\n" + "    x = 1\n" * 61),
    ],
    laws.folders_have_readmes: [
        ("src/core/a.cpp", ""),
        ("src/core/README.md", "line\n" * 61),
    ],
    laws.sources_have_tests: [("src/core/a.cpp", ""), ("src/tma/descriptor.cpp", "")],
    laws.no_machine_paths: [("docs/a.md", "see " + "/".join(["", "home", "ada", "notes"]))],
}

# law -> (file, text) of trees that look like a violation and are none.
INNOCENT: dict[Law, list[tuple[str, str]]] = {
    laws.library_is_quiet: [
        ("src/ops/a.cpp", "static_assert(true); // abort()\n"),
        ("src/ops/a.cpp", 'auto x = "printf(1)"; std::snprintf(a, 1, b);\n'),
        ("src/core/log.cpp", 'void f() { std::fputs("x", stderr); }\n'),
    ],
    laws.layers_point_downward: [
        ("src/heuristics/a.cpp", '#include "device/common/types.cuh"\n#include "core/math.hpp"\n'),
        ("src/bindings/a.cpp", '#include "deepgemm/gemm.hpp"\n#include "ops/check.hpp"\n'),
    ],
    laws.hardware_behind_one_line: [("src/device/ptx/a.cuh", 'void f() { asm("x"); }\n')],
    laws.functions_are_short: [
        ("src/core/a.cpp", "namespace a {\n" + "int f() { return 1; }\n" * 100 + "}\n"),
        ("src/core/a.cpp", "const int table[] = {\n" + "  1,\n" * 100 + "};\n"),
    ],
    laws.no_framework_in_python: [
        ("python/deepgemm/torch/ops.py", "import torch\n"),
        ("python/deep_gemm/gemm.py", "import deepgemm\nimport torch\n"),
    ],
    laws.environment_is_read_in_one_place: [
        ("python/deep_gemm/_state.py", "import os\nx = os.environ.get('DG_A')\n"),
    ],
}


def plant(root: Path, name: str, text: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return root


def cases(table: dict[Law, list[tuple[str, str]]]) -> list[tuple[Law, str, str]]:
    return [(law, name, text) for law, trees in table.items() for name, text in trees]


@pytest.mark.parametrize("law", laws.LAWS, ids=lambda law: law.__name__)
def test_holds(law: Law) -> None:
    found = law(ROOT)
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(("law", "name", "text"), cases(VIOLATIONS))
def test_can_fail(law: Law, name: str, text: str, tmp_path: Path) -> None:
    assert law(plant(tmp_path, name, text))


@pytest.mark.parametrize(("law", "name", "text"), cases(INNOCENT))
def test_spares_the_innocent(law: Law, name: str, text: str, tmp_path: Path) -> None:
    assert not law(plant(tmp_path, name, text))


def test_every_law_has_a_planted_violation() -> None:
    assert set(VIOLATIONS) == set(laws.LAWS)


def test_function_sizes_are_measured_exactly() -> None:
    text = (
        "#include <x>\n"
        '// a comment with { and "\n'
        "namespace n {\n"
        "template <class T, int = 3>\n"
        "int first(T a,\n"
        "          T b) {\n"
        "  auto f = [&](int x) { return x; };\n"
        '  const char* s = "}";\n'
        "  return 0;\n"
        "}\n"
        "struct S {\n"
        "  int x = 0;\n"
        "  bool operator==(const S& o) const { return x == o.x; }\n"
        "};\n"
        "const int table[] = {1, 2};\n"
        "}  // namespace n\n"
    )
    measured = [(f.name, f.line, f.lines) for f in cpp_text.functions(text)]
    assert measured == [("first", 4, 7), ("operator==", 13, 1)]


def test_settings_page_is_generated() -> None:
    rows = gen_settings.read_table((ROOT / "src/core/env.cpp").read_text(encoding="utf-8"))
    assert rows, "no settings found in src/core/env.cpp"
    page = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
    assert page == gen_settings.render(rows), "run python tools/gen_settings.py"


def test_settings_page_can_differ() -> None:
    one = '{"DEEPGEMM_A", "int", "0", "a \\"word\\" " // why\n "more"},'
    two = '{"DEEPGEMM_B", "bool", "off", "b"},'
    rows = gen_settings.read_table(one.replace("// why", "") + two)
    assert rows[0] == ("DEEPGEMM_A", "int", "0", 'a "word" more')
    assert gen_settings.render(rows) != gen_settings.render(rows[:1])


def test_performance_page_is_generated() -> None:
    page = (ROOT / "docs/performance.md").read_text(encoding="utf-8")
    assert gen_performance.render(page) == page, "run python tools/gen_performance.py"


def test_performance_page_can_differ(tmp_path: Path) -> None:
    page = "<!-- begin: a.json -->\nold\n<!-- end -->"
    assert "No result file" in gen_performance.render(page, tmp_path)
    head = '{"card": "X", "driver": "1", "nvrtc": "2", "commit": "3", "date": "4"'
    row = '{"kernel": "k", "cold_ms": 1.5}'
    (tmp_path / "a.json").write_text(f'{head}, "clock_mhz": 1, "rows": [{row}]}}')
    assert "| k | 1.5 |" in gen_performance.render(page, tmp_path)
