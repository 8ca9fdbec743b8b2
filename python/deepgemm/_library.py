"""The compiled module and its types, imported when the first operation is."""

from deepgemm import _ext
from deepgemm._ext import CompileError, DeviceArray, DriverError, Error, Policy

__all__ = ["CompileError", "DeviceArray", "DriverError", "Error", "Policy", "as_policy", "ext"]

ext = _ext


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
