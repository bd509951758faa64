"""`aligned:F`: terms aligned to the largest product of the block and truncated below it."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .. import rounding
from ..arrays import Array, namespace
from ..pipeline.placement import Section
from ..pipeline.sections import (
    FLOAT_LOOP,
    factor_sections,
    largest_sections,
    product_bits,
    tree_sections,
)
from ..pipeline.widths import Widths
from ..products import NO_EXPONENT
from ..rounding import F32, F64
from ..steps import Step, Steps
from ..trace import Recorder
from ..wide import WideSum, exact_sum
from .base import Narrowable, add_blocks, times_factor, truncate


def aligned_sum(
    step: Step,
    active: NDArray[np.bool_],
    fraction_bits: int,
    on_grid: Callable[[F64], F64],
    rounded: Callable[[F64], F32],
    record: Recorder,
) -> WideSum:
    """g x the sum of a step, on a grid `fraction_bits` below the largest product's unit digit.

    on_grid: integers for terms in units of the grid. rounded: float32 for the sum, rounded to odd.
    """
    units = step.largest_unit
    largest = np.where(units == NO_EXPONENT, 0, units)  # all-zero steps: any grid
    terms = truncate(step.products, fraction_bits - largest, record, active, on_grid)
    total = exact_sum(terms, fraction_bits + 2, 0)
    odd = np.ldexp(total.rounded_to_odd(), largest - fraction_bits)
    result = rounded(odd).astype(np.float64)
    record.rounded(odd, result, active)
    record.stage("largest_exponent", largest)
    record.stage("aligned", terms)
    if record.keep_stages:
        record.stage("integer_sum", total.integers(0))
    return times_factor(result, step.factor)


@dataclass(frozen=True)
class Aligned(Narrowable):
    """Terms truncated `fraction_bits` (0 to 64) below the largest product's unit digit."""

    syntax = "aligned:F[:R]"
    examples = ("aligned:13", "aligned:13:float16")
    summary = "terms cut F bits below the largest product's unit digit; RZ block sum; RNE into c"
    takes_significands = True

    def run(self, steps: Steps, c: F32, record: Recorder) -> F32:
        """Round the aligned sum to float32 by RZ, and add it to c with one rounding."""

        def block_sum(step: Step, active: NDArray[np.bool_]) -> WideSum:
            cuts = self.on_grid, rounding.toward_zero
            return aligned_sum(step, active, self.fraction_bits, *cuts, record)

        return add_blocks(self, block_sum, steps, c, record)

    def on_grid(self, terms: Array) -> Array:
        """Integers for terms in units of their grid: RZ."""
        return namespace(terms).trunc(terms)

    def sections(self, widths: Widths) -> tuple[Section, ...]:
        """Alignment, sum and loop, with a cut where the sum has more digits than a float32."""
        lanes = widths.config.lanes
        return (
            *largest_sections(widths),
            Section("offset", 150, bits=lanes * (product_bits(widths) + widths.exponent_bits)),
            Section("align", 270, bits=lanes * (widths.term_bits + 1), cuts=(130, 140)),
            *tree_sections(widths),
            *([Section("cut", 350)] if widths.sum_is_cut else []),
            *factor_sections(widths),
            *FLOAT_LOOP,
        )
