#!/usr/bin/env bash
# Runs the tests that need a CUDA device with the PyTorch, Triton and pytest that the machine has, and
# the packages that tests need (array-api-compat, gfloat, hypothesis, pytest-xdist, vl-convert-python):
#   python3 -m pip install --no-build-isolation --no-deps . && tools/test_cuda.sh [PYTEST ARGUMENTS]
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
"$python" -c 'import sys, torch; sys.exit(None if torch.cuda.is_available() else "no CUDA device")'
export TORCHINDUCTOR_COMPILE_THREADS=1 # no pool of compilers in every worker
exec "$python" -m pytest -q -n auto --maxprocesses 16 --dist worksteal \
    tests/gpu tests/nn -k 'cuda or kernels' "$@"
