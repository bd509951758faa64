"""Blocks of numbers that a format holds exactly, for facts checked by hand."""

import struct
from fractions import Fraction

from .dot import PRESETS, Result
from .formats import encode, value

ACCUMULATORS = (
    "exact", "aligned:13", "fused:25", "fixed:48:-20", "fixed:48:-20:wrap", "float32", *PRESETS,
)  # fmt: skip
UNIT = 127
INF, MINUS_INF = 0x7F800000, 0xFF800000
MAX_FINITE = 0x7F7FFFFF


def bits(x: float | Fraction) -> int:
    return struct.unpack("<I", struct.pack("<f", float(x)))[0]


def codes(fmt: str, xs) -> list[int]:
    """The codes of numbers that the format holds exactly."""
    result = [encode(fmt, Fraction(x), "nearest_even") for x in xs]
    assert [value(fmt, code) for code in result] == list(xs)
    return result


def block(fmt: str, xs, ys=None, s: int = 0, fmt_b: str | None = None):
    """A block of exactly held numbers (ys: ones) at scale 2^s."""
    ys = [1] * len(xs) if ys is None else ys
    half = s // 2
    return codes(fmt, xs), codes(fmt_b or fmt, ys), UNIT + half, UNIT + s - half


def flags(result: Result) -> set[str]:
    return {name for name in result._fields[1:] if getattr(result, name)}


def one_block(dot, xs, ys, accumulator="hopper", fmt="e5m2", c=0.0) -> Result:
    """c and the products of one block at scale 1, summed by `dot`, the oracle's or the model's."""
    return dot(fmt, fmt, [block(fmt, xs, ys)], accumulator, bits(c))
