"""Choice of the kernel for a product: the executor ``triton`` of `mxdot.gpu.matmul`."""

from collections import ChainMap
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch import Tensor

from ...model.accumulators import Accumulator, Fixed, without_part
from ...model.accumulators.group_sums import GroupSums
from . import amd, device, emulate, exact_sums, fixed, group_sums, operands

if TYPE_CHECKING:
    from ..ops.matmul import Product

LARGEST_ROWS = 2**31 - 2**16  # rows of an operand, and of c, are counted in int32
_OTHERS: dict[type[Accumulator], Any] = dict.fromkeys((*amd.KERNELS, Fixed, GroupSums))
KNOWN: ChainMap[type[Accumulator], Any] = ChainMap(emulate.KERNELS, _OTHERS)


def refusal(product: "Product") -> str | None:
    """Why no kernel takes `product`; None when one does."""
    reason = device.refusal(product.device)
    if reason is not None:
        return reason
    for rows in product.shape:
        if rows > LARGEST_ROWS:
            return f"a and b must have at most {LARGEST_ROWS} rows, not {rows}"
    rule = product.accumulator
    reason = without_part(KNOWN, rule, "KERNELS of gpu/kernels/emulate.py")
    if reason is not None:
        return reason
    formats = product.formats
    reason = operands.refusal(*formats)
    if reason is not None:
        return reason
    if type(rule) in amd.KERNELS:
        return amd.refusal(rule, product.block_size)
    if operands.is_split(*formats) and rule.alignment_bits is None:
        a, b = formats
        return f"products of {a} x {b} leave float32: kernels take them aligned, not {rule}"
    if rule.register is not None:
        return fixed.refusal(rule.register, *formats, product.block_size)
    if isinstance(rule, GroupSums):
        return group_sums.refusal(rule, product.block_size)
    return emulate.refusal(rule, *formats, product.block_size)


def prepare(product: "Product") -> Callable[..., Tensor] | None:
    """The work for products like this one (`once.Prepared`); None where `run` does it each time."""
    m, n = product.shape
    rule = product.accumulator
    if not m or not n or rule.register is not None or isinstance(rule, GroupSums):
        return None
    if type(rule) in amd.KERNELS:
        return amd.prepare(product)
    if rule.sums_exactly and exact_sums.refusal(*product.formats, product.block_size) is None:
        return None
    return emulate.prepare(product)


def run(product: "Product") -> Tensor:
    """float32 (M, N), a zero as +0; the bits of a NaN are any."""
    m, n = product.shape
    if not m or not n:
        return product.a_codes.new_zeros((m, n)).float()
    if product.accumulator.register is not None:
        return fixed.run(product)
    if isinstance(product.accumulator, GroupSums):
        return group_sums.run(product)
    work = prepare(product)
    if work is None:
        return exact_sums.run(product)
    parts = product.a_codes, product.b_codes, product.a_scales, product.b_scales
    return work(*parts, product.c)
