"""The sections of the datapath: what stands between two places where a register may stand."""

from ...model.accumulators import Aligned, Exact, Fixed, Float32, Fused, Int32, Preset
from ...model.outputs import FLOAT32, IntegerOutput
from ..widths import Widths
from . import aligned, exact, fixed, float32, fused, integer
from .base import Section
from .convert import Convert
from .multiply import Multiply

BUILDERS = {
    Exact: exact.build,
    Int32: exact.build,
    Aligned: aligned.build,
    Fused: fused.build,
    Preset: fused.build,
    Fixed: fixed.build,
    Float32: float32.build,
}


def build(widths: Widths) -> list[Section]:
    """The sections of a unit, one for each name of its `DotConfig.pipeline.sections`."""
    config = widths.config
    if isinstance(config.out, IntegerOutput):
        return integer.build(widths)
    sections = [Multiply(widths), *BUILDERS[type(config.accumulator)](widths)]
    if config.out != FLOAT32:
        sections.append(Convert(config.out))
    return sections
