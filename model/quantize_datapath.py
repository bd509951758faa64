"""The sections of a quantiser's datapath; `datapath.py` has those of dot units."""

from typing import TYPE_CHECKING

from .formats import E4M3
from .pipeline import Section

if TYPE_CHECKING:
    from .units.quantize import QuantizeConfig

SCALE_DIGITS = E4M3.significand_bits + 1
"""Digits of the quotient that an E4M3 scale is rounded from."""


def quantize_sections(config: "QuantizeConfig") -> tuple[Section, ...]:
    """The datapath: `lanes` values a beat. Delays are rough gate levels of a quantiser alone."""
    levels = (config.lanes - 1).bit_length()
    scale = [Section("scale", 14)]
    if config.divides:
        scale = [
            Section("divisor", 28),
            *(Section("ratio", 16, i + 1) for i in range(SCALE_DIGITS)),
            Section("product", 40),
            Section("divide", 32, 1),
            *(Section("divide", 16, i) for i in range(2, config.quotient_digits + 1)),
        ]
    chooses = []
    if config.select is not None:
        chooses = [
            Section("error", 20),
            Section("square", 20),
            *(Section("sum", 14, i + 1) for i in range(levels)),
            Section("choose", 14),
        ]
    return (
        Section("classify", 5),
        *(Section("largest", 12, i + 1) for i in range(levels)),
        *([Section("collect", 14, holds=True)] if config.beats > 1 else []),
        *scale,
        Section("align", 26),
        Section("encode", 20),
        *chooses,
    )
