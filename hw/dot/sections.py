"""The sections of every accumulator, by the names that `DotConfig.pipeline` gives them."""

from collections.abc import Callable, Mapping
from inspect import signature
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
from ...model.errors import nearest
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

KNOWN = {kind for family in (SHARED, integer.SECTIONS, *FAMILIES.values()) for kind in family}
"""Names of the package's sections."""


def family_of(config: DotConfig) -> Mapping[str, Callable[..., Section]]:
    """Sections that the unit's accumulator may have, by kind; ValueError for an unknown class."""
    if isinstance(config.out, IntegerOutput):
        return integer.SECTIONS
    return {**SHARED, **by_kind(FAMILIES, config.accumulator, TABLE)}


def check(widths: Widths) -> None:
    """ValueError where FAMILIES does not fit the unit's sections."""
    config = widths.config
    family, parts, rule = family_of(config), config.pipeline.sections, config.accumulator
    for part in parts:
        if part.kind not in family:
            raise ValueError(f"section {part.kind} of {rule} must have its hardware in {TABLE}")
        if part.number is not None and not _takes(family[part.kind], widths, part.number):
            raise ValueError(
                f"section {part.kind} of {rule} is cut into parts, and its hardware in {TABLE} is "
                "one part: it must take (widths, number), or sections() must give it cuts=()"
            )
    kinds = KNOWN | {part.kind for part in parts}
    for name in family:
        near = nearest(name, KNOWN)
        if name not in kinds and near:
            raise ValueError(f"{TABLE} has {name!r} for {rule}, no section of it{near}")


def _takes(maker: Callable[..., Section], *arguments: object) -> bool:
    try:
        signature(maker).bind(*arguments)
    except TypeError:
        return False
    return True


def build(widths: Widths) -> list[Section]:
    """Sections of a unit, in the order of `DotConfig.pipeline.sections`."""
    check(widths)
    config = widths.config
    family = family_of(config)
    return [_section(family, part.kind, part.number, widths) for part in config.pipeline.sections]


def _section(
    family: Mapping[str, Callable[..., Section]], kind: str, number: int | None, widths: Widths
) -> Section:
    arguments: tuple[Any, ...] = () if number is None else (number,)
    return family[kind](widths, *arguments)
