"""Benchmarks: suites as data, machine and report, and the runs of `deepgemm bench`."""
