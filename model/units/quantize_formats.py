"""The element formats that a quantiser makes."""

from collections.abc import Sequence
from typing import Any

from ..errors import choice, integer
from ..formats import (
    E8M0,
    FORMATS,
    INT4_SYMMETRIC,
    INT8_SYMMETRIC,
    ElementFormat,
    IntegerFormat,
    element_format,
    p3109_named,
    sign_magnitude,
    unit_format,
)
from ..schemes.scheme import ERROR_DIGITS

MOST_BITS = 8  # of an element
SHORT_FORMATS = tuple(name for name, fmt in FORMATS.items() if fmt.bits <= MOST_BITS)
_SIGN_MAGNITUDES = map(sign_magnitude, range(2, MOST_BITS))
SCHEME_INTEGERS = {fmt.name: fmt for fmt in (*_SIGN_MAGNITUDES, INT8_SYMMETRIC, INT4_SYMMETRIC)}
"""Elements of MSFP and of the formats with micro-exponents, and whole integers, besides those of
MX."""


def quantized_format(value: Any) -> ElementFormat:
    """An element format of MX of at most `MOST_BITS` bits or one of `SCHEME_INTEGERS`, or of its
    name; else ValueError."""
    if isinstance(value, IntegerFormat) and value in SCHEME_INTEGERS.values():
        return value
    if isinstance(value, str) and value.lower() in SCHEME_INTEGERS:
        return SCHEME_INTEGERS[value.lower()]
    if isinstance(value, str) and value.lower() not in FORMATS and p3109_named(value) is None:
        choice("formats", value, [*SHORT_FORMATS, *SCHEME_INTEGERS])
    fmt = unit_format(element_format(value, "formats"))
    if fmt.bits > MOST_BITS:
        raise ValueError(
            f"formats of a quantiser must have at most {MOST_BITS} bits, not those of {fmt}"
        )
    return fmt


def check_micro(micro: bool, scales: str, formats: Sequence[ElementFormat]) -> None:
    """ValueError for micro-exponents with anything except E8M0 scales and integers."""
    if micro and scales != E8M0.name:
        raise ValueError(f"micro must be False with {scales} scales, not True")
    for fmt in formats:
        if micro and not fmt.is_integer:
            raise ValueError(f"formats with micro-exponents must be integers, not {fmt}")


def magnitudes(fmt: ElementFormat) -> tuple[float, ...]:
    """Values of a format as fractions of its largest power of two."""
    return tuple((fmt.values[: fmt.largest_code + 1] / 2.0**fmt.emax).tolist())


def check_select(
    select: int | None, formats: Sequence[ElementFormat], scales: str, micro: bool, beats: int
) -> None:
    """ValueError unless a unit can choose among the formats, with errors of `select` digits."""
    if select is None:
        return
    integer("select", select, *ERROR_DIGITS)
    widths = {fmt.bits for fmt in formats}
    for wrong, text in (
        (len(formats) == 1, f"one format, {formats[0]}"),
        (len(widths) > 1, f"formats of {' and '.join(map(str, sorted(widths)))} bits"),
        (scales != E8M0.name, f"{scales} scales"),
        (micro, "micro-exponents"),
        (beats > 1, f"blocks of {beats} beats"),
    ):
        if wrong:
            raise ValueError(f"select must be None with {text}, not {select}")
    known: dict[tuple[float, ...], ElementFormat] = {}
    for fmt in formats:
        same = known.setdefault(magnitudes(fmt), fmt)
        if same is not fmt:
            raise ValueError(
                f"formats to choose from must differ in their values, as {same} and {fmt} do not"
            )
