"""Formats as JSON types, with all that they are: what files keep of a format."""

from dataclasses import fields
from typing import Any

from ..errors import choice, one_line
from .codes import Specials
from .floating import FloatFormat
from .integer import IntegerFormat, UnsignedFormat
from .power import PowerFormat
from .table import FORMATS, SCALE_FORMATS, ElementFormat, ScaleFormat

CLASSES = {
    "float": FloatFormat,
    "integer": IntegerFormat,
    "unsigned": UnsignedFormat,
    "power": PowerFormat,
}
ROWS = FORMATS | SCALE_FORMATS
Format = ElementFormat | ScaleFormat


def described(fmt: Format) -> dict[str, Any]:
    """The class and the fields of a format; ValueError where `restored` would refuse them."""
    kinds = {kind: name for name, kind in CLASSES.items()}
    if type(fmt) not in kinds:
        known = ", ".join(kind.__name__ for kind in kinds)
        raise ValueError(f"format {fmt} must be one of {known}, not {type(fmt).__name__}")
    kind = kinds[type(fmt)]
    values = {f.name: getattr(fmt, f.name) for f in fields(fmt) if f.init}
    if isinstance(fmt, FloatFormat):
        values["specials"] = fmt.specials.name
    _check_name(fmt)
    return {"kind": kind, **values}


def restored(text: object) -> Format:
    """The inverse of `described`; without a kind, an integer.

    Raises ValueError or TypeError for what is no format, and for a name of the package's own with
    other contents.
    """
    if not isinstance(text, dict):
        raise TypeError(f"format must be a description, not {text!r}")
    values: dict[str, Any] = dict(text)
    kind = CLASSES[choice("kind of format", values.pop("kind", "integer"), CLASSES)]
    if kind is not UnsignedFormat and not isinstance(values.get("name"), str):
        raise TypeError(f"name of format must be text, not {values.get('name')!r}")
    if kind is FloatFormat:
        specials = choice("specials", values.get("specials"), Specials.__members__)
        values["specials"] = Specials[specials]
    fmt = kind(**values)
    _check_name(fmt)
    return fmt


def _check_name(fmt: Format) -> None:
    """ValueError where a float or a power of two has the name of another of the package's.

    Names of integers stand for no one format: `int8` is MX's, and other schemes have theirs.
    """
    row = ROWS.get(fmt.name)
    if isinstance(fmt, FloatFormat) and fmt.native and row is None:
        raise ValueError(f"native of {fmt} must be False: there is no float of that name")
    if row not in (None, fmt) and not isinstance(fmt, IntegerFormat):
        raise ValueError(one_line(f"format of the name {fmt.name} must be {row!r}, not {fmt!r}"))
