"""The accumulators' rules, vectorised over n dot products (section 4 of the numeric contract).

Every number is an exact float64: element products have at most 16 significant bits and an exponent
between -64 and 64, and a sum too wide for 53 bits is kept as two float64 (`WideSum`). A block's
scale is g x 2^s, and g is 1 in MX (`model/schemes/` has others).
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from . import rounding
from .accumulators import Accumulator, Aligned, Exact, Fixed, Float32, Fused, Int32, Preset
from .formats import FLOAT32
from .products import NO_EXPONENT
from .register import run_fixed
from .rounding import F32, F64
from .specials import Update, special_class
from .steps import Step, Steps
from .trace import Recorder
from .wide import WideSum, exact_sum, integers


def _add_blocks(
    block_sum: Callable[[Step, NDArray[np.bool_]], WideSum], steps: Steps, c: F32, record: Recorder
) -> F32:
    """Add 2^s x block to c by RNE, block by block.

    block_sum(step, active): g x the sums of a block; bits that it loses count where `active`.
    """
    for step in steps.walk(record):
        update = Update(c, step.special)
        block = block_sum(step, update.active)
        if record.keep_stages:
            record.stage("block_result", block.rounded_to_odd())
        total = block.scaled(step.scale).plus(update.c)
        rounded = rounding.nearest_even(total)
        record.rounded(total, rounded, update.active)
        c = update.result(rounded)
        record.stage("accumulator", c)
    return c


def _run_exact(accumulator: Accumulator, steps: Steps, c: F32, record: Recorder) -> F32:
    def block_sum(step: Step, _: NDArray[np.bool_]) -> WideSum:
        total = exact_sum(step.terms, step.bits, step.lsb)
        if record.keep_stages:
            record.stage("integer_sum", total.integers(step.lsb))
        return total

    return _add_blocks(block_sum, steps, c, record)


def _truncate(terms: F64, exponent: NDArray[np.int64], record: Recorder, active: NDArray) -> F64:
    """RZ(terms x 2^exponent) to integers; bits lost are flagged where `active`."""
    scaled = terms * np.ldexp(1.0, exponent)[..., None]
    truncated = np.trunc(scaled)
    if record.flags:
        record.lost((truncated != scaled).any(axis=-1) & active)
    return truncated


def _times_factor(block: F64, step: Step) -> WideSum:
    """g x the float32 result of a block, exact."""
    if step.factor is None:
        return WideSum(block)
    return WideSum(*rounding.two_product(block, step.factor))


def _run_aligned(accumulator: Aligned, steps: Steps, c: F32, record: Recorder) -> F32:
    fraction_bits = accumulator.fraction_bits

    def block_sum(step: Step, active: NDArray[np.bool_]) -> WideSum:
        units = step.largest_unit
        largest = np.where(units == NO_EXPONENT, 0, units)  # all-zero blocks: any grid
        terms = _truncate(step.products, fraction_bits - largest, record, active)
        total = exact_sum(terms, fraction_bits + 2, 0)
        odd = np.ldexp(total.rounded_to_odd(), largest - fraction_bits)
        result = rounding.toward_zero(odd).astype(np.float64)
        record.lost((result != odd) & active)
        record.stage("largest_exponent", largest)
        record.stage("aligned", terms)
        if record.keep_stages:
            record.stage("integer_sum", total.integers(0))
        return _times_factor(result, step)

    return _add_blocks(block_sum, steps, c, record)


def _largest_exponent(c: F64, step: Step) -> NDArray[np.int64]:
    """The largest exponent among c and the products that are not zero, scales included."""
    exponent = np.maximum(np.frexp(c)[1] - 1, FLOAT32.emin)  # subnormals too
    exponent = np.where(c == 0, NO_EXPONENT, exponent)
    largest = np.maximum(exponent, step.largest_unit + step.scale)
    return np.where(largest <= NO_EXPONENT // 2, FLOAT32.emin, largest)  # zeros alone: any


def _fuse(step: Step, c: F32, fraction_bits: int, result_bits: int, record: Recorder) -> F32:
    """One `fused:F` update of c: the scale and c join the alignment."""
    update = Update(c, step.special)
    largest = _largest_exponent(update.c, step)
    shift = fraction_bits - largest
    terms = _truncate(step.terms, step.scale + shift, record, update.active)
    aligned_c = _truncate(update.c[:, None], shift, record, update.active)[:, 0]
    total = exact_sum(terms, fraction_bits + step.term_bits, 0)
    odd = np.ldexp(total.plus(aligned_c), -shift)
    rounded = rounding.toward_zero(odd, result_bits)
    record.rounded(odd, rounded, update.active)
    record.stage("largest_exponent", largest)
    record.stage("aligned", terms)
    record.stage("aligned_c", aligned_c)
    if record.keep_stages:
        record.stage("integer_sum", total.integers(0) + integers(aligned_c))
    return update.result(rounded)


def _run_fused(accumulator: Fused, steps: Steps, c: F32, record: Recorder) -> F32:
    for step in steps.walk(record):
        c = _fuse(step, c, accumulator.fraction_bits, FLOAT32.mantissa_bits, record)
        record.stage("accumulator", c)
    return c


def _run_preset(accumulator: Preset, steps: Steps, c: F32, record: Recorder) -> F32:
    bits = accumulator.fraction_bits, accumulator.result_bits
    if accumulator.promote is None:
        for step in steps.walk(record):
            c = _fuse(step, c, *bits, record)
            record.stage("accumulator", c)
        return c
    partial, taken = np.zeros_like(c), 0
    for step in steps.walk(record):
        partial = _fuse(step, partial, *bits, record)
        record.stage("partial", partial)
        taken += step.size
        if taken >= accumulator.promote or step.is_last:
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
    def block_sum(step: Step, active: NDArray[np.bool_]) -> WideSum:
        level, depth = step.products.astype(np.float32), 0
        while level.shape[-1] > 1:
            depth += 1
            paired = level.shape[-1] // 2 * 2
            left, right = level[:, 0:paired:2], level[:, 1:paired:2]
            sums = left + right
            if record.flags:
                total, error = rounding.two_sum(left.astype(np.float64), right.astype(np.float64))
                record.lost(((sums != total) | (error != 0)).any(axis=-1) & active)
            level = np.concatenate([sums, level[:, paired:]], axis=-1)
            record.stage(f"tree{depth}", level)
        return _times_factor(level[:, 0].astype(np.float64), step)

    return _add_blocks(block_sum, steps, c, record)


RULES: dict[type[Accumulator], Callable[..., F32]] = {
    Exact: _run_exact,
    Aligned: _run_aligned,
    Fused: _run_fused,
    Fixed: run_fixed,
    Float32: _run_float32,
    Int32: _run_exact,  # the integer sum of INT8 products is the exact sum
    Preset: _run_preset,
}
