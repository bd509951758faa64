"""Facts that every machine has, and the warning about operands that a machine does not take."""

import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product, takewhile
from typing import Any, ClassVar

from ..formats import FLOAT32, ElementFormat
from ..formats.table import format_pairs
from .base import Accumulator

MEASURED = "measured"
CHECKED = "checked against published results"
MODELLED = "from a public model"
FP8 = ("e4m3", "e5m2", "e4m3xe5m2", "e5m2xe4m3")
MX = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")
STATUSES = (MEASURED, CHECKED, MODELLED)


@dataclass(frozen=True, kw_only=True)
class Machine(Accumulator):
    """A real machine, by name, which takes blocks in steps of up to `terms` elements.

    terms: a power of two up to 128. nan: bits of a NaN result. operands: formats, or pairs of
    formats, that its instructions take; empty for any. The rule is defined for other formats too.
    mixed: its instructions take each format with each. block_scales: its instructions, or a sum per
    block in the loop around them, take a scale per block. source: origin of the facts. status: how
    well the facts are known, one of `STATUSES`. note: further remarks, for example a disagreement
    of sources.
    """

    name: str
    terms: int
    nan: int
    operands: tuple[str, ...] = ()
    mixed: bool = False
    block_scales: bool = False
    source: str
    status: str = MODELLED
    note: str = ""
    syntax = "preset"
    has_unit: ClassVar[bool] = True
    """Whether a dot unit in RTL has the rule."""

    def __post_init__(self) -> None:
        self._check("terms", f"terms of {self.name}", 1, 128)
        self._check("nan", f"nan of {self.name}", FLOAT32.largest_code + 2, 2**31 - 1)
        if self.status not in STATUSES:
            raise ValueError(
                f"status of {self.name} must be one of {', '.join(STATUSES)}, not {self.status!r}"
            )
        self._check_power("terms")

    def _check_power(self, field: str) -> None:
        value = getattr(self, field)
        if value & (value - 1):
            raise ValueError(f"{field} of {self.name} must be a power of two, not {value}")

    @cached_property
    def pairs(self) -> frozenset[tuple[ElementFormat, ElementFormat]]:
        """Pairs of formats of a and b that its instructions take."""
        pairs = [pair for text in self.operands for pair in format_pairs(text)]
        return frozenset(product(*zip(*pairs, strict=True)) if self.mixed else pairs)

    @property
    def operands_text(self) -> str:
        """The operands in one line, for tables and messages."""
        return ", ".join(self.operands) + (", each with each" if self.mixed else "")

    @property
    def nan_bits(self) -> int:
        """The float32 bit pattern of every NaN result."""
        return self.nan

    @property
    def step_limit(self) -> int:
        return self.terms

    @property
    def least_lanes(self) -> int:
        """Lanes of a step that is shorter than the least lanes of other units."""
        return min(self.terms, super().least_lanes)

    @property
    def own_unit(self) -> dict[str, Any]:
        """Options of `DotConfig` for a unit that takes one of the machine's steps per beat."""
        return {"lanes": self.terms}

    def wider(self, bits: int) -> list[Accumulator]:
        """Empty: the width of a machine is fixed."""
        return []

    def __str__(self) -> str:
        return self.name


_ON_PURPOSE = ContextVar("on_purpose", default=False)
_BELOW = ("mxdot", "torch")
"""Packages whose frames are not the caller's."""


class OperandsWarning(UserWarning):
    """Warning that a machine's instructions do not take these operands."""


@contextmanager
def any_operands() -> Iterator[None]:
    """Context without OperandsWarning, where a machine meets other formats on purpose."""
    token = _ON_PURPOSE.set(True)
    try:
        yield
    finally:
        _ON_PURPOSE.reset(token)


def warn_of_operands(
    rule: Accumulator, pairs: Iterable[tuple[ElementFormat, ElementFormat]]
) -> None:
    """Warn once for each machine and pair of formats that its instructions do not take."""
    if isinstance(rule, Machine) and not _ON_PURPOSE.get():
        for a, b in pairs:
            if is_foreign(rule, a, b):
                _warn(rule, f"{a} x {b}")


def is_foreign(rule: Accumulator, a: ElementFormat, b: ElementFormat) -> bool:
    """Whether `rule` is a machine whose instructions do not take these formats."""
    return isinstance(rule, Machine) and bool(rule.operands) and (a, b) not in rule.pairs


@cache
def _warn(rule: Machine, pair: str) -> None:
    warnings.warn(
        f"accumulator {rule} is a machine that multiplies {rule.operands_text}, not {pair}: "
        "results are those of its rule, of no machine",
        OperandsWarning,
        stacklevel=2 + sum(1 for _ in takewhile(_is_below, _frames())),
    )


def _frames() -> Iterator[str]:
    """Modules of the frames that called `_warn`, the innermost first."""
    frame = sys._getframe(3)
    while frame is not None:
        yield frame.f_globals.get("__name__", "")
        frame = frame.f_back


def _is_below(module: str) -> bool:
    return module.split(".")[0] in _BELOW
