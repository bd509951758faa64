"""Kinds of units: a configuration per kind describes one unit of it.

    options.py       the description of an option
    base.py          what all configurations have
    dot.py           a dot unit
    quantize.py      a quantiser
    dot_quantize.py  a dot unit whose results leave as MX blocks
    matmul/          a matrix unit: its configuration, streams as bytes, register map

To add an option, add a field to a configuration. To add a kind: its configuration here and a row in
`KINDS`; its top module in a folder of hw/ and a row in `TOPS` (hw/verilog/); its bench in a folder
of sim/ and a row in sim/kinds.py, and units of it in sim/engine/regression_units.py. Both folders
are named in pyproject.toml.
"""

from .base import UnitConfig
from .dot import DotConfig
from .dot_quantize import DotQuantizeConfig
from .matmul.config import MatmulConfig
from .options import Option
from .quantize import QuantizeConfig

KINDS: dict[str, type[UnitConfig]] = {
    config.kind: config for config in (DotConfig, QuantizeConfig, DotQuantizeConfig, MatmulConfig)
}
"""The configurations by the names of their kinds."""

__all__ = [
    "KINDS",
    "DotConfig",
    "DotQuantizeConfig",
    "MatmulConfig",
    "Option",
    "QuantizeConfig",
    "UnitConfig",
]
