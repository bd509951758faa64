"""The terms of dot products as exact float64: what references and bounds are computed from.

Written from the numeric contract (section 3) and the format table alone, without the golden
model's product tables, so that a mistake there is not repeated here.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...model import E8M0, ElementFormat, MXArray
from .reference import F64

I16 = NDArray[np.int16]
NEVER = 2**13  # beyond every exponent: a zero product has no digits


def unit_exponents(fmt: ElementFormat) -> I16:
    """Exponent of the unit digit of every code: that of the value, at least emin."""
    _, significand, exponent = fmt.triples
    return np.where(significand == 0, fmt.emin, exponent + fmt.mantissa_bits).astype(np.int16)


@dataclass(frozen=True)
class Terms:
    """Terms of n dot products in steps of t, scales included; arrays are (n, steps, t).

    values: a_i x b_i x 2^s. unit: U_i + s, -NEVER for a zero product. digit: the exponent of the
    last digit, E_i + s, NEVER for a zero product: a term is a multiple of 2^digit.
    """

    values: F64
    unit: I16
    digit: I16

    @cached_property
    def magnitudes(self) -> F64:
        """Absolute values."""
        return np.abs(self.values)

    @cached_property
    def sums(self) -> F64:
        """The sum of each step (n, steps), to float64's precision."""
        return self.values.sum(axis=-1)

    @cached_property
    def absolute_sums(self) -> F64:
        """The sum of each step's absolute values (n, steps)."""
        return self.magnitudes.sum(axis=-1)

    @cached_property
    def totals(self) -> F64:
        """The sum of all absolute values (n,): the scale on which errors are small or large."""
        return self.absolute_sums.sum(axis=-1)

    def running(self, first: int = 0, stop: int | None = None) -> F64:
        """Upper bounds of the exact |sum of steps first..j| for every j before `stop`."""
        rounding = 2.0**-52 * self.values.shape[1] * self.values.shape[2]
        absolute = np.cumsum(self.absolute_sums[:, first:stop], axis=1)
        return np.abs(np.cumsum(self.sums[:, first:stop], axis=1)) + rounding * absolute

    def in_steps(self, size: int) -> "Terms":
        """The same terms with each step cut into steps of `size` or fewer, zeros appended."""
        n, steps, t = self.values.shape
        if size >= t:
            return self
        shape = (n, steps * -(-t // size), size)
        fill = ((0, 0), (0, 0), (0, -t % size))
        return Terms(
            np.pad(self.values, fill).reshape(shape),
            np.pad(self.unit, fill, constant_values=-NEVER).reshape(shape),
            np.pad(self.digit, fill, constant_values=NEVER).reshape(shape),
        )


def terms_of(a: MXArray, b: MXArray) -> Terms:
    """The terms of the dot products of the rows of `a` and `b` (n, K), a step for each block.

    ValueError when one of them is not finite.
    """
    codes_a, scale_a = a.blocks_last()
    codes_b, scale_b = b.blocks_last()
    scale = scale_a.astype(np.int16) + scale_b - np.int16(2 * E8M0.bias)
    with np.errstate(invalid="ignore"):
        values = a.format.values[codes_a] * b.format.values[codes_b]
    nan_scale = (scale_a == E8M0.nan_code) | (scale_b == E8M0.nan_code)
    if nan_scale.any() or not np.isfinite(values).all():
        raise ValueError("operands must be finite, not NaN or infinite")
    values *= np.ldexp(1.0, scale)[..., None]
    unit = unit_exponents(a.format)[codes_a] + unit_exponents(b.format)[codes_b]
    unit += scale[..., None]
    digit = unit - np.int16(a.format.mantissa_bits + b.format.mantissa_bits)
    zero = values == 0
    never = np.int16(NEVER)
    return Terms(values, np.where(zero, -never, unit), np.where(zero, never, digit))
