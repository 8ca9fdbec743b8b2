"""What a result must say about the machine that it was measured on."""

from __future__ import annotations

import datetime
import subprocess
from pathlib import Path
from typing import Any

import deepgemm


def _output(command: list[str], folder: Path | None = None) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=20, cwd=folder
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def hopper_gpus() -> list[dict[str, Any]]:
    """Return the GPUs that the kernels run on: compute capability 9.0."""
    from deepgemm._runtime import hopper_gpus as hopper_of

    return hopper_of(deepgemm.info())


def gpu_problem() -> str:
    """Say why no kernel can run here; empty if one can."""
    return "" if hopper_gpus() else str(deepgemm.info()["driver_problem"] or "no Hopper GPU")


def commit() -> str:
    """Return the commit of the sources around, with "+" for changes; "" if there is none."""
    here = Path.cwd()
    name = _output(["git", "rev-parse", "--short=12", "HEAD"], here)
    dirty = name and _output(["git", "status", "--porcelain", "--untracked-files=no"], here)
    return name + ("+" if dirty else "")


def clock_mhz() -> int:
    """Return the SM clock right now, 0 if it cannot be read."""
    query = ["nvidia-smi", "--query-gpu=clocks.sm", "--format=csv,noheader,nounits", "-i", "0"]
    text = _output(query)
    return int(text) if text.isdigit() else 0


def describe() -> dict[str, Any]:
    """Return card, driver, nvrtc, commit and date for the head of a result file."""
    info = deepgemm.info()
    driver = _output(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"])
    nvrtc = ".".join(str(part) for part in info["nvrtc_version"])
    return {
        "card": str(info["gpus"][0]["name"]) if info["gpus"] else "none",
        "driver": driver.splitlines()[0] if driver else str(info["driver_version"]),
        "nvrtc": nvrtc,
        "commit": commit(),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "clock_mhz": clock_mhz(),
    }
