"""Products, accumulators, machines and dot products (sections 3 and 4)."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import floor
from typing import Any, NamedTuple

from .formats import (
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

NAN, NVIDIA_NAN = 0x7FC00000, 0x7FFFFFFF

# Products and special values (section 3) --------------------------------------------------------


class Term(NamedTuple):
    """significand x 2^exponent, an element or a product of two; the significand is signed.

    unit: the exponent of the unit digit, U of section 3.
    """

    significand: int
    exponent: int
    unit: int


Factor = Term | Special


def term(x: Fraction, unit: int) -> Term:
    """x, a whole number of some power of two."""
    return Term(x.numerator, 1 - x.denominator.bit_length(), unit)


def element(fmt: str, code: int, flush: bool = False) -> Factor:
    """An element by its code. flush: zero for a subnormal float."""
    match decode(fmt, code):
        case ("nan",):
            return Special.NAN
        case ("inf", sign):
            return Special.MINUS_INF if sign else Special.PLUS_INF
        case (sign, significand, exponent):
            mantissa_bits = FORMATS[fmt].mantissa_bits
            if flush and fmt not in INTEGERS and significand < 1 << mantissa_bits:
                significand = 0
            return Term(-significand if sign else significand, exponent, exponent + mantissa_bits)
    raise AssertionError("decode gives nothing else")


def sign_of(x: Factor | Number) -> int:
    """-1, 0 or 1; 0 for NaN."""
    if isinstance(x, Special):
        return {Special.NAN: 0, Special.PLUS_INF: 1, Special.MINUS_INF: -1}[x]
    value = x.significand if isinstance(x, Term) else x
    return (value > 0) - (value < 0)


def special_product(a: Factor | Number, b: Factor | Number) -> Special | None:
    """The product if a or b is special (infinity x 0 is NaN), otherwise None."""
    if not isinstance(a, Special) and not isinstance(b, Special):
        return None
    by_sign = {-1: Special.MINUS_INF, 0: Special.NAN, 1: Special.PLUS_INF}
    return by_sign[sign_of(a) * sign_of(b)]


def multiply(a: Factor, b: Factor) -> Factor:
    """The exact product of two elements, never renormalised."""
    if isinstance(a, Term) and isinstance(b, Term):
        return Term(a.significand * b.significand, a.exponent + b.exponent, a.unit + b.unit)
    special = special_product(a, b)
    assert special is not None
    return special


@lru_cache(maxsize=1 << 17)
def product(fmt_a: str, fmt_b: str, code_a: int, code_b: int, flush: bool = False) -> Factor:
    """The product of two elements by their codes."""
    return multiply(element(fmt_a, code_a, flush), element(fmt_b, code_b, flush))


def special_sum(*terms: Factor | Number | None) -> Special | None:
    """The sum if a term is special, otherwise None."""
    specials = {term for term in terms if isinstance(term, Special)}
    if len(specials) > 1:  # +Inf with -Inf, or a NaN with any Inf
        return Special.NAN
    return specials.pop() if specials else None


# Blocks and steps -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """The products that enter c together, and their block's scale g x 2^s (`scale` is s)."""

    products: list[Factor]
    scale: int
    nan_scale: bool
    g: Fraction = Fraction(1)

    @property
    def finite(self) -> list[Term]:
        return [p for p in self.products if isinstance(p, Term)]

    @property
    def nonzero(self) -> list[Term]:
        return [p for p in self.finite if p.significand]

    @property
    def specials(self) -> list[Special]:
        nan_scale = [Special.NAN] if self.nan_scale else []
        return [p for p in self.products if isinstance(p, Special)] + nan_scale

    @property
    def scaled(self) -> list[Fraction]:
        """The values of the products that are not zero, under the scale."""
        return [self.g * p.significand * pow2(p.exponent + self.scale) for p in self.nonzero]

    @property
    def total(self) -> Fraction:
        """The exact sum of the products, under the scale."""
        return sum(self.scaled, Fraction(0))

    def cut(self, size: int) -> list["Step"]:
        """Steps of up to `size` products."""
        starts = range(0, len(self.products), size)
        return [replace(self, products=self.products[i : i + size]) for i in starts]

    def permuted(self) -> list["Step"]:
        """Products 0 and 1 of each four among 32, then products 2 and 3."""
        groups = [group.products for group in self.cut(32)]
        halves = [[p for i, p in enumerate(g) if i // 2 % 2 == h] for g in groups for h in (0, 1)]
        return [replace(self, products=half) for half in halves if half]


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


def step_of(products: list[Factor], scales: Iterable[tuple[Fraction, int] | None]) -> Step:
    """A block's products under the product of its scales (g, s)."""
    g, s, nan_scale = Fraction(1), 0, False
    for scale in scales:
        if scale is None:
            nan_scale = True
        else:
            g, s = g * scale[0], s + scale[1]
    return Step(products, s, nan_scale, g)


def steps_of(
    fmt_a: str, fmt_b: str, blocks: Iterable[Sequence], scales: str, flush: bool = False
) -> list[Step]:
    """One step per block (codes_a, codes_b, scale_a, scale_b). scales: their format."""
    steps = []
    for codes_a, codes_b, *block_scales in blocks:
        k = len(codes_a)
        if k < 1 or len(codes_b) != k:
            raise ValueError(f"blocks must have k >= 1 elements each, not {k} and {len(codes_b)}")
        pairs = zip(codes_a, codes_b, strict=True)
        products = [product(fmt_a, fmt_b, *pair, flush) for pair in pairs]
        steps.append(step_of(products, [scale_of(code, scales) for code in block_scales]))
    return steps


# Accumulators (section 4): each rule makes c' of a finite c and a step without special values ----


def exact_sum(products: Sequence[Term]) -> Fraction:
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


def nearest(x: Number, status: Status, running: str = "float32") -> Number:
    return x if isinstance(x, Special) else round_float32(x, "nearest_even", status, 23, running)


def nearest_sum(
    a: Number, b: Number, status: Status, rounded: Callable[..., Number] = nearest, *options: str
) -> Number:
    """a + b, rounded where it is finite."""
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return rounded(a + b, status, *options)
    special = special_sum(a, b)
    assert special is not None
    return special


def exact(c: Fraction, step: Step, status: Status, running: str = "float32") -> Number:
    return nearest(c + step.g * pow2(step.scale) * exact_sum(step.finite), status, running)


def under_scale(step: Step, x: Number) -> Number:
    """The block's sum x by its scale; infinity x 0 is NaN."""
    return special_product(step.g, x) or step.g * pow2(step.scale) * x  # type: ignore[operator]


def aligned(c: Fraction, step: Step, status: Status, f: int, running: str = "float32") -> Number:
    if not step.nonzero:
        return c
    emax = max(p.unit for p in step.nonzero)
    total = sum(truncate(p.significand, p.exponent + f - emax, status) for p in step.nonzero)
    d = round_float32(total * pow2(emax - f), "toward_zero", status)
    return nearest_sum(c, under_scale(step, d), status, nearest, running)


def bulk(c: Fraction, step: Step, status: Status, f: int) -> Number:
    """A step of `rvbna`: terms, their sum and c plus it, each rounded to odd."""
    if not step.nonzero:
        return c
    emax = max(p.unit for p in step.nonzero)
    total = sum(
        round_to_odd(p.significand * pow2(p.exponent + f - emax), status) for p in step.nonzero
    )
    d = round_float32(total * pow2(emax - f), "odd", status)
    return nearest_sum(c, under_scale(step, d), status, lambda x, s: round_float32(x, "odd", s))


def round_to_odd(x: Fraction, status: Status) -> int:
    """x as an integer, odd where digits are lost."""
    truncated = truncate_fraction(abs(x), status)
    magnitude = truncated | (truncated != abs(x))
    return -magnitude if x < 0 else magnitude


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
    exponents = [p.unit + step.scale for p in step.nonzero]
    if c != 0:
        exponents.append(max(floor_log2(abs(c)), FLOATS[running].emin))
    if not exponents:
        return Fraction(0)
    emax = max(exponents if least is None else [*exponents, least])
    total = truncate_fraction(c * pow2(f - emax), status)
    for p in step.nonzero:
        shift = p.exponent + step.scale + f - emax
        if step.g == 1:
            total += truncate(p.significand, shift, status)
        else:
            total += truncate_fraction(step.g * p.significand * pow2(shift), status)
    return round_float32(total * pow2(emax - f), rounding, status, fraction_bits, running)


def tree(
    c: Fraction, step: Step, status: Status, rounded: Callable[..., Number], *options: str
) -> Number:
    """Sums of adjacent pairs in float32, an odd one out passes up; the last addition is to c."""
    level = [rounded(exact_sum([p]), status) for p in step.finite]
    while len(level) > 1:
        pairs = [level[i : i + 2] for i in range(0, len(level), 2)]
        level = [
            pair[0] if len(pair) == 1 else nearest_sum(pair[0], pair[1], status, rounded)
            for pair in pairs
        ]
    return nearest_sum(c, under_scale(step, level[0]), status, rounded, *options)


def int32(c: Fraction, step: Step, status: Status) -> Number:
    total = sum(p.significand for p in step.finite)  # all products have one exponent
    if not -(2**31) <= total < 2**31:
        raise ValueError(f"the block's sum must fit in 32 bits, not be {total}")
    return exact(c, step, status)


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
        return nearest(register * pow2(self.lsb), status)


def run(
    c: Number, steps: list[Step], rule: Callable[..., Number], status: Status, *parameters: Any
) -> Number:
    """c after all steps; a step with a special value in it or in c does no arithmetic."""
    for step in steps:
        c = special_sum(c, *step.specials) or rule(c, step, status, *parameters)
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


# Machines (section 4), each with its data from docs/numerics.md ---------------------------------


class Fused(NamedTuple):
    """`fused:f` in steps of `terms` products.

    promote: products after which a partial sum joins c.
    """

    terms: int
    f: int
    running: str = "float32"
    fraction_bits: int = 23
    least: int | None = None
    promote: int | None = None
    permuted: bool = False


HALF = "float16"
PRESETS = {
    "hopper": Fused(32, 13, fraction_bits=13),
    "hopper-promoted": Fused(32, 13, fraction_bits=13, promote=128),
    "hopper-mx": Fused(32, 13, fraction_bits=13, promote=32),
    "hopper-fp16": Fused(16, 25),
    "ada": Fused(16, 13, fraction_bits=13),
    "blackwell": Fused(32, 25, least=-133),
}
OTHER_FUSED = {
    "volta": Fused(4, 23),
    "volta-float16": Fused(4, 23, HALF, least=-19),
    "turing": Fused(8, 24),
    "turing-float16": Fused(8, 24, HALF, least=-20),
    "ampere": Fused(8, 24),
    "ampere-bf16": Fused(8, 24, least=-132),
    "ampere-tf32": Fused(4, 24, least=-132),
    "ampere-float16": Fused(8, 24, HALF, least=-20),
    "ada-fp16": Fused(8, 24),
    "ada-bf16": Fused(8, 24, least=-132),
    "ada-tf32": Fused(4, 24, least=-132),
    "ada-fp16-float16": Fused(8, 24, HALF, least=-20),
    "ada-float16": Fused(16, 13, HALF, least=-20),
    "hopper-bf16": Fused(16, 25, least=-133),
    "hopper-tf32": Fused(8, 25, least=-133),
    "hopper-fp16-float16": Fused(16, 25, HALF, least=-21),
    "hopper-float16": Fused(32, 13, HALF, least=-21),
    "hopper-mma": Fused(16, 25, permuted=True),
    "hopper-mma-float16": Fused(16, 25, HALF, least=-21, promote=32, permuted=True),
    "blackwell-fp16": Fused(16, 25),
    "blackwell-bf16": Fused(16, 25, least=-133),
    "blackwell-tf32": Fused(8, 25, least=-133),
    "blackwell-fp16-float16": Fused(16, 25, HALF, least=-21),
    "blackwell-float16": Fused(32, 25, HALF, least=-21),
    "rtx50": Fused(32, 25, least=-133),
    "rtx50-float16": Fused(32, 25, HALF, least=-21),
    "rtx50-fp16": Fused(16, 25),
    "rtx50-bf16": Fused(16, 25, least=-133),
    "rtx50-tf32": Fused(8, 25, least=-133),
    "rtx50-fp16-float16": Fused(16, 25, HALF, least=-21),
    "blackwell-mma": Fused(32, 25, promote=32),
    "blackwell-mma-float16": Fused(16, 25, HALF, least=-21, promote=32, permuted=True),
}
FUSED = PRESETS | OTHER_FUSED
GROUPED = {  # terms, products together, f, least
    "blackwell-mxf4nvf4": (16, 64, 35, -139),
    "rtx50-mxf4nvf4": (16, 64, 35, -139),
}
EXACT = {  # terms, format of c and results
    "cdna1-fp16": (4, "float32"),
    "cdna1-bf16": (2, "float32"),
    "arm-fp8-mmla": (8, "float32"),
    "arm-fp8-dot": (4, "float32"),
    "arm-fp8-mmla-float16": (4, HALF),
    "arm-fp8-dot-float16": (2, HALF),
}
TREES = {"cdna2-fp16": 4, "cdna2-bf16": 2}
FLOORED = {"cdna3-fp16": (8, False), "cdna3-xf32": (4, False), "cdna3-fp8": (16, True)}
CHAINS = {"amx-bf16": (32, False), "avx512-bf16": (2, True)}  # terms, whether from c
MACHINES = (*OTHER_FUSED, *GROUPED, *EXACT, *TREES, *FLOORED, *CHAINS)
FLUSHING = (*TREES, *CHAINS)


def run_fused(c: Number, blocks: list[Step], status: Status, row: Fused) -> Number:
    rounding = "toward_zero" if row.running == "float32" else "nearest_even"
    rule = row.f, row.fraction_bits, row.running, rounding, row.least
    steps = [s for b in blocks for s in (b.permuted() if row.permuted else b.cut(row.terms))]
    c = nearest(c, status, row.running)
    if row.promote is None:
        return run(c, steps, fused, status, *rule)
    for group in groups_of(steps, row.promote):
        partial = run(Fraction(0), group, fused, status, *rule)
        c = nearest_sum(c, partial, status, nearest, row.running)
    return c


def groups_of(steps: list[Step], count: int) -> list[list[Step]]:
    """Consecutive steps of `count` products or more together; fewer in the last group."""
    groups: list[list[Step]] = [[]]
    for step in steps:
        if sum(len(earlier.products) for earlier in groups[-1]) >= count:
            groups.append([])
        groups[-1].append(step)
    return groups if steps else []


def one_grid(c: Fraction, group: list[Step], status: Status, f: int, least: int) -> Number:
    """The steps' exact sums and c, truncated to one grid and added up.

    A step counts by its scale, unless the scale or all of its products are zero.
    """
    sums = [s.g * exact_sum(s.finite) * pow2(s.scale) for s in group]
    largest = max([least, *(s.scale for s in group if s.g and s.nonzero)])
    if c != 0:
        largest = max(largest, floor_log2(abs(c)), -126)
    total = sum(truncate_fraction(x * pow2(f - largest), status) for x in (c, *sums))
    return round_float32(total * pow2(largest - f), "toward_zero", status)


def flushed(x: Number, status: Status) -> Number:
    """RNE to float32, whose subnormal results are zeros."""
    rounded = nearest(x, status)
    if isinstance(rounded, Fraction) and 0 < abs(rounded) < pow2(-126):
        status.inexact = status.underflow = True
        return Fraction(0)
    return rounded


def cut_down(x: Fraction, exponent: int, status: Status) -> Fraction:
    """x down to a multiple of 2^exponent."""
    result = floor(x * pow2(-exponent)) * pow2(exponent)
    if result != x:
        status.inexact = True
    return result


def aligned_sum(step: Step, status: Status) -> tuple[Fraction, int | None]:
    """The sum of RZ products and the exponent of its largest; None where all are zeros."""
    if not step.nonzero:
        return Fraction(0), None
    largest = max(p.unit for p in step.nonzero) + step.scale
    unit = pow2(largest - 24)
    return sum(truncate_fraction(v / unit, status) for v in step.scaled) * unit, largest


def too_large(step: Step) -> set[Special]:
    """The infinities that finite products of 2^128 and more become."""
    return {
        Special.PLUS_INF if v > 0 else Special.MINUS_INF for v in step.scaled if abs(v) >= pow2(128)
    }


def floored(c: Fraction, step: Step, status: Status, halves: bool) -> Number:
    """Sums that are cut downwards. halves: even and odd products apart."""
    parts = [step.products[0::2], step.products[1::2]] if halves else [step.products]
    sums = [aligned_sum(replace(step, products=part), status) for part in parts]
    largest = max((e for _, e in sums if e is not None), default=None)
    total = sum((x for x, _ in sums), Fraction(0))
    if halves and largest is not None:
        total = sum((cut_down(x, largest - 24, status) for x, _ in sums), Fraction(0))
    exponent = max(floor_log2(abs(c)), -126) if c else -126
    top = exponent if largest is None else max(exponent, largest)
    total = cut_down(total, top - 32, status)
    cut = cut_down(c, top - 24, status)
    if halves and exponent < top - 25:
        cut = Fraction(0)
    total += cut
    if total:
        total = cut_down(total, max(floor_log2(abs(total)), -126) - 31, status)
    if infinities := too_large(step):
        status.overflow = status.inexact = True
        return special_sum(*infinities)  # type: ignore[return-value]
    return nearest(total, status)


def run_floored(c: Number, steps: list[Step], status: Status, halves: bool) -> Number:
    """A product that is too large meets special values as the infinity that it is."""
    for step in steps:
        special = special_sum(c, *step.specials)
        if special is not None:
            c = special_sum(special, *too_large(step))  # type: ignore[assignment]
        else:
            c = floored(c, step, status, halves)  # type: ignore[arg-type]
    return c


def run_flushed(c: Number, steps: list[Step], status: Status) -> Number:
    """Trees without subnormal numbers; a tree that overflows meets a special c."""
    for step in steps:
        if c in (Special.PLUS_INF, Special.MINUS_INF) and not step.specials:
            total = tree(Fraction(0), replace(step, scale=0), Status(), flushed)
            c = special_sum(c, total)  # type: ignore[assignment]
        else:
            special = special_sum(c, *step.specials)
            c = special or tree(c, step, status, flushed)  # type: ignore[arg-type]
    return c


def nearest_normal(x: Number, status: Status) -> Number:
    """RNE to float32; 0 where 24 digits of x, with an exponent of any size, are below 2^-126."""
    if isinstance(x, Fraction) and 0 < abs(x) < pow2(-126):
        unit = pow2(floor_log2(abs(x)) - 23)
        if round(abs(x) / unit) * unit < pow2(-126):
            status.inexact = status.underflow = True
            return Fraction(0)
    return nearest(x, status)


def run_chains(c: Number, steps: list[Step], status: Status, from_c: bool) -> Number:
    """Fused multiply-adds one after the other, in the order of the instruction's pseudo-code."""
    for step in steps:
        is_special = bool(step.specials) or isinstance(c, Special)
        own = Status() if is_special else status  # such a step raises no flags
        c = chained(c, step, own, from_c)
    return c


def chained(c: Number, step: Step, status: Status, from_c: bool) -> Number:
    unscaled = replace(step, scale=0, g=Fraction(1))
    if step.nan_scale:
        return Special.NAN
    if from_c:
        for p in reversed(step.products):
            term = p if isinstance(p, Special) else replace(step, products=[p]).total
            c = nearest_sum(c, term, status, nearest_normal)
        return c
    chains: list[Number] = [Fraction(0), Fraction(0)]
    for i, p in enumerate(step.products):
        term = p if isinstance(p, Special) else replace(unscaled, products=[p]).total
        chains[i % 2] = nearest_sum(chains[i % 2], term, status, nearest_normal)
    partial = nearest_sum(chains[0], chains[1], status, nearest_normal)
    block = partial if isinstance(partial, Special) else under_scale(step, partial)
    return nearest_sum(c, block, status, nearest_normal)


# A dot product over blocks (section 4) ----------------------------------------------------------


class Result(NamedTuple):
    """The float32 bits of a dot product and its sticky flags."""

    bits: int
    invalid: bool
    overflow: bool
    underflow: bool
    inexact: bool
    saturated: bool


def dot(
    fmt_a: str,
    fmt_b: str,
    blocks: Iterable[Sequence],
    accumulator: str,
    c_bits: int = 0,
    scales: str = "e8m0",
) -> Result:
    """The dot product of blocks (codes_a, codes_b, scale_a, scale_b), from the float32 c_bits."""
    status = Status()
    if accumulator == "int32" and not {fmt_a, fmt_b} <= {*INTEGERS}:
        raise ValueError(f"int32 takes integer elements only, not {fmt_a} x {fmt_b}")
    steps = steps_of(fmt_a, fmt_b, blocks, scales, flush=accumulator in FLUSHING)
    c = accumulate(accumulator, steps, decode_float32(c_bits), status)
    flags = status.overflow, status.underflow, status.inexact, status.saturated
    return Result(encode_float32(c, nan_bits(accumulator)), c is Special.NAN, *flags)


def nan_bits(accumulator: str) -> int:
    return NVIDIA_NAN if accumulator in FUSED or accumulator in GROUPED else NAN


ADDED: dict[str, Callable[..., Number]] = {}
"""Rules of accumulators from outside, by the first word of their text; its numbers follow."""


def accumulate(accumulator: str, blocks: list[Step], c: Number, status: Status) -> Number:
    """c after all blocks, each one step or cut into the steps of a machine."""
    name, *numbers = accumulator.split(":")
    running = next((word for word in (name, *numbers[1:]) if word in FLOATS), "float32")
    c = nearest(c, status, running)
    match name, numbers:
        case "exact", []:
            return run(c, blocks, exact, status)
        case "aligned", [f] | [f, "float16" | "bfloat16"]:
            return run(c, blocks, aligned, status, fraction_count(f), running)
        case "fused", [f] | [f, "float16" | "bfloat16"]:
            return run(c, blocks, fused, status, fraction_count(f), 23, running)
        case "rvbna", [n] | [n, _]:
            guard = int(numbers[1]) if len(numbers) > 1 else int(n).bit_length() - 1
            steps = [step for block in blocks for step in block.cut(int(n))]
            return run(c, steps, bulk, status, 23 + guard)
        case (("float32" | "float16" | "bfloat16"), []):
            return run(c, blocks, tree, status, nearest, running)
        case "int32", []:
            return run(c, blocks, int32, status)
        case "fixed", [width, lsb, *wrap] if int(width) >= 1 and wrap in ([], ["wrap"]):
            return run_fixed(c, blocks, FixedRegister(int(width), int(lsb), wrap != []), status)
    if name in ADDED:
        return run(c, blocks, ADDED[name], status, *map(int, numbers))
    if accumulator in (*PRESETS, *MACHINES):
        return run_machine(accumulator, blocks, c, status)
    raise ValueError(f"no accumulator of the contract: {accumulator!r}")


def run_machine(name: str, blocks: list[Step], c: Number, status: Status) -> Number:
    if name in FUSED:
        return run_fused(c, blocks, status, FUSED[name])
    if name in GROUPED:
        terms, together, f, least = GROUPED[name]
        for group in groups_of([step for block in blocks for step in block.cut(terms)], together):
            specials = [x for step in group for x in step.specials]
            c = special_sum(c, *specials) or one_grid(c, group, status, f, least)  # type: ignore[arg-type]
        return c
    if name in EXACT:
        terms, running = EXACT[name]
        c = nearest(c, status, running)
        return run(c, [s for b in blocks for s in b.cut(terms)], exact, status, running)
    if name in TREES:
        steps = [s for b in blocks for s in b.cut(TREES[name])]
        return run_flushed(flushed(c, status), steps, status)
    if name in CHAINS:
        terms, from_c = CHAINS[name]
        steps = [s for b in blocks for s in b.cut(terms)]
        return run_chains(nearest_normal(c, status), steps, status, from_c)
    terms, halves = FLOORED[name]
    return run_floored(c, [s for b in blocks for s in b.cut(terms)], status, halves)


def fraction_count(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"F must be an integer of 0 or more, not {text!r}")
    return int(text)
