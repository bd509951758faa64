"""Sections of `exact` and `int32`: those of a block, and the loop of float_loop.py."""

from . import float_loop
from .block import BLOCK
from .factor import BlockFactor

SECTIONS = {**BLOCK, "factor": BlockFactor, **float_loop.SECTIONS}
