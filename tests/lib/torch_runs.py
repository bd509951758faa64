"""Tests run where what they need is there; a run without it says what it did not run, and why."""

import os
from collections import Counter
from importlib.util import find_spec

import pytest
import torch

# Each worker has its share of the cores: more threads than cores wait for each other.
WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
torch.set_num_threads(max(1, torch.get_num_threads() // WORKERS))
os.environ["OMP_NUM_THREADS"] = str(torch.get_num_threads())  # of programs that tests start, too

MISSING = {
    # marker: why a test that has it is not run, None where it is
    "two_gpus": "fewer than two GPUs" if torch.cuda.device_count() < 2 else None,
    "cuda": None if torch.cuda.is_available() else "no CUDA device",
    "triton": None if find_spec("triton") else "Triton is not installed",
}


def pytest_configure(config):
    for line in (
        "two_gpus: needs two CUDA devices",
        "triton: needs Triton, on a GPU or in its interpreter",
    ):
        config.addinivalue_line("markers", line)
    # Of the first product of a process, by PyTorch 2.11 on a GPU: it makes its context then.
    config.addinivalue_line("filterwarnings", "ignore:Attempting to run cuBLAS:UserWarning")


def pytest_collection_modifyitems(items):
    for item in items:
        reasons = [why for name, why in MISSING.items() if why and item.get_closest_marker(name)]
        if reasons:
            item.add_marker(pytest.mark.skip(reason=reasons[0]))


def pytest_terminal_summary(terminalreporter):
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    for reason, count in reasons.items():
        terminalreporter.write_line(f"not run: {count} test{'s' * (count > 1)}, {reason}")
