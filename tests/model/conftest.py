"""The backend of the tests that the model shares with PyTorch."""

import pytest

from scheme_oracle import NumPyBackend


@pytest.fixture(scope="session")
def backend():
    return NumPyBackend()
