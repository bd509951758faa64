"""Both implementations of a dot product, and the backend of tests that PyTorch shares."""

import pytest

import rational.dot
from compare import model_dot
from scheme_oracle import NumPyBackend


@pytest.fixture(scope="session")
def backend():
    return NumPyBackend()


@pytest.fixture(params=["oracle", "model"])
def dot(request):
    """(formats, blocks, accumulator, c) to a `Result`, for facts that hold of both."""
    return {"oracle": rational.dot.dot, "model": model_dot}[request.param]
