"""`deepgemm explain` of grouped products, from extents alone."""

from __future__ import annotations

import json

import pytest

import deepgemm
from deepgemm.cli import explain
from deepgemm.cli import main as cli


def run(capsys, *arguments):
    code = cli.main([str(argument) for argument in arguments])
    return code, capsys.readouterr()


@pytest.mark.parametrize(
    ("kind", "op", "more", "options"),
    [
        ("grouped", "grouped_gemm", (), {}),
        ("grouped", "grouped_gemm", ("--form", "labels"), {"form": "labels"}),
        (
            "grouped",
            "grouped_gemm",
            ("--form", "ends", "--bias"),
            {"form": "group_ends", "bias": True},
        ),
        ("masked", "masked_gemm", ("--expected-rows", 40), {"expected_rows": 40}),
        ("k-grouped", "k_grouped_gemm", (), {}),
        (
            "k-grouped",
            "k_grouped_gemm",
            ("--c", "--out-dtype", "bfloat16"),
            {"c": True, "out_dtype": "bfloat16"},
        ),
    ],
)
def test_explain_of_groups(capsys, kind, op, more, options):
    shape = (1024, 2048, 7168)
    expected = deepgemm.explain(op, *shape, groups=8, device=-1, **options)
    words = ("explain", kind, *shape, "--groups", 8, *more, "--device", -1)
    code, shown = run(capsys, *words)
    assert (code, shown.out) == (0, explain.text(expected) + "\n")
    code, shown = run(capsys, *words, "--json")
    found = json.loads(shown.out)
    assert (found["kernel"], found["config"]) == (expected.kernel, expected.config)
    assert found["problem"] == expected.problem
    assert found["problem"]["groups"] == found["fields"]["groups"] == 8


def test_explain_of_no_groups(capsys):
    words = ("explain", "grouped", 64, 128, 256, "--groups", 0)
    assert run(capsys, *words)[1].out == "nothing to compute: the product is empty\n"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("grouped",), "--groups: found none, need how many groups grouped has"),
        (("gemm", "--groups", "2"), "--groups: found gemm, which has no such"),
        (("gemm", "--form", "sizes"), "--form: found gemm, which has no such"),
        (("masked", "--groups", "2", "--form", "ends"), "--form: found masked"),
        (("grouped", "--groups", "2", "--expected-rows", "3"), "--expected-rows: found grouped"),
        (("k-grouped", "--groups", "2", "--bias"), "--bias, --activation: found k-grouped"),
        (("grouped", "--groups", "-1"), "groups: found -1, need 0 or more"),
        (("masked", "--groups", "2", "--measure"), "--measure times the default product"),
    ],
)
def test_options_that_a_kind_has_not_are_refused(capsys, words, complaint):
    kind, *options = (
        words if words[0] in ("gemm", "grouped", "masked", "k-grouped") else ("gemm", *words)
    )
    code, shown = run(capsys, "explain", kind, 64, 128, 256, *options)
    assert (code, complaint in shown.err) == (2, True), shown.err


def test_a_kind_stands_before_the_extents(capsys):
    plain = run(capsys, "explain", 64, 128, 256, "--device", -1)
    assert plain[0] == 0
    assert run(capsys, "explain", "--device", -1, "gemm", 64, 128, 256) == plain
    with pytest.raises(SystemExit) as refused:
        run(capsys, "explain", "conv", 64, 128, 256)
    assert refused.value.code == 2
    assert "invalid choice: 'conv'" in capsys.readouterr().err
