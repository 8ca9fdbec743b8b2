"""The progress line of `deepgemm bundle` and `deepgemm warmup`."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import sys
import termios
from collections.abc import Iterator

import pytest

from deepgemm.cli.progress import show


@pytest.fixture
def terminal(monkeypatch):
    """Return (what turns its width and lines into what it was sent): a real terminal."""

    def play(columns: int, *lines: tuple[int, int, str]) -> str:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        with os.fdopen(theirs, "w") as stream, monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", stream)
            for line in lines:
                show(*line)
        sent = b"".join(chunks_of(ours))
        os.close(ours)
        return sent.decode()

    return play


def chunks_of(terminal: int) -> Iterator[bytes]:
    """What was sent before the other side was closed; one read may give only a part of it."""
    while True:
        try:
            chunk = os.read(terminal, 10_000)
        except OSError:  # EIO: closed, and all is read
            return
        if not chunk:
            return
        yield chunk


def test_a_terminal_sees_one_line_cut_to_its_width(terminal):
    sent = terminal(50, (1, 2, "a kernel of a very long name"), (2, 2, "short"))
    first = f"\r\x1b[K[{'#' * 15}{'.' * 15}] 1/2 a kernel of "  # 49 columns
    assert sent == f"{first}\r\x1b[K[{'#' * 30}] 2/2 short\r\n"


def test_a_terminal_that_does_not_say_its_width_has_80_columns(terminal):
    assert terminal(0, (1, 2, "x" * 100)) == f"\r\x1b[K[{'#' * 15}{'.' * 15}] 1/2 " + "x" * 42


def test_elsewhere_some_lines_and_the_last_are_written(capsys):
    for number in range(1, 8):
        show(number, 7, f"kernel {number}", every=3)
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition("] ")[2] for line in lines] == [
        *("3/7 kernel 3", "6/7 kernel 6", "7/7 kernel 7")
    ]
