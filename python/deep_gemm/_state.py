"""The settings of the process, and how a call of `deepgemm` is made under them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import deepgemm


@dataclass
class State:
    """What `deep_gemm` keeps for the whole process. None: never set, `deepgemm`'s own counts."""

    num_sms: int | None = None
    pdl: bool | None = None
    tc_util: int = 100
    ignore_compile_dims: bool = False
    block_size_multiple_of: int | tuple[int, int] = 1
    mk_alignment: int = 128


state = State()

_OFF = ("", "0")
# Settings of `deepgemm` that this module has written, and what it has put there.
_written: dict[str, str] = {}


def environment_flag(name: str) -> bool:
    """Whether a switch of the environment is on: set, and not to 0."""
    return os.environ.get(name, "") not in _OFF


def follow_environment() -> None:
    """Translate the variables that mean something here; read at each call, so set at any time."""
    _follow("DEEPGEMM_CACHE_DIR", os.environ.get("DG_JIT_CACHE_DIR", ""))
    _follow("DEEPGEMM_LOG", "debug" if environment_flag("DG_JIT_DEBUG") else "")


def _follow(ours: str, value: str) -> None:
    """Set a variable of `deepgemm`, or take it back, unless its user has set it."""
    before = _written.get(ours, "")
    if not value and not before:
        return
    if os.environ.get(ours, "") not in ("", before):
        return
    if not value:
        del _written[ours]
        os.environ.pop(ours, None)
    elif os.environ.get(ours) != value:
        os.environ[ours] = _written[ours] = value


def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function of `deepgemm` under the settings of the process and its environment."""
    follow_environment()
    if state.num_sms is None and state.pdl is None:
        return function(*args, **kwargs)
    with deepgemm.options(num_sms=state.num_sms, pdl=state.pdl):
        return function(*args, **kwargs)


_printed: set[str] = set()


def product(op: str, a: Any, b: Any, *args: Any, **kwargs: Any) -> None:
    """Call a product of `deepgemm` so; with DG_PRINT_CONFIGS, print its kernel and config."""
    call(getattr(deepgemm, op), a, b, *args, **kwargs)
    if not environment_flag("DG_PRINT_CONFIGS"):
        return
    report = call(deepgemm.explain, op, a, b, *args, **kwargs)
    found = report.problem
    if "m" not in found:  # of a dense product: from a and d
        m, n = args[0].shape
        k = (a[0] if isinstance(a, tuple) else a).numel() // max(m, 1)
        found = {"m": m, "n": n, "k": k}
    extents = [f"{name.upper()}={found[name]}" for name in "mnk"]
    if "groups" in found:
        extents.append(f"groups={found['groups']}")
    line = f"{', '.join(extents)}: {report.kernel}: {report.config}"
    if line not in _printed:  # each once, as callers of DeepGEMM know it
        _printed.add(line)
        print(line, flush=True)
