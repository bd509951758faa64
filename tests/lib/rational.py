"""The numeric contract once more, in exact rational arithmetic: the oracle of the tests.

Slow and obvious on purpose: one element at a time, plain Python, a `Fraction` for every real
number, written from the contract (docs/numerics.md; "section n" below refers to it) and sharing
no code with `mxdot`. Where an integer stands for a number, its unit is written beside it.

Here are products, accumulators and dot products; formats and quantisation are in rational_formats.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from rational_formats import (
    FLOATS,
    FORMATS,
    INTEGERS,
    Number,
    Special,
    Status,
    decode,
    decode_float32,
    encode_float32,
    floor_log2,
    pow2,
    round_float32,
)

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
    """The products that enter c together, and their block's scale g x 2^s (`scale` is s)."""

    products: list[Product | Special]
    scale: int
    nan_scale: bool
    g: Fraction = Fraction(1)

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


def scale_of(code: int, fmt: str) -> tuple[Fraction, int] | None:
    """(g, s) of a scale's code: s is the exponent of the unit digit; None for NaN."""
    last = {"e8m0": 255, "e4m3": 127}[fmt]
    if not 0 <= code <= last:
        raise ValueError(f"scale must be from 0 to {last}, not {code}")
    if code == last:
        return None
    if fmt == "e8m0":
        return Fraction(1), code - 127
    field, fraction = divmod(code, 8)
    return Fraction(fraction + 8 * (field > 0), 8), max(field, 1) - 7


def steps_of(
    fmt_a: str, fmt_b: str, blocks: Iterable[Sequence], size: int | None, scales: str = "e8m0"
) -> list[Step]:
    """The blocks cut into steps of up to `size` elements (None: whole blocks), never across.

    scales: the format of theirs.
    """
    steps = []
    for block in blocks:
        codes_a, codes_b, scale_a, scale_b = Block(*block)
        k = len(codes_a)
        if k < 1 or len(codes_b) != k:
            raise ValueError(f"blocks must have k >= 1 elements each, not {k} and {len(codes_b)}")
        products = [product(fmt_a, fmt_b, *pair) for pair in zip(codes_a, codes_b, strict=True)]
        g, s = Fraction(1), 0
        read = [scale_of(scale, scales) for scale in (scale_a, scale_b)]
        for one in read:
            if one is not None:
                g, s = g * one[0], s + one[1]
        taken = size or k
        steps += [Step(products[i : i + taken], s, None in read, g) for i in range(0, k, taken)]
    return steps


# Accumulators (section 4): each rule makes c' of a finite c and a step without special values ----


def exact_sum(products: Sequence[Product]) -> Fraction:
    """sum p_i; no product of any two formats has bits below 2^-272 (section 5)."""
    least = min((p.exponent for p in products), default=0)
    return sum(p.significand << (p.exponent - least) for p in products) * pow2(least)


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
    total = step.g * pow2(step.scale) * exact_sum(step.finite)
    return round_float32(c + total, "nearest_even", status)


def under_scale(step: Step, x: Number) -> Number:
    """The block's sum x by its scale; infinity x 0 is NaN."""
    if isinstance(x, Special):
        return x if step.g else Special.NAN
    return step.g * pow2(step.scale) * x


def aligned(c: Fraction, step: Step, status: Status, f: int, running: str = "float32") -> Number:
    nonzero = [p for p in step.finite if p.significand != 0]
    if not nonzero:
        return c
    emax = max(p.unit for p in nonzero)
    total = sum(truncate(p.significand, p.exponent + f - emax, status) for p in nonzero)
    d = round_float32(total * pow2(emax - f), "toward_zero", status)
    scaled = under_scale(step, d)
    if isinstance(scaled, Special):
        return scaled
    return round_float32(c + scaled, "nearest_even", status, running=running)


def fused(
    c: Fraction,
    step: Step,
    status: Status,
    f: int,
    fraction_bits: int = 23,
    running: str = "float32",
    rounding: str = "toward_zero",
    least: int | None = None,
) -> Number:
    nonzero = [p for p in step.finite if p.significand != 0]
    exponents = [p.unit + step.scale for p in nonzero]
    if c != 0:
        exponents.append(max(floor_log2(abs(c)), FLOATS[running].emin))
    if not exponents:
        return Fraction(0)
    emax = max(exponents if least is None else [*exponents, least])
    total = truncate_fraction(c * pow2(f - emax), status)
    for p in nonzero:
        shift = p.exponent + step.scale + f - emax
        if step.g == 1:
            total += truncate(p.significand, shift, status)
        else:
            total += truncate_fraction(step.g * p.significand * pow2(shift), status)
    return round_float32(total * pow2(emax - f), rounding, status, fraction_bits, running)


def float32(c: Fraction, step: Step, status: Status, running: str = "float32") -> Number:
    level = [round_float32(exact_sum([p]), "nearest_even", status) for p in step.finite]
    while len(level) > 1:
        pairs = [level[i : i + 2] for i in range(0, len(level), 2)]
        level = [rounded_sum(pair, status) for pair in pairs]
    scaled = under_scale(step, level[0])
    if isinstance(scaled, Special):
        return scaled
    return round_float32(c + scaled, "nearest_even", status, running=running)


def rounded_sum(pair: list[Number], status: Status) -> Number:
    """A node of the tree, infinite where it or a product overflowed; an odd one out passes up."""
    if len(pair) == 1:
        return pair[0]
    left, right = pair
    if isinstance(left, Fraction) and isinstance(right, Fraction):
        return round_float32(left + right, "nearest_even", status)
    result = special_sum(left, right)
    assert result is not None
    return result


def int32(c: Fraction, step: Step, status: Status) -> Number:
    total = sum(p.significand for p in step.finite)  # all products have one exponent
    unit = step.finite[0].exponent if step.finite else 0
    if not -(2**31) <= total < 2**31:
        raise ValueError(f"the block's sum must fit in 32 bits, not be {total}")
    scaled = step.g * pow2(step.scale + unit) * total
    return round_float32(c + scaled, "nearest_even", status)


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
        x = step.g * exact_sum(step.finite) * pow2(step.scale - self.lsb)
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
    fmt_a: str,
    fmt_b: str,
    blocks: Iterable[Sequence],
    accumulator_text: str,
    c_bits: int = 0,
    scales: str = "e8m0",
) -> Result:
    """The dot product of blocks (codes_a, codes_b, scale_a, scale_b), from the float32 c_bits."""
    status = Status()
    c = decode_float32(c_bits)
    name, *numbers = accumulator_text.split(":")
    nan_bits = 0x7FFFFFFF if name in PRESETS else 0x7FC00000
    size = PRESETS[name][0] if name in PRESETS else None
    steps = steps_of(fmt_a, fmt_b, blocks, size, scales)
    running, c = started(c, (name, *numbers[1:]), status)
    match name, numbers:
        case "exact", []:
            c = run(c, steps, exact, status)
        case "aligned", [f] | [f, "float16" | "bfloat16"]:
            c = run(c, steps, aligned, status, fraction_count(f), running)
        case "fused", [f] | [f, "float16" | "bfloat16"]:
            c = run(c, steps, fused, status, fraction_count(f), 23, running)
        case (("float32" | "float16" | "bfloat16"), []):
            c = run(c, steps, float32, status, running)
        case "int32", []:
            if not {fmt_a, fmt_b} <= {*INTEGERS}:
                raise ValueError(f"int32 takes integer elements only, not {fmt_a} x {fmt_b}")
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


def started(c: Number, words: Sequence[str], status: Status) -> tuple[str, Number]:
    """The float of the running value, the one among the words or float32, and c as one."""
    running = next((word for word in words if word in FLOATS), "float32")
    if isinstance(c, Fraction):
        c = round_float32(c, "nearest_even", status, running=running)
    return running, c


def fraction_count(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"F must be an integer of 0 or more, not {text!r}")
    return int(text)


Rule = Callable[..., Number]


def run(c: Number, steps: list[Step], rule: Rule, status: Status, *parameters: Any) -> Number:
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
