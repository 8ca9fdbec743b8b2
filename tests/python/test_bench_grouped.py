"""`deepgemm bench grouped`: its cases, and rows of them in host memory."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest

from deepgemm.bench import grouped, report
from test_bench import HEAD, row


def test_grouped_cases_have_their_totals() -> None:
    for case in grouped.CASES:
        sizes = case.sizes()
        assert len(sizes) == case.groups
        assert (sizes > 0).all()
        assert (sizes == case.sizes()).all()  # the same for each call
        if case.kind == "masked":
            assert sizes.max() <= grouped.MASKED_ROWS
            assert 0.7 * case.rows - 1 <= sizes.min()
        else:
            assert sizes.sum() == (case.k if case.kind == "along K" else case.rows)
        if case.kind in ("padded", "along K"):
            assert not (sizes % 128).any()
    assert {case.kind for case in grouped.QUICK} == {"padded", "natural", "masked", "along K"}
    assert len({case.label for case in grouped.CASES}) == len(grouped.CASES)


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["fp8", "bf16"])
@pytest.mark.parametrize("kind", ["padded", "natural", "masked", "along K"])
def test_a_row_of_groups(
    kind: str, dtype: str, torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The products of a suite, in host memory: right, and named as they are."""
    support = pytest.importorskip("deepgemm.torch.bench_support")
    monkeypatch.setattr(grouped, "MASKED_ROWS", 48)

    def random_matrix(rows: int, columns: int, seed: int) -> Any:
        return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))

    def output(rows: int, columns: int, dtype: str) -> Any:
        return torch.zeros(rows, columns, dtype=getattr(torch, dtype))

    rival = MagicMock()
    fakes = {"random_matrix": random_matrix, "upload": torch.from_numpy, "empty": output,
             "zeros": output, "cublaslt": rival, "cublaslt_tensorwise": rival,
             "burst_us": lambda calls, repeat: [[2.0] * repeat, [3.0], [4.0]][: len(calls)],
             }  # fmt: skip
    for name, fake in fakes.items():
        monkeypatch.setattr(support, name, fake)
    shape = {"along K": (2, 64, 32, 512), "masked": (3, 20, 32, 128)}.get(kind, (2, 512, 32, 128))
    found = grouped.measure(grouped.Case(kind, *shape, dtype=dtype), support, 3)
    assert 0 < found["error"] < grouped.MAX_ERROR[found["out_dtype"]]
    assert found["in_dtype"] == {"fp8": "float8_e4m3fn", "bf16": "bf16"}[dtype]
    assert found["layout"] == ("tn" if (kind, dtype) == ("along K", "bf16") else "nt")
    assert (found["ratio"], found["groups"]) == (1.5, shape[0])
    assert found.get("through_padded_us") == (4.0 if kind == "natural" else None)
    assert rival.call_args.args[0].shape[-1 if found["layout"] == "nt" else 0] == shape[3]
    assert not report.problems(report.document(HEAD, [found]))


def test_the_suite_in_bf16_has_the_shapes_of_fp8() -> None:
    for quick in (False, True):
        fp8, bf16 = (grouped.cases_of(dtype, quick=quick) for dtype in ("fp8", "bf16"))
        assert [case.label for case in fp8] == [case.label for case in bf16]
        assert {case.dtype for case in bf16} == {"bf16"}
        assert not any(case.peer_us for case in bf16)


def test_a_table_of_groups_names_them() -> None:
    text = report.markdown(report.document(HEAD, [row(op="masked_gemm", groups=8)]))
    assert "| op | groups | M |" in text
    assert "| masked_gemm | 8 |" in text
    assert "padded" not in text
    rows = [row(op="grouped_gemm", groups=8, ratio=0.9, through_padded_us=7.5), row(groups=8)]
    text = report.markdown(report.document(HEAD, rows))
    assert "| ratio | through padded groups, us |" in text
    assert "| 0.900 | 7.5 |" in text
