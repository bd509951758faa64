"""Accuracy of units with a scheme's operands: integer results, micro-exponents, other block scales.

The result depends on the operations around the unit. Here they are:

- integer results: integer operands with a float32 scale per row, symmetric, or with a zero point
  where the unit takes one. Integer scales are VS-Quant's, one per block. The sum times both scales
  is the float result, inside units that take a scale and else outside in float32. Requantised
  sums use multiplier and shift to one scale for all results, or a shift to the row's own scale
  times one power of two, the finest that clips nothing.
- micro-exponents: an E8M0 scale per block and one bit per two elements, as in MX9.
- E4M3 scales: one per block, under a float32 per row that multiplies the result, as NVFP4 has
  one per tensor. E8M0 scales of fewer elements than a beat: one per group.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...model import DotConfig, MXArray
from ...model.errors import integer
from ...model.formats import IntegerFormat
from ...model.integers import integer_dot
from ...model.outputs import SCALE, SHIFT, IntegerOutput
from ...model.requantize import LARGEST_SHIFT_ALONE, SUM_BITS, FixedRescale
from ...model.rounding import nearest_even, two_product
from ...model.schemes import (
    CHANNEL,
    E1M0,
    E4M3,
    E8M0,
    FLOAT32,
    INT4_FULL,
    INT4_SYMMETRIC,
    INT8_FULL,
    INT8_SYMMETRIC,
    Level,
    ScaledArray,
    Scheme,
    UnsignedFormat,
    block,
    quantize,
)
from ...util.data.sets import data_set
from ...util.data.tensors import Rows
from ...util.data.weights import HeldRows
from .evaluation import LENGTHS, Accuracy, compared
from .metrics import F32, F64, ExactSums, exact_sums

SYMMETRIC = {4: INT4_SYMMETRIC, 8: INT8_SYMMETRIC}
FULL = {4: INT4_FULL, 8: INT8_FULL}
SOURCE = "docs/accuracy.md"


@dataclass(frozen=True)
class Results:
    """Results of a unit as float32, saturated registers, and exact sums."""

    values: F32
    saturated: NDArray[np.bool_]
    exact: ExactSums


def is_known(config: DotConfig) -> bool:
    """True for units that `evaluate_unit` takes; a scheme cannot have both zero points and
    integer scales.
    """
    has_both = config.zero_points != "none" and config.scales != "none"
    if config.has_integers:
        return not has_both
    return config.micro or config.scales != E8M0.name or config.scale_blocks > 1


def evaluate_unit(
    config: DotConfig,
    data: str = "normal",
    lengths: Sequence[int] = LENGTHS,
    *,
    seed: int = 0,
    count: int = 128,
) -> list[Accuracy]:
    """Evaluate a unit on `count` dot products of `data` of each length, as `evaluate`.

    There is no a priori bound. ValueError for units that `is_known` excludes, and as `evaluate`.
    """
    if not is_known(config):
        raise ValueError(
            f"a unit must have micro-exponents, scales of its own, or integer results without zero "
            f"points and scales together, not be {config}"
        )
    integer("seed", seed, 0)
    integer("count", count, 1, 2**20)
    for length in lengths:
        integer("length", length, 1, 2**24)
    source = data_set(data)
    found = []
    for length in lengths:
        rng = np.random.default_rng([seed, source.stream, length])
        drawn = source.operands(rng, count, length, config.lanes)
        (a, x), (b, y) = (_operand(config, *each) for each in zip("ab", drawn, strict=True))
        results = (_integers if config.has_integers else _floats)(config, a, b)
        original = np.einsum("ij,ij->i", x.astype(np.float64), y.astype(np.float64))
        measured = compared(results.values, results.saturated, results.exact, original)
        settings = (str(config.accumulator), config.formats_text, data, length, config.lanes)
        is_float = config.has_integers or config.scales != E8M0.name
        rule = "amax" if is_float else "floor"
        found.append(Accuracy(*settings, seed, count, rule, **measured))
    return found


def _operand(config: DotConfig, side: str, rows: Rows) -> tuple[ScaledArray, F32]:
    """Operand `side`, padded with zeros to whole blocks, and the values that it stands for.

    Weights of a checkpoint keep their codes where the unit takes them and their scales.
    """
    scheme = _scheme(config, side)
    if isinstance(rows, HeldRows):
        held = None
        if not (config.has_integers or config.micro):
            fmt = scheme.elements[0]
            held = rows.under(fmt, config.scales, config.scale_block, config.lanes)
        if held is not None:
            outer = [np.ones((len(rows), 1), np.float32)] * (len(scheme.levels) - 1)
            made = ScaledArray(scheme, held[0], (*outer, held[1]))
            return made, made.dequantize()[:, : rows.shape[1]]
        rows = rows.values
    padding = ((0, 0), (0, -rows.shape[1] % config.lanes))
    return quantize(np.pad(rows, padding), scheme), rows


def _scheme(config: DotConfig, side: str) -> Scheme:
    """Scheme of operand `side`."""
    fmt = config.formats[0]["ab".index(side)]
    if not config.has_integers:
        return Scheme(f"blocks of {fmt}", (fmt,), _levels(config), SOURCE)
    levels = (Level(CHANNEL, FLOAT32),)
    if config.scale_bits:
        levels += (Level(block(config.lanes), UnsignedFormat(config.scale_bits)),)
    zero_point = side in config.zero_sides
    element = (FULL if zero_point else SYMMETRIC)[fmt.bits]
    return Scheme(f"rows of {element}", (element,), levels, SOURCE, zero_point)


def _levels(config: DotConfig) -> tuple[Level, ...]:
    """Scale levels of a unit with float results."""
    granularity = block(config.scale_block)
    if config.scales == E4M3.name:
        return Level(CHANNEL, FLOAT32), Level(granularity, E4M3)
    micro = (Level(block(2), E1M0, "floor"),) if config.micro else ()
    return Level(granularity, E8M0, "floor"), *micro


def _floats(config: DotConfig, a: ScaledArray, b: ScaledArray) -> Results:
    fmt_a, fmt_b = config.formats[0]
    outer = config.scales == E4M3.name
    x, y = (
        MXArray(side.codes, side.scales[outer], fmt, config.scale_block)
        for side, fmt in ((a, fmt_a), (b, fmt_b))
    )
    trace = config.dot(x, y, micro=(a.scales[1], b.scales[1]) if config.micro else None)
    values = trace.result.astype(np.float32)
    if not outer:
        # Values are floats of few digits: float32 holds them, and float64 their products.
        exact = exact_sums(a.dequantize().astype(np.float64) * b.dequantize())
        return Results(values, trace.flags.saturated, exact)
    scale = a.scales[0][:, 0].astype(np.float64) * b.scales[0][:, 0]
    inner = [side.values(side.codes) / side.scales[0].astype(np.float64) for side in (a, b)]
    sums = exact_sums(inner[0] * inner[1])
    high, low = two_product(scale, sums.high)
    exact = ExactSums(high, low + scale * sums.low)
    return Results(nearest_even(nearest_even(scale) * values), trace.flags.saturated, exact)


# Integers ---------------------------------------------------------------------------------------


def _integers(config: DotConfig, a: ScaledArray, b: ScaledArray) -> Results:
    blocks = a.shape[1] // config.lanes
    codes = [side.codes.reshape(-1, blocks, config.lanes) for side in (a, b)]
    inputs: dict[str, Any] = {}
    for name, side in (("a", a), ("b", b)):
        if config.scale_bits:
            inputs[f"scale_{name}"] = side.scales[1]
        if name in config.zero_sides:
            inputs[f"zero_{name}"] = side.zero_points
    # The factor of a sum: 48 bits, exact.
    scale = a.scales[0][:, 0].astype(np.float64) * b.scales[0][:, 0]
    sums = np.einsum("ij,ij->i", _factors(a), _factors(b))
    exact = ExactSums(*two_product(scale, sums))
    out = config.out
    assert isinstance(out, IntegerOutput)
    if out.rescale == SCALE:
        inputs["result_scale"] = nearest_even(scale)
        trace = integer_dot(config, *codes, inputs=inputs)
        return Results(trace.result.astype(np.float32), trace.flags.saturated, exact)
    if out.format is None:
        trace = integer_dot(config, *codes, inputs=inputs)
        wide = nearest_even(trace.result.astype(np.float64)).astype(np.float64)
        return Results(nearest_even(nearest_even(scale) * wide), trace.flags.saturated, exact)
    assert isinstance(out.format, IntegerFormat)
    zero = (out.format.lowest + out.format.highest + 1) // 2
    room = out.format.highest - zero
    inputs["zero_out"] = zero
    if out.rescale == SHIFT:
        largest = float(np.abs(sums).max())
        shift = next(n for n in range(LARGEST_SHIFT_ALONE + 1) if largest / 2**n <= room)
        inputs["shift"] = shift
        step = scale * 2.0**shift
    else:
        step = np.full(len(scale), max(float(np.abs(exact.high).max()), 2.0**-100) / room)
        # A smaller factor makes nothing but zeros.
        factors = np.maximum(scale / step, 2.0**-SUM_BITS)
        rescale = FixedRescale.of(factors, out.multiplier_bits)
        inputs |= {"multiplier": rescale.multiplier, "shift": rescale.shift}
    trace = integer_dot(config, *codes, inputs=inputs)
    return Results(nearest_even((trace.result - zero) * step), trace.flags.saturated, exact)


def _factors(side: ScaledArray) -> F64:
    """Factors of the terms as integers: elements minus zero points, times integer scales."""
    values = side.scheme.elements[0].values[side.codes]
    if side.zero_points is not None:
        values = values - side.zero_points
    return values if len(side.scales) == 1 else values * side.spread(side.scales[1], 1)
