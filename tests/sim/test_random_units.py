"""Units drawn at random have every format with every number of lanes that a unit can have."""

from itertools import product
from typing import Any

import pytest

import random_units
from mxdot.model.formats import FORMATS
from mxdot.model.units import DotConfig, DotQuantizeConfig, MatmulConfig
from mxdot.model.units.base import LANES
from mxdot.model.units.quantize_formats import SCHEME_INTEGERS
from random_units import DOT_LANES, INTEGERS, NARROW

COUNT = 2000
DOT = [*product("ab", FORMATS, DOT_LANES)]
QUANTIZER_LANES = [2**n for n in range(max(LANES).bit_length())]
REACHED = {
    "dot": DOT,
    "integer": [*product("ab", INTEGERS, LANES)],
    "quantizer": [*product("o", [*NARROW, *SCHEME_INTEGERS], QUANTIZER_LANES)],
    "dot_quantizer": [*DOT, *product("o", NARROW, LANES)],
    "matmul": DOT,
}
"""By what draws them: operand or output, format, and lanes or, after a dot unit, the block."""


def shapes(config: Any):
    """Entries of REACHED that a unit has."""
    if isinstance(config, DotQuantizeConfig):
        yield from shapes(config.dot)
        yield from (("o", fmt.name, config.quantizer.block) for fmt in config.quantizer.formats)
    elif isinstance(config, MatmulConfig):
        yield from shapes(config.dot)
    elif isinstance(config, DotConfig):
        for a, b in config.formats:
            yield from (("a", a.name, config.lanes), ("b", b.name, config.lanes))
    else:
        yield from (("o", fmt.name, config.lanes) for fmt in config.formats)


@pytest.mark.parametrize("kind", REACHED)
def test_every_format_is_drawn_with_every_number_of_lanes(kind):
    drawn = random_units.units(getattr(random_units, kind), COUNT)
    assert {shape for config in drawn for shape in shapes(config)} == set(REACHED[kind])
