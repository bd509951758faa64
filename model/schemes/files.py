"""Quantised arrays and limits in npz files, with the description of their scheme."""

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import choice, one_line
from ..files import opened
from ..formats import (
    FORMATS,
    SCALE_FORMATS,
    ElementFormat,
    FloatFormat,
    IntegerFormat,
    PowerFormat,
    ScaleFormat,
    TableFormat,
    UnsignedFormat,
    p3109_named,
)
from ..formats.codes import Specials
from .array import ScaledArray
from .grouping import Granularity
from .quantize import Limits
from .scheme import Level, Scheme
from .storage import PackedArray, pack, unpack
from .table import SCHEMES

LARGEST = 2**36  # bytes of a file


def save(path: Path | str, value: ScaledArray | Limits) -> None:
    """Write a packed array, or limits, to an npz file.

    An MXArray becomes the ScaledArray of its scheme, its padding an ordinary part of it.
    """
    if isinstance(value, Limits):
        parts: dict[str, Any] = {"low": value.low, "high": value.high}
        header: dict[str, Any] = {"kind": "limits"}
    elif isinstance(value, ScaledArray):
        packed = pack(value)
        header = {"kind": "array", "shape": packed.shape, "axis": packed.axis}
        header["scheme"] = describe(packed.scheme)
        parts = {"elements": packed.elements}
        parts |= {f"scales{i}": scales for i, scales in enumerate(packed.scales)}
        optional = {"zero_points": packed.zero_points, "selectors": packed.selectors}
        parts |= {name: part for name, part in optional.items() if part is not None}
    else:
        raise TypeError(f"value must be a ScaledArray or Limits, not {type(value).__name__}")
    with Path(path).open("wb") as file:
        np.savez(file, header=np.array(json.dumps(header)), **parts)


def load(path: Path | str) -> ScaledArray | Limits:
    """The array or limits that `save` wrote; ValueError, with the path, for any other file."""
    try:
        with opened(path, LARGEST) as file:
            parts = {name: file[name] for name in file.names}
        header = json.loads(str(parts.pop("header")))
        if choice("kind", header["kind"], ("array", "limits")) == "limits":
            return Limits(parts["low"], parts["high"])
        scheme = scheme_of(header["scheme"])
        return unpack(
            PackedArray(
                scheme,
                tuple(header["shape"]),
                header["axis"],
                parts["elements"],
                tuple(parts[f"scales{i}"] for i in range(len(scheme.levels))),
                parts["zero_points"] if scheme.zero_point else None,
                parts["selectors"] if scheme.selector_bits else None,
            )
        )
    except (KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
        reason = one_line(f"it has no {error}" if isinstance(error, KeyError) else str(error))
        raise ValueError(f"{path} must hold a quantised array or limits: {reason}") from None


def describe(scheme: Scheme) -> dict[str, Any]:
    """A scheme in JSON types, its formats with all their fields.

    Raises ValueError for a format with the name of a different format of the package.
    """
    return {
        "name": scheme.name,
        "elements": [described(element) for element in scheme.elements],
        "levels": [
            {**asdict(level.granularity), "format": described(level.format), "rule": level.rule}
            for level in scheme.levels
        ],
        "source": scheme.source,
        "zero_point": scheme.zero_point,
        **({} if scheme.error_digits is None else {"error_digits": scheme.error_digits}),
    }


def scheme_of(text: dict[str, Any]) -> Scheme:
    """The inverse of `describe`; KeyError for a missing entry."""
    if not isinstance(text["name"], str):
        raise TypeError(f"name of a scheme must be text, not {text['name']!r}")
    elements = tuple(map(element_of, text["elements"]))
    levels = tuple(
        Level(
            Granularity(level["rows"], level["columns"]), restored(level["format"]), level["rule"]
        )
        for level in text["levels"]
    )
    rest = text["source"], text["zero_point"], text.get("error_digits")
    scheme = Scheme(text["name"], elements, levels, *rest)
    row = SCHEMES.get(scheme.name, scheme)
    return row if row == scheme else scheme


def element_of(text: object) -> ElementFormat:
    """The element format of a description; TypeError for a power of two."""
    fmt = restored(text)
    if isinstance(fmt, ElementFormat):
        return fmt
    raise TypeError(f"elements must be floats or integers, not {fmt}")


CLASSES = {
    "float": FloatFormat,
    "integer": IntegerFormat,
    "unsigned": UnsignedFormat,
    "power": PowerFormat,
    "table": TableFormat,
}
Format = ElementFormat | ScaleFormat


def described(fmt: Format) -> dict[str, Any]:
    """Class and fields of a format as JSON types; ValueError where `restored` would refuse them."""
    kinds = {kind: name for name, kind in CLASSES.items()}
    if type(fmt) not in kinds:
        known = ", ".join(kind.__name__ for kind in kinds)
        raise ValueError(f"format {fmt} must be one of {known}, not {type(fmt).__name__}")
    kind = kinds[type(fmt)]
    if isinstance(fmt, TableFormat):
        _check_name(fmt)
        values = [value.hex() for value in fmt.values.tolist()]
        rest = {"ties": fmt.ties, "emin": fmt.emin}
        return {"kind": kind, "name": fmt.name, "values": values, **rest}
    values = {f.name: getattr(fmt, f.name) for f in fields(fmt) if f.init}
    if isinstance(fmt, FloatFormat):
        values["specials"] = fmt.specials.name
    _check_name(fmt)
    return {"kind": kind, **values}


def restored(text: object) -> Format:
    """The inverse of `described`.

    Raises ValueError or TypeError for any other object, and for a name of a format of the package
    with other fields.
    """
    if not isinstance(text, dict):
        raise TypeError(f"format must be a description, not {text!r}")
    values: dict[str, Any] = dict(text)
    kind = CLASSES[choice("kind of format", values.pop("kind", None), CLASSES)]
    if kind is not UnsignedFormat and not isinstance(values.get("name"), str):
        raise TypeError(f"name of format must be text, not {values.get('name')!r}")
    if kind is TableFormat:
        values["values"] = [float.fromhex(value) for value in values["values"]]
    if kind is FloatFormat:
        specials = choice("specials", values.get("specials"), Specials.__members__)
        values["specials"] = Specials[specials]
    fmt = kind(**values)
    _check_name(fmt)
    return fmt


def _check_name(fmt: Format) -> None:
    """ValueError where a float, a power of two or a table has the name of a different format.

    Integers may share a name: `int8` is MX's, and other schemes have an `int8` of their own.
    """
    row = FORMATS.get(fmt.name) or SCALE_FORMATS.get(fmt.name) or p3109_named(fmt.name)
    if isinstance(fmt, FloatFormat) and fmt.native and row is None:
        raise ValueError(f"native of {fmt} must be False: there is no float of that name")
    if row not in (None, fmt) and not isinstance(fmt, IntegerFormat):
        raise ValueError(one_line(f"format of the name {fmt.name} must be {row!r}, not {fmt!r}"))
