"""The element formats that a quantiser makes."""

from collections.abc import Sequence
from typing import Any

from ..errors import choice
from ..formats import (
    E8M0,
    FORMATS,
    ElementFormat,
    IntegerFormat,
    element_format,
    sign_magnitude,
)

MOST_BITS = 8  # of an element
SIGN_MAGNITUDES = {fmt.name: fmt for fmt in map(sign_magnitude, range(2, MOST_BITS))}
"""Elements of MSFP and of the formats with micro-exponents, beside those of MX."""


def quantized_format(value: Any) -> ElementFormat:
    """An element format of MX of at most `MOST_BITS` bits or one of `SIGN_MAGNITUDES`, or of its
    name; else ValueError."""
    if isinstance(value, IntegerFormat) and value in SIGN_MAGNITUDES.values():
        return value
    if isinstance(value, str) and value.lower() in SIGN_MAGNITUDES:
        return SIGN_MAGNITUDES[value.lower()]
    if isinstance(value, str) and value.lower() not in FORMATS:
        short = [name for name, fmt in FORMATS.items() if fmt.bits <= MOST_BITS]
        choice("formats", value, [*short, *SIGN_MAGNITUDES])
    fmt = element_format(value, "formats")
    if fmt.bits > MOST_BITS:
        raise ValueError(
            f"formats of a quantiser must have at most {MOST_BITS} bits, not those of {fmt}"
        )
    return fmt


def check_micro(micro: bool, scales: str, formats: Sequence[ElementFormat]) -> None:
    """ValueError for micro-exponents beside anything but E8M0 scales and integers."""
    if micro and scales != E8M0.name:
        raise ValueError(f"micro must be False with {scales} scales, not True")
    for fmt in formats:
        if micro and not fmt.is_integer:
            raise ValueError(f"formats with micro-exponents must be integers, not {fmt}")
