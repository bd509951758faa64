"""A block-scaling scheme as data: elements, scale levels, zero point."""

from dataclasses import dataclass
from math import prod
from types import UnionType

import numpy as np

from ..blocks import LARGEST_BLOCK
from ..errors import flag, integer
from ..formats import (
    E8M0,
    FLOAT64,
    LONGEST_CODE,
    ElementFormat,
    FloatFormat,
    IntegerFormat,
    PowerFormat,
    ScaleFormat,
    TableFormat,
    element_format,
    is_scale_format,
)
from .grouping import Granularity
from .rules import RULES, SCALE_RULES, ScaleRule, rule_named

__all__ = ["ERROR_DIGITS", "EXACT_BITS", "SCALE_RULES", "Level", "Scheme", "is_region", "is_shift"]

EXACT_BITS = FLOAT64.significand_bits  # a product of scales and an element is one exact float64
ERROR_DIGITS = 2, 16
"""Fewest and most digits of an error, so that sums of `LARGEST_BLOCK` squares are exact float64."""


@dataclass(frozen=True)
class Level:
    """Scales of one format, one per group.

    rule: ``amax`` for floats, integers and tables: the largest magnitude meets the largest value
    that elements and inner scales can make. ``floor``, ``ceil`` or ``even`` (section 2 of
    docs/numerics.md) for powers of two. Or the name of another registered rule.
    """

    granularity: Granularity
    format: ScaleFormat
    rule: str = "amax"

    def __post_init__(self) -> None:
        if not isinstance(self.granularity, Granularity):
            raise TypeError(f"granularity must be a Granularity, not {self.granularity!r}")
        if not is_scale_format(self.format):
            raise TypeError(f"format must be a format of scales, not {self.format!r}")
        rule_named(f"rule of {self.format} scales", self.rule, isinstance(self.format, PowerFormat))

    def __str__(self) -> str:
        rule = "" if self.rule == "amax" else f", {self.rule}"
        return f"{self.format} per {self.granularity}{rule}"


def is_shift(level: Level, index: int) -> bool:
    """Whether a level shifts elements: powers of two of one bit, not outermost."""
    return index > 0 and isinstance(level.format, PowerFormat) and level.format.bits == 1


def is_region(level: Level, index: int) -> bool:
    """Whether a level's scales multiply finished sums: floats of the outermost level."""
    return index == 0 and isinstance(level.format, FloatFormat)


@dataclass(frozen=True)
class Scheme:
    """A way to represent real numbers: x = s_0 x s_1 x ... x (q - z).

    elements: format of q; several formats are a code book, from which each group takes the format
    with the least squared error. levels: scales s_i, the outermost first; each group lies in a
    group of the level before. zero_point: each group has an integer z in the range of q.
    error_digits: of a code book, the binary digits below a group's largest magnitude to which a
    unit measures errors; None for errors in float64. source: definition of the scheme.
    Raises TypeError or ValueError for a combination without a meaning.
    """

    name: str
    elements: tuple[ElementFormat, ...]
    levels: tuple[Level, ...]
    source: str
    zero_point: bool = False
    error_digits: int | None = None

    def __post_init__(self) -> None:
        if not _is_tuple_of(self.elements, ElementFormat):
            raise TypeError(
                f"elements of {self.name} must be a tuple of element formats, not {self.elements!r}"
            )
        if not _is_tuple_of(self.levels, Level):
            raise TypeError(
                f"levels of {self.name} must be a tuple of one Level or more, not {self.levels!r}"
            )
        for element in self.elements:
            integer(f"bits of element {element} of {self.name}", element.bits, 1, LONGEST_CODE)
            if isinstance(element, FloatFormat):
                element_format(element, f"element of {self.name}")
            if isinstance(element, TableFormat) and not element.is_mx:
                raise ValueError(f"values of element {element} of {self.name} must hold a zero")
        flag("zero_point", self.zero_point)
        self._check_levels()
        self._check_zero_point()
        self._check_code_book()
        self._check_errors()

    def _check_levels(self) -> None:
        for outer, inner in zip(self.levels, self.levels[1:], strict=False):
            if not outer.granularity.holds(inner.granularity):
                raise ValueError(
                    f"levels of {self.name} must nest: no {outer.granularity} is made of whole "
                    f"groups of {inner.granularity}"
                )
        several = [level for level in self.levels if RULES[level.rule].candidates > 1]
        if several and (several != [self.levels[-1]] or len(self.elements) > 1):
            raise ValueError(
                f"rule {several[0].rule} of {self.name} must be that of the innermost scales of "
                "one element format: it leaves a choice"
            )
        bits = sum(level.format.significand_bits for level in self.levels) + max(
            element.significand_bits + self.zero_point for element in self.elements
        )
        if bits > EXACT_BITS:
            raise ValueError(
                f"significands of {self.name} must have at most {EXACT_BITS} bits together, "
                f"not {bits}"
            )

    def _check_zero_point(self) -> None:
        if not self.zero_point:
            if any(isinstance(e, IntegerFormat) and e.lowest >= 0 for e in self.elements):
                raise ValueError(f"unsigned elements of {self.name} must have a zero point")
            return
        for element in self.elements:
            whole = isinstance(element, IntegerFormat) and not (
                element.fraction_bits or element.sign_magnitude
            )
            if not whole:
                raise ValueError(
                    f"zero_point must be False for elements {element}: only two's-complement and "
                    "unsigned integers have one"
                )
        if len(self.levels) > 1 or any(isinstance(lev.format, PowerFormat) for lev in self.levels):
            raise ValueError(
                f"zero_point must be False for {self.name}: only one level of scales chosen by "
                f"amax has one, not {', '.join(str(level) for level in self.levels)}"
            )

    def _check_code_book(self) -> None:
        if len(self.elements) == 1:
            return
        if len(self.levels) > 1 or self.zero_point:
            raise ValueError(
                f"elements of {self.name} must be one format: a code book has one level of scales "
                "and no zero point"
            )
        if len({element.bits for element in self.elements}) > 1:
            widths = ", ".join(f"{element} has {element.bits}" for element in self.elements)
            raise ValueError(f"elements of {self.name} must have equally many bits: {widths}")

    def _check_errors(self) -> None:
        if self.error_digits is None:
            return
        name = f"error_digits of {self.name}"
        integer(name, self.error_digits, *ERROR_DIGITS)
        if len(self.elements) == 1:
            raise ValueError(
                f"{name} must be None, not {self.error_digits}: one format, {self.elements[0]}, "
                "leaves no choice"
            )
        (level,) = self.levels
        group = level.granularity
        size = (group.rows or 2 * LARGEST_BLOCK) * (group.columns or 2 * LARGEST_BLOCK)
        if level.format != E8M0 or size > LARGEST_BLOCK:
            raise ValueError(
                f"{name} must be None, not {self.error_digits}: only e8m0 scales of groups of at "
                f"most {LARGEST_BLOCK} elements have such errors, not {level}"
            )

    def __str__(self) -> str:
        return self.name

    @property
    def code_dtype(self) -> np.dtype:
        """Type of an array of codes."""
        return self.elements[0].dtype

    @property
    def selector_bits(self) -> int:
        """Bits of an index into the code book; 0 for one format."""
        return (len(self.elements) - 1).bit_length()

    @property
    def poisoned_level(self) -> int | None:
        """Innermost level whose scales can be NaN; a NaN poisons one of its groups. None without
        one."""
        known = [i for i, level in enumerate(self.levels) if level.format.nan_code is not None]
        return known[-1] if known else None

    @property
    def has_nan(self) -> bool:
        """Whether a group can be NaN, by its scale or else by each of its elements."""
        elements = all(element.nan_code is not None for element in self.elements)
        return self.poisoned_level is not None or elements

    @property
    def choosing_rule(self) -> ScaleRule | None:
        """Rule of the innermost scales that has several candidates; None without one."""
        rule = RULES[self.levels[-1].rule]
        return rule if rule.candidates > 1 else None

    def room(self, level: int, element: ElementFormat) -> float:
        """Largest value that `element` and the scales inside `level` can make."""
        return element.largest_finite * self.inner_room(level)

    def inner_room(self, level: int) -> float:
        """Largest value that the scales inside `level` can make; 1 for the innermost."""
        return prod(scale.format.largest_finite for scale in self.levels[level + 1 :])


def _is_tuple_of(value: object, kind: type | UnionType) -> bool:
    """Whether `value` is a tuple of one or more objects of `kind`."""
    return isinstance(value, tuple) and bool(value) and all(isinstance(v, kind) for v in value)
