"""A small unit of each kind, which is mutated, covered and mapped, with the depth of its bench."""

from dataclasses import dataclass
from typing import Any

from ..model import DotConfig, DotQuantizeConfig, QuantizeConfig
from ..model.units import MatmulConfig, UnitConfig

FEW, MANY, TRAFFIC = 2_000, 30_000, 2_000


@dataclass(frozen=True)
class Unit:
    """A unit and the length of its bench.

    few, many: items of the two runs in bulk mode. traffic: items of the run cycle by cycle.
    `mxdot sim` of a single unit runs `many` and `traffic`.
    """

    name: str
    config: UnitConfig
    few: int = FEW
    many: int = MANY
    traffic: int = TRAFFIC

    @property
    def parts(self) -> list[Any]:
        """All of it as plain JSON values, for keys of results."""
        config = [self.config.kind, self.config.arguments]
        return [self.name, config, self.few, self.many, self.traffic]


_QUANTIZED = DotConfig("e2m1", 4, "aligned:13", 3)

UNITS = (
    Unit("dot-aligned", DotConfig("e4m3", 4, "aligned:13", 3)),
    Unit("dot-exact", DotConfig("e3m2", 4, "exact", 4)),
    Unit("dot-fused", DotConfig("e4m3,e5m2", 4, "fused:25", 3, out="bfloat16")),
    Unit("dot-hopper", DotConfig("e2m3", 4, "hopper", 4, interleave=2)),
    Unit("integer", DotConfig("int8", 4, "int32", 3, out="int8_full:shift", zero_points="a")),
    Unit("code-book", DotConfig("e2m1,e2m1xint4,int4xe2m1,int4", 4, "aligned:13", 3)),
    Unit("micro", DotConfig("int5,int3", 4, "aligned:13", 3, micro=True)),
    Unit("quantize", QuantizeConfig("e4m3", 4, "bfloat16", "floor,even", stages=3)),
    Unit("quantize-scale", QuantizeConfig("e2m1", 16, scales="e4m3", stages=4)),
    Unit(
        "quantize-choice", QuantizeConfig("e2m1,int4_symmetric", 4, "bfloat16", select=4, stages=4)
    ),
    Unit("dot-quantize", DotQuantizeConfig(_QUANTIZED, "e2m1", 4)),
    Unit("matmul", MatmulConfig(DotConfig("e2m1", 4, "exact", 2), 2, 1, depth=4)),
)
"""Units of every kind; dot units of four accumulators, of integers, and of the modes by which
blocks choose from a code book."""
