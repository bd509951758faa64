"""Tests of PyTorch's path run where what they need is there (tests/lib/torch_runs.py)."""

import pytest

from devices import CUDA
from scheme_checks import TorchBackend
from torch_runs import pytest_collection_modifyitems, pytest_configure, pytest_terminal_summary  # noqa: F401


@pytest.fixture(scope="session", params=["cpu", CUDA])
def backend(request):
    """Where the tests of scheme_suite run."""
    return TorchBackend(request.param)
