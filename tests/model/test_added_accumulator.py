"""An accumulator that is added to the model alone is refused by name elsewhere, never taken for the
class that it inherits from."""

import numpy as np
import pytest

from added_accumulator import halved as halved
from mxdot.compare.accuracy.bounds import bound, has_bound, terms_of
from mxdot.hw import generate
from mxdot.model import DotConfig, matmul, quantize

A = quantize(np.ones((2, 32), np.float32), "e4m3")


def refused(table):
    return pytest.raises(
        ValueError, match=f"^accumulator halved:13 must have its class Halved in {table}$"
    )


def test_the_model_has_its_results(halved):
    assert (matmul(A, A, halved) == 16).all()
    assert (matmul(A, A, "halved:13") == 16).all()


def test_no_unit_is_generated(halved):
    with refused("FAMILIES of hw/dot/sections.py"):
        generate(DotConfig("e4m3", lanes=4, accumulator=halved))


def test_it_has_no_bound(halved):
    assert not has_bound(halved)
    with refused("BOUNDS of compare/accuracy/bounds.py"):
        bound(halved, terms_of(A, A))
