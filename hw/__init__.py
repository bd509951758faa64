"""mxdot.hw: the units in Amaranth, from a configuration to Verilog."""

from ..model.units.dot import DotConfig
from ..model.units.matmul.config import MatmulConfig
from ..model.units.quantize import QuantizeConfig
from .dot.unit import DotUnit
from .matmul import MatmulUnit
from .quantize import QuantizeUnit
from .verilog import generate

__all__ = [
    "DotConfig",
    "DotUnit",
    "MatmulConfig",
    "MatmulUnit",
    "QuantizeConfig",
    "QuantizeUnit",
    "generate",
]
