"""Chains of fused multiply-adds without subnormal numbers: Intel's dot products of BF16."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .. import rounding
from ..arrays import Array, namespace
from ..formats import FLOAT32
from ..pipeline.widths import Widths
from ..rounding import F32, F64
from ..steps import Step, Steps
from ..trace import Recorder
from ..wide import WideSum
from .base import times_factor
from .machine import Machine

LEAST_KEPT = FLOAT32.smallest_normal * (1 - 2.0 ** -(FLOAT32.significand_bits + 1))
"""Least magnitude that rounds to a normal number, with exponents of any size."""


@dataclass(frozen=True, kw_only=True)
class ChainMachine(Machine):
    """Steps of `terms` elements in chains of fused multiply-adds, each rounded by RNE.

    from_c: one chain, which starts from c and takes the second of each pair of elements first. Else
    even and odd places have a chain each from +0; their sum is added to c.
    Subnormal elements and a subnormal c count as zeros. A result that is below the normal numbers,
    rounded with exponents of any size, is zero.
    """

    from_c: bool = False
    has_unit: ClassVar[bool] = False
    summary = "chains of fused multiply-adds, RNE, without subnormal numbers"

    @property
    def flushes(self) -> bool:
        """Whether subnormal numbers count as zeros."""
        return True

    def rounded(self, total: Array) -> F32:
        """RNE of float64 `total` to float32, with zeros for results below the normal numbers."""
        small = abs(total) < LEAST_KEPT
        return namespace(total).where(small, 0.0, rounding.nearest_even(total))

    @property
    def rule(self) -> str:
        kind = "one chain from c" if self.from_c else "even and odd places apart"
        return (
            f"fused multiply-adds in steps of {self.terms} terms, {kind}, subnormal numbers flushed"
        )

    def places(self, size: int) -> range:
        """Places of a step in the order of the chain."""
        return range(size - 1, -1, -1) if self.from_c else range(size)

    def run(self, steps: Steps, c: F32, record: Recorder) -> F32:
        c = self.started(c, record)
        for step in steps.walk(record):
            c = self._added(step, c, record)
            record.stage("accumulator", c)
        return c

    def _added(self, step: Step, c: F32, record: Recorder) -> F32:
        active = (step.special == 0) & np.isfinite(c)

        def joined(x: F32, y: WideSum, special: Array) -> F32:
            """x + y rounded once. Infinities and NaN, also of an overflow, as in IEEE 754."""
            with np.errstate(invalid="ignore"):
                plain = x + special.astype(np.float32)
            finite = np.isfinite(plain)
            exact = y.plus(np.where(finite, x, 0).astype(np.float64))
            result = self.rounded(exact)
            record.rounded(exact, result, active & finite)
            return np.where(finite, result, plain)

        special = _split(step.values)[1]
        places = self.places(special.shape[-1])
        if self.from_c:
            terms = np.ldexp(step.terms, step.scale[:, None])
            for place in places:
                c = joined(c, WideSum(terms[:, place]), special[:, place])
            return c
        chains = [np.zeros_like(c), np.zeros_like(c)]
        for place in places:
            chain = chains[place % 2]
            term = WideSum(step.products[:, place])
            chains[place % 2] = joined(chain, term, special[:, place])
        odd, special = _split(chains[1])
        partial, special = _split(joined(chains[0], WideSum(odd), special))
        block = times_factor(partial, step.factor).scaled(step.scale)
        return joined(c, block, special)

    def check_unit(self, lanes: int, scale_block: int) -> None:
        """ValueError: no unit has this rule."""
        raise ValueError(
            f"accumulator {self} has no RTL: the model, the GPU path and exports have it"
        )

    def sections(self, widths: Widths) -> tuple[()]:
        """None: no unit has this rule."""
        return ()


def _split(x: Array) -> tuple[F64, Array]:
    """(finite numbers as float64, NaN and infinities), with zeros for the others."""
    finite = np.isfinite(x)
    return np.where(finite, x, 0).astype(np.float64), np.where(finite, 0, x)
