"""The exit codes of every command, and nouns with their number."""

from __future__ import annotations

# The one rule, as docs/api.md states it. An interrupt is 130, as in a shell.
WELL, FAILED, WRONG_USE = 0, 1, 2

_WRONG_FILE = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)
_NO_SUCH_DEVICE = (-1, 100, 101)  # no driver, CUDA_ERROR_NO_DEVICE, CUDA_ERROR_INVALID_DEVICE


def exit_code(error: BaseException) -> int:
    """Return 2 for wrong use or what cannot run here, 1 for work that failed."""
    from deepgemm import CompileError, DriverError, Error

    if isinstance(error, CompileError):
        return FAILED if getattr(error, "log", "") else WRONG_USE  # no log: no NVRTC was found
    if isinstance(error, DriverError):
        return WRONG_USE if getattr(error, "code", -1) in _NO_SUCH_DEVICE else FAILED
    if isinstance(error, (Error, ValueError, TypeError, ImportError, *_WRONG_FILE)):
        return WRONG_USE
    return FAILED


def count(number: int, noun: str) -> str:
    """Return "1 kernel", "2 kernels"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
