"""The progress of a long command: a line on the standard error, redrawn if it is a terminal."""

from __future__ import annotations

import os
import sys

_BAR = 30


def show(number: int, total: int, words: str, every: int = 1) -> None:
    """Tell that ``number`` of ``total`` are done, the last of them ``words``.

    On a terminal the line is cut to its width, since one that wraps cannot be redrawn. Elsewhere
    each ``every``-th is a line of its own, and the last.
    """
    done = _BAR * number // total
    line = f"[{'#' * done}{'.' * (_BAR - done)}] {number}/{total} {words}"
    if sys.stderr.isatty():
        end = "\n" if number == total else ""
        print(f"\r\x1b[K{line[: _width() - 1]}", end=end, file=sys.stderr, flush=True)
    elif number % every == 0 or number == total:
        print(line, file=sys.stderr)


def _width() -> int:
    """Columns of the terminal; 80 where it does not say."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
