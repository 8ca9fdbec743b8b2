"""The compiled module and its types, imported when the first operation is."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from deepgemm import _ext
from deepgemm._ext import CompileError, DeviceArray, DriverError, Error, Plan, Policy

__all__ = [
    "CompileError",
    "DeviceArray",
    "DriverError",
    "Error",
    "Plan",
    "Policy",
    "as_policy",
    "compiled",
    "ext",
]

ext = _ext
Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(operation: Any) -> Callable[[Function], Function]:
    """Put a compiled operation in the place of a function that only documents it.

    A call then costs no frame of Python; name, docstring and signature are the function's.
    """

    def take_over(function: Function) -> Function:
        return cast(Function, functools.update_wrapper(operation, function))

    return take_over


def as_policy(policy: "Policy | dict[str, object] | None") -> "Policy | None":
    """``policy`` itself, or the Policy with the fields of a dict."""
    if isinstance(policy, dict):
        known = [name for name in dir(Policy) if not name.startswith("_")]
        for name in policy:
            if name not in known:
                raise ValueError(
                    f"policy: found the field {name!r}, need one of {', '.join(known)}"
                )
        return Policy(**policy)  # type: ignore[arg-type]
    return policy
