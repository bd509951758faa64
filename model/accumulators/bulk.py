"""`rvbna:N`: RISC-V's bulk normalisation, dot products of N terms rounded to odd.

Source: RISC-V Instruction Set Manual, volume I, "RISC-V Bulk Normalization Algorithm".
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .. import rounding
from ..arrays import Array
from ..errors import integer
from ..formats import FLOAT32
from ..pipeline.placement import Section
from ..pipeline.sections import largest_sections, product_bits, tree_sections
from ..pipeline.widths import Widths
from ..rounding import F32
from ..steps import Step, Steps
from ..trace import Recorder
from ..wide import WideSum
from .aligned import aligned_sum
from .base import MAX_FRACTION_BITS, Accumulator, add_blocks

LEAST_TERMS, MOST_TERMS = 2, 1024


@dataclass(frozen=True)
class BulkNormalized(Accumulator):
    """Terms rounded to odd below the largest product; their sum, and c plus it, rounded to odd.

    terms: N, products per step, a power of two from 2 to 1024. guard: G, guard bits of the
    alignment, from 0 to 41; None for log2 N, as the manual has it.
    """

    terms: int
    guard: int | None = None

    syntax = "rvbna:N[:G]"
    examples = ("rvbna:32", "rvbna:32:0")
    summary = "terms, their sum, and c plus it rounded to odd; RISC-V's bulk normalisation"
    takes_significands = True

    def __post_init__(self) -> None:
        self._check("terms", "N of rvbna", LEAST_TERMS, MOST_TERMS)
        if self.terms & (self.terms - 1):
            raise ValueError(f"N of rvbna must be a power of two, not {self.terms}")
        if self.guard is None:
            vars(self)["guard"] = self.least_guard
        most = MAX_FRACTION_BITS - FLOAT32.mantissa_bits
        vars(self)["guard"] = integer("G of rvbna", self.guard, 0, most)

    @property
    def least_guard(self) -> int:
        """Guard bits that the manual demands: log2 N."""
        return self.terms.bit_length() - 1

    @property
    def alignment_bits(self) -> int:
        """Fraction bits that terms keep: those of a float32, and the guard bits."""
        assert self.guard is not None
        return FLOAT32.mantissa_bits + self.guard

    @property
    def step_limit(self) -> int:
        return self.terms

    @property
    def least_lanes(self) -> int:
        """Lanes of a step that is shorter than the least lanes of other units."""
        return min(self.terms, super().least_lanes)

    def wider(self, bits: int) -> list[Accumulator]:
        """The rule with `bits` more guard bits."""
        assert self.guard is not None
        return [replace(self, guard=self.guard + bits)]

    def rounded(self, total: Array) -> F32:
        """float64 `total` rounded to odd, as float32."""
        return rounding.odd(total)

    def run(self, steps: Steps, c: F32, record: Recorder) -> F32:
        """Round each step's aligned sum to odd, and add it to c, rounded to odd again."""

        def step_sum(step: Step, active: NDArray[np.bool_]) -> WideSum:
            cuts = rounding.odd_integers, rounding.odd
            return aligned_sum(step, active, self.alignment_bits, *cuts, record)

        return add_blocks(self, step_sum, steps, c, record)

    def sections(self, widths: Widths) -> tuple[Section, ...]:
        """Alignment, sum, its rounding to a float32, and a float32 addition."""
        lanes = widths.config.lanes
        bits = FLOAT32.significand_bits + widths.factor_bits + 13
        factor = [Section("factor", 980, bits=bits)] if widths.factor_bits else []
        return (
            *largest_sections(widths),
            Section("offset", 150, bits=lanes * (product_bits(widths) + widths.exponent_bits)),
            Section("align", 200, bits=lanes * (widths.term_bits + 1)),
            *tree_sections(widths),
            Section("pack", 560, bits=FLOAT32.significand_bits + 13),
            *factor,
            Section("accumulate", 1360, holds=True, loop=True),
        )

    def __str__(self) -> str:
        text = f"{self.keyword}:{self.terms}"
        return text if self.guard == self.least_guard else f"{text}:{self.guard}"
