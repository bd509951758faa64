"""Accumulators that round a block's sum into c: exact, int32, aligned, float32."""

from collections.abc import Callable

import torch
from torch import Tensor

from ...model.accumulators import Accumulator, Aligned
from ...model.accumulators.base import times_factor
from ...model.arrays import power as power64
from ...model.products import NO_EXPONENT
from ...model.rounding import toward_zero
from ...model.wide import WideSum, exact_sum
from .steps import Step, Steps


def _add_blocks(
    rule: Accumulator, block_sum: Callable[[Step], WideSum], steps: Steps, c: Tensor
) -> Tensor:
    """Add 2^s x block to float32 `c` by RNE, block by block."""
    c = rule.rounded(c)
    for step in steps.walk():
        wide = c.to(torch.float64)
        added = rule.rounded(block_sum(step).scaled(step.scale).plus(wide))
        if step.may_overflow:  # where terms or c are special, they decide, and no block's overflow
            special = wide + step.special
            added = torch.where(special.isfinite(), added, special.to(torch.float32))
        c = added
    return c


def run_exact(rule: Accumulator, steps: Steps, c: Tensor) -> Tensor:
    """One rounding per block; the integer sum of `int32` is the exact sum too."""
    return _add_blocks(rule, Step.sum, steps, c)


def run_aligned(accumulator: Aligned, steps: Steps, c: Tensor) -> Tensor:
    """Terms cut F bits below the largest unit digit; RZ block sum."""
    fraction_bits = accumulator.fraction_bits

    def block_sum(step: Step) -> WideSum:
        exponent = step.largest_exponent
        largest = torch.where(exponent > NO_EXPONENT // 2, exponent, 0)  # all-zero blocks: any grid
        terms = (step.products * power64(fraction_bits - largest)[..., None]).trunc_()
        total = exact_sum(terms, fraction_bits + 2, 0)
        odd = total.rounded_to_odd() * power64(largest - fraction_bits)
        return times_factor(toward_zero(odd).to(torch.float64), step.factor)

    return _add_blocks(accumulator, block_sum, steps, c)


def run_float32(rule: Accumulator, steps: Steps, c: Tensor) -> Tensor:
    """A tree of float32 additions of adjacent pairs; an odd one out passes up."""

    def block_sum(step: Step) -> WideSum:
        level = rule.flushed(step.products.to(torch.float32))
        while level.shape[-1] > 1:
            paired = level.shape[-1] // 2 * 2
            sums = rule.flushed(level[..., 0:paired:2] + level[..., 1:paired:2])
            level = torch.cat([sums, level[..., paired:]], dim=-1)
        return times_factor(level[..., 0].to(torch.float64), step.factor)

    return _add_blocks(rule, block_sum, steps, c)
