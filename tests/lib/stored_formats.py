"""Formats that the package has not, for tests of files."""

from dataclasses import replace
from typing import Any

from mxdot.model.formats import FloatFormat, PowerFormat, Specials
from mxdot.model.schemes import Level, Scheme, block

NARROW = PowerFormat("e8m0", 8, -120, 120, bias=120, nan_code=255)
E3M3 = FloatFormat("e3m3", 3, 3)
OTHER_E4M3 = FloatFormat("e4m3", 3, 4, Specials.IEEE)


def own_scheme(element: Any = E3M3, scale: Any = None) -> Scheme:
    """A scheme of one level, of formats of the caller's."""
    scale = scale or replace(NARROW, name="e8m0_narrow")
    return Scheme("own", (element,), (Level(block(32), scale, "floor"),), "this test")
