"""Matrix products of schemes by every accumulator, as `mxdot.model.schemes.matmul`: operator
`mxdot::scheme_matmul`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor

from ...model.accumulators import Accumulator, by_kind, check_known, warn_of_operands
from ...model.accumulators import accumulator as find_rule
from ...model.arrays import dtype_name
from ...model.blocks import LARGEST_BLOCK
from ...model.errors import integer
from ...model.schemes.array import Scaled
from ...model.schemes.operand import Operand, float_operand
from ...model.schemes.products import FLOATS, check_weight_only, in_steps, scaled_product
from ...model.schemes.regions import check_shapes, split
from ...model.steps.operands import Terms
from .. import checks
from ..accumulators.products import RULES, TABLE, tiles
from ..accumulators.steps import Step
from ..chunks import chunk_size
from ..names import accumulator_name, named_accumulator, named_scheme
from ..operators import operator
from ..ops.matmul import running_value
from ..tensors.scaled import ScaledTensor, scaled_of
from .operand import check_pair, operand

Cuts = tuple[tuple[int, int], ...]


def matmul(
    a: ScaledTensor | Tensor,
    b: ScaledTensor,
    accumulator: Accumulator | str,
    c: Tensor | None = None,
    *,
    lanes: int = 128,
) -> Tensor:
    """The float32 (M, N) dot products of the rows of `a` (M, K) and `b` (N, K).

    a: a ScaledTensor, or floats (float32, float16, bfloat16): b is then dequantised to their type
    (weight-only), and the accumulator is ``exact``, a ``fused:F`` or a preset.
    accumulator: an object or its text; ``int32`` takes integer elements. c: running values,
    floats that are float32, broadcastable to (M, N); +0 when None. lanes: what stands under one
    scale of each operand is taken at once up to this length (1 to 65536), else in parts of it.
    Raises TypeError or ValueError, naming the argument, before any work.
    """
    rule = check_known(find_rule(accumulator))
    by_kind(RULES, rule, TABLE)
    lanes = integer("lanes", lanes, 1, LARGEST_BLOCK)
    if not isinstance(b, ScaledTensor):
        raise TypeError(
            f"b must be a ScaledTensor, not {type(b).__name__}: quantize makes one of floats"
        )
    if isinstance(a, ScaledTensor):
        check_pair(a, b)
        left, scheme = a.parts(), a.scheme_name
    else:
        left, scheme = [checks.floats("a", a)], None
        check_shapes(tuple(left[0].shape), tuple(b.shape))
        checks.same_device(a=left[0], b=b.codes)
        check_weight_only(rule)
    start = None if c is None else running_value(c, left[0], (left[0].shape[0], b.shape[0]))
    right = b.parts(), b.scheme_name, b.axis
    return _matmul(left, scheme, *right, accumulator_name(rule), start, lanes)


def _fake(
    a_parts: list[Tensor], a_scheme: str | None, b_parts: list[Tensor], *others: Any
) -> Tensor:
    (a, *_), (b, *_) = a_parts, b_parts
    return a.new_empty((a.shape[0], b.shape[0]), dtype=torch.float32)


@operator("scheme_matmul", _fake)
def _matmul(
    a_parts: list[Tensor],
    a_scheme: str | None,
    b_parts: list[Tensor],
    b_scheme: str,
    b_axis: int,
    accumulator: str,
    c: Tensor | None,
    lanes: int,
) -> Tensor:
    """A product of floats a where it has no scheme; axes of operands are their last."""
    rule, (first, *_) = named_accumulator(accumulator), a_parts
    if c is None:
        shape = first.shape[0], b_parts[0].shape[0]
        c = torch.zeros(shape, dtype=torch.float32, device=first.device)
    if a_scheme is None:
        b = ScaledTensor.of_parts(b_scheme, b_parts, b_axis)
        return _one_nan(_weight_only(first, b, rule, c, lanes), rule)
    pairs = product(named_scheme(a_scheme).elements, named_scheme(b_scheme).elements)
    warn_of_operands(rule, pairs)
    sides = scaled_of(a_scheme, a_parts, 1), scaled_of(b_scheme, b_parts, 1)
    return product_of(*sides, rule, c, lanes)


def product_of(
    a: Scaled[Tensor], b: Scaled[Tensor], rule: Accumulator, c: Tensor, lanes: int
) -> Tensor:
    """`matmul` of checked operands from float32 `c` (M, N)."""
    return _one_nan(scaled_product(a, b, rule, c, lanes, operand, _accumulate), rule)


def _one_nan(result: Tensor, rule: Accumulator) -> Tensor:
    bits = torch.where(result.isnan(), rule.nan_bits, result.view(torch.int32))
    return bits.view(torch.float32)


def _accumulate(rule: Accumulator, a: Operand, b: Operand, blocks: Cuts, c: Tensor) -> Tensor:
    """Apply the rule to c and the blocks, a tile at a time."""
    longest = rule.step_terms(max((stop - start for start, stop in blocks), default=1))
    a, b, cuts = in_steps(rule, a, b, blocks)
    compute = by_kind(RULES, rule, TABLE)
    result = torch.empty_like(c)
    for rows, columns in tiles(c.shape[0], c.shape[1], max(1, chunk_size(c.device) // longest)):
        steps = ScaledSteps(a, b, cuts, rows, columns)
        result[rows, columns] = compute(rule, steps, c[rows, columns])
    return result


# Weight-only products ---------------------------------------------------------------------------


def _weight_only(a: Tensor, b: ScaledTensor, rule: Accumulator, c: Tensor, lanes: int) -> Tensor:
    fmt = FLOATS[dtype_name(a)]
    warn_of_operands(rule, [(fmt, fmt)])
    left, right = float_operand(a), float_operand(b.dequantize(a.dtype))
    length = a.shape[1]
    # One rounding of the whole where there is no alignment.
    blocks = split([(0, length)], max(length, 1) if rule.sums_exactly else lanes)
    return _accumulate(rule, left, right, blocks, c)


# Steps -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ScaledSteps(Terms):
    """A tile of a product: `rows` of a against `columns` of b."""

    rows: slice
    columns: slice

    def walk(self) -> Iterator[Step]:
        bits, lsb, factors = self.bits, self.lsb, len(self.significands)
        for start, stop in self.cuts:
            where = slice(start, stop)
            a, a_exponent, a_factor = _scaled(self.a, self.rows, where)
            b, b_exponent, b_factor = _scaled(self.b, self.columns, where)
            yield Step(
                bits,
                lsb,
                a,
                b,
                self.a.units[self.rows, where],
                self.b.units[self.columns, where],
                a_exponent[:, None] + b_exponent,
                stop - start,
                stop == self.cuts[-1][1],
                a_factor[:, None] * b_factor if factors else None,
                factors,
            )


def _scaled(side: Operand, rows: slice, columns: slice) -> tuple[Tensor, Tensor, Tensor]:
    """Values, NaN under a NaN scale, and exponents and significands of the rows' scales."""
    values = side.values[rows, columns]
    exponent = torch.zeros_like(values[:, 0], dtype=torch.int32)
    factor = torch.ones_like(values[:, 0])
    for scale in side.blocks:
        block = columns.start // scale.length
        exponent = exponent + scale.exponents[rows, block].to(torch.int32)
        factor = factor * scale.significands[rows, block]
    nan = factor.isnan()
    return torch.where(nan[:, None], torch.nan, values), exponent, torch.where(nan, 1.0, factor)
