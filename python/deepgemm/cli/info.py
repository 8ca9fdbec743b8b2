"""``deepgemm info``: what was found on this machine, what is missing and how to get it."""

import argparse
import json
from typing import Any


def add_parser(subparsers: Any) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "info",
        help="GPU, driver, NVRTC and cache; exit code 0 if kernels can run here",
        description="Shows what was found. Exit code 0 if kernels can run here, else 1.",
    )
    parser.add_argument("--json", action="store_true", help="for scripts")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print it; 0 if usable."""
    import deepgemm

    found = deepgemm.info()
    cache = deepgemm.cache_info()
    problems = _problems(found)
    if args.json:
        print(json.dumps({**found, "cache": cache, "problems": problems}, indent=2))
    else:
        print("\n".join(_lines(found, cache, problems)))
    return 0 if found["usable"] else 1


def _problems(found: dict[str, Any]) -> list[str]:
    """What keeps kernels from running here, each with its remedy."""
    problems = []
    if found["driver_problem"]:
        problems.append(
            f"no usable CUDA driver: {found['driver_problem']}\n"
            "  on a machine with an NVIDIA GPU, install its driver (libcuda.so.1 comes with it)"
        )
    elif not found["gpus"]:
        problems.append("the driver finds no GPU: is CUDA_VISIBLE_DEVICES set to nothing?")
    elif not any(tuple(gpu["compute_capability"]) == (9, 0) for gpu in found["gpus"]):
        problems.append("no GPU of compute capability 9.0 (H100, H200, H800, H20, GH200)")
    if found["nvrtc_problem"] or not found["nvrtc_path"]:
        problems.append(
            f"no NVRTC: {found['nvrtc_problem']}\n  pip install 'deepgemm[cuda13]' brings it"
        )
    return problems


def _lines(found: dict[str, Any], cache: dict[str, Any], problems: list[str]) -> list[str]:
    lines = [f"deepgemm   {found['version']}, device code {found['sources_digest'][:12]}"]
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
    if cache["directory"]:
        size = cache["bytes"] / 2**20
        lines.append(f"cache      {cache['directory']}, {cache['entries']} kernels, {size:.1f} MiB")
    else:
        lines.append(f"cache      memory only: {cache['problem']}")
    lines += [f"missing    {problem}" for problem in problems]
    lines.append(
        "GPU kernels run here"
        if found["usable"]
        else "GPU kernels do not run here; arrays in host memory run on the CPU reference"
    )
    return lines
