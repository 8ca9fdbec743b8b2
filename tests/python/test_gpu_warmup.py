"""On a GPU: after a warm-up from its trace, a run compiles nothing; and a profiler sees its ranges.

The checks are those of test_warmup.py, which runs them on a driver that computes nothing.
"""

from __future__ import annotations

import json

import pytest

from test_warmup import check_trace_and_warm_up, counters, traced_run

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]


def test_after_a_warm_up_from_its_trace_a_run_compiles_nothing(tmp_path):
    check_trace_and_warm_up(tmp_path)


def test_a_trace_names_the_sms_of_the_device(tmp_path):
    import deepgemm
    from deepgemm._runtime import hopper_gpus

    trace = tmp_path / "trace.jsonl"
    cache = str(tmp_path / "cache")
    counters(traced_run("extra", DEEPGEMM_TRACE=str(trace), DEEPGEMM_CACHE_DIR=cache))
    records = [json.loads(line) for line in trace.read_text(encoding="utf-8").splitlines()]
    assert [record["op"] for record in records] == ["gemm"]
    assert records[0]["device_sms"] == hopper_gpus(deepgemm.info())[0]["sm_count"]


def test_ranges_and_dumps_change_nothing(tmp_path):
    settings = {"DEEPGEMM_NVTX": "1", "DEEPGEMM_DUMP": str(tmp_path / "dump")}
    cache = str(tmp_path / "cache")
    done = counters(traced_run("run", "extra", DEEPGEMM_CACHE_DIR=cache, **settings))
    kinds = [path.name.rpartition(".")[2] for path in (tmp_path / "dump").iterdir()]
    assert kinds.count("cubin") == kinds.count("cu") == kinds.count("ptx") == done["compiled"]
    assert kinds.count("txt") >= done["compiled"] - 3  # of quantisers there are no plans
