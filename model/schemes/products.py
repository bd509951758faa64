"""Matrix products of schemes by every accumulator (section 7 of docs/numerics.md)."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..accumulators import Accumulator, warn_of_operands
from ..arrays import Array, chunks, namespace
from ..blocks import as_float32, running_value
from ..formats import BF16, FLOAT32, FP16, PowerFormat
from ..rounding import F32
from ..steps.operands import OperandSteps, check_exact
from ..trace import Recorder
from .array import Scaled, ScaledArray
from .integer import check_elements, check_length, region_sums, rescaled_sum
from .operand import Operand, float_operand
from .regions import check_shapes, regions, rescaled, split

FLOATS = {"float32": FLOAT32, "float16": FP16, "bfloat16": BF16}
"""Formats of float operands, by the name of the array's type."""
Cuts = tuple[tuple[int, int], ...]
CHUNK = 2**16  # products at once: their temporaries stay in the cache


def scaled_product(
    a: Scaled,
    b: Scaled,
    rule: Accumulator,
    c: Array,
    lanes: int,
    operand: Callable[[Any], Operand],
    accumulate: Callable[..., Array],
) -> Array:
    """`matmul` of two checked arrays from float32 `c` (M, N), with NaN of any bits.

    lanes: the most elements to take at once. operand: makes an Operand of an array. accumulate:
    (rule, a, b, blocks, c) adds the blocks of a region to c by the rule.
    """
    if rule.takes_integers:
        check_elements(a.scheme, b.scheme)
    else:
        for pair in itertools.product(a.scheme.elements, b.scheme.elements):
            rule.check_formats(*pair)
    left, right = operand(a), operand(b)
    if rule.takes_integers and not (_has_powers(a) or _has_powers(b)):
        for sums, scale in region_sums(left, right, a.scheme, b.scheme):
            c = rescaled_sum(c, sums, scale, left.lsb + right.lsb)
        return c
    parts = regions(left, right)
    cuts = [region.cuts(left, right, lanes) for region in parts]
    if rule.takes_integers:
        longest = max((stop - start for blocks in cuts for start, stop in blocks), default=1)
        check_length(a.scheme, b.scheme, longest)
    check_exact(left, right)
    if left.regions is None and right.regions is None:
        return accumulate(rule, left, right, cuts[0], c)
    for region, blocks in zip(parts, cuts, strict=True):
        partial = accumulate(rule, left, right, blocks, namespace(c).zeros_like(c))
        c = rescaled(c, region.scale(left, right), partial)
    return c


def _has_powers(array: Scaled) -> bool:
    return any(isinstance(level.format, PowerFormat) for level in array.scheme.levels)


def with_nan(result: F32, rule: Accumulator) -> F32:
    """The result with the rule's NaN."""
    bits = np.where(np.isnan(result), np.uint32(rule.nan_bits), result.view(np.uint32))
    return bits.view(np.float32)


def in_steps(
    rule: Accumulator, a: Operand, b: Operand, blocks: Cuts
) -> tuple[Operand, Operand, Cuts]:
    """Operands as the rule reads them, and (start, stop) of each of its steps."""
    if rule.flushes:
        a, b = a.flushed, b.flushed
    orders = [rule.order(stop - start) for start, stop in blocks]
    if any(order is not None for order in orders):
        columns = np.arange(a.shape[1])
        for (start, stop), order in zip(blocks, orders, strict=True):
            if order is not None:
                columns[start:stop] = start + order
        a, b = a.reordered(columns), b.reordered(columns)
    cuts = []
    for start, stop in blocks:
        ends = [
            start,
            *(start + end for end in itertools.accumulate(rule.step_sizes(stop - start))),
        ]
        cuts += itertools.pairwise(ends)
    return a, b, tuple(cuts)


def accumulate(rule: Accumulator, a: Operand, b: Operand, blocks: Cuts, c: F32) -> F32:
    """Add the blocks to c by the rule, a chunk of dot products at a time."""
    longest = rule.step_terms(max((stop - start for start, stop in blocks), default=1))
    a, b, cuts = in_steps(rule, a, b, blocks)
    rows_a, rows_b = np.divmod(np.arange(c.size), c.shape[1])
    result = np.empty(c.size, np.float32)
    for part in chunks(c.size, (CHUNK, longest)):
        steps = OperandSteps(a, b, cuts, rows_a[part], rows_b[part])
        record = Recorder((steps.n,), flags=False)
        result[part] = rule.run(steps, c.reshape(-1)[part], record)
    return result.reshape(c.shape)


# Weight-only products ---------------------------------------------------------------------------


def _floats(a: ArrayLike) -> NDArray:
    """`a` in its own float type; float64 that holds float32 values is float32."""
    array = np.asarray(a)
    if array.dtype.name not in FLOATS:
        return as_float32(array, "a")
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def check_weight_only(rule: Accumulator) -> None:
    """ValueError unless products of floats by dequantised weights are defined for `rule`."""
    if not rule.takes_floats:
        raise ValueError(
            f"accumulator of a weight-only product must be exact, fused:F or a preset, not {rule}"
        )


def weight_only(
    a: ArrayLike, b: ScaledArray, rule: Accumulator, c: ArrayLike | None, lanes: int
) -> F32:
    """`matmul` of floats by `b`, dequantised to their type."""
    matrix = _floats(a)
    check_shapes(matrix.shape, b.shape)
    start = running_value(c, (matrix.shape[0], b.shape[0])).reshape(matrix.shape[0], b.shape[0])
    check_weight_only(rule)
    fmt = FLOATS[matrix.dtype.name]
    warn_of_operands(rule, [(fmt, fmt)])
    with np.errstate(over="ignore"):
        weights = b.dequantize().astype(matrix.dtype)
    length = matrix.shape[1]
    # Without an alignment the whole length has one rounding.
    blocks = split([(0, length)], max(length, 1) if rule.sums_exactly else lanes)
    left, right = float_operand(matrix), float_operand(weights)
    return with_nan(accumulate(rule, left, right, blocks, start), rule)
