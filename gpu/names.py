"""Formats, schemes and accumulators as texts, which operators of PyTorch take for arguments.

Objects without a name are kept here under a description, for as long as the process runs.
"""

from typing import Any

from ..model.accumulators import Accumulator
from ..model.accumulators import accumulator as find_accumulator
from ..model.formats import FORMATS, ElementFormat, FloatFormat, IntegerFormat, TableFormat
from ..model.formats.codes import Specials
from ..model.schemes import SCHEMES, Scheme
from ..model.schemes import scheme as find_scheme

OTHERS: dict[str, Any] = {}


def format_name(fmt: ElementFormat) -> str:
    """The text of an element format: its name, or all that it is."""
    known = FORMATS.get(fmt.name)
    if isinstance(fmt, TableFormat):
        return _description(fmt)
    if known is fmt or known == fmt:  # equality of all fields takes long
        return fmt.name
    if type(fmt) not in (FloatFormat, IntegerFormat):  # its values may be others
        raise TypeError(
            f"format {fmt} must be a FloatFormat, IntegerFormat or TableFormat, not {fmt!r}"
        )
    if isinstance(fmt, FloatFormat):
        sizes = f"{fmt.exponent_bits}:{fmt.mantissa_bits}:{fmt.specials.name}:{int(fmt.native)}"
        return f"float:{sizes}:{fmt.name}"
    flags = f"{int(fmt.sign_magnitude)}:{int(fmt.symmetric)}"
    sizes = f"{fmt.bits}:{fmt.lowest}:{fmt.highest}:{fmt.fraction_bits}"
    return f"integer:{sizes}:{flags}:{fmt.name}"


def named_format(name: str) -> ElementFormat:
    """Format of a text."""
    if name in FORMATS:
        return FORMATS[name]
    if name in OTHERS:
        return OTHERS[name]
    kind, _, text = name.partition(":")
    if kind == "float":
        exponent_bits, mantissa_bits, specials, native, own = text.split(":", 4)
        sizes = int(exponent_bits), int(mantissa_bits)
        return FloatFormat(own, *sizes, Specials[specials], native == "1")
    *sizes, sign_magnitude, symmetric, own = text.split(":", 6)
    return IntegerFormat(own, *map(int, sizes), sign_magnitude == "1", symmetric == "1")


def scheme_name(scheme: Scheme) -> str:
    """The text of a scheme."""
    return scheme.name if SCHEMES.get(scheme.name) == scheme else _description(scheme)


def named_scheme(name: str) -> Scheme:
    """Scheme of a text; ValueError unless it is a known scheme or made in this process."""
    if name in SCHEMES:
        return SCHEMES[name]
    if name not in OTHERS:
        raise ValueError(f"scheme must be a row of SCHEMES or made in this process, not {name!r}")
    return OTHERS[name]


def known_scheme(value: Scheme | str) -> tuple[Scheme, str]:
    """A scheme and its text, of either, or of what `mxdot.model.schemes.scheme` takes."""
    if isinstance(value, str) and value in OTHERS:
        return OTHERS[value], value
    known = find_scheme(value)
    return known, scheme_name(known)


def accumulator_name(rule: Accumulator) -> str:
    """The text of an accumulator."""
    name = str(rule)
    try:
        known = find_accumulator(name)
    except ValueError:
        known = None
    return name if known == rule else _description(rule)


def named_accumulator(name: str) -> Accumulator:
    """Accumulator of a text; ValueError for other texts."""
    return OTHERS[name] if name in OTHERS else find_accumulator(name)


def _description(value: object) -> str:
    text = repr(value)
    while OTHERS.setdefault(text, value) != value:  # a class that is defined anew
        text += "'"
    return text
