#!/usr/bin/env bash
# The main job with all set-up: virtual environment, package, model, then `deepgemm demo`.
#   bash tools/demo.sh [arguments of `deepgemm demo`]
# VENV=dir uses (or makes) another environment; VERBOSE=1 shows every command's output.
source "$(dirname "$0")/lib.sh"

use_venv
step "package" install_package "cuda13"
step "model of the demo" install_model
# Not from the source folder, so that the installed package is what runs.
cd "$VENV"
exec "$VENV/bin/deepgemm" demo "$@"
