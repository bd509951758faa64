"""`float32`, `float16`, `bfloat16`: a tree of float32 additions inside each block.

The name is the format of the running value.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from .. import rounding
from ..formats import BFLOAT16, FLOAT16, FLOAT32, FloatFormat
from ..pipeline.placement import Section
from ..pipeline.widths import Widths
from ..rounding import F32
from ..steps import Step, Steps
from ..trace import Recorder
from ..wide import WideSum
from .base import Accumulator, add_blocks, times_factor


@dataclass(frozen=True)
class Float32(Accumulator):
    """A tree of float32 additions."""

    syntax = "float32"
    is_wide = True
    takes_significands = True
    examples = ("float32",)
    summary = "float32 RNE tree of adjacent pairs inside the block; RNE into c"
    rounds_to: ClassVar[FloatFormat] = FLOAT32

    @property
    def running(self) -> FloatFormat:
        return self.rounds_to

    def run(self, steps: Steps, c: F32, record: Recorder) -> F32:
        """Add pairs of terms level by level, then the block to c; every addition is RNE."""

        def block_sum(step: Step, active: NDArray[np.bool_]) -> WideSum:
            with np.errstate(over="ignore", under="ignore"):
                level, depth = self.flushed(step.products.astype(np.float32)), 0
            record.rounded(step.products, level, active[:, None])
            while level.shape[-1] > 1:
                depth += 1
                paired = level.shape[-1] // 2 * 2
                left, right = level[:, 0:paired:2], level[:, 1:paired:2]
                with np.errstate(over="ignore", invalid="ignore"):  # opposite infinities
                    sums = self.flushed(left + right)
                if record.flags:
                    wide = left.astype(np.float64), right.astype(np.float64)
                    with np.errstate(invalid="ignore"):
                        exact = rounding.add_to_odd(*wide)
                    record.rounded(exact, sums, active[:, None])
                level = np.concatenate([sums, level[:, paired:]], axis=-1)
                record.stage(f"tree{depth}", level)
            return times_factor(level.squeeze(axis=1).astype(np.float64), step.factor)

        return add_blocks(self, block_sum, steps, c, record)

    def sections(self, widths: Widths) -> tuple[Section, ...]:
        """One section per level of the tree, and one for the scales' significands."""
        lanes = widths.config.lanes
        levels = (lanes - 1).bit_length()
        pairs = [Section("tree", 1400, i + 1, bits=(lanes >> i + 1) * 36) for i in range(levels)]
        bits = FLOAT32.significand_bits + widths.factor_bits + 13
        factor = [Section("factor", 980, bits=bits)] if widths.factor_bits else []
        return (*pairs, *factor, Section("accumulate", 1570, holds=True, loop=True))


@dataclass(frozen=True)
class Float16(Float32):
    """The tree of `float32`, added to a float16 c."""

    syntax = "float16"
    examples = ("float16",)
    summary = "float32 RNE tree of adjacent pairs inside the block; RNE into a float16 c"
    rounds_to = FLOAT16


@dataclass(frozen=True)
class BFloat16(Float32):
    """The tree of `float32`, added to a bfloat16 c."""

    syntax = "bfloat16"
    examples = ("bfloat16",)
    summary = "float32 RNE tree of adjacent pairs inside the block; RNE into a bfloat16 c"
    rounds_to = BFLOAT16
