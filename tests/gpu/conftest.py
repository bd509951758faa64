"""CUDA tests run where a CUDA device is; a run without one says what it did not run."""

from collections import Counter

import pytest
import torch

WITHOUT_CUDA = "no CUDA device"


def pytest_collection_modifyitems(items):
    if torch.cuda.is_available():
        return
    for item in items:
        if item.get_closest_marker("cuda"):
            item.add_marker(pytest.mark.skip(reason=WITHOUT_CUDA))


def pytest_terminal_summary(terminalreporter):
    skipped = terminalreporter.stats.get("skipped", [])
    for reason, count in Counter(report.longrepr[2] for report in skipped).items():
        terminalreporter.write_line(f"not run: {count} tests, {reason.removeprefix('Skipped: ')}")
