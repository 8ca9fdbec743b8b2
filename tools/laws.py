"""The laws of docs/design.md that can be read off the sources, as functions.

Each law takes the root of a source tree and returns its violations as ``path:line: words``. The
tests run every law on this tree and, to prove that it can fail, on a small tree with one violation.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from cpp_text import blank_comments_and_strings, functions, includes

CPP = (".cpp", ".hpp", ".h", ".cuh")
MAX_FILE, MAX_HOST_FUNCTION, MAX_KERNEL, MAX_README = 400, 60, 120, 60
FRAMEWORKS = ("torch", "jax", "jaxlib", "cupy", "tensorflow", "paddle", "mxnet")
# Folders of python/ that may import a framework: the adapters, and the drop-in for the torch-only
# DeepGEMM, which offers names of `deep_gemm` on top of deepgemm's public ones.
ADAPTERS = ("python/deepgemm/torch/", "python/deepgemm/jax/", "python/deep_gemm/")
# Of the drop-in, the files that handle the environment: its variables are translated into
# deepgemm's; its tests take variables away; launchers say by them who and where a process is.
ENVIRONMENT_OF_CALLERS = (
    "python/deep_gemm/_state.py",
    "python/deep_gemm/testing/utils.py",
    "python/deep_gemm/utils/dist.py",
)

# What each folder of src/ may include besides itself, include/ and device/common. Downward only:
# bindings, c_api -> ops -> plan -> heuristics, jit, tma -> driver -> core.
BELOW: dict[str, set[str]] = {
    "core": set(),
    "driver": {"core"},
    "heuristics": {"driver", "core"},
    "jit": {"driver", "core"},
    "tma": {"driver", "core"},
    "plan": {"heuristics", "jit", "tma", "driver", "core"},
    "backend": {"core"},
    "ops": {"plan", "backend", "heuristics", "jit", "tma", "driver", "core"},
    "c_api": {"ops", "plan", "backend", "heuristics", "jit", "tma", "driver", "core"},
    "bindings": {"ops", "plan", "backend", "heuristics", "jit", "tma", "driver", "core"},
    "device": set(),
}

# Sources tested under another name: the test file (which must exist), or the reason for none.
TESTED_BY: dict[str, str] = {
    "src/backend/cpu/elements.cpp": "tests/cpp/cpu_gemm_test.cpp",
    "src/backend/cpu/scale_layout.cpp": "tests/cpp/ops_scale_layout_test.cpp",
    "src/driver/device.cpp": "tests/cpp/driver_test.cpp",
    "src/driver/driver_api.cpp": "tests/cpp/driver_test.cpp",
    "src/driver/launch.cpp": "tests/cpp/driver_test.cpp",
    "src/driver/range.cpp": "tests/cpp/new_plan_test.cpp",
    "src/driver/stream.cpp": "tests/cpp/driver_test.cpp",
    "src/heuristics/gemm_candidates.cpp": "tests/cpp/gemm_cost_test.cpp",
    "src/jit/bundle_file.cpp": "tests/cpp/bundle_test.cpp",
    "src/jit/bundle_writer.cpp": "tests/cpp/bundle_test.cpp",
    "src/jit/cache_report.cpp": "tests/cpp/disk_cache_test.cpp",
    "src/jit/cubin_source.cpp": "tests/cpp/kernel_loader_test.cpp",
    "src/jit/disassembler.cpp": "tests/cpp/dump_test.cpp",
    "src/jit/nvrtc_api.cpp": "tests/cpp/nvrtc_test.cpp",
    "src/jit/nvrtc_compiler.cpp": "tests/cpp/nvrtc_test.cpp",
    "src/jit/nvrtc_search.cpp": "tests/cpp/nvrtc_test.cpp",
    "src/jit/path_setting.cpp": "tests/cpp/disk_cache_test.cpp",
    "src/ops/batches.cpp": "tests/cpp/ops_batched_gemm_test.cpp",
    "src/ops/call_cost.cpp": "tests/cpp/plans_test.cpp",
    "src/ops/checks.cpp": "tests/cpp/ops_gemm_test.cpp",
    "src/ops/granularity.cpp": "tests/cpp/ops_gemm_test.cpp",
    "src/ops/product_checks.cpp": "tests/cpp/ops_gemm_test.cpp",
    "src/ops/reports.cpp": "tests/python/test_warmup.py",
    "src/ops/selectable.cpp": "tests/python/test_compile_gate.py",
    "src/ops/stacks.cpp": "tests/cpp/ops_grouped_test.cpp",
    "src/plan/cuda_gemm.cpp": "tests/cpp/plan_cache_test.cpp",
    "src/plan/cuda_grouped.cpp": "tests/cpp/general_grouped_test.cpp",
    "src/plan/gemm_launch.cpp": "tests/cpp/plan_cache_test.cpp",
    "src/plan/grouped_call.cpp": "tests/cpp/grouped_plan_test.cpp",
    "src/plan/hopper.cpp": "tests/cpp/gemm_plan_test.cpp",
    "src/plan/kernel_specs.cpp": "tests/python/test_compile_gate.py",
    "src/plan/operands.cpp": "tests/cpp/gemm_plan_test.cpp",
    "src/plan/problem_record.cpp": "tests/python/test_warmup.py",
    "src/plan/simple_launch.cpp": "tests/cpp/cuda_quantize_test.cpp",
    "src/plan/tma_matrices.cpp": "tests/cpp/gemm_plan_test.cpp",
    "src/tma/descriptor.cpp": "tests/cpp/tma_test.cpp",
}


def _files(root: Path, folder: str, suffixes: tuple[str, ...]) -> Iterator[tuple[Path, str]]:
    base = root / folder
    for path in sorted(base.rglob("*")) if base.is_dir() else []:
        if path.suffix in suffixes and path.is_file():
            yield path, path.relative_to(root).as_posix()


def _search(path: Path, name: str, pattern: str, words: str) -> list[str]:
    code = blank_comments_and_strings(path.read_text(encoding="utf-8"))
    return [
        f"{name}:{number}: {match.group(0).strip()}: {words}"
        for number, line in enumerate(code.splitlines(), 1)
        for match in re.finditer(pattern, line)
    ]


def device_includes_only_itself(root: Path) -> list[str]:
    """Law 1: src/device includes nothing from outside src/device."""
    found = []
    for path, name in _files(root, "src/device", CPP):
        for number, target, quoted in includes(path.read_text(encoding="utf-8")):
            inside = any((base / target).is_file() for base in (root / "src/device", path.parent))
            if not quoted or not inside or ".." in Path(target).parts:
                found.append(f"{name}:{number}: includes {target}, which is not in src/device")
    return found


def no_framework_in_cpp(root: Path) -> list[str]:
    """Law 2: C++ neither includes nor imports torch, jax, cupy or numpy."""
    names = "|".join((*FRAMEWORKS, "numpy", "ATen", "c10", "xla", "pybind11"))
    include = re.compile(rf"#\s*include\s*[<\"](?:{names})\b")
    imported = re.compile(rf"\w*[iI]mport\w*\s*\(\s*\"(?:{names})\b")
    found = []
    for folder in ("src", "include"):
        for path, name in _files(root, folder, CPP):
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                if include.search(line) or imported.search(line):
                    found.append(f"{name}:{number}: {line.strip()}: no framework in C++")
    return found


def _imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.lineno, node.module
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            called = node.func.id if isinstance(node.func, ast.Name) else called
            if called in ("import_module", "__import__", "importorskip"):
                yield node.lineno, str(node.args[0].value)


def no_framework_in_python(root: Path) -> list[str]:
    """Law 2: only the adapters import a framework; the drop-in stands on deepgemm's public API."""
    found = []
    for path, name in _files(root, "python", (".py",)):
        text = path.read_text(encoding="utf-8")
        for number, module in _imports(ast.parse(text)):
            if module.split(".")[0] in FRAMEWORKS and not name.startswith(ADAPTERS):
                found.append(f"{name}:{number}: imports {module}: only adapters may")
        for number, line in enumerate(text.splitlines(), 1):
            private = re.search(r"\b(?:deepgemm\.|from deepgemm import .*\b)_(?!_)\w+", line)
            if private and name.startswith("python/deep_gemm/"):
                found.append(f"{name}:{number}: {private.group(0)}: only deepgemm's public names")
    return found


def layers_point_downward(root: Path) -> list[str]:
    """Law 3: a folder of src/ includes only folders below it."""
    found = []
    for path, name in _files(root, "src", CPP):
        layer = Path(name).parts[1]
        for number, target, quoted in includes(path.read_text(encoding="utf-8")):
            other = target.split("/")[0]
            if not quoted or other == layer or other not in BELOW:
                continue
            if target.startswith("device/common/") or other in BELOW.get(layer, set()):
                continue
            found.append(f"{name}:{number}: {layer} may not include {target}")
    return found


def library_is_quiet(root: Path) -> list[str]:
    """Law 4: no printing, aborting or asserting outside core/log.cpp."""
    pattern = (
        r"\b(?:printf|fprintf|vprintf|vfprintf|puts|fputs|abort|assert|exit|_Exit|quick_exit"
        r"|terminate|__trap|__assertfail)\s*\(|\bstd::(?:cout|cerr|clog)\b"
    )
    found = []
    for path, name in _files(root, "src", CPP):
        if name != "src/core/log.cpp":
            found += _search(path, name, pattern, "the library never prints, aborts or asserts")
    return found


def environment_is_read_in_one_place(root: Path) -> list[str]:
    """Law 4 and the JIT section: getenv only in core/env.cpp."""
    found = []
    for path, name in _files(root, "src", CPP):
        if name != "src/core/env.cpp":
            found += _search(path, name, r"\b(?:secure_)?getenv\b", "use core/env.hpp")
    for path, name in _files(root, "python", (".py",)):
        text = path.read_text(encoding="utf-8") if name not in ENVIRONMENT_OF_CALLERS else ""
        for number, line in enumerate(text.splitlines(), 1):
            if re.search(r"os\.(?:environ|getenv)|from os import .*\b(?:environ|getenv)\b", line):
                found.append(f"{name}:{number}: {line.strip()}: settings are read in core/env.cpp")
    return found


def hardware_behind_one_line(root: Path) -> list[str]:
    """Law 9: inline asm and hardware intrinsics only in src/device/ptx."""
    pattern = (
        r"\basm\b|\b__asm\w*|\b(?:threadIdx|blockIdx|blockDim|gridDim|warpSize)\b"
        r"|\b__(?:shfl|sync|ballot|any|all|activemask|threadfence|nanosleep|cvta|ldg|ldcg)\w*\s*\("
    )
    found = []
    for path, name in _files(root, "src/device", CPP):
        if not name.startswith("src/device/ptx/"):
            found += _search(path, name, pattern, "hardware is reached through ptx/")
    return found


def files_are_short(root: Path) -> list[str]:
    """Quality bars: files of at most 400 lines."""
    found = []
    for folder in ("src", "include", "model", "cmake", "python", "tests", "tools"):
        for path, name in _files(root, folder, (*CPP, ".py", ".pyi", ".cmake", ".sh")):
            lines = len(path.read_text(encoding="utf-8").splitlines())
            if lines > MAX_FILE and path.suffix != ".pyi":
                found.append(f"{name}: {lines} lines, at most {MAX_FILE}")
    return found


def functions_are_short(root: Path) -> list[str]:
    """Quality bars: host functions of at most 60 lines, kernel bodies of at most 120."""
    found = []
    for folder in ("src", "include", "model"):
        for path, name in _files(root, folder, CPP):
            limit = MAX_KERNEL if name.startswith("src/device/kernels/") else MAX_HOST_FUNCTION
            for function in functions(path.read_text(encoding="utf-8")):
                if function.lines > limit:
                    found.append(
                        f"{name}:{function.line}: {function.name} has {function.lines} lines, "
                        f"at most {limit}"
                    )
    for folder in ("python", "tools", "tests/python"):
        for path, name in _files(root, folder, (".py",)):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    lines = (node.end_lineno or node.lineno) - node.lineno + 1
                    if lines > MAX_HOST_FUNCTION:
                        found.append(f"{name}:{node.lineno}: {node.name} has {lines} lines")
    return found


def folders_have_readmes(root: Path) -> list[str]:
    """Quality bars: each folder of src/ has a README of at most 60 lines."""
    found = []
    for folder in sorted(p for p in (root / "src").iterdir() if p.is_dir()):
        readme, name = folder / "README.md", f"src/{folder.name}/README.md"
        if not readme.is_file():
            found.append(f"{name}: missing")
        elif (lines := len(readme.read_text(encoding="utf-8").splitlines())) > MAX_README:
            found.append(f"{name}: {lines} lines, at most {MAX_README}")
    return found


def sources_have_tests(root: Path) -> list[str]:
    """Law 6: src/<folder>/<x>.cpp has tests/cpp/[<folder>_]<x>_test.cpp, or an entry above."""
    found = []
    for path, name in _files(root, "src", (".cpp",)):
        if name.startswith("src/bindings/"):  # tested through Python, in tests/python
            continue
        names = (path.stem, f"{path.parent.name}_{path.stem}")
        tested = any((root / "tests/cpp" / f"{stem}_test.cpp").is_file() for stem in names)
        by = TESTED_BY.get(name, "")
        if not tested and not by:
            found.append(f"{name}: no tests/cpp/{names[1]}_test.cpp and no entry in TESTED_BY")
        elif not tested and by.startswith("tests/") and not (root / by).is_file():
            found.append(f"{name}: TESTED_BY names {by}, which does not exist")
        elif tested and by:
            found.append(f"{name}: has a test of its own; remove it from TESTED_BY")
    return found


def _tracked(root: Path) -> list[str]:
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others"]
    listed = subprocess.run([*command, "--exclude-standard"], capture_output=True, check=False)
    if listed.returncode == 0:
        return [n for n in listed.stdout.decode().split("\0") if n and (root / n).is_file()]
    return [p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file()]


def no_machine_paths(root: Path) -> list[str]:
    """Tracked files name no path under someone's own folder of a machine."""
    personal = "root|home|Users|mnt|data|scratch|work|workspace"
    pattern = re.compile(rf"(?<![\w.$}}*)>:/-])/(?:{personal})/(?!someone\b|user\b)[\w.-]+")
    found = []
    for name in _tracked(root):
        try:
            text = (root / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if match := pattern.search(line):
                found.append(f"{name}:{number}: {match.group(0)} is a path of one machine")
    return found


LAWS: tuple[Callable[[Path], list[str]], ...] = (
    device_includes_only_itself,
    no_framework_in_cpp,
    no_framework_in_python,
    layers_point_downward,
    library_is_quiet,
    environment_is_read_in_one_place,
    hardware_behind_one_line,
    files_are_short,
    functions_are_short,
    folders_have_readmes,
    sources_have_tests,
    no_machine_paths,
)


def main() -> int:
    """Print every violation of this tree; exit code 1 if there is one."""
    found = [line for law in LAWS for line in law(Path(__file__).resolve().parents[1])]
    print("\n".join(found) or "no violations")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
