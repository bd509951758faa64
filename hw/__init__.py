"""mxdot.hw: the units in Amaranth, from a configuration to Verilog."""

from ..model.config import DotConfig
from ..model.matmul_config import MatmulConfig
from ..model.quantize_config import QuantizeConfig
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
