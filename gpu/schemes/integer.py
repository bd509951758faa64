"""Exact INT32 sums of integer schemes and their rescaling, as `mxdot.model.schemes.integer`."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from ...model.errors import choice
from ...model.formats import INT32
from ...model.schemes.integer import check_integers, check_length
from ...model.schemes.regions import regions
from ..eager import eager
from ..matmul import running_value
from ..rules.rounding import nearest_even
from .grouping import expand
from .operand import Operand, operand
from .regions import check_pair, region_scale, rescaled
from .tensor import ScaledTensor

DIGIT_BITS = 16  # of a factor's pieces, where products of whole factors leave float64


@dataclass(frozen=True, eq=False)  # tensors have no one truth value to compare by
class IntegerSums:
    """Sums of (q_a - z_a)(q_b - z_b), inner integer scales multiplied in, over each region.

    sums: int32 (M, N, regions), in units of 2^unit. scales: float32 (M, N, regions), S of
    each. overflowed: bool, where the exact sum left INT32, and `sums` holds it modulo 2^32.
    """

    sums: Tensor
    scales: Tensor
    overflowed: Tensor
    unit: int

    def rescale(self, c: Tensor | None = None) -> Tensor:
        """C' = RNE_fp32(C + S x RNE_fp32(sum)), region after region, from `c` or +0.

        c: floats that are float32, broadcastable to (M, N); TypeError or ValueError if not.
        """
        result = torch.zeros_like(self.scales[..., 0])
        if c is not None:
            m, n = result.shape
            result = running_value(c, result, (m, n))
        for sums, scale in zip(self.sums.unbind(-1), self.scales.unbind(-1), strict=True):
            result = _added(result, sums, scale, self.unit)
        return result


def _added(c: Tensor, sums: Tensor, scale: Tensor, unit: int) -> Tensor:
    partial = nearest_even(sums.to(torch.float64) * 2.0**unit)
    return rescaled(c, scale, partial)


@eager
def integer_sums(a: ScaledTensor, b: ScaledTensor, *, overflow: str = "refuse") -> IntegerSums:
    """The exact sums over the last axes of a (M, K) and b (N, K), for every region.

    overflow: ``refuse`` a region longer than `largest_length` of the two schemes, or ``wrap`` as
    INT32 does and tell where.
    Raises TypeError or ValueError, naming the argument, for anything else.
    """
    choice("overflow", overflow, ("refuse", "wrap"))
    check_pair(a, b)
    left, right = operand(a), operand(b)
    found = list(_sums(a, b, left, right, overflow))
    exact = torch.stack([sums for sums, _ in found], dim=-1)
    return IntegerSums(
        exact.to(torch.int32),  # modulo 2^32
        torch.stack([scale for _, scale in found], dim=-1),
        (exact < INT32.lowest) | (exact > INT32.highest),
        left.lsb + right.lsb,
    )


def rescaled_sums(a: ScaledTensor, b: ScaledTensor, c: Tensor) -> Tensor:
    """What `integer_sums(a, b).rescale(c)` gives, one region at a time."""
    left, right = operand(a), operand(b)
    for sums, scale in _sums(a, b, left, right, "refuse"):
        c = _added(c, sums, scale, left.lsb + right.lsb)
    return c


def _sums(
    a: ScaledTensor, b: ScaledTensor, left: Operand, right: Operand, overflow: str
) -> Iterator[tuple[Tensor, Tensor]]:
    """The exact int64 sums (M, N) of each region, and its S."""
    check_integers(a.scheme, b.scheme)
    parts = regions(left, right)
    if overflow == "refuse":
        check_length(a.scheme, b.scheme, max(region.length for region in parts))
    terms = [_integers(side) for side in (left, right)]
    for region in parts:
        columns = slice(region.start, region.stop)
        exact = _exact(terms[0][:, columns], terms[1][:, columns])
        yield exact, region_scale(region, left, right)


def _integers(side: Operand) -> Tensor:
    """The factors of the terms as integers, float64."""
    values = side.values * 2.0**-side.lsb
    for scale in side.blocks:
        factors = scale.significands * 2.0 ** (scale.fraction_bits)
        values = values * expand(factors, (1, scale.length))
    return values


def _exact(a: Tensor, b: Tensor) -> Tensor:
    """a times b transposed, exact, int64: sums of products below 2^53 by float64."""
    largest = [int(side.abs().max()) for side in (a, b)]
    if prod(largest) * a.shape[1] < 2**53:
        return (a @ b.T).to(torch.int64)
    if prod(largest) * a.shape[1] >= 2**63:
        raise ValueError(f"sums of a and b must fit 64 bits, not {a.shape[1]} terms of {largest}")
    if largest[0] < largest[1]:
        return _exact(b, a).T
    # Digits of the larger factors, and few enough columns, that a sum is one float64.
    step = 2**53 // (2**DIGIT_BITS * max(1, largest[1]))
    total = torch.zeros((len(a), len(b)), dtype=torch.int64, device=a.device)
    for shift in range(0, largest[0].bit_length(), DIGIT_BITS):
        digits = (a * 2.0**-shift).trunc().fmod(2.0**DIGIT_BITS)
        for start in range(0, a.shape[1], step):
            columns = slice(start, start + step)
            sums = (digits[:, columns] @ b[:, columns].T).to(torch.int64)
            total += torch.bitwise_left_shift(sums, shift)
    return total
