"""A run tells which tests it left out for want of what: here one that sees no GPU and no Triton."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1]
HIDE_TRITON = """
import importlib.util, sys
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "triton" else find_spec(name, *more)
sys.modules["triton"] = None
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("file", "test", "line"),
    [
        ("nn/test_parallel.py", "nccl", "not run: 3 tests, fewer than two GPUs"),
        ("gpu/test_tensor.py", "test_to_the_gpu_and_back", "not run: 1 test, no CUDA device"),
        ("gpu/test_executors.py", "to_a_kernel", "not run: 1 test, Triton is not installed"),
    ],
)
def test_what_was_not_run_is_told(file, test, line):
    command = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-o"]
    command += ["addopts=--import-mode=importlib --strict-markers --benchmark-disable"]
    done = subprocess.run(
        [sys.executable, "-c", HIDE_TRITON, *command, str(FOLDER / file), "-k", test],
        env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert [each for each in done.stdout.splitlines() if each.startswith("not run")] == [line]
