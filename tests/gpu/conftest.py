"""Tests of PyTorch's path run where what they need is there (tests/lib/torch_runs.py)."""

from torch_runs import (  # noqa: F401
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_terminal_summary,
)
