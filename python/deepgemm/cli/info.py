"""``deepgemm info``: what was found on this machine, what is missing and how to get it."""

import argparse
import json
import os
import platform
from typing import Any

from deepgemm.cli.exits import FAILED, WELL, count

# Distributions whose versions matter in a bug report: those of frameworks, and of what they bring.
PACKAGES = (
    *("numpy", "ml_dtypes", "torch", "jax", "cupy-cuda12x", "cupy-cuda13x", "vllm", "sglang"),
    *("deep_gemm", "nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12", "nvidia-cuda-runtime"),
    *("nvidia-cuda-runtime-cu12", "triton", "cuda-bindings"),
)
NVRTC_REMEDY = 'pip install "nvidia-cuda-nvrtc>=13,<14"'


def add_parser(subparsers: Any) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "info",
        help="GPU, driver, NVRTC and cache; exit code 0 if kernels can run here",
        description="Shows what was found: paste it into a bug report. Exit code 0 if kernels can "
        "run here, else 1.",
    )
    parser.add_argument("--json", action="store_true", help="for scripts")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print it; 0 if usable."""
    import deepgemm
    from deepgemm.cli.cache import problem_of

    found = deepgemm.info()
    cache = deepgemm.cache_info()
    cache["problem"] = problem_of(cache)
    problems = [*_problems(found, cache), *_cache_problems(cache)]
    system = system_facts()
    if args.json:
        record = {**found, "system": system, "cache": cache, "problems": problems}
        print(json.dumps(record, indent=2))
    else:
        print("\n".join(_lines(found, system, cache, problems)))
    return WELL if found["usable"] else FAILED


def system_facts() -> dict[str, Any]:
    """Python, platform, C library, and the installed ``PACKAGES``, of which none is imported."""
    from importlib.metadata import PackageNotFoundError, version

    packages = {}
    for name in PACKAGES:
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": platform.platform(),
        "libc": " ".join(platform.libc_ver()).strip() or "unknown",
        "cpus": os.cpu_count(),
        "packages": packages,
    }


def _problems(found: dict[str, Any], cache: dict[str, Any]) -> list[str]:
    """What keeps kernels from running here, each with its remedy."""
    from deepgemm._runtime import hopper_gpus

    problems = []
    if found["driver_problem"]:
        problems.append(str(found["driver_problem"]))
    elif not found["gpus"]:
        problems.append("the driver finds no GPU: is CUDA_VISIBLE_DEVICES set to nothing?")
    elif not hopper_gpus(found):
        problems.append("no GPU of compute capability 9.0 (H100, H200, H800, H20, GH200)")
    if found["nvrtc_problem"] or not found["nvrtc_path"]:
        problems.append(_nvrtc_problem(str(found["nvrtc_problem"])))
        if cache["bundle_kernels"]:
            problems[-1] += "\n           The kernels of the bundle run without it"
    return problems


def _nvrtc_problem(words: str) -> str:
    """The library's words, cut to what was tried, after the remedy."""
    tried = words.partition("Tried:")[2].rstrip()
    # The library reads the environment; its words tell whether the setting counts.
    if "DEEPGEMM_NVRTC_PATH is set" in words:
        head = "DEEPGEMM_NVRTC_PATH names no usable NVRTC: name a libnvrtc.so, or unset it"
    else:
        head = f"no NVRTC, which compiles the kernels: {NVRTC_REMEDY}"
    return f"{head}. Tried:{tried}" if tried else head


def _cache_problems(cache: dict[str, Any]) -> list[str]:
    problems = []
    if cache["problem"]:
        problems.append(
            f"no cache on disk: {cache['problem']}. Compiled kernels are lost when the process "
            "ends; DEEPGEMM_CACHE_DIR chooses the directory"
        )
    if cache["bundle_problem"]:
        problems.append(f"the bundle is not used: {cache['bundle_problem']}")
    return problems


def _bundle(cache: dict[str, Any]) -> str:
    if not cache["bundle"]:
        return "none"
    if cache["bundle_problem"]:
        return f"{cache['bundle']}, not used"
    major, minor = cache["bundle_nvrtc_version"]
    kernels = f"{count(cache['bundle_kernels'], 'kernel')}, {cache['bundle_bytes'] / 2**20:.1f} MiB"
    return f"{cache['bundle']}, {kernels}, by NVRTC {major}.{minor}"


def _lines(
    found: dict[str, Any], system: dict[str, Any], cache: dict[str, Any], problems: list[str]
) -> list[str]:
    from deepgemm.cli.cache import size_of

    lines = [
        f"deepgemm   {found['version']}, device code {found['sources_digest'][:12]}",
        f"Python     {system['python']}, {system['libc']}, {system['platform']}",
    ]
    version = found["driver_version"]
    driver = f"CUDA {version // 1000}.{version % 1000 // 10}" if version else "none"
    lines.append(f"driver     {driver}")
    for gpu in found["gpus"]:
        major, minor = gpu["compute_capability"]
        lines.append(
            f"GPU {gpu['index']}      {gpu['name']}, {major}.{minor}, {gpu['sm_count']} SMs, "
            f"L2 {gpu['l2_bytes'] / 2**20:.0f} MiB"
        )
    if not found["gpus"]:
        lines.append("GPU        none")
    if found["nvrtc_path"]:
        major, minor = found["nvrtc_version"]
        lines.append(f"NVRTC      {major}.{minor}, {found['nvrtc_path']}")
    else:
        lines.append("NVRTC      none")
    kernels = f"{count(cache['entries'], 'kernel')}, {size_of(cache)}"
    if not cache["problem"]:
        lines.append(f"cache      {cache['directory']}, {kernels}")
    elif cache["entries"]:
        lines.append(f"cache      {cache['directory']}, {kernels}, takes no more")
    else:
        lines.append("cache      memory only")
    lines.append(f"bundle     {_bundle(cache)}")
    packages = ", ".join(f"{name} {version}" for name, version in system["packages"].items())
    lines.append(f"packages   {packages or 'none'}")
    lines += [f"setting    {name}={value}" for name, value in found["settings"].items()]
    lines += [f"problem    {problem}" for problem in problems]
    lines.append(
        "GPU kernels run here"
        if found["usable"]
        else "GPU kernels do not run here; arrays in host memory run on the CPU reference"
    )
    return lines
