"""Exact sums that may need more than the 53 bits of one float64."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import rounding
from .arrays import Array, at_least, exponent, is_tensor, matched, namespace, power
from .formats import FLOAT64
from .rounding import F64

CARRIER_BITS = FLOAT64.significand_bits


@dataclass(frozen=True)
class WideSum:
    """An exact float64 sum `high` + `low`; `low` is None where the sum fits one float64.

    Where two float64 do not hold the sum, `low` is rounded to odd, which changes no result with a c
    of 24 bits; `whole` has these sums as Python integers.
    """

    high: Array
    low: Array | None = None
    whole: "Whole | None" = None

    def plus(self, c: Array) -> Array:
        """The sum plus `c`, rounded to odd."""
        if self.low is None:
            return rounding.add_to_odd(self.high, c)
        return rounding.sum3_to_odd(self.high, self.low, c)

    def scaled(self, exponent: Array) -> "WideSum":
        """The sum x 2^exponent."""
        factor = power(exponent)
        return WideSum(self.high * factor, None if self.low is None else self.low * factor)

    def rounded_to_odd(self) -> Array:
        """The sum as one float64; a zero is +0."""
        odd = self.high if self.low is None else rounding.to_odd(self.high, self.low)
        return odd + 0.0

    def integers(self, lsb: int) -> NDArray[np.object_]:
        """The sum x 2^-lsb as Python integers."""
        result = integers(np.ldexp(self.high, -lsb))
        if self.low is not None:
            result = result + integers(np.ldexp(self.low, -lsb))
        if self.whole is not None:
            result[self.whole.rows] = self.whole.sums << (self.whole.lsb - lsb)
        return result


class Whole(NamedTuple):
    """Sums of the rows where `rows` is true, as Python integers in units of 2^lsb."""

    rows: NDArray[np.bool_]
    sums: NDArray[np.object_]
    lsb: int


def integers(values: F64) -> NDArray[np.object_]:
    """Python integers of integral `values`; 0 for a NaN."""
    return np.array(np.frompyfunc(int, 1, 1)(np.nan_to_num(values, nan=0.0)), np.object_)


def exact_sum_fits(bits: int, count: int) -> bool:
    """Whether `exact_sum` of `count` terms of `bits` bits fits one float64."""
    return bits + (count - 1).bit_length() <= CARRIER_BITS


def exact_sum(terms: Array, bits: int, lsb: int) -> WideSum:
    """Exact sum over the last axis of multiples of 2^lsb of at most 2^(bits + lsb) each."""
    if exact_sum_fits(bits, terms.shape[-1]):
        return WideSum(terms.sum(-1))
    if terms.shape[-1] == 2:
        return WideSum(
            *rounding.clear_special_error(*rounding.two_sum(terms[..., 0], terms[..., 1]))
        )
    if not exact_sum_fits(bits - bits // 2, terms.shape[-1]):
        return _spread_sum(terms, lsb)
    # Multiples of 2^middle and remainders below it: each half sums exactly.
    middle = 2.0 ** (lsb + bits // 2)
    upper = terms * (1 / middle)
    namespace(upper).trunc(upper, out=upper)
    upper *= middle
    halves = rounding.clear_special_error(upper.sum(-1), (terms - upper).sum(-1))
    return WideSum(*rounding.clear_special_error(*rounding.two_sum(*halves)))


def _spread_sum(terms: Array, lsb: int) -> WideSum:
    """`exact_sum` of terms whose exponents may differ by more bits than two float64 hold.

    Two windows below the largest term hold nearly every sum of real numbers; Python integers hold
    the rest.
    """
    xp = namespace(terms)
    given = terms
    finite = xp.isfinite(terms)
    terms = xp.where(finite, terms, 0.0)
    bits = CARRIER_BITS - (terms.shape[-1] - 1).bit_length()  # per window
    largest = xp.amax(xp.abs(terms), -1)
    top = at_least(exponent(largest), lsb)[..., None] + 1
    upper = _truncate(terms, top - bits)
    below = terms - upper
    lower = _truncate(below, top - 2 * bits)
    high, low = rounding.two_sum(upper.sum(-1), lower.sum(-1))
    rows, whole = (below != lower).any(-1), None
    if rows.any():
        units = np.ldexp(_on_host(terms[rows]), -lsb)
        whole = Whole(_on_host(rows), integers(units).sum(-1), lsb)
        leading = whole.sums.astype(np.float64)
        rest = jammed(whole.sums - integers(leading)).astype(np.float64)
        high[rows] = matched(np.ldexp(leading, lsb), terms)
        low[rows] = matched(np.ldexp(rest, lsb), terms)
    special = ~finite.all(-1)
    return WideSum(xp.where(special, given.sum(-1), high), xp.where(special, 0.0, low), whole)


def _truncate(x: Array, exponent: Array) -> Array:
    """Multiples of 2^exponent, toward zero."""
    return namespace(x).trunc(x * power(-exponent)) * power(exponent)


def _on_host(x: Array) -> NDArray:
    return x.cpu().numpy() if is_tensor(x) else x


def _jam(value: int) -> float:
    """`value` rounded to odd at 53 bits, as float64."""
    magnitude = abs(value)
    excess = max(0, magnitude.bit_length() - CARRIER_BITS)
    truncated = magnitude >> excess
    sticky = truncated << excess != magnitude
    odd = float((truncated | sticky) << excess)  # fits float64: sums have at most 1024 bits
    return -odd if value < 0 else odd


jammed: Callable[..., NDArray[np.object_]] = np.frompyfunc(_jam, 1, 1)
"""Python integers, rounded to odd."""
