"""The sections of every accumulator, by the names that `DotConfig.pipeline` gives them."""

from collections.abc import Callable, Mapping
from typing import Any

from ...model.accumulators import (
    Accumulator,
    Aligned,
    BFloat16,
    BulkNormalized,
    Exact,
    Fixed,
    Float16,
    Float32,
    Fused,
    Int32,
    Preset,
    by_kind,
)
from ...model.accumulators.amd import ExactMachine, FlooredMachine, TreeMachine
from ...model.accumulators.group_sums import GroupSums
from ...model.formats import FloatFormat
from ...model.outputs import IntegerOutput
from ...model.pipeline.widths import Widths
from ...model.units.dot import DotConfig
from ..pipeline import Section
from . import aligned, bulk, fixed, float_loop, float_tree, floored, fused, groups, integer
from .block import BLOCK, BlockFactor
from .convert import Convert, Narrow
from .multiply import PRODUCTS, Decode

EXACT = {**BLOCK, "factor": BlockFactor, **float_loop.SECTIONS}
FAMILIES: dict[type[Accumulator], Mapping[str, Callable[..., Section]]] = {
    Exact: EXACT,
    ExactMachine: EXACT,
    Int32: EXACT,
    Aligned: aligned.SECTIONS,
    BulkNormalized: bulk.SECTIONS,
    Fused: fused.SECTIONS,
    Preset: fused.SECTIONS,
    GroupSums: groups.SECTIONS,
    FlooredMachine: floored.SECTIONS,
    Fixed: fixed.SECTIONS,
    Float32: float_tree.SECTIONS,
    Float16: float_tree.SECTIONS,
    BFloat16: float_tree.SECTIONS,
    TreeMachine: float_tree.SECTIONS,
}
TABLE = "FAMILIES of hw/dot/sections.py"


def _convert(widths: Widths) -> Section:
    out = widths.config.out
    assert isinstance(out, FloatFormat)
    return Convert(out, widths.running, widths.config.accumulator.nan_bits)


SHARED: dict[str, Callable[..., Section]] = {
    "decode": Decode,
    "multiply": PRODUCTS,
    "narrow": Narrow,
    "convert": _convert,
}


def family_of(config: DotConfig) -> Mapping[str, Callable[..., Section]]:
    """Sections that the unit's accumulator may have, by kind; ValueError for an unknown class."""
    if isinstance(config.out, IntegerOutput):
        return integer.SECTIONS
    return {**SHARED, **by_kind(FAMILIES, config.accumulator, TABLE)}


def build(widths: Widths) -> list[Section]:
    """Sections of a unit, in the order of `DotConfig.pipeline.sections`."""
    config = widths.config
    family = family_of(config)
    return [_section(family, part.kind, part.number, widths) for part in config.pipeline.sections]


def _section(
    family: Mapping[str, Callable[..., Section]], kind: str, number: int | None, widths: Widths
) -> Section:
    arguments: tuple[Any, ...] = () if number is None else (number,)
    return family[kind](widths, *arguments)
