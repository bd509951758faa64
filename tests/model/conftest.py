"""Oracle and model of what is checked by hand, and the backend of tests that PyTorch shares."""

import pytest

import rational.dot
import rational.formats
from compare import model_dot
from quantize_cases import model_quantize_block
from scheme_oracle import NumPyBackend


@pytest.fixture(scope="session")
def backend():
    return NumPyBackend()


@pytest.fixture(params=["oracle", "model"])
def dot(request):
    """(formats, blocks, accumulator, c) to a `Result`, for facts that hold of both."""
    return {"oracle": rational.dot.dot, "model": model_dot}[request.param]


@pytest.fixture(params=["oracle", "model"])
def quantize_block(request):
    """(float32 bits, format, scale rule, rounding, policy, words) to (scale, codes)."""
    return {"oracle": rational.formats.quantize_block, "model": model_quantize_block}[request.param]
