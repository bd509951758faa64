"""`fixed:W:L`: a W-bit two's-complement register in units of 2^L.

A register of up to 51 bits whose block sums fit float64 runs in float64, which then holds register
and addend exactly; any other (a Kulisch register, or E5M2 x E5M2) runs in Python integers.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .. import rounding
from ..errors import choice
from ..formats import FLOAT32
from ..pipeline.placement import Section
from ..pipeline.sections import factor_sections
from ..pipeline.widths import Widths
from ..rounding import F32, F64
from ..specials import special_class, special_value
from ..steps import Steps
from ..trace import Recorder
from ..wide import CARRIER_BITS, exact_sum, integers, jammed
from .base import Accumulator

FLOAT64_WIDTH = CARRIER_BITS - 2
Objects = NDArray[np.object_]


@dataclass(frozen=True)
class Fixed(Accumulator):
    """A `width`-bit (2 to 1024) register in units of 2^`lsb` (-1024 to 1023).

    `overflow` is ``saturate`` or ``wrap``.
    """

    width: int
    lsb: int
    overflow: str = "saturate"
    syntax = "fixed:W:L[:wrap]"
    examples = ("fixed:48:-20", "fixed:24:-10:wrap")
    summary = "W-bit two's-complement register in units of 2^L; saturates or wraps; RNE result"
    sums_exactly = True
    takes_significands = True

    def __post_init__(self) -> None:
        self._check("width", "W of fixed", 2, 1024)
        self._check("lsb", "L of fixed", -1024, 1023)
        choice("overflow of fixed", self.overflow, ("saturate", "wrap"))

    def __str__(self) -> str:
        text = f"fixed:{self.width}:{self.lsb}"
        return text if self.overflow == "saturate" else f"{text}:wrap"

    @property
    def register(self) -> "Fixed":
        """The accumulator itself."""
        return self

    def wider(self, bits: int) -> list[Accumulator]:
        """One register with `bits` more at the top, and one with `bits` more at the bottom."""
        top = replace(self, width=self.width + bits)
        return [top, replace(top, lsb=self.lsb - bits)]

    def run(self, steps: Steps, c: F32, record: Recorder) -> F32:
        """Add the block sums in turn to n registers that start at `c`.

        A special term or a special `c` decides the result; its register does not change any more.
        """
        classes = special_class(c)
        start = np.where(classes == 0, c, 0.0).astype(np.float64)
        if self.width <= FLOAT64_WIDTH and steps.exact_sums_fit:
            register = _Float64Register(self, record, steps.n)
            register.add(start, np.full(steps.n, -self.lsb), classes == 0)
        else:
            register = _IntegerRegister(self, record, steps.n)
            start_units = integers(np.ldexp(start, -FLOAT32.lsb))
            register.add(start_units, np.full(steps.n, FLOAT32.lsb - self.lsb), classes == 0)
        for step in steps.walk(record):
            classes = classes | step.special
            total = exact_sum(step.terms, step.bits, step.lsb)
            if isinstance(register, _Float64Register):
                addend = register.add(total.high, step.scale - self.lsb, classes == 0, step.lsb)
            else:
                exponent = step.scale + step.lsb - self.lsb
                addend = register.add(total.integers(step.lsb), exponent, classes == 0)
            if record.keep_stages:
                record.stage("integer_sum", total.integers(step.lsb))
                record.stage("addend", integers(addend))
                record.stage("accumulator", register.integers())
        with np.errstate(over="ignore"):
            exact = np.ldexp(register.rounded_to_odd(), self.lsb)
        result = rounding.nearest_even(exact)
        record.rounded(exact, result, classes == 0)
        return np.where(classes == 0, result, special_value(classes))

    def sections(self, widths: Widths) -> tuple[Section, ...]:
        """Shift of the sum to the register's grid, addition, and rounding after the loop."""
        return (
            *factor_sections(widths, ends_in_rows=False),
            Section("scale", 540),
            Section("accumulate", 640, holds=True, loop=True),
            Section("round", 710),
        )


class _Float64Register:
    def __init__(self, rule: Fixed, record: Recorder, n: int) -> None:
        self.rule, self.record = rule, record
        self.value = np.zeros(n)

    def add(
        self,
        term: NDArray,
        exponent: NDArray[np.int64],
        active: NDArray[np.bool_],
        lsb: int = FLOAT32.lsb,
    ) -> NDArray:
        """Add RZ(term x 2^exponent) where `active`, and return this addend.

        term: multiples of 2^lsb.
        """
        # Far outside the register's range the exact distance does not matter.
        scaled = np.ldexp(term, np.clip(exponent, -400, max(200, FLOAT64_WIDTH - lsb)))
        units = np.trunc(scaled)
        self.record.truncated((units != scaled) & active)
        size = 2.0**self.rule.width
        low, high = -size / 2, size / 2 - 1
        total = self.value + units
        outside = (total < low) | (total > high)
        self.record.saturated |= outside & active
        if self.rule.overflow == "saturate":
            total = np.clip(total, low, high)
        else:
            total = np.mod(self.value + np.fmod(units, size) - low, size) + low
        self.value = np.where(active, total, self.value)
        return units

    def rounded_to_odd(self) -> F64:
        return self.value

    def integers(self) -> Objects:
        return integers(self.value)


class _IntegerRegister:
    def __init__(self, rule: Fixed, record: Recorder, n: int) -> None:
        self.rule, self.record = rule, record
        self.value: Objects = np.full(n, 0, dtype=object)

    def add(self, term: NDArray, exponent: NDArray[np.int64], active: NDArray[np.bool_]) -> NDArray:
        """Add RZ(term x 2^exponent) where `active`, and return this addend."""
        size = 1 << self.rule.width
        low, high = -size // 2, size // 2 - 1
        units = _scale_toward_zero(term, exponent.astype(object))
        back = _scale_toward_zero(units, -exponent.astype(object))
        self.record.truncated((back != term).astype(bool) & active)
        total = self.value + units
        outside = ((total < low) | (total > high)).astype(bool)
        self.record.saturated |= outside & active
        if self.rule.overflow == "saturate":
            total = np.minimum(np.maximum(total, low), high)
        else:
            total = (total - low) % size + low
        self.value = np.where(active, total, self.value)
        return units

    def rounded_to_odd(self) -> F64:
        return jammed(self.value).astype(np.float64)

    def integers(self) -> Objects:
        return self.value


def _shift(value: int, exponent: int) -> int:
    if exponent >= 0:
        return value << exponent
    return value >> -exponent if value >= 0 else -(-value >> -exponent)


_scale_toward_zero: Callable[..., Objects] = np.frompyfunc(_shift, 2, 1)
