"""Exact INT32 sums of integer schemes and their rescaling, `mxdot.model.schemes.integer` on a
device: operator `mxdot::integer_sums`.
"""

import torch
from torch import Tensor

from ...model.errors import choice
from ...model.schemes import integer as model
from ...model.schemes.operand import element_range
from ...model.schemes.regions import regions_of
from ..names import named_scheme
from ..operators import operator
from ..ops.matmul import running_value
from ..tensors.scaled import ScaledTensor, scaled_of
from .operand import check_pair, operand


class IntegerSums(model.IntegerSums):
    """Sums of (q_a - z_a)(q_b - z_b), inner integer scales multiplied in, over each region.

    sums: int32 (M, N, regions), as multiples of 2^lsb. scales: float32 (M, N, regions), S of
    each. overflowed: bool, where the exact sum left INT32, and `sums` holds it modulo 2^32.
    Tensors of one device.
    """

    sums: Tensor
    scales: Tensor
    overflowed: Tensor

    def rescale(self, c: Tensor | None = None) -> Tensor:
        """C' = RNE_fp32(C + S x RNE_fp32(sum)), region after region, from `c` or +0.

        c: floats that are float32, broadcastable to (M, N); TypeError or ValueError if not.
        """
        m, n, _ = self.sums.shape
        zero = torch.zeros_like(self.scales[..., 0])
        start = zero if c is None else running_value(c, zero, (m, n))
        return _rescale(self.sums, self.scales, start, self.lsb)


def integer_sums(a: ScaledTensor, b: ScaledTensor, *, overflow: str = "refuse") -> IntegerSums:
    """The exact sums over the last axes of a (M, K) and b (N, K), for every region.

    overflow: ``refuse`` a region longer than `largest_length` of the two schemes, or ``wrap`` as
    INT32 does and tell where.
    Raises TypeError or ValueError, naming the argument, for anything else.
    """
    choice("overflow", overflow, ("refuse", "wrap"))
    check_pair(a, b)
    names = a.scheme_name, b.scheme_name
    sums, scales, overflowed = _sums(a.parts(), b.parts(), *names, overflow)
    lsb = sum(element_range(named_scheme(name))[0] for name in names)
    return IntegerSums(sums, scales, overflowed, lsb)


def _fake(
    a_parts: list[Tensor], b_parts: list[Tensor], a_scheme: str, b_scheme: str, overflow: str
) -> tuple[Tensor, Tensor, Tensor]:
    (a, *_), (b, *_) = a_parts, b_parts
    (m, k), n = a.shape, b.shape[0]
    shape = m, n, len(regions_of(named_scheme(a_scheme), named_scheme(b_scheme), (m, k)))
    dtypes = torch.int32, torch.float32, torch.bool
    sums, scales, overflowed = (a.new_empty(shape, dtype=dtype) for dtype in dtypes)
    return sums, scales, overflowed


@operator("integer_sums", _fake)
def _sums(
    a_parts: list[Tensor], b_parts: list[Tensor], a_scheme: str, b_scheme: str, overflow: str
) -> tuple[Tensor, Tensor, Tensor]:
    """Sums, scales and where sums left INT32; axes of operands are their last."""
    a, b = scaled_of(a_scheme, a_parts, 1), scaled_of(b_scheme, b_parts, 1)
    sums, scales, overflowed, _ = model.sums_of(
        operand(a), operand(b), a.scheme, b.scheme, overflow
    )
    return sums, scales, overflowed


def _fake_rescale(_: Tensor, scales: Tensor, c: Tensor, lsb: int) -> Tensor:
    return torch.empty_like(c)


@operator("rescale_integer_sums", _fake_rescale)
def _rescale(sums: Tensor, scales: Tensor, c: Tensor, lsb: int) -> Tensor:
    return model.rescaled_sums(c, sums, scales, lsb)
