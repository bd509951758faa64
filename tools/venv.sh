#!/usr/bin/env bash
# Makes the environment of this project, or adds an extra to it: tools/venv.sh DIRECTORY [EXTRA]
# TORCH, if it is set, is the requirement on PyTorch of an extra that has no lock file (torch==2.13.0).
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/common.sh

venv=$1
extra=${2:-}
log=$venv/install.log

check_path
command -v g++ >/dev/null || die "g++ not found; it compiles the simulation" \
    "(Debian, Ubuntu: apt install g++)"
command -v perl >/dev/null || die "perl not found; Verilator is started by it" \
    "(Debian, Ubuntu: apt install perl)"

run() {
    "$@" >>"$log" 2>&1 || {
        tail -n 30 "$log" >&2
        die "the installation failed at: ${*:1:6} ... (the whole log: $log)"
    }
}

isolate_pip
if [ -n "$extra" ]; then
    echo "adding the packages of the extra $extra to $venv"
    packages=(--require-hashes -r "requirements-$extra.lock")
    if [ ! -f "requirements-$extra.lock" ]; then # with PyTorch, which is another on each index
        sed -n 's/^\([a-z][^ ]*==[^ ]*\).*/\1/p' requirements.lock >"$venv/constraints.txt"
        packages=(--constraint "$venv/constraints.txt" --no-build-isolation
            ${TORCH:+"$TORCH"} --editable ".[$extra]")
    fi
    run "$venv/bin/python" -m pip install "${packages[@]}"
    exit
fi
python=$(find_python)
echo "installing the locked packages into $venv ($("$python" --version))"
# An environment that is merely out of date is brought up to date in place.
[ -x "$venv/bin/pip" ] && [ -z "${PYTHON:-}" ] || "$python" -m venv --clear "$venv"
run "$venv/bin/python" -m pip install --require-hashes -r requirements.lock
run "$venv/bin/python" -m pip install --no-build-isolation --no-deps -e .

# cocotb embeds Python in the simulator and so needs it as a shared library.
[ -n "$("$venv/bin/python" -m find_libpython)" ] ||
    die "the shared library of $("$python" --version) not found" \
        "(Debian, Ubuntu: apt install libpython3-dev; pyenv: build with --enable-shared)"
