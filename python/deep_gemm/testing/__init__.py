"""Measuring and comparing, as programs of DeepGEMM do it."""

from deep_gemm.testing import bench as _bench
from deep_gemm.testing.numeric import assert_bitwise_equal, calc_diff, count_bytes
from deep_gemm.testing.utils import get_arch_major, ignore_env, test_filter

bench_kineto = _bench.bench_kineto
empty_suppress = _bench.empty_suppress
suppress_stdout_stderr = _bench.suppress_stdout_stderr
bench = _bench.bench  # the function hides its module, as it does there

__all__ = [
    "assert_bitwise_equal",
    "bench",
    "bench_kineto",
    "calc_diff",
    "count_bytes",
    "empty_suppress",
    "get_arch_major",
    "ignore_env",
    "suppress_stdout_stderr",
    "test_filter",
]
