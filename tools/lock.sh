#!/usr/bin/env bash
# Resolves all extras together, so that they fit beside each other, into requirements.lock,
# requirements-compare.lock and requirements-docs.lock, valid for every supported Python. `real` is
# left out: it brings PyTorch.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/common.sh

resolve() { # resolve OUTPUT OPTION...
    build/lock/bin/uv pip compile pyproject.toml "${@:2}" \
        --universal --python-version 3.11 --fork-strategy fewest --generate-hashes \
        --no-emit-index-url --no-emit-find-links --no-emit-package mxdot --no-annotate \
        --custom-compile-command 'make lock' --quiet --output-file "$1"
}

isolate_pip
python=$(find_python)
"$python" -m venv --clear build/lock
build/lock/bin/python -m pip install -q uv==0.13.9
resolve build/all.lock --upgrade --extra test --extra lint --extra compare --extra slurm --extra docs
rm -f build/requirements*.lock
resolve build/requirements.lock --constraint build/all.lock --extra test --extra lint
resolve build/requirements-compare.lock --constraint build/all.lock --extra compare --extra slurm
resolve build/requirements-docs.lock --constraint build/all.lock --extra docs
mv build/requirements.lock build/requirements-compare.lock build/requirements-docs.lock .
