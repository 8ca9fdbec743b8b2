"""Markers that skip with a reason, time limits, and fixtures shared by the tests."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # oracle.py, for the tests and their children

GPU_SECONDS = 300
FRAMEWORKS = ("torch", "jax", "cupy")


def _gpu_problem() -> str:
    import deepgemm

    found = deepgemm.info()
    if found["usable"]:
        return ""
    return found["driver_problem"] or found["nvrtc_problem"] or "no GPU of compute capability 9.0"


def _framework_problem(name: str) -> str:
    return "" if importlib.util.find_spec(name) else f"{name} is not installed"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    problems: dict[str, str] = {}
    for item in items:
        for name in ("gpu", *FRAMEWORKS):
            if item.get_closest_marker(name) is None:
                continue
            if name not in problems:
                problems[name] = _gpu_problem() if name == "gpu" else _framework_problem(name)
            if problems[name]:
                reason = f"{name}: {problems[name].partition('. ')[0]}"
                item.add_marker(pytest.mark.skip(reason=reason))
        if item.get_closest_marker("gpu") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(GPU_SECONDS))


@pytest.fixture
def rng() -> Any:
    import numpy as np

    return np.random.default_rng(20260101)


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.fixture
def jnp() -> Any:
    pytest.importorskip("jax")
    return importlib.import_module("jax.numpy")
