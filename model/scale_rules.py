"""Shared exponents of blocks: what a power-of-two scale is (section 2 of docs/numerics.md)."""

from typing import Protocol

from .arrays import FLOAT64_BIAS, FLOAT64_FRACTION, Array, cast, namespace, view

SCALE_RULES = ("floor", "ceil", "even")


class Range(Protocol):
    """What a shared exponent depends on: the largest value's exponent and its mantissa bits."""

    @property
    def emax(self) -> int: ...
    @property
    def mantissa_bits(self) -> int: ...
    @property
    def largest_finite(self) -> float: ...


def shared_exponent(amax: Array, fmt: Range, scale_rule: str) -> Array:
    """The block's exponent before clamping, int64, for positive `amax` (far below for 0).

    By the bits of float64, where all of float32's subnormals are normal: no logarithm.
    """
    bits = view(cast(amax, "float64"), "int64")
    one = 1 << FLOAT64_FRACTION
    if scale_rule == "even":
        bits = bits + one // 2 ** (fmt.mantissa_bits + 1)  # half of the last place; a carry runs on
    elif scale_rule == "ceil":
        # The least e with amax <= largest x 2^e compares the two significands in [1, 2).
        bits = bits + (2 * one - 1 - int(fmt.largest_finite / 2.0**fmt.emax * one))
    exponent = namespace(bits).bitwise_right_shift(bits, FLOAT64_FRACTION) - FLOAT64_BIAS
    return exponent - fmt.emax
