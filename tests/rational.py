"""The numeric contract once more, in exact rational arithmetic: the oracle of the tests.

Slow and obvious on purpose: one element at a time, plain Python, a `Fraction` for every real
number, written from the contract (docs/numerics.md; "section n" below refers to it) and sharing
no code with `mxdot`. Where an integer stands for a number, its unit is written beside it.

A number is a `Fraction` when it is finite and a `Special` when it is not; there is no negative
zero among them, because no zero in a dot product has a sign that matters.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from functools import cache, lru_cache
from typing import Literal, NamedTuple


class Special(Enum):
    """What a number is when it is not finite."""

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
    """One row of the format table; INT8 has no exponent field and counts as m = 6."""

    bits: int
    mantissa_bits: int
    bias: int
    emax: int
    largest: Fraction
    nan_code: int | None = None
    inf_code: int | None = None


FORMATS = {
    "e4m3": Format(8, 3, 7, 8, Fraction(448), nan_code=0x7F),
    "e5m2": Format(8, 2, 15, 15, Fraction(57344), nan_code=0x7E, inf_code=0x7C),
    "e3m2": Format(6, 2, 3, 4, Fraction(28)),
    "e2m3": Format(6, 3, 1, 2, Fraction(15, 2)),
    "e2m1": Format(4, 1, 1, 2, Fraction(6)),
    "int8": Format(8, 6, 0, 0, Fraction(127, 64)),
}


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
    sign = code >> (row.bits - 1)
    if fmt == "int8":
        return sign, abs(code - 256 * sign), -6
    m = row.mantissa_bits
    fraction = code & ((1 << m) - 1)
    field = (code >> m) & ((1 << (row.bits - 1 - m)) - 1)
    if fmt == "e4m3" and field == 15 and fraction == 7:
        return ("nan",)
    if fmt == "e5m2" and field == 31:
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
    if fmt == "int8":
        integer = min(round_magnitude(magnitude * 64, rounding, random_bits), 127)
        return (-integer if sign else integer) & 0xFF
    smallest_normal = 1 - row.bias
    exponent = max(floor_log2(magnitude), smallest_normal) if magnitude else smallest_normal
    unit = pow2(exponent - row.mantissa_bits)
    significand = round_magnitude(magnitude / unit, rounding, random_bits)
    if significand * unit > row.largest:
        return encode_signed(fmt, sign, row.largest, "toward_zero", None)
    # The hidden bit of a normal significand adds the missing one to the exponent field, and a
    # significand that was rounded up to the next power of two adds one more.
    code = ((exponent - smallest_normal) << row.mantissa_bits) + significand
    return code | sign << (row.bits - 1)


def encode(fmt: str, x: Fraction, rounding: str, random_bits: int | None = None) -> int:
    """The code of x, saturating; a negative x that rounds to zero gives -0 (section 2)."""
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


def round_float32(x: Fraction, rounding: str, status: Status, fraction_bits: int = 23) -> Number:
    """RNE_fp32 or RZ_fp32 of x, overflowing to Inf; fewer fraction bits for Hopper and Ada.

    Rounding happens as if exponents had no upper end; 2^128 and above is then Inf. So RNE
    overflows from 2^128 - 2^103, and RZ keeps everything below 2^128 finite.
    """
    if x == 0:
        return x
    magnitude = abs(x)
    unit = pow2(max(floor_log2(magnitude), -126) - fraction_bits)
    rounded = round_magnitude(magnitude / unit, rounding, None) * unit
    if rounded >= pow2(128):
        status.overflow = status.inexact = True
        return Special.MINUS_INF if x < 0 else Special.PLUS_INF
    if rounded != magnitude:
        status.inexact = True
        if rounded < pow2(-126):
            status.underflow = True
    return -rounded if x < 0 else rounded


# Quantisation of one block (section 2) ----------------------------------------------------------


def shared_exponent(amax: Fraction, fmt: str, scale_rule: str) -> int:
    """The exponent of the block scale before clamping, for amax > 0."""
    row = format_of(fmt)
    leading = floor_log2(amax)
    if scale_rule == "floor":
        return leading - row.emax
    if scale_rule == "even":
        unit = pow2(leading - row.mantissa_bits)
        rounded = int(amax / unit + Fraction(1, 2)) * unit  # half away from zero
        return floor_log2(rounded) - row.emax
    if scale_rule == "ceil":
        exponent = leading - row.emax - 1
        while amax > row.largest * pow2(exponent):
            exponent += 1
        return exponent
    raise ValueError(f"scale_rule must be floor, ceil or even, not {scale_rule!r}")


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
    poisoned = (0xFF, [0] * len(numbers))
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
        elif row.inf_code is not None:
            codes.append(row.inf_code | sign << (row.bits - 1))
        else:
            codes.append(encode_signed(fmt, sign, row.largest, "toward_zero", None))
    return exponent + 127, codes


# Products and special values (section 3) --------------------------------------------------------


class Product(NamedTuple):
    """significand x 2^exponent, the significand signed; `unit` is U, the unit digit's exponent."""

    significand: int
    exponent: int
    unit: int


@lru_cache(maxsize=1 << 17)
def product(fmt_a: str, fmt_b: str, code_a: int, code_b: int) -> Product | Special:
    """The exact product of two elements, never renormalised."""
    match decode(fmt_a, code_a), decode(fmt_b, code_b):
        case (("nan",), _) | (_, ("nan",)):
            return Special.NAN
        case (("inf", _), (_, 0, _)) | ((_, 0, _), ("inf", _)):  # Inf x 0
            return Special.NAN
        case (
            (("inf", sign_a), ("inf", sign_b))
            | (("inf", sign_a), (sign_b, _, _))
            | ((sign_a, _, _), ("inf", sign_b))
        ):
            return Special.PLUS_INF if sign_a == sign_b else Special.MINUS_INF
        case ((sign_a, significand_a, exponent_a), (sign_b, significand_b, exponent_b)):
            significand = significand_a * significand_b
            exponent = exponent_a + exponent_b
            unit = exponent + FORMATS[fmt_a].mantissa_bits + FORMATS[fmt_b].mantissa_bits
            return Product(significand if sign_a == sign_b else -significand, exponent, unit)
    raise AssertionError("decode gives nothing else")


def special_sum(*terms: Number | None) -> Special | None:
    """What the special values among the terms of a sum make of it; None if there are none."""
    specials = {term for term in terms if isinstance(term, Special)}
    if len(specials) > 1:  # +Inf with -Inf, or a NaN with any Inf
        return Special.NAN
    return specials.pop() if specials else None


@dataclass(frozen=True)
class Step:
    """The products that enter c together, and the exponent s of their block's scale."""

    products: list[Product | Special]
    scale: int
    nan_scale: bool

    @property
    def finite(self) -> list[Product]:
        return [p for p in self.products if isinstance(p, Product)]

    @property
    def specials(self) -> list[Special]:
        nan_scale = [Special.NAN] if self.nan_scale else []
        return [p for p in self.products if isinstance(p, Special)] + nan_scale


class Block(NamedTuple):
    codes_a: Sequence[int]
    codes_b: Sequence[int]
    scale_a: int
    scale_b: int


def steps_of(fmt_a: str, fmt_b: str, blocks: Iterable[Sequence], size: int | None) -> list[Step]:
    """The blocks cut into steps of up to `size` elements (None: whole blocks), never across."""
    steps = []
    for block in blocks:
        codes_a, codes_b, scale_a, scale_b = Block(*block)
        k = len(codes_a)
        if k < 1 or len(codes_b) != k:
            raise ValueError(f"blocks must have k >= 1 elements each, not {k} and {len(codes_b)}")
        for scale in (scale_a, scale_b):
            if not 0 <= scale <= 255:
                raise ValueError(f"scale must be from 0 to 255, not {scale}")
        products = [product(fmt_a, fmt_b, *pair) for pair in zip(codes_a, codes_b, strict=True)]
        s = (scale_a - 127) + (scale_b - 127)
        nan_scale = 0xFF in (scale_a, scale_b)
        taken = size or k
        steps += [Step(products[i : i + taken], s, nan_scale) for i in range(0, k, taken)]
    return steps


# Accumulators (section 4): each rule makes c' of a finite c and a step without special values ----


def exact_sum(products: Sequence[Product]) -> Fraction:
    """sum p_i; no product of any two formats has bits below 2^-32 (section 5)."""
    return Fraction(sum(p.significand << (p.exponent + 32) for p in products), 1 << 32)


def truncate(significand: int, shift: int, status: Status) -> int:
    """RZ(significand x 2^shift) as an integer."""
    if shift >= 0:
        return significand << shift
    magnitude = abs(significand) >> -shift
    if magnitude << -shift != abs(significand):
        status.inexact = True
    return -magnitude if significand < 0 else magnitude


def truncate_fraction(x: Fraction, status: Status) -> int:
    """RZ(x) as an integer."""
    if x.denominator != 1:
        status.inexact = True
    return int(x)


def exact(c: Fraction, step: Step, status: Status) -> Number:
    return round_float32(c + pow2(step.scale) * exact_sum(step.finite), "nearest_even", status)


def aligned(c: Fraction, step: Step, status: Status, f: int) -> Number:
    nonzero = [p for p in step.finite if p.significand != 0]
    if not nonzero:
        return c
    emax = max(p.unit for p in nonzero)
    total = sum(truncate(p.significand, p.exponent + f - emax, status) for p in nonzero)
    d = round_float32(total * pow2(emax - f), "toward_zero", status)
    assert isinstance(d, Fraction)  # without scales no block comes near 2^128
    return round_float32(c + pow2(step.scale) * d, "nearest_even", status)


def fused(c: Fraction, step: Step, status: Status, f: int, fraction_bits: int = 23) -> Number:
    nonzero = [p for p in step.finite if p.significand != 0]
    c_exponent = max(floor_log2(abs(c)), -126) if c else -126
    emax = max([p.unit + step.scale for p in nonzero] + [c_exponent])
    total = truncate_fraction(c * pow2(f - emax), status)
    for p in nonzero:
        total += truncate(p.significand, p.exponent + step.scale + f - emax, status)
    return round_float32(total * pow2(emax - f), "toward_zero", status, fraction_bits)


def float32(c: Fraction, step: Step, status: Status) -> Number:
    level = [exact_sum([p]) for p in step.finite]
    while len(level) > 1:
        pairs = [level[i : i + 2] for i in range(0, len(level), 2)]
        level = [rounded_sum(pair, status) for pair in pairs]
    return round_float32(c + pow2(step.scale) * level[0], "nearest_even", status)


def rounded_sum(pair: list[Fraction], status: Status) -> Fraction:
    """A node of the tree; an odd one out passes up as it is."""
    if len(pair) == 1:
        return pair[0]
    result = round_float32(pair[0] + pair[1], "nearest_even", status)
    assert isinstance(result, Fraction)  # without scales no block comes near 2^128
    return result


def int32(c: Fraction, step: Step, status: Status) -> Number:
    total = sum(p.significand for p in step.finite)  # in units of 2^-12
    if not -(2**31) <= total < 2**31:
        raise ValueError(f"the block's sum must fit in 32 bits, not be {total}")
    return round_float32(c + pow2(step.scale - 12) * total, "nearest_even", status)


@dataclass(frozen=True)
class FixedRegister:
    """`fixed:W:L`: a W-bit two's-complement register in units of 2^L."""

    width: int
    lsb: int
    wrap: bool

    def hold(self, integer: int, status: Status) -> int:
        """The integer brought into the register's range."""
        low, high = -(1 << (self.width - 1)), (1 << (self.width - 1)) - 1
        if low <= integer <= high:
            return integer
        status.saturated = True
        if self.wrap:
            return (integer - low) % (1 << self.width) + low
        return low if integer < low else high

    def load(self, c: Fraction, status: Status) -> int:
        return self.hold(truncate_fraction(c * pow2(-self.lsb), status), status)

    def add(self, register: int, step: Step, status: Status) -> int:
        x = exact_sum(step.finite) * pow2(step.scale - self.lsb)
        return self.hold(register + truncate_fraction(x, status), status)

    def read(self, register: int, status: Status) -> Number:
        return round_float32(register * pow2(self.lsb), "nearest_even", status)


# A dot product over blocks (section 4) ----------------------------------------------------------


class Result(NamedTuple):
    """The float32 bits of a dot product and its sticky flags."""

    bits: int
    invalid: bool
    overflow: bool
    underflow: bool
    inexact: bool
    saturated: bool


# Steps of the tensor-core presets: elements a step, F, fraction bits of the result.
PRESETS = {
    "hopper": (32, 13, 13),
    "hopper-promoted": (32, 13, 13),
    "hopper-mx": (32, 13, 13),
    "hopper-fp16": (16, 25, 23),
    "ada": (16, 13, 13),
    "blackwell": (32, 25, 23),
}
# Elements after which a partial sum joins c.
PROMOTED = {"hopper-promoted": 128, "hopper-mx": 32}


def dot(
    fmt_a: str, fmt_b: str, blocks: Iterable[Sequence], accumulator_text: str, c_bits: int = 0
) -> Result:
    """The dot product of blocks (codes_a, codes_b, scale_a, scale_b), from the float32 c_bits."""
    status = Status()
    c = decode_float32(c_bits)
    name, *numbers = accumulator_text.split(":")
    nan_bits = 0x7FFFFFFF if name in PRESETS else 0x7FC00000
    size = PRESETS[name][0] if name in PRESETS else None
    steps = steps_of(fmt_a, fmt_b, blocks, size)
    match name, numbers:
        case "exact", []:
            c = run(c, steps, exact, status)
        case "aligned", [f]:
            c = run(c, steps, aligned, status, fraction_count(f))
        case "fused", [f]:
            c = run(c, steps, fused, status, fraction_count(f))
        case "float32", []:
            c = run(c, steps, float32, status)
        case "int32", []:
            if (fmt_a, fmt_b) != ("int8", "int8"):
                raise ValueError(f"int32 takes int8 elements only, not {fmt_a} x {fmt_b}")
            c = run(c, steps, int32, status)
        case "fixed", [width, lsb, *wrap] if int(width) >= 1 and wrap in ([], ["wrap"]):
            c = run_fixed(c, steps, FixedRegister(int(width), int(lsb), wrap != []), status)
        case (("hopper-promoted" | "hopper-mx"), []):
            c = run_promoted(c, steps, status, PROMOTED[name])
        case (("hopper" | "hopper-fp16" | "ada" | "blackwell"), []):
            c = run(c, steps, fused, status, *PRESETS[name][1:])
        case _:
            raise ValueError(f"no accumulator of the contract: {accumulator_text!r}")
    return Result(
        encode_float32(c, nan_bits),
        c is Special.NAN,
        status.overflow,
        status.underflow,
        status.inexact,
        status.saturated,
    )


def fraction_count(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"F must be an integer of 0 or more, not {text!r}")
    return int(text)


Rule = Callable[..., Number]


def run(c: Number, steps: list[Step], rule: Rule, status: Status, *parameters: int) -> Number:
    """c after all steps; a step with a special value in it or in c does no arithmetic."""
    for step in steps:
        special = special_sum(c, *step.specials)
        c = special or rule(c, step, status, *parameters)
    return c


def run_fixed(c: Number, steps: list[Step], register: FixedRegister, status: Status) -> Number:
    """Special values are a sticky state beside the register, which then no longer matters."""
    special = c if isinstance(c, Special) else None
    held = 0 if isinstance(c, Special) else register.load(c, status)
    for step in steps:
        special = special_sum(special, *step.specials)
        if special is None:
            held = register.add(held, step, status)
    return special or register.read(held, status)


def run_promoted(c: Number, steps: list[Step], status: Status, elements: int) -> Number:
    """Hopper steps into a partial, which joins c every so many elements and at the end."""
    partial: Number = Fraction(0)
    taken = 0
    for i, step in enumerate(steps):
        partial = run(partial, [step], fused, status, *PRESETS["hopper-promoted"][1:])
        taken += len(step.products)
        if taken >= elements or i == len(steps) - 1:
            if isinstance(c, Fraction) and isinstance(partial, Fraction):
                c = round_float32(c + partial, "nearest_even", status)
            else:
                c = special_sum(c, partial) or c
            partial, taken = Fraction(0), 0
    return c
