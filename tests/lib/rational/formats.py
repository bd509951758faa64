"""Formats, float32 and quantisation of one block (sections 1 and 2).

A number is a `Fraction` when it is finite and a `Special` when it is not. There is no negative
zero: no zero in a dot product has a sign that matters.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from functools import cache
from typing import Literal, NamedTuple


class Special(Enum):
    NAN = "nan"
    PLUS_INF = "+inf"
    MINUS_INF = "-inf"


Number = Fraction | Special


@cache
def pow2(exponent: int) -> Fraction:
    return Fraction(1 << exponent) if exponent >= 0 else Fraction(1, 1 << -exponent)


def floor_log2(x: Fraction) -> int:
    """The exponent of the leading bit of x > 0."""
    exponent = x.numerator.bit_length() - x.denominator.bit_length()
    return exponent if pow2(exponent) <= x else exponent - 1


# Element formats (section 1) --------------------------------------------------------------------


@dataclass(frozen=True)
class Format:
    """One row of the format table; integers have no exponent field, their m is bits - 2."""

    bits: int
    mantissa_bits: int
    bias: int
    emax: int
    largest: Fraction
    nan_code: int | None = None
    inf_code: int | None = None
    fnuz: bool = False


FORMATS = {
    "e4m3": Format(8, 3, 7, 8, Fraction(448), nan_code=0x7F),
    "e5m2": Format(8, 2, 15, 15, Fraction(57344), nan_code=0x7E, inf_code=0x7C),
    "e3m2": Format(6, 2, 3, 4, Fraction(28)),
    "e2m3": Format(6, 3, 1, 2, Fraction(15, 2)),
    "e2m1": Format(4, 1, 1, 2, Fraction(6)),
    "int8": Format(8, 6, 0, 0, Fraction(127, 64)),
    "int4": Format(4, 2, 0, 0, Fraction(7, 4)),
    "int5": Format(5, 3, 0, 0, Fraction(15, 8)),
    "int3": Format(3, 1, 0, 0, Fraction(3, 2)),
    "e4m3fnuz": Format(8, 3, 8, 7, Fraction(240), nan_code=0x80, fnuz=True),
    "e5m2fnuz": Format(8, 2, 16, 15, Fraction(57344), nan_code=0x80, fnuz=True),
    "fp16": Format(16, 10, 15, 15, Fraction(65504), nan_code=0x7E00, inf_code=0x7C00),
    "bf16": Format(16, 7, 127, 127, Fraction(255 << 120), nan_code=0x7FC0, inf_code=0x7F80),
    "tf32": Format(19, 10, 127, 127, Fraction(2047 << 117), nan_code=0x3FE00, inf_code=0x3FC00),
}
INTEGERS = ("int8", "int5", "int4", "int3")


class Table(NamedTuple):
    """A format by its codes' values; zeros have signs."""

    values: list[Number]
    signs: list[int]
    away: bool
    emin: int

    @property
    def finite(self) -> list[Fraction]:
        return [x for x in self.values if isinstance(x, Fraction)]


TABLES: dict[str, Table] = {}


def add_table(name: str, values: Sequence[float], ties: str, emin: int) -> None:
    """Make a format of the values of its codes known."""
    numbers = [decode_float64(x) for x in values]
    table = Table(numbers, [int(math.copysign(1, x) < 0) for x in values], ties == "away", emin)
    digits = 0
    while any((x * pow2(digits) / pow2(unit_of(table, x))).denominator > 1 for x in table.finite):
        digits += 1
    largest = max(table.finite)
    nan, inf = (
        numbers.index(special) if special in numbers else None
        for special in (Special.NAN, Special.PLUS_INF)
    )
    bits = len(values).bit_length() - 1
    TABLES[name] = table
    FORMATS[name] = Format(bits, digits, 0, floor_log2(largest), largest, nan, inf)


def decode_float64(x: float) -> Number:
    if math.isnan(x):
        return Special.NAN
    if math.isinf(x):
        return Special.PLUS_INF if x > 0 else Special.MINUS_INF
    return Fraction(x)


def unit_of(table: Table, x: Fraction) -> int:
    """Exponent of the unit digit."""
    return max(floor_log2(abs(x)), table.emin) if x else table.emin


def decode_table(fmt: str, code: int) -> "Element":
    table = TABLES[fmt]
    x, sign = table.values[code], table.signs[code]
    if isinstance(x, Special):
        return ("nan",) if x is Special.NAN else ("inf", sign)
    exponent = unit_of(table, x) - FORMATS[fmt].mantissa_bits
    return sign, (abs(x) / pow2(exponent)).numerator, exponent


def code_in_table(table: Table, x: Number, sign: int) -> int:
    """The first code of a value; of a zero, the first that has its sign, if one has."""
    codes = [code for code, value in enumerate(table.values) if value == x]
    return next((code for code in codes if x == 0 and table.signs[code] == sign), codes[0])


def encode_table(
    fmt: str, sign: int, magnitude: Fraction, rounding: str, random_bits: int | None
) -> int:
    """The neighbour that rounding to nearest, toward zero or a random word chooses."""
    table = TABLES[fmt]
    x = min(max(-magnitude if sign else magnitude, min(table.finite)), max(table.finite))
    low = max(v for v in table.finite if v <= x)
    high = min(v for v in table.finite if v >= x)
    inner, outer = (low, high) if abs(low) <= abs(high) else (high, low)
    if rounding == "nearest_even":
        chosen = low if x - low < high - x else high
        if low != high and x - low == high - x:
            odd = [code_in_table(table, v, 0) % 2 for v in (inner, outer)]
            chosen = outer if (odd[0] > odd[1]) else inner
            if table.away:
                chosen = outer if abs(low) != abs(high) else high
    else:
        chosen = inner
        if rounding == "stochastic" and low != high:
            assert random_bits is not None
            fraction = float(abs(x - inner)) / float(abs(outer - inner))
            if int(fraction * 2.0**32) + random_bits >= 1 << 32:
                chosen = outer
    return code_in_table(table, chosen, sign)


def format_of(fmt: str) -> Format:
    if fmt not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, not {fmt!r}")
    return FORMATS[fmt]


Element = tuple[int, int, int] | tuple[Literal["inf"], int] | tuple[Literal["nan"]]


@cache
def decode(fmt: str, code: int) -> Element:
    """(sign, significand, exponent), or ("inf", sign), or ("nan",) (section 1)."""
    row = format_of(fmt)
    if not 0 <= code < 1 << row.bits:
        raise ValueError(f"code of {fmt} must be from 0 to {(1 << row.bits) - 1}, not {code}")
    if fmt in TABLES:
        return decode_table(fmt, code)
    sign = code >> (row.bits - 1)
    if fmt in INTEGERS:
        return sign, abs(code - (sign << row.bits)), -row.mantissa_bits
    m = row.mantissa_bits
    fraction = code & ((1 << m) - 1)
    field = (code >> m) & ((1 << (row.bits - 1 - m)) - 1)
    if fmt == "e4m3" and field == 15 and fraction == 7:
        return ("nan",)
    if row.fnuz and code == row.nan_code:
        return ("nan",)
    if row.inf_code is not None and field == row.inf_code >> m:
        return ("inf", sign) if fraction == 0 else ("nan",)
    if field == 0:
        return sign, fraction, 1 - row.bias - m
    return sign, (1 << m) + fraction, field - row.bias - m


def value(fmt: str, code: int) -> Fraction:
    """The finite value of a code; ValueError for a NaN or an Inf."""
    element = decode(fmt, code)
    if len(element) != 3:
        raise ValueError(f"{fmt} code {code:#04x} is {element[0]}, not a finite value")
    sign, significand, exponent = element
    return (-significand if sign else significand) * pow2(exponent)


def round_magnitude(x: Fraction, rounding: str, random_bits: int | None) -> int:
    """x >= 0 rounded to an integer; a stochastic one takes a 32-bit word (section 2)."""
    if rounding == "nearest_even":
        return round(x)
    low = int(x)
    if rounding == "toward_zero":
        return low
    if rounding == "odd":
        return low | (low != x)
    if rounding == "stochastic":
        if random_bits is None or not 0 <= random_bits < 1 << 32:
            raise ValueError(f"random_bits must be from 0 to 2^32 - 1, not {random_bits}")
        fraction = int((x - low) * (1 << 32))
        return low + 1 if fraction + random_bits >= 1 << 32 else low
    raise ValueError(f"rounding must be nearest_even, toward_zero or stochastic, not {rounding!r}")


def encode_signed(
    fmt: str, sign: int, magnitude: Fraction, rounding: str, random_bits: int | None
) -> int:
    """The code of (-1)^sign x magnitude, saturating; the sign of a zero is kept (section 2)."""
    row = format_of(fmt)
    if fmt in TABLES:
        return encode_table(fmt, sign, magnitude, rounding, random_bits)
    if fmt in INTEGERS:
        units = magnitude * pow2(row.mantissa_bits)
        integer = min(round_magnitude(units, rounding, random_bits), (1 << (row.bits - 1)) - 1)
        return (-integer if sign else integer) & ((1 << row.bits) - 1)
    smallest_normal = 1 - row.bias
    exponent = max(floor_log2(magnitude), smallest_normal) if magnitude else smallest_normal
    unit = pow2(exponent - row.mantissa_bits)
    significand = round_magnitude(magnitude / unit, rounding, random_bits)
    if significand * unit > row.largest:
        return encode_signed(fmt, sign, row.largest, "toward_zero", None)
    # The hidden bit of a normal significand adds the missing one to the exponent field, and a
    # significand that was rounded up to the next power of two adds one more.
    code = ((exponent - smallest_normal) << row.mantissa_bits) + significand
    if row.fnuz and code == 0:
        return 0
    return code | sign << (row.bits - 1)


def encode(fmt: str, x: Fraction, rounding: str, random_bits: int | None = None) -> int:
    """The code of x, saturating; a negative x that rounds to zero gives -0 where there is one."""
    return encode_signed(fmt, int(x < 0), abs(x), rounding, random_bits)


# float32 ----------------------------------------------------------------------------------------


def decode_float32(bits: int) -> Number:
    if not 0 <= bits < 1 << 32:
        raise ValueError(f"float32 bits must be from 0 to 2^32 - 1, not {bits}")
    sign, field, fraction = bits >> 31, bits >> 23 & 0xFF, bits & 0x7FFFFF
    if field == 255:
        if fraction:
            return Special.NAN
        return Special.MINUS_INF if sign else Special.PLUS_INF
    significand, exponent = (fraction, -149) if field == 0 else (fraction + (1 << 23), field - 150)
    return (-significand if sign else significand) * pow2(exponent)


def encode_float32(x: Number, nan_bits: int) -> int:
    """The bits of a number that float32 holds exactly; zero is +0 (section 3)."""
    if x is Special.NAN:
        return nan_bits
    if isinstance(x, Special):
        return 0x7F800000 if x is Special.PLUS_INF else 0xFF800000
    if x == 0:
        return 0
    exponent = max(floor_log2(abs(x)), -126)
    significand = abs(x) / pow2(exponent - 23)
    if significand.denominator != 1 or exponent > 127:
        raise ValueError(f"{x} is no float32")
    return int(x < 0) << 31 | ((exponent + 126) << 23) + significand.numerator


@dataclass
class Status:
    """The sticky flags of one dot product."""

    overflow: bool = False
    underflow: bool = False
    inexact: bool = False
    saturated: bool = False


class Float(NamedTuple):
    """A float of a running value: fraction bits, least and largest exponent."""

    fraction_bits: int
    emin: int
    emax: int


FLOATS = {
    "float32": Float(23, -126, 127),
    "float16": Float(10, -14, 15),
    "bfloat16": Float(7, -126, 127),
}


def round_float32(
    x: Fraction, rounding: str, status: Status, fraction_bits: int = 23, running: str = "float32"
) -> Number:
    """RNE_fp32 or RZ_fp32 of x, overflowing to Inf; fewer fraction bits for Hopper and Ada.

    Rounding happens as if exponents had no upper end; 2^128 and above is then Inf. So RNE
    overflows from 2^128 - 2^103, and RZ keeps everything below 2^128 finite. running: another float
    than float32, of which the same holds.
    """
    if x == 0:
        return x
    magnitude = abs(x)
    places, emin, emax = FLOATS[running]
    unit = pow2(max(floor_log2(magnitude), emin) - min(places, fraction_bits))
    rounded = round_magnitude(magnitude / unit, rounding, None) * unit
    if rounded >= pow2(emax + 1):
        status.overflow = status.inexact = True
        return Special.MINUS_INF if x < 0 else Special.PLUS_INF
    if rounded != magnitude:
        status.inexact = True
        if rounded < pow2(emin):
            status.underflow = True
    return -rounded if x < 0 else rounded


# Quantisation of one block (section 2) ----------------------------------------------------------


def shared_exponent(amax: Fraction, fmt: str, scale_rule: str) -> int:
    """The exponent of the block scale before clamping, for amax > 0."""
    row = format_of(fmt)
    leading = floor_log2(amax)
    if scale_rule == "floor":
        return leading - row.emax
    if scale_rule == "twice":
        return leading - row.emax + 1
    if scale_rule == "even":
        unit = pow2(leading - row.mantissa_bits)
        rounded = int(amax / unit + Fraction(1, 2)) * unit  # half away from zero
        return floor_log2(rounded) - row.emax
    if scale_rule == "ceil":
        exponent = leading - row.emax - 1
        while amax > row.largest * pow2(exponent):
            exponent += 1
        return exponent
    raise ValueError(f"scale_rule must be floor, ceil, even or twice, not {scale_rule!r}")


def quantize_block(
    values: Sequence[int],
    fmt: str,
    scale_rule: str,
    rounding: str,
    nonfinite: str,
    random_words: Sequence[int] | None = None,
) -> tuple[int, list[int]]:
    """(scale code, element codes) of one block of float32 bit patterns."""
    row = format_of(fmt)
    if nonfinite not in ("poison", "element"):
        raise ValueError(f"nonfinite must be poison or element, not {nonfinite!r}")
    numbers = [decode_float32(bits) for bits in values]
    zero = code_in_table(TABLES[fmt], Fraction(0), 0) if fmt in TABLES else 0
    poisoned = (0xFF, [zero] * len(numbers))
    if nonfinite == "poison" and any(isinstance(x, Special) for x in numbers):
        return poisoned
    if Special.NAN in numbers and row.nan_code is None:
        return poisoned

    amax = max((abs(x) for x in numbers if isinstance(x, Fraction)), default=Fraction(0))
    exponent = shared_exponent(amax, fmt, scale_rule) if amax else -127
    exponent = max(-127, min(127, exponent))

    codes = []
    for i, x in enumerate(numbers):
        sign = values[i] >> 31
        if isinstance(x, Fraction):
            word = random_words[i] if random_words is not None else None
            codes.append(encode_signed(fmt, sign, abs(x) / pow2(exponent), rounding, word))
        elif x is Special.NAN and row.nan_code is not None:
            codes.append(row.nan_code)
        elif fmt in TABLES:
            known = x in TABLES[fmt].values
            largest = max(map(abs, TABLES[fmt].finite))
            codes.append(
                code_in_table(TABLES[fmt], x, sign)
                if known
                else encode_signed(fmt, sign, largest, "toward_zero", None)
            )
        elif row.inf_code is not None:
            codes.append(row.inf_code | sign << (row.bits - 1))
        else:
            codes.append(encode_signed(fmt, sign, row.largest, "toward_zero", None))
    return exponent + 127, codes
