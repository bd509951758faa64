"""The smoke matrix: small units of every accumulator, preset and kind, for a second simulator."""

from pathlib import Path

from ...model import DotConfig, DotQuantizeConfig, MatmulConfig, QuantizeConfig, accumulator
from ...model.pipeline.placement import stage_limits
from ..kinds import kind_of
from .job import UnitJob
from .regression_units import ACCUMULATORS, EVERY_ELEMENT, Unit, default_matrix

BULK = 20_000
LANES = 8


def smoke_matrix() -> list[Unit]:
    """Minutes on two cores: every accumulator and preset, then inputs and outputs that few have."""
    return [*map(_of_accumulator, ACCUMULATORS), *_others(), *_quantizers()]


def stream_matrix() -> list[Unit]:
    """The smoke matrix, and the units of the default one with one stream in and one out."""
    units = [*smoke_matrix(), *default_matrix()]
    chosen = [unit for unit in units if not isinstance(unit.config, MatmulConfig)]
    return list({unit.name: unit for unit in chosen}.values())


def restarts(unit: Unit) -> bool:
    """Whether the unit's records may be dealt to many runs, each after a reset."""
    kind = kind_of(unit.config).stream
    return kind is not None and kind(UnitJob(unit.name, unit.config, 0, Path())).layout().restarts


def _of_accumulator(rule: str) -> Unit:
    formats = "int8" if accumulator(rule).takes_integers else "e4m3,e2m1"
    low, high = stage_limits(DotConfig(formats, LANES, rule).pipeline.sections)
    return Unit(DotConfig(formats, LANES, rule, (low + high) // 2), BULK)


def _others() -> list[Unit]:
    """Side inputs, scales, micro-exponents, products in flight, no flags."""
    dot = DotConfig("e4m3", 4, "aligned:13", 3)
    configs = [
        DotConfig("int8xint4", 8, "int32", 4, "uint8:multiply", scales="u4", zero_points="ab"),
        DotConfig("int8", 4, "int32", 5, "float16:scale", zero_points="a"),
        DotConfig("int8", 4, "int32", 3, "int8_full:shift"),
        DotConfig("int5,int3", 8, "aligned:13", 4, micro=True),
        DotConfig("e2m1", 16, "blackwell", 5, scales="e4m3", scale_block=4),
        DotConfig("e4m3", 8, "aligned:13", 9, interleave=4),
        DotConfig("bf16", 4, "fused:25:bfloat16", 3, "bfloat16"),
        DotConfig("e3m2", 8, "aligned:13", 2, status=False, load_c=False),
        DotQuantizeConfig(dot, "e4m3", 8),
    ]
    return [Unit(config, BULK) for config in configs]


def _quantizers() -> list[Unit]:
    configs = [
        QuantizeConfig(EVERY_ELEMENT, 4, "bfloat16", "floor,ceil,even", nonfinite="element"),
        QuantizeConfig("e2m1,int8", 8, scale_rule="even", rounding="stochastic", beats=4),
        QuantizeConfig("e5m2", 4, "float16", rounding="stochastic", random="lfsr", stages=1),
        QuantizeConfig("e2m1", 16, scales="e4m3", stages=10),
        QuantizeConfig("sm8,int3", 8, micro=True, beats=2),
        QuantizeConfig("e2m1,int4_symmetric", 4, "bfloat16", select=4),
    ]
    return [Unit(config, BULK) for config in configs]
