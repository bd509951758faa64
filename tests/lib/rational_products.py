"""Section 7 of docs/numerics.md in exact rational arithmetic, one dot product at a time.

The oracle of products of schemes: it reads a scheme's names, numbers and stored codes, and shares
no arithmetic with `mxdot`. A NaN scale is None.
"""

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

import numpy as np

import rational
import rational_formats
from rational import PRESETS, PROMOTED
from rational_formats import Number, Special, Status, floor_log2, pow2, round_float32
from rational_schemes import FLOATS, INTEGERS, POWERS, decode


class Factor(NamedTuple):
    """An element: its value, or what is special about it, and the exponent of its unit digit."""

    value: Number
    unit: int


class Scale(NamedTuple):
    """significand x 2^exponent; the significand None for NaN."""

    significand: Fraction | None
    exponent: int


@dataclass
class Row:
    """One row of an operand: each element's factor, its block's scales, its region's scale."""

    factors: list[Factor]
    blocks: list[list[Scale]]
    regions: list[Fraction | None] | None
    cuts: set[int]  # where a block starts
    region_cuts: set[int]
    powers: bool  # whether a level's scales are powers of two


def stored_scale(name: str, stored) -> Fraction | None:
    """The value of one stored scale, None for NaN."""
    if name == "e4m3":
        return None if stored == 0x7F else rational_formats.value("e4m3", int(stored))
    if name == "e8m0":
        return None if stored == 255 else pow2(int(stored) - 127)
    if name == "e1m0":
        return pow2(-int(stored))
    value = float(stored)
    return None if value != value else Fraction(value)


def block_scale(name: str, s: Fraction | None) -> Scale:
    """The significand and the exponent of the unit digit."""
    if s is None:
        return Scale(None, 0)
    if name in POWERS:
        return Scale(Fraction(1), floor_log2(s))
    if name not in FLOATS:
        return Scale(s / pow2(int(name[1:]) - 1), int(name[1:]) - 1)
    bits, lowest, _ = FLOATS[name]
    exponent = max(floor_log2(s), lowest + bits - 1)
    return Scale(s / pow2(exponent), exponent)


def factor(element: str, code: int, zero: int | None, shift: int) -> Factor:
    if element in INTEGERS:
        _, lowest, highest, fraction_bits, _ = INTEGERS[element]
        value = decode(code, element)
        unit = highest.bit_length() - 1 - fraction_bits
        if zero is not None:
            value, unit = value - zero, (highest - lowest).bit_length() - 1
        return Factor(value / pow2(shift), unit - shift)
    match rational_formats.decode(element, code):
        case ("nan",):
            return Factor(Special.NAN, 0)
        case ("inf", sign):
            return Factor(Special.MINUS_INF if sign else Special.PLUS_INF, 0)
        case (sign, significand, exponent):
            value = (-significand if sign else significand) * pow2(exponent - shift)
            unit = exponent + rational_formats.FORMATS[element].mantissa_bits - shift
            return Factor(value, unit)
    raise AssertionError("decode gives nothing else")


def row_of(array, i: int) -> Row:
    """Row i of a ScaledArray."""
    scheme = array.scheme
    rows, columns = array.codes.shape
    sizes = [
        (lev.granularity.rows or rows, lev.granularity.columns or columns) for lev in scheme.levels
    ]

    def at(part, level, k):
        height, width = sizes[level]
        return part[i // height, k // width]

    factors, blocks = [], []
    regions, cuts, region_cuts = None, {0}, {0}
    for index, lev in enumerate(scheme.levels):
        starts = set(range(0, columns, sizes[index][1]))
        if lev.format.name in FLOATS and index == 0:
            regions = [
                stored_scale(lev.format.name, at(array.scales[0], 0, k)) for k in range(columns)
            ]
            region_cuts |= starts
        elif lev.format.name != "e1m0":
            cuts |= starts
    for k in range(columns):
        chosen = 0 if array.selectors is None else int(at(array.selectors, -1, k))
        zero = None if array.zero_points is None else int(at(array.zero_points, -1, k))
        shift, mine = 0, []
        for index, lev in enumerate(scheme.levels):
            name, stored = lev.format.name, at(array.scales[index], index, k)
            if name == "e1m0" and index:
                shift += int(stored)
            elif not (name in FLOATS and index == 0):
                mine.append(block_scale(name, stored_scale(name, stored)))
        factors.append(factor(scheme.elements[chosen].name, int(array.codes[i, k]), zero, shift))
        blocks.append(mine)
    powers = any(lev.format.name in POWERS for lev in scheme.levels)
    return Row(factors, blocks, regions, cuts, region_cuts, powers)


class Term(NamedTuple):
    """A product of two elements."""

    value: Number
    unit: int


class Step(NamedTuple):
    """Terms under one scale g x 2^s; g is None for NaN."""

    terms: list[Term]
    g: Fraction | None
    s: int

    @property
    def specials(self) -> list[Special]:
        found = [t.value for t in self.terms if isinstance(t.value, Special)]
        return [*found, Special.NAN] if self.g is None else found

    @property
    def values(self) -> list[Fraction]:
        return [finite(t.value) for t in self.terms]

    @property
    def nonzero(self) -> list[tuple[Fraction, int]]:
        return [(finite(t.value), t.unit) for t in self.terms if t.value != 0]

    @property
    def x(self) -> Fraction:
        assert self.g is not None
        return self.g * pow2(self.s)


def multiply(a: Number, b: Number) -> Number:
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a * b
    if Special.NAN in (a, b) or a == 0 or b == 0:
        return Special.NAN
    negative = [x is Special.MINUS_INF or (isinstance(x, Fraction) and x < 0) for x in (a, b)]
    return Special.MINUS_INF if negative[0] != negative[1] else Special.PLUS_INF


def step_of(a: Row, b: Row, start: int, stop: int) -> Step:
    terms = [
        Term(multiply(x.value, y.value), x.unit + y.unit)
        for x, y in zip(a.factors[start:stop], b.factors[start:stop], strict=True)
    ]
    g, s = Fraction(1), 0
    for scale in a.blocks[start] + b.blocks[start]:
        s += scale.exponent
        g = None if g is None or scale.significand is None else g * scale.significand
    return Step(terms, g, s)


def blocks_of(cuts: set[int], start: int, stop: int, longest: int) -> list[tuple[int, int]]:
    ends = sorted({at for at in cuts if start < at < stop} | {start, stop})
    return [
        (at, min(at + longest, right))
        for left, right in pairwise(ends)
        for at in range(left, right, longest)
    ]


def finite(x: Number | None) -> Fraction:
    assert isinstance(x, Fraction)
    return x


def truncated(x: Fraction) -> int:
    return int(x)  # toward zero


def rne(x: Fraction) -> Number:
    return round_float32(x, "nearest_even", Status())


def rz(x: Fraction, bits: int = 23) -> Number:
    return round_float32(x, "toward_zero", Status(), bits)


# Rules: c' of a finite c and a step without special values


def exact(c: Fraction, step: Step) -> Number:
    return rne(c + step.x * sum(step.values))


def aligned(c: Fraction, step: Step, f: int) -> Number:
    if not step.nonzero:
        return c
    emax = max(unit for _, unit in step.nonzero)
    total = sum(truncated(value * pow2(f - emax)) for value, _ in step.nonzero)
    return rne(c + step.x * finite(rz(total * pow2(emax - f))))


def fused(c: Fraction, step: Step, f: int, bits: int = 23) -> Number:
    exponents = [unit + step.s for _, unit in step.nonzero]
    exponents += [max(floor_log2(abs(c)), -126)] if c != 0 else []
    if not exponents:
        return Fraction(0)
    emax = max(exponents)
    grid = pow2(f - emax)
    total = truncated(c * grid) + sum(truncated(value * step.x * grid) for value, _ in step.nonzero)
    return rz(total / grid, bits)


def float32(c: Fraction, step: Step) -> Number:
    level = step.values
    while len(level) > 1:
        pairs = [level[i : i + 2] for i in range(0, len(level), 2)]
        level = [finite(rne(sum(pair, Fraction(0)))) for pair in pairs]
    return rne(c + step.x * level[0])


def accumulate(text: str, steps: list[Step], c: Number) -> Number:
    name, *numbers = text.split(":")
    if name == "fixed":
        return fixed(
            steps, c, rational.FixedRegister(int(numbers[0]), int(numbers[1]), len(numbers) > 2)
        )
    if name in PROMOTED:
        return promoted(steps, c, PROMOTED[name])
    rules = {"exact": exact, "int32": exact, "aligned": aligned, "fused": fused, "float32": float32}
    parameters = [int(n) for n in numbers] if name in rules else PRESETS[name][1:]
    for step in steps:
        special = rational.special_sum(c, *step.specials)
        c = special or rules.get(name, fused)(c, step, *parameters)
    return c


def fixed(steps: list[Step], c: Number, register: rational.FixedRegister) -> Number:
    special = c if isinstance(c, Special) else None
    held = 0 if isinstance(c, Special) else register.load(c, Status())
    for step in steps:
        special = rational.special_sum(special, *step.specials)
        if special is None:
            x = step.x * sum(step.values) * pow2(-register.lsb)
            held = register.hold(held + truncated(x), Status())
    return special or register.read(held, Status())


def promoted(steps: list[Step], c: Number, elements: int) -> Number:
    partial: Number = Fraction(0)
    taken = 0
    for i, step in enumerate(steps):
        special = rational.special_sum(partial, *step.specials)
        partial = special or fused(finite(partial), step, *PRESETS["hopper"][1:])
        taken += len(step.terms)
        if taken >= elements or i == len(steps) - 1:
            special = rational.special_sum(c, partial)
            c = special or rne(finite(c) + finite(partial))
            partial, taken = Fraction(0), 0
    return c


# Dot products


def dot(a: Row, b: Row, text: str, c_bits: int, lanes: int) -> int:
    """The float32 bits of one dot product."""
    name = text.split(":")[0]
    nan = 0x7FFFFFFF if name in PRESETS else 0x7FC00000
    c = rational_formats.decode_float32(c_bits)
    k = len(a.factors)
    ends = sorted(a.region_cuts | b.region_cuts | {k})
    scaled = a.regions is not None or b.regions is not None
    for start, stop in pairwise(ends):
        if name == "int32" and not (a.powers or b.powers):
            partial = rne(sum((integer_term(a, b, i) for i in range(start, stop)), Fraction(0)))
        else:
            blocks = blocks_of(a.cuts | b.cuts, start, stop, lanes)
            if name in PRESETS:
                size = PRESETS[name][0]
                blocks = [part for at, end in blocks for part in blocks_of(set(), at, end, size)]
            steps = [step_of(a, b, *block) for block in blocks]
            if not scaled:
                return rational_formats.encode_float32(accumulate(text, steps, c), nan)
            partial = accumulate(text, steps, Fraction(0))
        c = rescaled(c, region_scale(a, b, start), partial)
    return rational_formats.encode_float32(c, nan)


def integer_term(a: Row, b: Row, i: int) -> Fraction:
    (value,) = step_of(a, b, i, i + 1).values
    return step_of(a, b, i, i + 1).x * value


def region_scale(a: Row, b: Row, column: int) -> Number:
    scales = [Fraction(1) if row.regions is None else row.regions[column] for row in (a, b)]
    return Special.NAN if None in scales else rne(finite(scales[0]) * finite(scales[1]))


def rescaled(c: Number, scale: Number, partial: Number) -> Number:
    term = multiply(scale, partial)
    special = rational.special_sum(c, term)
    return special or rne(finite(c) + finite(term))


def matmul(a, b, text: str, c, lanes: int = 128) -> np.ndarray:
    """The bits of every dot product, uint32 (M, N)."""
    rows_a = [row_of(a, i) for i in range(a.codes.shape[0])]
    rows_b = [row_of(b, i) for i in range(b.codes.shape[0])]
    bits = np.asarray(c, np.float32).view(np.uint32)
    return np.array(
        [
            [dot(x, y, text, int(bits[i, j]), lanes) for j, y in enumerate(rows_b)]
            for i, x in enumerate(rows_a)
        ],
        np.uint32,
    )


def weight_only(x, weights, text: str, c, lanes: int = 128) -> np.ndarray:
    """Products of float rows and rows of weights that were rounded to their type already."""

    def row(values) -> Row:
        lowest = {"float32": -126, "bfloat16": -126, "float16": -14}[values.dtype.name]
        factors = [float_factor(float(v), lowest) for v in values]
        return Row(factors, [[] for _ in factors], None, {0}, {0}, False)

    rows_a, rows_b = [row(v) for v in x], [row(v) for v in weights]
    longest = x.shape[1] if text == "exact" else lanes
    bits = np.asarray(c, np.float32).view(np.uint32)
    return np.array(
        [
            [dot(x, y, text, int(bits[i, j]), longest) for j, y in enumerate(rows_b)]
            for i, x in enumerate(rows_a)
        ],
        np.uint32,
    )


def float_factor(value: float, lowest: int) -> Factor:
    if value != value:
        return Factor(Special.NAN, 0)
    if abs(value) == float("inf"):
        return Factor(Special.PLUS_INF if value > 0 else Special.MINUS_INF, 0)
    exact_value = Fraction(value)
    return Factor(exact_value, max(floor_log2(abs(exact_value)), lowest) if exact_value else lowest)
