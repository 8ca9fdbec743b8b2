"""Conditions of tests."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import torch

Function = Callable[..., Any]


def get_arch_major() -> int:
    """Return the major compute capability of the current GPU: 9 on Hopper."""
    return int(torch.cuda.get_device_capability()[0])


def test_filter(condition: Callable[[], Any]) -> Callable[[Function], Function]:
    """Make a decorator: the function runs only where the condition holds, else says so."""

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            if condition():
                return function(*args, **kwargs)
            print(f"{function.__name__}: skipped, its condition does not hold here")
            return None

        return run

    return decorate


def ignore_env(name: str, condition: Callable[[], Any]) -> Callable[[Function], Function]:
    """Make a decorator: where the condition holds, the function runs without the variable."""

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            saved = os.environ.pop(name, None) if condition() else None
            try:
                return function(*args, **kwargs)
            finally:
                if saved is not None:
                    os.environ[name] = saved

        return run

    return decorate
