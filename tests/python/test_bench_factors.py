"""`deepgemm bench factors`: its rows, with a timer that is none."""

from __future__ import annotations

from typing import Any

import numpy as np

import deepgemm
from deepgemm.bench import dense, factors, report
from deepgemm.cli.main import main


class Support:
    """In host memory, with times that are given."""

    def __init__(self) -> None:
        self.times = [1.0, 1.5, 3.0]

    def random_matrix(self, rows: int, columns: int, seed: int) -> Any:
        x = np.random.default_rng(seed).standard_normal((rows, columns))
        return x.astype(np.float32)

    def row_major(self, sf: Any) -> Any:
        return np.ascontiguousarray(sf)

    def empty(self, rows: int, columns: int, dtype: str) -> Any:
        return deepgemm.DeviceArray((rows, columns), dtype, device=-1)

    def error_against_fp64(self, out: Any, a: Any, b: Any, granularity: Any) -> float:
        real = [
            deepgemm.dequantize(q, granularity=g) for q, g in zip((a, b), granularity, strict=True)
        ]
        want = real[0].astype(np.float64) @ real[1].T.astype(np.float64)
        found = out.to_numpy().astype(np.float64)
        out.fill(0)
        return float(1 - 2 * (want * found).sum() / ((want * want).sum() + (found * found).sum()))

    def burst_us(self, calls: list[Any], repeat: int) -> list[list[float]]:
        return [[2.0 + i] * repeat for i, _ in enumerate(calls)]

    def sustained_us(self, call: Any, seconds: float) -> float:
        call()
        return self.times.pop(0)


def test_rows_of_a_shape(monkeypatch) -> None:
    read, real = [], deepgemm.gemm

    def spy(a: Any, *args: Any, **keywords: Any) -> Any:
        read.append(a[1].strides)
        return real(a, *args, **keywords)

    monkeypatch.setattr(deepgemm, "gemm", spy)
    rows = factors.measure(6, 128, 256, Support(), 3)
    assert read[:3] == [(4, 32), (8, 4), (4, 32)]
    assert [(row["mode"], row["rival"], row["us"], row["rival_us"]) for row in rows] == [
        ("burst", factors.WAYS[0], 2.0, 3.0),
        ("burst", factors.WAYS[1], 2.0, 4.0),
        ("sustained", factors.WAYS[0], 1.0, 1.5),
        ("sustained", factors.WAYS[1], 1.0, 3.0),
    ]
    assert all(dense.is_right(row) for row in rows)
    head = dict.fromkeys(("card", "driver", "nvrtc", "commit", "date"), "x") | {"clock_mhz": 1}
    content = report.document(head, rows)
    assert not report.problems(content)
    assert factors.WAYS[1] in report.markdown(content)


def test_it_needs_a_gpu(monkeypatch, capsys) -> None:
    from deepgemm.bench import machine

    monkeypatch.setattr(machine, "gpu_problem", lambda: "none here")
    assert main(["bench", "factors"]) == 2
    assert "deepgemm bench factors needs a GPU: none here" in capsys.readouterr().err
