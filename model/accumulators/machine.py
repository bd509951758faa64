"""What all machines have, whatever their rule: a row of data."""

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

from ..formats import FLOAT32, ElementFormat
from ..formats.pairs import format_pairs
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

    terms: a power of two up to 128. nan: the bits of a NaN result. operands: formats, or pairs of
    them, that its instructions take, none where any are; the rule is defined for others too. mixed:
    whether they take each format with each. source: where the facts
    are from; status: how well they are known, one of `STATUSES`. note: what else there is to say,
    such as where sources disagree.
    """

    name: str
    terms: int
    nan: int
    operands: tuple[str, ...] = ()
    mixed: bool = False
    source: str
    status: str = MODELLED
    note: str = ""
    syntax = "preset"

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
        """The formats of a and b that its instructions take."""
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
        """The machine's step."""
        return self.terms

    @property
    def least_lanes(self) -> int:
        """Those of a step, of fewer elements than other units have."""
        return min(self.terms, super().least_lanes)

    @property
    def own_unit(self) -> dict[str, Any]:
        """Options of `DotConfig` for a unit with the machine's own step: one a beat."""
        return {"lanes": self.terms}

    def wider(self, bits: int) -> list[Accumulator]:
        """A machine is as wide as it is."""
        return []

    def __str__(self) -> str:
        return self.name
