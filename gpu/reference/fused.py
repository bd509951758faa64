"""Accumulators that align c with the terms: fused, and the presets of real machines."""

import torch
from torch import Tensor

from ...model.accumulators import Fused
from ...model.arrays import exponent as exponent64
from ...model.arrays import power as power64
from ...model.formats import FLOAT32
from ...model.products import NO_EXPONENT
from ...model.rounding import add_to_odd
from ...model.wide import exact_sum
from .steps import Step, Steps


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
    """A step at a time; with promotion by way of partial sums that start from +0."""
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
