"""Where the arrays of the GPU tests live, and how a body of such a test runs in a child process.

A body takes a Place: a CUDA device, or -1 for host memory, where the CPU reference runs the very
same lines: that is how the bodies themselves are tested.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import deepgemm

SENTINEL = 0xA5
CHILD_SECONDS = 280


@dataclass
class Place:
    """Where arrays live."""

    device: int

    def put(self, x: np.ndarray) -> Any:
        return deepgemm.DeviceArray.from_numpy(np.ascontiguousarray(x), device=self.device)

    def put_strided(self, x: np.ndarray, pitch: int, offset: int = 0) -> Any:
        """Rows `pitch` elements apart, the first `offset` elements in; NaN bytes in between."""
        rows, columns = x.shape
        flat = np.full(offset + rows * pitch + 64, 0xFF, np.uint8).repeat(x.itemsize)
        flat = flat.view(x.dtype)
        body = flat[offset : offset + rows * pitch].reshape(rows, pitch)
        body[:, :columns] = x
        return self.put(flat).strided(x.shape, (pitch, 1), offset)

    def put_fast_scales(self, sf: np.ndarray) -> Any:
        """M-contiguous, rows padded to 16 bytes, NaN in the padding."""
        rows, blocks = sf.shape
        padded = -(-rows // 4) * 4
        base = np.full((blocks, padded), np.nan, np.float32)
        base[:, :rows] = sf.T
        return self.put(base).strided(sf.shape, (1, padded))

    def guarded(self, m: int, n: int, dtype: str, pitch: int) -> tuple[Any, Any]:
        """(base, out): out lies inside base, whose bytes are all SENTINEL."""
        lead = 64
        base = deepgemm.DeviceArray((lead + m * pitch + 64,), dtype, self.device)
        base.fill(SENTINEL)
        return base, base.strided((m, n), (pitch, 1), lead)

    def read_guarded(self, base: Any, m: int, n: int, pitch: int) -> np.ndarray:
        """The [m, n] result; fails if a byte around it has changed."""
        if self.device >= 0:
            base.synchronize()
        flat = base.to_numpy()
        rows = flat[64 : 64 + m * pitch].reshape(m, pitch)
        result = rows[:, :n].copy()
        rows[:, :n].view(f"u{flat.itemsize}")[...] = int.from_bytes(
            bytes([SENTINEL] * flat.itemsize), "little"
        )
        assert (flat.view(np.uint8) == SENTINEL).all(), "bytes around out were written"
        return result


def contents(x: Any) -> np.ndarray:
    """A DeviceArray whose columns may lie apart, as quantize's factors do."""
    if len(x.strides) == 2 and x.strides[0] == 1 != x.strides[1]:
        (rows, columns), pitch = x.shape, x.strides[1]
        return np.ascontiguousarray(x.strided((columns, pitch), (pitch, 1)).to_numpy()[:, :rows].T)
    return x.to_numpy()


def run_in_a_child(file: str, body: str) -> None:
    """Run `python file body 0`, which may hang, with a time limit."""
    done = subprocess.run(
        [sys.executable, file, body, "0"],
        capture_output=True,
        text=True,
        timeout=CHILD_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


Bodies = dict[str, Callable[[Place], None]]


def as_tests(file: str, bodies: Bodies) -> tuple[Callable[[str], None], Callable[[str], None]]:
    """(test_on_the_cpu, test_on_the_gpu) of a module with bodies."""

    @pytest.mark.parametrize("name", bodies)
    def on_the_cpu(name: str) -> None:
        bodies[name](Place(-1))

    @pytest.mark.gpu
    @pytest.mark.parametrize("name", bodies)
    def on_the_gpu(name: str) -> None:
        run_in_a_child(file, name)

    return on_the_cpu, on_the_gpu


def main(bodies: Bodies) -> None:
    """Arguments: a body and its device, -1 for host memory."""
    _, name, device = sys.argv
    bodies[name](Place(int(device)))
    print(f"{name}: right")
