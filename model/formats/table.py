"""The formats by name, and pairs of formats. To add a format, add a row, or register it.

Sources: OCP Microscaling Formats (MX) v1.0, section 5; OCP 8-bit Floating Point (OFP8) v1.0;
IEEE 754; bfloat16 as ml_dtypes has it; TF32: NVIDIA A100 Tensor Core GPU Architecture; FNUZ: AMD
Instinct MI300 ISA, and Noune et al., 8-bit Numerical Formats for Deep Neural Networks,
arXiv:2206.02915. Integers in full and symmetric range: those of the schemes
that docs/numerics.md cites in section 6.
"""

import re
from collections.abc import Sequence
from dataclasses import astuple, replace
from functools import cache
from typing import Any, TypeVar

import numpy as np

from ..errors import choice, unknown
from ..plugins import load_plugins
from .codes import LONGEST_CODE, LONGEST_EXPONENT, Specials
from .floating import FloatFormat, Flushed
from .integer import MOST_SCALE_BITS, IntegerFormat, UnsignedFormat
from .power import PowerFormat
from .valued import TableFormat, p3109_named

E4M3 = FloatFormat("e4m3", 4, 3, Specials.NAN_ONLY)
E5M2 = FloatFormat("e5m2", 5, 2, Specials.IEEE)
E3M2 = FloatFormat("e3m2", 3, 2)
E2M3 = FloatFormat("e2m3", 2, 3)
E2M1 = FloatFormat("e2m1", 2, 1)
INT8 = IntegerFormat("int8", 8, -128, 127, fraction_bits=6, symmetric=True)
INT4 = IntegerFormat("int4", 4, -8, 7, fraction_bits=2, symmetric=True)
INT5 = IntegerFormat("int5", 5, -16, 15, fraction_bits=3, symmetric=True)
INT3 = IntegerFormat("int3", 3, -4, 3, fraction_bits=1, symmetric=True)
E4M3FNUZ = FloatFormat("e4m3fnuz", 4, 3, Specials.FNUZ)
E5M2FNUZ = FloatFormat("e5m2fnuz", 5, 2, Specials.FNUZ)

INT8_SYMMETRIC = IntegerFormat("int8_symmetric", 8, -127, 127)
INT8_FULL = IntegerFormat("int8_full", 8, -128, 127)
UINT8 = IntegerFormat("uint8", 8, 0, 255)
INT4_SYMMETRIC = IntegerFormat("int4_symmetric", 4, -7, 7)
INT4_FULL = IntegerFormat("int4_full", 4, -8, 7)

E8M0 = PowerFormat("e8m0", 8, -127, 127, bias=127, nan_code=255)
# The code counts places to the right.
E1M0 = PowerFormat("e1m0", 1, -1, 0, bias=0, nan_code=None, sign=-1)

FLOAT64 = FloatFormat("float64", 11, 52, Specials.IEEE, native=True)
FLOAT32 = FloatFormat("float32", 8, 23, Specials.IEEE, native=True)
FLOAT16 = FloatFormat("float16", 5, 10, Specials.IEEE, native=True)
BFLOAT16 = FloatFormat("bfloat16", 8, 7, Specials.IEEE, native=True)
INT32 = IntegerFormat("int32", 32, -(2**31), 2**31 - 1)

# Elements are kept as codes, not as native floats.
FP16 = replace(FLOAT16, name="fp16", native=False)
BF16 = replace(BFLOAT16, name="bf16", native=False)
TF32 = replace(FP16, name="tf32", exponent_bits=FLOAT32.exponent_bits)

MX_FORMATS = {f.name: f for f in (E4M3, E5M2, E3M2, E2M3, E2M1, INT8, INT4)}
"""Elements of the blocks of OCP MX, and INT4."""
ElementFormat = FloatFormat | IntegerFormat | TableFormat
ScaleFormat = FloatFormat | PowerFormat | IntegerFormat | TableFormat
Format = TypeVar("Format", bound=ElementFormat | ScaleFormat)

FORMATS: dict[str, ElementFormat] = {}
"""Elements by name."""
SCALE_FORMATS: dict[str, ScaleFormat] = {}
"""Formats of scales of blocks; unsigned integers uN are formats of scales too."""


def register_format(fmt: Format) -> Format:
    """Make a format of elements known by its name; returns it.

    Raises TypeError for another thing, ValueError for a format without a zero and for a name that
    has other content.
    """
    if not isinstance(fmt, ElementFormat):
        raise TypeError(f"format must be a format of elements, not {fmt!r}")
    return _known(element_format(fmt), FORMATS)


def register_scale_format(fmt: Format) -> Format:
    """Make a format of scales known by its name; returns it.

    Raises TypeError for another thing, ValueError for a name that has other content.
    """
    if not isinstance(fmt, ScaleFormat):
        raise TypeError(f"format must be a format of scales, not {fmt!r}")
    return _known(fmt, SCALE_FORMATS)


def _known(fmt: Any, table: dict[str, Any]) -> Any:
    name = fmt.name
    if not FORMAT_NAME.fullmatch(name):
        raise ValueError(f"name of a format must be of a-z, 0-9 and _, not {name!r}")
    other = table.get(name, fmt)
    if other != fmt or (table is FORMATS and p3109_named(name) not in (None, fmt)):
        raise ValueError(f"name of format {fmt!r} must be new: {name} is {other!r}")
    return table.setdefault(name, fmt)


FORMAT_NAME = re.compile(r"[a-z][a-z0-9_]*")


def _register_rows() -> None:
    others = E4M3FNUZ, E5M2FNUZ, FP16, BF16, TF32, INT5, INT3
    for fmt in (*MX_FORMATS.values(), *others):
        register_format(fmt)
    for fmt in (FLOAT32, FLOAT16, BFLOAT16, E4M3, E8M0, E1M0):
        register_scale_format(fmt)


BLOCK_SCALES: dict[str, ScaleFormat] = {fmt.name: fmt for fmt in (E8M0, E4M3)}
"""Formats of the scales that units take; codes of floats without their sign."""


def code_format(x: object) -> ElementFormat | None:
    """The format whose codes an FP8, FP6 or FP4 array of ml_dtypes holds; None for other values."""
    return _NARROW.get(x.dtype) if isinstance(x, np.ndarray) else None


def element_format(value: ElementFormat | str, name: str = "format") -> ElementFormat:
    """The format of MX elements with a name, or `value` itself; ValueError lists the names."""
    if isinstance(value, ElementFormat):
        if not value.is_mx:
            reason = ""
            if isinstance(value, FloatFormat) and not value.native:
                bits, most, part = value.bits, LONGEST_CODE, "bits"
                if bits <= most:
                    bits, most, part = value.exponent_bits, LONGEST_EXPONENT, "exponent bits"
                reason = f", which has {bits} {part}, more than {most}"
            raise ValueError(f"{name} must be a format of MX elements, not {value}{reason}")
        return value
    if not isinstance(value, str):
        raise TypeError(f"{name} must be an ElementFormat or its name, not {value!r}")
    word = value.strip().lower()
    if word not in FORMATS:
        load_plugins()
    if word not in FORMATS and (table := p3109_named(word)) is not None:
        return table
    if word not in FORMATS:
        from ..schemes.table import SCHEMES  # which has formats

        kind = "a scheme of schemes.quantize"
        raise ValueError(unknown(name, word, FORMATS, SCHEMES, kind))
    return FORMATS[word]


def scale_format(name: str) -> ScaleFormat:
    """The format of scales with a name of SCALE_FORMATS or uN; ValueError for other names."""
    unsigned = {f"u{bits}": bits for bits in range(1, MOST_SCALE_BITS + 1)}
    if choice("format of scales", name, (*SCALE_FORMATS, *unsigned)) in unsigned:
        return UnsignedFormat(unsigned[name])
    return SCALE_FORMATS[name]


def is_scale_format(value: object) -> bool:
    """Whether `value` is a format that scales can have."""
    kinds = PowerFormat | UnsignedFormat | TableFormat
    return isinstance(value, kinds) or value in SCALE_FORMATS.values()


def block_scale_bits(fmt: ScaleFormat) -> int:
    """Bits of a code of `BLOCK_SCALES`."""
    return fmt.bits - isinstance(fmt, FloatFormat)


_register_rows()
_NARROW = {f.narrow: f for f in FORMATS.values() if f.narrow is not None}


@cache
def flushed(fmt: ElementFormat) -> ElementFormat:
    """The format as a machine without subnormal numbers reads it; integers do not change."""
    if isinstance(fmt, TableFormat):
        return fmt.flushed()
    return Flushed(*astuple(fmt)) if isinstance(fmt, FloatFormat) else fmt


def unit_format(fmt: ElementFormat, name: str = "formats") -> ElementFormat:
    """`fmt` if units can compute with it; ValueError for a table of values."""
    if isinstance(fmt, TableFormat):
        raise ValueError(f"{name} of a unit must be floats or integers, not the table {fmt}")
    return fmt


Pair = tuple[ElementFormat, ElementFormat]


def format_pairs(value: "str | ElementFormat | Sequence") -> tuple[Pair, ...]:
    """Format pairs of a text or of a sequence.

    ``"e4m3"`` is both operands in E4M3, ``"e5m2xe4m3"`` an E5M2 and an E4M3 operand, and
    ``"e4m3,e5m2xe4m3"`` a list from which the mode input selects. A sequence holds these items, or
    pairs (a, b) of formats or names: ``[(E5M2, E4M3)]`` is one pair, ``[E5M2, E4M3]`` two modes.
    Raises ValueError for an unknown format, an empty list or a repeated pair.
    """
    items = value.split(",") if isinstance(value, str) else value
    items = [items] if isinstance(items, ElementFormat) else items
    if not isinstance(items, Sequence):
        raise TypeError(f"formats must be text or a sequence of format pairs, not {value!r}")
    pairs = tuple(_pair(item) for item in items)
    if not pairs:
        raise ValueError("formats must name at least one format pair, not none")
    if len(set(pairs)) < len(pairs):
        raise ValueError(f"formats must not repeat a pair, as {value!r} does")
    return pairs


def _pair(item: "str | ElementFormat | Sequence") -> Pair:
    halves = _halves(item.strip().lower()) if isinstance(item, str) else item
    halves = halves if isinstance(halves, Sequence) else [halves]
    if len(halves) not in (1, 2) or (len(halves) == 2 and "" in halves):
        raise ValueError(f"formats must hold formats or pairs of formats, not {item!r}")
    return element_format(halves[0], "formats"), element_format(halves[-1], "formats")


def _halves(word: str) -> Sequence[str]:
    """One name, or the two around an `x`, which names may hold, too."""
    if word in FORMATS:
        return [word]
    if word.count("x") > 1:
        load_plugins()
    cuts = [
        (word[:i].strip(), word[i + 1 :].strip()) for i, letter in enumerate(word) if letter == "x"
    ]
    known = [cut for cut in cuts if FORMATS.keys() >= {*cut}]
    return known[0] if known else word.split("x")


def pairs_text(pairs: Sequence[Pair]) -> str:
    """Text of the pairs for `format_pairs`."""
    return ",".join(a.name if a is b else f"{a.name}x{b.name}" for a, b in pairs)
