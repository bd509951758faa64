#!/usr/bin/env bash
# Makes the environment of the GPU path's tests: tools/venv_gpu.sh DIRECTORY TORCH TRITON
#
# An environment of its own: PyTorch is large, and nothing but the GPU path needs it. TORCH and
# TRITON are requirements (torch==2.13.0); what the lock files have has their versions, without
# hashes, for the PyTorch of one index is not that of another.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/common.sh

venv=$1 torch=$2 triton=$3
log=$venv/install.log

run() {
    "$@" >>"$log" 2>&1 || {
        tail -n 30 "$log" >&2
        die "the installation failed at: ${*:1:6} ... (the whole log: $log)"
    }
}

check_path
isolate_pip
python=$(find_python)
echo "installing $torch and the test tools into $venv ($("$python" --version))"
[ -x "$venv/bin/pip" ] && [ -z "${PYTHON:-}" ] || "$python" -m venv --clear "$venv"
sed -n 's/^\([a-z][^ ]*==[^ ]*\).*/\1/p' requirements.lock \
    requirements-compare.lock | sort -u >"$venv/constraints.txt"
run "$venv/bin/python" -m pip install --constraint "$venv/constraints.txt" "$torch" setuptools \
    pytest pytest-xdist pytest-timeout pytest-benchmark hypothesis gfloat \
    mmasim==2.1.1 compressed-tensors==0.20.0 gguf==0.19.0 torchao==0.18.0
run "$venv/bin/python" -m pip install --constraint "$venv/constraints.txt" \
    --no-build-isolation --editable '.[nn]'
# PyTorch for CUDA brings the Triton it was built for; on a CPU, Triton's interpreter runs the kernels.
"$venv/bin/python" -c 'import triton' 2>>"$log" || run "$venv/bin/python" -m pip install "$triton"
