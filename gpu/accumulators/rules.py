"""Rules in PyTorch, except the registers of `fixed`: from the steps of a product and c to results.

Blocks whose sum is rounded into c (exact, int32, aligned, float32); steps in which c joins the
alignment (fused, presets); sums cut downwards and exact sums of groups (machines).
"""

from collections.abc import Callable

import torch
from torch import Tensor

from ...model.accumulators import Accumulator, Aligned, BulkNormalized, Fused
from ...model.accumulators.amd import FlooredMachine
from ...model.accumulators.base import times_factor
from ...model.accumulators.chains import ChainMachine
from ...model.accumulators.group_sums import GroupSums
from ...model.arrays import exponent as exponent64
from ...model.arrays import power as power64
from ...model.formats import FLOAT32
from ...model.products import NO_EXPONENT
from ...model.rounding import TOO_LARGE, add_to_odd, nearest_even, odd, odd_integers, toward_zero
from ...model.wide import WideSum, exact_sum
from .steps import Step, Steps

# Block sums ---------------------------------------------------------------------------------------


def _add_blocks(
    rule: Accumulator, block_sum: Callable[[Step], WideSum], steps: Steps, c: Tensor
) -> Tensor:
    """Add 2^s x block to float32 `c`, rounded as the rule says, block by block."""
    c = rule.rounded(c)
    for step in steps.walk():
        wide, block = c.to(torch.float64), block_sum(step)
        added = rule.rounded(block.scaled(step.scale).plus(wide))
        if step.may_overflow:  # where terms or c are special, they decide, and no block's overflow
            terms = step.special
            if rule.overflow_meets_c:
                overflow = torch.where(block.high.isfinite(), 0.0, block.high)
                terms = torch.where(terms == 0, overflow, terms)
            special = wide + terms
            added = torch.where(special.isfinite(), added, special.to(torch.float32))
        c = added
    return c


def run_exact(rule: Accumulator, steps: Steps, c: Tensor) -> Tensor:
    """One rounding per block; the integer sum of `int32` is the exact sum too."""
    return _add_blocks(rule, Step.sum, steps, c)


def _aligned_sum(
    step: Step,
    fraction_bits: int,
    on_grid: Callable[[Tensor], Tensor],
    rounded: Callable[[Tensor], Tensor],
) -> WideSum:
    """The sum of a step on a grid `fraction_bits` below its largest unit digit, rounded."""
    exponent = step.largest_exponent
    largest = torch.where(exponent > NO_EXPONENT // 2, exponent, 0)  # all-zero steps: any grid
    terms = on_grid(step.products * power64(fraction_bits - largest)[..., None])
    total = exact_sum(terms, fraction_bits + 2, 0)
    exact = total.rounded_to_odd() * power64(largest - fraction_bits)
    return times_factor(rounded(exact).to(torch.float64), step.factor)


def run_aligned(accumulator: Aligned, steps: Steps, c: Tensor) -> Tensor:
    """Terms on a grid F bits below the largest unit digit; RZ block sum."""
    how = accumulator.fraction_bits, accumulator.on_grid, toward_zero
    return _add_blocks(accumulator, lambda step: _aligned_sum(step, *how), steps, c)


def run_bulk(accumulator: BulkNormalized, steps: Steps, c: Tensor) -> Tensor:
    """Terms, their sum, and c plus it, each rounded to odd."""
    how = accumulator.alignment_bits, odd_integers, odd
    return _add_blocks(accumulator, lambda step: _aligned_sum(step, *how), steps, c)


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


# c in the alignment -------------------------------------------------------------------------------


def _fuse(rule: Fused, step: Step, c: Tensor) -> Tensor:
    """One `fused:F` update of float32 `c`: the scale and c join the alignment."""
    wide = c.to(torch.float64)
    exponent = exponent64(wide.abs()).clamp(rule.running.emin, FLOAT32.emax)  # subnormals too
    products = step.largest_exponent + step.scale
    # A zero c takes no part; where the products are zero too, any exponent will do.
    alone = (c == 0) & (products > NO_EXPONENT // 2)
    largest = torch.where(alone, products, torch.maximum(exponent, products))
    if rule.least_exponent is not None:
        largest = largest.clamp(min=rule.least_exponent)
    shift = rule.fraction_bits - largest
    terms = (step.terms * power64(step.scale + shift)[..., None]).trunc_()
    aligned_c = (wide * power64(shift)).trunc_()
    total = exact_sum(terms, rule.fraction_bits + step.term_bits, 0)
    return rule.cut(total.plus(aligned_c) * power64(-shift))


def run_fused(accumulator: Fused, steps: Steps, c: Tensor) -> Tensor:
    """A step at a time. With promotion, steps go to partial sums that start from +0."""
    every, c = accumulator.promotes_every, accumulator.rounded(c)
    if every is None:
        for step in steps.walk():
            c = _fuse(accumulator, step, c)
        return c
    partial, taken = torch.zeros_like(c), 0
    for step in steps.walk():
        partial = _fuse(accumulator, step, partial)
        taken += step.size
        if taken >= every or step.is_last:
            c = accumulator.rounded(add_to_odd(c.to(torch.float64), partial.to(torch.float64)))
            partial, taken = torch.zeros_like(c), 0
    return c


# Machines -----------------------------------------------------------------------------------------


def run_floored(rule: FlooredMachine, steps: Steps, c: Tensor) -> Tensor:
    """Add the steps to float32 `c`, each sum cut downwards."""
    for step in steps.walk():
        special = step.special + _too_large(step)
        c = _decided(c, special, _floored(rule, step, _finite(c)))
    return c


def run_chains(rule: ChainMachine, steps: Steps, c: Tensor) -> Tensor:
    """Add the steps to float32 `c` by chains of fused multiply-adds."""
    c = rule.rounded(c.to(torch.float64))
    for step in steps.walk():
        products, special = _split(step.products)
        places = rule.places(products.shape[-1])
        if rule.from_c:
            factor = power64(step.scale) * (1 if step.factor is None else step.factor)
            for place in places:
                c = _joined(rule, c, WideSum(products[..., place] * factor), special[..., place])
            continue
        chains = [torch.zeros_like(c), torch.zeros_like(c)]
        for place in places:
            chain, term = chains[place % 2], WideSum(products[..., place])
            chains[place % 2] = _joined(rule, chain, term, special[..., place])
        odd, special = _split(chains[1])
        partial, special = _split(_joined(rule, chains[0], WideSum(odd), special))
        block = times_factor(partial, step.factor).scaled(step.scale)
        c = _joined(rule, c, block, special)
    return c


def _split(x: Tensor) -> tuple[Tensor, Tensor]:
    """(finite numbers as float64, NaN and infinities), with zeros for the others."""
    finite = x.isfinite()
    return torch.where(finite, x, 0.0).to(torch.float64), torch.where(finite, 0.0, x)


def _joined(rule: ChainMachine, x: Tensor, y: WideSum, special: Tensor) -> Tensor:
    """x + y rounded once; infinities and NaN, also of an overflow, as in IEEE 754."""
    plain = x + special.to(torch.float32)
    finite = plain.isfinite()
    exact = y.plus(torch.where(finite, x, 0.0).to(torch.float64))
    return torch.where(finite, rule.rounded(exact), plain)


def run_groups(rule: GroupSums, steps: Steps, c: Tensor) -> Tensor:
    """Add groups to float32 `c`, as many at once as the rule aligns together."""
    groups: list[Step] = []
    for step in steps.walk():
        groups.append(step)
        if sum(group.size for group in groups) >= rule.together or step.is_last:
            special = torch.stack([group.special for group in groups]).sum(dim=0)
            c = _decided(c, special, _grouped(rule, groups, _finite(c)))
            groups = []
    return c


def _finite(c: Tensor) -> Tensor:
    """float64 `c`, 0 where it is special."""
    return torch.where(c.isfinite(), c.to(torch.float64), 0.0)


def _decided(c: Tensor, special: Tensor, result: Tensor) -> Tensor:
    """`result`, or what c and the sum of special terms make where one of them is special."""
    total = c.to(torch.float64) + special
    return torch.where(total.isfinite(), result, total.to(torch.float32))


def _exponent(c: Tensor) -> Tensor:
    """The exponent of float64 `c`, at least -126; -126 for a zero."""
    return exponent64(c.abs()).clamp(min=FLOAT32.emin)


def _finite_terms(step: Step) -> Tensor:
    return torch.where(step.terms.isfinite(), step.terms, 0.0)


def _floored(rule: FlooredMachine, step: Step, c: Tensor) -> Tensor:
    """The sum of the step and c, each cut downwards, RNE."""
    total, largest = _sum(rule, step)
    exponent = _exponent(c)
    joint = torch.maximum(largest, exponent)
    cut = (total * power64(rule.grid_bits - joint)).floor()
    cut_c = (c * power64(rule.fraction_bits - joint)).floor()
    if rule.halves:
        cut_c = torch.where(exponent < largest - rule.fraction_bits - 1, 0.0, cut_c)
    units = cut + cut_c * 2.0 ** (rule.grid_bits - rule.fraction_bits)
    exact = units * power64(joint - rule.grid_bits)
    shift = rule.sum_bits - _exponent(exact)
    return nearest_even((exact * power64(shift)).floor() * power64(-shift))


def _too_large(step: Step) -> Tensor:
    """The sum of the infinities that finite products of 2^128 and more become."""
    products = _finite_terms(step) * power64(step.scale)[..., None]
    beyond = torch.where(products > 0, torch.inf, -torch.inf)
    return torch.where(products.abs() >= TOO_LARGE, beyond, 0.0).sum(dim=-1)


def _sum(rule: FlooredMachine, step: Step) -> tuple[Tensor, Tensor]:
    """The sum of the aligned products, scales included, and the exponent of its grid."""
    if not rule.halves:
        return _aligned(rule, step, slice(None))
    sums = [_aligned(rule, step, slice(i, None, 2)) for i in (0, 1)]
    largest = torch.maximum(sums[0][1], sums[1][1])
    grid = power64(rule.fraction_bits - largest)
    units = sum((total * grid).floor() for total, _ in sums)
    return units * power64(largest - rule.fraction_bits), largest


def _aligned(rule: FlooredMachine, step: Step, places: slice) -> tuple[Tensor, Tensor]:
    terms = _finite_terms(step)[..., places]
    lowest = torch.full_like(step.scale, 2 * FLOAT32.lsb)  # below every c
    if not terms.shape[-1]:
        return torch.zeros_like(step.scale, dtype=torch.float64), lowest
    exponents = step.largest_exponents(places)
    nothing = exponents < NO_EXPONENT // 2
    largest = torch.where(nothing, lowest, exponents + step.scale)
    shift = rule.fraction_bits - largest
    exponent = torch.where(nothing, 0, step.scale + shift)
    total = (terms * power64(exponent)[..., None]).trunc_().sum(dim=-1)
    return total * power64(-shift), largest


def _grouped(rule: GroupSums, groups: list[Step], c: Tensor) -> Tensor:
    """The groups' sums and c, cut to one grid below their largest scale, RZ."""
    scales = torch.stack([group.scale for group in groups], dim=-1)
    counts = torch.stack([(_finite_terms(group) != 0).any(dim=-1) for group in groups], dim=-1)
    exponent = torch.where(c == 0, rule.least, _exponent(c))
    largest = torch.where(counts, scales, rule.least).amax(dim=-1)
    largest = torch.maximum(largest, exponent).clamp(min=rule.least)
    shift = rule.fraction_bits - largest
    sums = torch.stack([_finite_terms(group).sum(dim=-1) for group in groups], dim=-1)
    aligned = (sums * power64(scales + shift[..., None])).trunc_().sum(dim=-1)
    total = aligned + (c * power64(shift)).trunc_()
    return toward_zero(total * power64(-shift))
