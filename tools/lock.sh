#!/usr/bin/env bash
# Resolves all extras but `real` into requirements.lock, valid for every supported Python.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/common.sh

isolate_pip
python=$(find_python)
"$python" -m venv --clear build/lock
build/lock/bin/python -m pip install -q uv==0.13.9
build/lock/bin/uv pip compile pyproject.toml --extra test --extra lint --upgrade \
    --universal --python-version 3.11 --fork-strategy fewest --generate-hashes \
    --no-emit-index-url --no-emit-find-links --no-emit-package mxdot --no-annotate \
    --custom-compile-command 'make lock' --quiet --output-file build/requirements.lock
mv build/requirements.lock requirements.lock
