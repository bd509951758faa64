"""Ranges of scales and of scaled magnitudes that a quantiser reaches."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...model import E8M0, ElementFormat, QuantizeConfig
from ...model.formats import E4M3

ENDS = ("clamped to the smallest", "inside", "clamped to the largest")


def exponent_limits(config: QuantizeConfig, *formats: ElementFormat) -> tuple[int, int]:
    """Shared exponents, before they are clamped, of the least and the largest amax."""
    source = config.source
    least = source.lsb - max(fmt.emax for fmt in formats)
    emax = min(fmt.emax for fmt in formats)
    carry = any(rule != "floor" for rule in config.scale_rules)
    top = 2 ** (source.exponent_bits - 1) - 1 - emax + carry
    return least, top


def range_bins(config: QuantizeConfig, *formats: ElementFormat) -> Sequence[object]:
    """Places of scales' exponents before they are clamped: some of `ENDS`."""
    if config.divides:
        return ENDS
    least, top = exponent_limits(config, *formats)
    low, high = E8M0.exponent_range
    return [ENDS[0]] * (least < low) + [ENDS[1]] + [ENDS[2]] * (top > high)


def stays_below(config: QuantizeConfig, *formats: ElementFormat) -> bool:
    """True for `twice`, except where E8M0 ends: scaled magnitudes then stay below 2^emax."""
    return set(config.scale_rules) == {"twice"} and ENDS[2] not in range_bins(config, *formats)


def tied_scales(config: QuantizeConfig, fmt: ElementFormat) -> NDArray[np.int64]:
    """Codes of E4M3 scales such that a block's quotient can lie halfway to the next scale.

    Halfway times the largest element must fit the source's digits.
    """
    codes = np.arange(1, E4M3.largest_code)
    fraction, _ = np.frexp((E4M3.values[codes] + E4M3.values[codes + 1]) * fmt.largest_finite)
    return codes[np.ldexp(fraction, config.source.significand_bits) % 1 == 0]
