"""Exact INT32 sums of integer schemes and their rescaling: `mxdot.model.schemes.integer` on a
device."""

import torch
from torch import Tensor

from ...model.errors import choice
from ...model.schemes import integer as model
from ..eager import eager
from ..ops.matmul import running_value
from ..tensors.scaled import ScaledTensor
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
        return self.added_to(zero if c is None else running_value(c, zero, (m, n)))


@eager
def integer_sums(a: ScaledTensor, b: ScaledTensor, *, overflow: str = "refuse") -> IntegerSums:
    """The exact sums over the last axes of a (M, K) and b (N, K), for every region.

    overflow: ``refuse`` a region longer than `largest_length` of the two schemes, or ``wrap`` as
    INT32 does and tell where.
    Raises TypeError or ValueError, naming the argument, for anything else.
    """
    choice("overflow", overflow, ("refuse", "wrap"))
    check_pair(a, b)
    return IntegerSums(*model.sums_of(operand(a), operand(b), a.scheme, b.scheme, overflow))
