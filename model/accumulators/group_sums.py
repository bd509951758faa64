"""`mxf4nvf4`: exact sums of short groups, aligned by the groups' scales."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .. import rounding
from ..formats import E2M1, E4M3, FLOAT32, ElementFormat
from ..pipeline.placement import Section
from ..pipeline.sections import compress_delay, multiplier_delay
from ..pipeline.widths import GroupWidths, Widths
from ..products import NO_EXPONENT
from ..rounding import F32
from ..specials import Update
from ..steps import Step, Steps
from ..trace import Recorder
from .base import truncate
from .fused import fused_sections
from .machine import Machine


@dataclass(frozen=True, kw_only=True)
class GroupSums(Machine):
    """Groups of `terms` elements, summed and scaled exactly, then aligned with c.

    fraction_bits: bits kept below the largest exponent among c, if it is not zero, and the scales
    of groups with a product that is not zero; sums do not count. together: elements of the groups
    in one alignment, whose result is RZ to float32. least: lower limit of the largest exponent.
    """

    fraction_bits: int
    together: int
    least: int
    is_fused = True
    sums_groups = True
    takes_significands = True
    rounds_to_nearest: ClassVar[bool] = False
    summary = "exact sums of groups, cut F bits below the scales' largest exponent; RZ result"

    @property
    def least_exponent(self) -> int:
        """Lower limit of the largest exponent."""
        return self.least

    @property
    def alignment_bits(self) -> int:
        """Fraction bits that groups keep."""
        return self.fraction_bits

    @property
    def own_unit(self) -> dict[str, Any]:
        """One alignment per beat, whose groups have E4M3 scales."""
        return {"lanes": self.together, "scales": E4M3.name, "scale_block": self.terms}

    def updates(self, lanes: int, scale_block: int) -> int:
        """Number of alignments per beat."""
        return lanes // self.together

    def check_unit(self, lanes: int, scale_block: int) -> None:
        """ValueError unless a beat holds whole alignments."""
        super().check_unit(lanes, scale_block)
        if lanes % self.together:
            raise ValueError(
                f"lanes must be a multiple of {self.together} with {self}, not {lanes}"
            )

    def term_widths(self, widths: Widths) -> GroupWidths:
        return GroupWidths(widths.config)

    def sections(self, widths: Widths) -> tuple[Section, ...]:
        """Exact sums of groups, their product with the scales, and the alignment."""
        terms = self.term_widths(widths)
        gather, factor = 570 + compress_delay(terms.group, 2), 140
        if widths.factor_bits:
            factor = multiplier_delay(terms.group_sum_bits, widths.factor_bits)
        return (
            Section("gather", gather, bits=terms.groups * (terms.group_sum_bits + 1)),
            Section("factor", factor, bits=terms.groups * (terms.product_bits + 1)),
            *fused_sections(terms, terms.groups),
        )

    @property
    def rule(self) -> str:
        return (
            f"grouped:{self.fraction_bits} of {self.together // self.terms} exact sums "
            f"of {self.terms} terms"
        )

    def check_formats(self, a: ElementFormat, b: ElementFormat) -> None:
        """ValueError unless both formats are E2M1, whose sums are all exact."""
        if (a, b) != (E2M1, E2M1):
            raise ValueError(f"accumulator {self} takes e2m1 only, not {a.name} x {b.name}")

    def run(self, steps: Steps, c: F32, record: Recorder) -> F32:
        """Add the groups of each alignment to c."""
        groups: list[Step] = []
        for step in steps.walk(record):
            groups.append(step)
            if sum(group.size for group in groups) >= self.together or step.is_last:
                c = self._added(groups, c, record)
                record.stage("accumulator", c)
                groups = []
        return c

    def _added(self, groups: list[Step], c: F32, record: Recorder) -> F32:
        update = Update(c, np.bitwise_or.reduce([group.special for group in groups]))
        exponent = np.maximum(np.frexp(update.c)[1] - 1, FLOAT32.emin)
        exponent = np.where(update.c == 0, NO_EXPONENT, exponent)
        scales = np.stack([group.scale for group in groups], axis=-1)
        counts = np.stack([(group.terms != 0).any(axis=-1) for group in groups], axis=-1)
        largest = np.where(counts, scales, self.least).max(axis=-1)
        largest = np.maximum(np.maximum(largest, exponent), self.least)
        shift = self.fraction_bits - largest
        sums = np.stack([group.terms.sum(axis=-1) for group in groups], axis=-1)
        with np.errstate(under="ignore"):
            aligned = truncate(np.ldexp(sums, scales), shift, record, update.active)
            aligned_c = truncate(update.c[:, None], shift, record, update.active)[:, 0]
        record.stage("largest_exponent", largest)
        record.stage("aligned_c", aligned_c)
        record.stage("integer_sum", (aligned.sum(axis=-1) + aligned_c).astype(np.int64))
        exact = np.ldexp(aligned.sum(axis=-1) + aligned_c, -shift)
        rounded = rounding.toward_zero(exact)
        record.rounded(exact, rounded, update.active)
        return update.result(rounded)
