"""The steps of products of two operands, for the rules of every accumulator (`gpu/reference/`)."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ...model.schemes.operand import Operand
from ...model.steps.operands import Terms
from ..reference.steps import Step


@dataclass(frozen=True)
class ScaledSteps(Terms):
    """A tile of a product: `rows` of a against `columns` of b."""

    rows: slice
    columns: slice

    def walk(self) -> Iterator[Step]:
        """The steps in order."""
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
