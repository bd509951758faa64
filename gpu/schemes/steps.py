"""The steps of products of two operands, for the rules of every accumulator (`gpu/rules/`)."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ...model.schemes.operand import Operand
from ...model.schemes.steps import significands, term_width
from ..rules.steps import Step


@dataclass(frozen=True)
class ScaledSteps:
    """A tile of a product over the columns of one region: `rows` of a against `columns` of b.

    cuts: (start, stop) of every step.
    """

    a: Operand
    b: Operand
    rows: slice
    columns: slice
    cuts: tuple[tuple[int, int], ...]

    @property
    def bits(self) -> int:
        """Width of the largest term in units of 2^lsb."""
        return term_width(self.a, self.b)

    @property
    def lsb(self) -> int:
        """Every term is a multiple of 2^lsb."""
        return self.a.lsb + self.b.lsb - sum(significands(self.a, self.b))

    @property
    def longest(self) -> int:
        """Terms of the largest step."""
        return max(stop - start for start, stop in self.cuts)

    def walk(self) -> Iterator[Step]:
        """The steps in order."""
        bits, lsb, factors = self.bits, self.lsb, len(significands(self.a, self.b))
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
