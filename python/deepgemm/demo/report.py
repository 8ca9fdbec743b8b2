"""The demo's checks and how they are printed."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deepgemm.demo.linear import ShapeRecord
from deepgemm.demo.model import Model

# Why two bounds: random weights have no structure that survives rounding as well as a trained
# model's; the NumPy emulation of the quantisers alone gives 0.9949 there and 0.9977 on real ones.
MIN_COSINE_FP32 = {True: 0.995, False: 0.99}
MIN_COSINE_EMULATION = 0.9999
MAX_ERROR_FP32_OUT = 1e-6
ERROR = "1 - 2<x,y>/(<x,x>+<y,y>) against FP64"


@dataclass(frozen=True)
class Check:
    """One condition that must hold for exit code 0."""

    what: str
    value: float
    bound: float
    at_least: bool

    @property
    def held(self) -> bool:
        """Tell whether it holds; NaN never does."""
        return self.value >= self.bound if self.at_least else self.value <= self.bound


def cosines(x: NDArray[Any], y: NDArray[Any]) -> list[float]:
    """Return the cosine of each pair of rows."""
    wide_x, wide_y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    norms = np.linalg.norm(wide_x, axis=1) * np.linalg.norm(wide_y, axis=1)
    return [float(c) for c in (wide_x * wide_y).sum(axis=1) / norms]


@dataclass(frozen=True)
class Outcome:
    """What a run gave: per sentence the cosines with three other ways to compute it."""

    records: list[ShapeRecord]
    fp32: list[float]
    free: list[float]  # FP64 emulation that makes its own rounding decisions
    in_step: list[float]  # FP64 emulation with the run's
    unlike_definition: int
    rounded_otherwise: float  # share of values that the two emulations would round differently


def checks(model: Model, outcome: Outcome) -> list[Check]:
    """Return every check of a run."""
    found = [
        Check(f"error of {r.m}x{r.n}x{r.k} against FP64", r.error, MAX_ERROR_FP32_OUT, False)
        for r in outcome.records
    ]
    count = float(outcome.unlike_definition)
    found.append(Check("values and factors quantised unlike the definition", count, 0, False))
    for index, (one, two) in enumerate(zip(outcome.fp32, outcome.in_step, strict=True), 1):
        bound = MIN_COSINE_FP32[model.real]
        found.append(Check(f"sentence {index}: cosine with FP32", one, bound, True))
        found.append(
            Check(f"sentence {index}: cosine with FP64 emulation", two, MIN_COSINE_EMULATION, True)
        )
    return found


def table(head: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> str:
    """Return an aligned text table; columns in `left` are aligned left, others right."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]

    def line(row: Sequence[str]) -> str:
        cells = [
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return "  " + "  ".join(cells).rstrip()

    return "\n".join([line(head), line(["-" * width for width in widths]), *map(line, rows)])


def origin(kernel: dict[str, Any]) -> str:
    """Say where a kernel came from: "compiled in 240 ms", "disk, 1 ms", "memory"."""
    where, ms = str(kernel.get("origin", "")), float(kernel.get("milliseconds", 0))
    if where == "compiled":
        return f"compiled in {ms:.0f} ms"
    if where in ("disk", "bundle"):
        return f"{where}, {ms:.1f} ms"
    return where or "none"


def layers_table(records: Sequence[ShapeRecord]) -> str:
    """Return the table of product shapes, each with its config on a line of its own."""
    head = ["layer", "M", "N", "K", "calls", "ms/call", "error", "kernel"]
    rows = []
    for r in records:
        roles = ", ".join(role.replace("attention.", "").replace(".dense", "") for role in r.roles)
        rows.append(
            [
                roles.replace("self.", ""),
                *(str(extent) for extent in (r.m, r.n, r.k, len(r.times_ms))),
                f"{statistics.median(r.times_ms):.3f}",
                f"{r.error:.1e}",
                origin(r.kernel),
            ]
        )
    lines = table(head, rows, left=(0, 7)).splitlines()
    for index in reversed(range(len(records))):
        config = records[index].kernel.get("config")
        if config:
            lines.insert(index + 3, f"    {config}")
    return "\n".join(lines)


def sentences_table(model: Model, outcome: Outcome) -> str:
    """Return the table of sentences."""
    rows = [
        [text if len(text) <= 60 else text[:57] + "...", f"{one:.5f}", f"{two:.7f}", f"{free:.5f}"]
        for text, one, two, free in zip(
            model.sentences, outcome.fp32, outcome.in_step, outcome.free, strict=True
        )
    ]
    return table(
        ["cosine of each embedding with", "FP32", "FP64 emulation", "free emulation"], rows
    )
