#!/usr/bin/env bash
# The tests, C++ and Python, with all set-up: virtual environment, package, doctest, build, run.
#   bash tools/test.sh [pytest arguments]
# VENV=dir uses (or makes) another environment; VERBOSE=1 shows every command's output.
# Takes about 25 minutes on two cores; the compile gate of every kernel is most of it.
# What needs a GPU or a framework that is not installed is skipped, with its reason.
source "$(dirname "$0")/lib.sh"

echo "All tests with all set-up: about 25 minutes on two cores. VERBOSE=1 shows every command's output."
use_venv
step "package and test tools" install_package "test,cuda13"
step "model of the demo" install_model
step "disassembler, for the compile gate" pip_install nvidia-cuda-nvdisasm ||
  echo "going on without it: the SASS checks skip"
step "doctest" install_doctest
step "configure C++ tests" configure_cpp
step "build C++ tests" build_cpp
echo "C++ tests:"
ctest --test-dir build/cpp --output-on-failure -j "$JOBS"
echo "Python tests:"
"$VENV/bin/python" -m pytest "$@"
