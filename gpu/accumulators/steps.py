"""The terms of a tile of dot products, cut into the steps in which an accumulator takes them."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import accumulate
from typing import Protocol

import torch
from torch import Tensor

from ...model.formats import E8M0, FLOAT32, ElementFormat, flushed
from ...model.products import Pair, unit_exponents
from ...model.wide import WideSum, exact_sum, exact_sum_fits
from ..ops.matmul import Product
from ..tensors.formats import in_order


@cache
def _values(fmt: ElementFormat, device: torch.device) -> Tensor:
    """The value of every code, float64."""
    return torch.tensor(fmt.values, device=device)


@cache
def _exponents(fmt: ElementFormat, device: torch.device) -> Tensor:
    """Exponents of all codes, int16: emin of subnormals, NO_EXPONENT of zero and special codes."""
    return torch.tensor(unit_exponents(fmt), device=device)


@dataclass(frozen=True)
class Step:
    """One step of (m, n) dot products: t products each, and a scale.

    a (m, t), b (n, t): float64 values, NaN where the block's scale is NaN, so that IEEE 754
    arithmetic finds the special results. a_exponents, b_exponents: int16, of subnormals emin.
    scale (m, n): int32, the exponents s of both scales added.
    size: elements taken. is_last: of its dot product.
    factor (m, n): float64, the scales' significand g, as in g x 2^scale, the product of `factors`
    numbers below 2; None where it is 1, as in MX.
    bits: width of the largest term, product x factor, in units of 2^lsb.
    """

    bits: int
    lsb: int
    a: Tensor
    b: Tensor
    a_exponents: Tensor
    b_exponents: Tensor
    scale: Tensor
    size: int
    is_last: bool
    factor: Tensor | None = None
    factors: int = 0

    @cached_property
    def products(self) -> Tensor:
        """(m, n, t) exact products, special ones included."""
        return self.a[:, None, :] * self.b[None, :, :]

    @property
    def terms(self) -> Tensor:
        """(m, n, t) products x factor, exact."""
        return self.products if self.factor is None else self.products * self.factor[..., None]

    @property
    def term_bits(self) -> int:
        """Every term is at most 2^term_bits of its unit digit: products lie below or at 4."""
        return 2 + self.factors

    @cached_property
    def largest_exponent(self) -> Tensor:
        """The largest sum of two elements' exponents, int32 (m, n): U of the contract.

        Below NO_EXPONENT // 2 when all products are zero or special.
        """
        return self.largest_exponents(slice(None))

    def largest_exponents(self, places: slice) -> Tensor:
        """`largest_exponent` of some of the products."""
        a, b = self.a_exponents[:, None, places], self.b_exponents[None, :, places]
        return (a + b).amax(dim=-1).to(torch.int32)

    @property
    def may_overflow(self) -> bool:
        """Whether finite products may add to more than float32 holds."""
        return self.bits + self.lsb + (self.size - 1).bit_length() > FLOAT32.emax

    @property
    def special(self) -> Tensor:
        """Sum (m, n) of the products that are NaN or infinite; 0 without any."""
        return torch.where(self.products.isfinite(), 0.0, self.products).sum(dim=-1)

    def sum(self) -> WideSum:
        """The exact sums of the terms (m, n)."""
        if not exact_sum_fits(self.bits, self.size):
            return exact_sum(self.terms, self.bits, self.lsb)
        total = self._sum_of_products()
        return WideSum(total if self.factor is None else total * self.factor)

    def _sum_of_products(self) -> Tensor:
        """Sum of a step's products; they fit one float64."""
        if bool(self.a.isfinite().all()) and bool(self.b.isfinite().all()):
            return self.a @ self.b.T  # exact in any order
        # A library's product may leave out zeros, and with them an infinity times zero.
        total = torch.zeros_like(self.scale, dtype=torch.float64)
        for i in range(self.size):
            total.addcmul_(self.a[:, i, None], self.b[None, :, i])
        return total


class Steps(Protocol):
    """The steps of a tile of dot products."""

    @property
    def bits(self) -> int:
        """Width of the largest term in units of 2^lsb."""
        ...

    @property
    def lsb(self) -> int:
        """Every term is a multiple of 2^lsb."""
        ...

    @property
    def longest(self) -> int:
        """Terms of the largest block."""
        ...

    def walk(self) -> Iterator[Step]: ...


@dataclass(frozen=True)
class BlockSteps:
    """A tile of a product: `rows` of a against `columns` of b, in the steps of its rule."""

    product: Product
    rows: slice
    columns: slice

    @property
    def formats(self) -> tuple[ElementFormat, ElementFormat]:
        """The formats as the rule reads them."""
        a, b = self.product.formats
        return (flushed(a), flushed(b)) if self.product.accumulator.flushes else (a, b)

    @property
    def bits(self) -> int:
        """Width of the largest product in units of 2^lsb."""
        return Pair(*self.product.formats).bits

    @property
    def lsb(self) -> int:
        """Every product is a multiple of 2^lsb."""
        return Pair(*self.product.formats).lsb

    @property
    def longest(self) -> int:
        """Terms of a block."""
        return self.product.block_size

    def walk(self) -> Iterator[Step]:
        p, rule = self.product, self.product.accumulator
        k, length = p.block_size, p.a_codes.shape[1]
        bits, lsb = self.bits, self.lsb
        sizes, order = rule.step_sizes(k), rule.order(k)
        a_codes, b_codes = p.a_codes[self.rows], p.b_codes[self.columns]
        if order is not None:
            places = torch.tensor(order, device=p.device)
            a_codes, b_codes = in_order(a_codes, places), in_order(b_codes, places)
        for block in range(length // k):
            a_scales, b_scales = p.a_scales[self.rows, block], p.b_scales[self.columns, block]
            scale = a_scales.to(torch.int32)[:, None] + b_scales.to(torch.int32)[None, :]
            scale = scale - 2 * E8M0.bias
            for end, size in zip(accumulate(sizes), sizes, strict=True):
                where = slice(block * k + end - size, block * k + end)
                a, a_exponents = _elements(a_codes[:, where], a_scales, self.formats[0])
                b, b_exponents = _elements(b_codes[:, where], b_scales, self.formats[1])
                is_last = block * k + end == length
                yield Step(bits, lsb, a, b, a_exponents, b_exponents, scale, size, is_last)


def _elements(codes: Tensor, scales: Tensor, fmt: ElementFormat) -> tuple[Tensor, Tensor]:
    """Values and exponents of codes (n, t) whose block has the scales (n,)."""
    index = codes.to(torch.int32)
    values = _values(fmt, codes.device)[index]
    return (
        torch.where((scales == E8M0.nan_code)[:, None], torch.nan, values),
        _exponents(fmt, codes.device)[index],
    )
