#!/usr/bin/env bash
# Format, lint, types and laws.
#   bash tools/check.sh [format] [lint] [types] [laws] [tidy]     (none: all of them)
source "$(dirname "$0")/lib.sh"

# The stub is generated; a test compares it with the module.
python_files=(python tests/python tools examples)

check_format() {
  git ls-files '*.cpp' '*.hpp' '*.c' '*.h' '*.cuh' | xargs -r clang-format --dry-run -Werror &&
    ruff format --check --exclude '*.pyi' "${python_files[@]}"
}

check_lint() { ruff check --exclude '*.pyi' "${python_files[@]}"; }

check_types() {
  mypy && mypy --strict tools/*.py
}

check_laws() { python -m pytest -q -p no:cacheprovider tests/python/test_laws.py; }

# Why sources only, two at a time: headers are seen through them, and a run stays within minutes.
check_tidy() {
  { [ -f build/cpp/compile_commands.json ] || configure_cpp; } || return
  git ls-files 'src/*.cpp' ':!src/bindings' |
    xargs -r -P "$JOBS" -n 2 clang-tidy --quiet -p build/cpp 2>&1 |
    { grep -v 'Processing file' || true; }
}

use_venv
step "tools of the checks" pip_install -r tools/requirements-check.txt numpy ml_dtypes
[ $# -gt 0 ] || set -- format lint types laws tidy
failed=()
for name in "$@"; do
  step "$name" "check_$name" || failed+=("$name")
done
if [ ${#failed[@]} -gt 0 ]; then
  echo "failed: ${failed[*]}"
  exit 1
fi
echo "all checks passed: $*"
