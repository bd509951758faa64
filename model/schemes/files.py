"""Quantised arrays and limits in npz files, with the description of their scheme."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import choice, one_line
from ..formats import FORMATS, ElementFormat, FloatFormat, IntegerFormat, ScaleFormat, scale_format
from ..formats.stored import described, restored
from ..npz import opened
from .array import ScaledArray
from .grouping import Granularity
from .limits import Limits
from .packing import PackedArray, pack, unpack
from .scheme import Level, Scheme
from .table import SCHEMES

LARGEST = 2**36  # bytes of a file


def save(path: Path | str, value: ScaledArray | Limits) -> None:
    """Write an array, packed as `storage` counts it, or limits to an npz file."""
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
    """What `save` wrote; ValueError, naming the file, for anything else."""
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

    ValueError for a format that has the name of another of the package's.
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
    """The inverse of `describe`; KeyError where something is missing."""
    if not isinstance(text["name"], str):
        raise TypeError(f"name of a scheme must be text, not {text['name']!r}")
    elements = tuple(map(element_of, text["elements"]))
    levels = tuple(
        Level(
            Granularity(level["rows"], level["columns"]),
            _scale(level["format"]),
            level["rule"],
        )
        for level in text["levels"]
    )
    rest = text["source"], text["zero_point"], text.get("error_digits")
    made = Scheme(text["name"], elements, levels, *rest)
    known = SCHEMES.get(made.name, made)
    return known if known == made else made


def element_of(text: object) -> ElementFormat:
    """The element of a description or, in older files, of a name."""
    if isinstance(text, str):
        return FORMATS[choice("elements", text, FORMATS)]
    fmt = restored(text)
    if isinstance(fmt, FloatFormat | IntegerFormat):
        return fmt
    raise TypeError(f"elements must be floats or integers, not {fmt}")


def _scale(text: object) -> ScaleFormat:
    """The scale format of a description or, in older files, of a name."""
    return scale_format(text) if isinstance(text, str) else restored(text)
