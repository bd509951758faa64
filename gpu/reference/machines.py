"""Rules that machines alone have: sums that are cut downwards, and exact sums of groups."""

import torch
from torch import Tensor

from ...model.accumulators.amd import FlooredMachine
from ...model.accumulators.group_sums import GroupSums
from ...model.arrays import exponent as exponent64
from ...model.arrays import power as power64
from ...model.formats import FLOAT32
from ...model.products import NO_EXPONENT
from ...model.rounding import TOO_LARGE, nearest_even, toward_zero
from .steps import Step, Steps


def run_floored(rule: FlooredMachine, steps: Steps, c: Tensor) -> Tensor:
    """Step by step into float32 `c`."""
    for step in steps.walk():
        c = _decided(c, step.special, _floored(rule, step, _finite(c)))
    return c


def run_groups(rule: GroupSums, steps: Steps, c: Tensor) -> Tensor:
    """As many groups as meet, into float32 `c`."""
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
    """The exponent of float64 `c`, that of a subnormal float32 and of a zero -126."""
    return exponent64(c.abs()).clamp(min=FLOAT32.emin)


def _finite_terms(step: Step) -> Tensor:
    return torch.where(step.terms.isfinite(), step.terms, 0.0)


def _floored(rule: FlooredMachine, step: Step, c: Tensor) -> Tensor:
    """The sum of the step and c, each cut downwards, RNE."""
    total, largest = _sum(rule, step)
    exponent = _exponent(c)
    beside = torch.maximum(largest, exponent)
    cut = (total * power64(rule.sum_bits - beside)).floor()
    cut_c = (c * power64(rule.fraction_bits - beside)).floor()
    if rule.halves:
        cut_c = torch.where(exponent < largest - rule.fraction_bits - 1, 0.0, cut_c)
    units = cut + cut_c * 2.0 ** (rule.sum_bits - rule.fraction_bits)
    result = nearest_even(units * power64(beside - rule.sum_bits))
    products = _finite_terms(step) * power64(step.scale)[..., None]
    above, below = ((sign * products >= TOO_LARGE).any(dim=-1) for sign in (1, -1))
    result = torch.where(above, torch.inf, torch.where(below, -torch.inf, result))
    return torch.where(above & below, torch.nan, result)


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
    exponent = torch.where(c == 0, NO_EXPONENT, _exponent(c))
    largest = torch.maximum(scales.amax(dim=-1), exponent)
    shift = rule.fraction_bits - largest
    sums = torch.stack([_finite_terms(group).sum(dim=-1) for group in groups], dim=-1)
    aligned = (sums * power64(scales + shift[..., None])).trunc_().sum(dim=-1)
    total = aligned + (c * power64(shift)).trunc_()
    return toward_zero(total * power64(-shift))
