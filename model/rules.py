"""The accumulators' rules, vectorised over n dot products (section 4 of the numeric contract).

Every number is an exact float64: element products have at most 16 significant bits and an exponent
between -64 and 64, and a sum too wide for 53 bits is kept as two float64 (`WideSum`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from . import rounding
from .accumulators import Accumulator, Aligned, Exact, Fixed, Float32, Fused, Int32, Preset
from .register import run_fixed
from .rounding import F32, F64
from .specials import special_class
from .steps import Steps, Update
from .trace import Recorder
from .wide import WideSum, exact_sum, integers

SMALLEST_EXPONENT = -126  # of a float32 normal; stands for zero and subnormals


def _add_blocks(
    blocks: Callable[[int, NDArray[np.bool_]], WideSum], steps: Steps, c: F32, record: Recorder
) -> F32:
    """Add 2^s x block to c by RNE, block by block.

    blocks(j, active): the sums of block j; bits that it loses count where `active`.
    """
    for j in steps.walk(record):
        update = Update(c, steps.special_of(j))
        block = blocks(j, update.active)
        if record.keep_stages:
            record.stage("block_result", block.rounded_to_odd())
        total = block.scaled(steps.scale[:, j]).plus(update.c)
        rounded = rounding.nearest_even(total)
        record.rounded(total, rounded, update.active)
        c = update.result(rounded)
        record.stage("accumulator", c)
    return c


def _run_exact(accumulator: Accumulator, steps: Steps, c: F32, record: Recorder) -> F32:
    table = steps.table
    sums = exact_sum(steps.finite_products, table.bits, table.lsb)

    def block(j: int, _: NDArray[np.bool_]) -> WideSum:
        step = sums.of_step(j)
        if record.keep_stages:
            record.stage("integer_sum", step.integers(table.lsb))
        return step

    return _add_blocks(block, steps, c, record)


def _truncate(terms: F64, exponent: NDArray[np.int64], record: Recorder, active: NDArray) -> F64:
    """RZ(terms x 2^exponent) to integers; bits lost are flagged where `active`."""
    scaled = terms * np.ldexp(1.0, exponent)[..., None]
    truncated = np.trunc(scaled)
    if record.flags:
        record.lost((truncated != scaled).any(axis=-1) & active)
    return truncated


def _run_aligned(accumulator: Aligned, steps: Steps, c: F32, record: Recorder) -> F32:
    fraction_bits = accumulator.fraction_bits
    units = steps.table.unit_exponents[steps.index].max(axis=-1)
    largest = np.where(units < -1000, 0, units).astype(np.int64)  # all-zero blocks: any grid

    def block(j: int, active: NDArray[np.bool_]) -> WideSum:
        terms = _truncate(
            steps.finite_products[:, j], fraction_bits - largest[:, j], record, active
        )
        total = exact_sum(terms, fraction_bits + 2, 0)
        odd = np.ldexp(total.rounded_to_odd(), largest[:, j] - fraction_bits)
        result = rounding.toward_zero(odd).astype(np.float64)
        record.lost((result != odd) & active)
        record.stage("largest_exponent", largest[:, j])
        record.stage("aligned", terms)
        if record.keep_stages:
            record.stage("integer_sum", total.integers(0))
        return WideSum(result)

    return _add_blocks(block, steps, c, record)


@dataclass(frozen=True)
class _FusedStep:
    """One `fused:F` update with the scale and c inside the alignment."""

    fraction_bits: int
    result_bits: int
    steps: Steps
    record: Recorder

    @cached_property
    def largest(self) -> NDArray[np.int64]:
        """Largest U_i + s of each step, (n, steps)."""
        units = self.steps.table.unit_exponents[self.steps.index].max(axis=-1)
        return units.astype(np.int64) + self.steps.scale

    def __call__(self, j: int, c: F32) -> F32:
        steps, record, fraction_bits = self.steps, self.record, self.fraction_bits
        update = Update(c, steps.special_of(j))
        exponent = np.where(update.c == 0, SMALLEST_EXPONENT, np.frexp(update.c)[1] - 1)
        largest = np.maximum(np.maximum(exponent, SMALLEST_EXPONENT), self.largest[:, j])
        shift = fraction_bits - largest
        terms = _truncate(
            steps.finite_products[:, j], steps.scale[:, j] + shift, record, update.active
        )
        running = np.ldexp(update.c, shift)
        truncated = np.trunc(running)
        record.lost((truncated != running) & update.active)
        total = exact_sum(terms, fraction_bits + 2, 0)
        odd = np.ldexp(total.plus(truncated), -shift)
        rounded = rounding.toward_zero(odd, self.result_bits)
        record.rounded(odd, rounded, update.active)
        record.stage("largest_exponent", largest)
        record.stage("aligned", terms)
        if record.keep_stages:
            record.stage("integer_sum", total.integers(0) + integers(truncated))
        return update.result(rounded)


def _run_fused(accumulator: Fused, steps: Steps, c: F32, record: Recorder) -> F32:
    step = _FusedStep(accumulator.fraction_bits, 23, steps, record)
    for j in steps.walk(record):
        c = step(j, c)
        record.stage("accumulator", c)
    return c


def _run_preset(accumulator: Preset, steps: Steps, c: F32, record: Recorder) -> F32:
    step = _FusedStep(accumulator.fraction_bits, accumulator.result_bits, steps, record)
    if accumulator.promote is None:
        for j in steps.walk(record):
            c = step(j, c)
            record.stage("accumulator", c)
        return c
    partial, taken = np.zeros_like(c), 0
    for j in steps.walk(record):
        partial = step(j, partial)
        record.stage("partial", partial)
        taken += steps.lengths[j % len(steps.lengths)]
        if taken >= accumulator.promote or j == steps.count - 1:
            c = _promote(c, partial, record)
            partial, taken = np.zeros_like(c), 0
        record.stage("accumulator", c)
    return c


def _promote(c: F32, partial: F32, record: Recorder) -> F32:
    """Add the partial sum to c by RNE."""
    update = Update(c, special_class(partial))
    total = rounding.add_to_odd(update.c, update.finite(partial))
    rounded = rounding.nearest_even(total)
    record.rounded(total, rounded, update.active)
    return update.result(rounded)


def _run_float32(accumulator: Float32, steps: Steps, c: F32, record: Recorder) -> F32:
    def block(j: int, active: NDArray[np.bool_]) -> WideSum:
        level = steps.finite_products[:, j].astype(np.float32)
        while level.shape[-1] > 1:
            paired = level.shape[-1] // 2 * 2
            left, right = level[:, 0:paired:2], level[:, 1:paired:2]
            sums = left + right
            total, error = rounding.two_sum(left.astype(np.float64), right.astype(np.float64))
            record.lost(((sums != total) | (error != 0)).any(axis=-1) & active)
            level = np.concatenate([sums, level[:, paired:]], axis=-1)
        return WideSum(level[:, 0].astype(np.float64))

    return _add_blocks(block, steps, c, record)


def _run_fixed(accumulator: Fixed, steps: Steps, c: F32, record: Recorder) -> F32:
    table = steps.table
    sums = exact_sum(steps.finite_products, table.bits, table.lsb)
    return run_fixed(accumulator, sums, steps, c, record)


RULES: dict[type[Accumulator], Callable[..., F32]] = {
    Exact: _run_exact,
    Aligned: _run_aligned,
    Fused: _run_fused,
    Fixed: _run_fixed,
    Float32: _run_float32,
    Int32: _run_exact,  # the integer sum of INT8 products is the exact sum
    Preset: _run_preset,
}
