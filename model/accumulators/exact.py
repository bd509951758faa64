"""`exact` and `int32`: a block's exact sum, added to c with one rounding."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..formats import ElementFormat
from ..pipeline.placement import Section
from ..pipeline.sections import FLOAT_LOOP, factor_sections
from ..pipeline.widths import Widths
from ..rounding import F32
from ..steps import Step, Steps
from ..trace import Recorder
from ..wide import WideSum, exact_sum
from .base import Accumulator, add_blocks


class ExactSum(Accumulator):
    """An accumulator of exact block sums."""

    sums_exactly = True
    takes_significands = True

    def run(self, steps: Steps, c: F32, record: Recorder) -> F32:
        """Add each block's exact sum to c with one rounding."""

        def block_sum(step: Step, _: NDArray[np.bool_]) -> WideSum:
            total = exact_sum(step.terms, step.bits, step.lsb)
            if record.keep_stages:
                record.stage("integer_sum", total.integers(step.lsb))
            return total

        return add_blocks(self, block_sum, steps, c, record)

    def sections(self, widths: Widths) -> tuple[Section, ...]:
        """Product with the scales' significands, then the loop."""
        return (*factor_sections(widths), *FLOAT_LOOP)


@dataclass(frozen=True)
class Exact(ExactSum):
    """An exact block sum, added to c with one rounding."""

    syntax = "exact"
    is_wide = True
    examples = ("exact",)
    summary = "c' = RNE(c + 2^s x sum p), one rounding per block"
    takes_floats = True


@dataclass(frozen=True)
class Int32(ExactSum):
    """The exact integer sum of a block of INT8 products."""

    syntax = "int32"
    examples = ("int32",)
    summary = "exact 32-bit integer block sum (integer formats only); RNE into c"
    takes_integers = True

    def check_formats(self, a: ElementFormat, b: ElementFormat) -> None:
        """ValueError unless both formats are integers."""
        if not (a.is_integer and b.is_integer):
            raise ValueError(
                f"accumulator int32 takes integer formats only, not {a.name} x {b.name}"
            )
