"""Real numbers as a unit is given them."""

from numpy.typing import ArrayLike

from ...model import ElementFormat, MXArray, quantize, unscaled

SCALED_BITS = 8
"""Elements of so many bits or fewer are scaled: wider ones have exponents of their own."""


def in_blocks(x: ArrayLike, fmt: ElementFormat, block_size: int, scale_rule: str) -> MXArray:
    """`x` in blocks filled up with zeros; elements of more than 8 bits under scales of 1."""
    if fmt.bits > SCALED_BITS:
        return unscaled(x, fmt, block_size=block_size, pad=True)
    return quantize(x, fmt, block_size=block_size, pad=True, scale_rule=scale_rule)
