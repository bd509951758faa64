"""mxdot.hw: the dot unit in Amaranth, from a `DotConfig` to Verilog."""

from ..model.config import DotConfig
from .unit import DotUnit, stage_layouts
from .verilog import generate

__all__ = ["DotConfig", "DotUnit", "generate", "stage_layouts"]
