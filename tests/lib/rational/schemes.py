"""Block-scaling schemes: quantisation (section 6) and products (section 7).

It reads a scheme's names, numbers and stored codes. Matrices to quantise are lists of rows; a
scale is its exact value, or None for NaN.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np

from . import formats
from .dot import (
    Factor,
    Step,
    accumulate,
    exact_sum,
    multiply,
    nan_bits,
    nearest,
    nearest_sum,
    special_product,
    step_of,
    term,
)
from .dot import element as element_of
from .formats import Number, Special, Status, floor_log2, pow2

# Quantisation (section 6), one group at a time --------------------------------------------------

# name: (bits, lowest, highest, fraction bits, sign and magnitude)
INTEGERS = {
    "int8_symmetric": (8, -127, 127, 0, False),
    "int8_full": (8, -128, 127, 0, False),
    "uint8": (8, 0, 255, 0, False),
    "int4_symmetric": (4, -7, 7, 0, False),
    "int4_full": (4, -8, 7, 0, False),
    **{f"sm{m + 1}": (m + 1, 1 - 2**m, 2**m - 1, m - 1, True) for m in range(1, 8)},
}
# name: (significand bits, exponent of the smallest positive, largest)
FLOATS = {
    "float32": (24, -149, (2 - pow2(-23)) * pow2(127)),
    "float16": (11, -24, Fraction(65504)),
    "bfloat16": (8, -133, (2 - pow2(-7)) * pow2(127)),
    "e4m3": (4, -9, Fraction(448)),
}
POWERS = {"e8m0": (-127, 127), "e1m0": (-1, 0)}  # exponents


def largest_element(name: str) -> Fraction:
    if name in INTEGERS:
        _, _, highest, fraction_bits, _ = INTEGERS[name]
        return highest * pow2(-fraction_bits)
    return formats.format_of(name).largest


def largest_scale(name: str) -> Fraction:
    if name in POWERS:
        return pow2(POWERS[name][1])
    return FLOATS[name][2] if name in FLOATS else Fraction(2 ** int(name[1:]) - 1)


def round_scale(x: Fraction, name: str) -> Fraction:
    """RNE of x >= 0 to a float or an unsigned integer, from its smallest positive value on."""
    if name not in FLOATS:
        return min(max(Fraction(round(x)), Fraction(1)), largest_scale(name))
    bits, lowest, largest = FLOATS[name]
    unit = pow2(max(floor_log2(x) - bits + 1, lowest)) if x else pow2(lowest)
    return min(max(round(x / unit) * unit, pow2(lowest)), largest)


def leading(amax: Fraction, element: str, rule: str) -> int:
    """The shared exponent of section 2, for elements that it does not name too."""
    if element not in INTEGERS:
        return formats.shared_exponent(amax, element, rule)
    largest = largest_element(element)
    emax = floor_log2(largest)
    if rule == "floor":
        return floor_log2(amax) - emax
    if rule == "twice":
        return floor_log2(amax) - emax + 1
    if rule == "ceil":
        e = floor_log2(amax) - emax - 1
        while amax > largest * pow2(e):
            e += 1
        return e
    unit = pow2(floor_log2(amax) - (INTEGERS[element][2].bit_length() - 1))
    return floor_log2(math.floor(amax / unit + Fraction(1, 2)) * unit) - emax


class Coded(NamedTuple):
    codes: list[list[int]]
    scales: list
    zero_points: list[list[int]] | None
    selectors: list[list[int]] | None
    values: list  # exact


def groups_of(shape, granularity):
    """(row, column) of every element of each group, the groups in rows."""
    rows, columns = granularity.rows or shape[0], granularity.columns or shape[1]
    return [
        [
            [(r, c) for r in range(top, top + rows) for c in range(left, left + columns)]
            for left in range(0, shape[1], columns)
        ]
        for top in range(0, shape[0], rows)
    ]


def quantize(
    matrix, scheme, limits=None, rounding="nearest_even", nonfinite="poison", words=None
) -> Coded:
    """Codes and scales of rows of Python floats that are float32 values.

    limits: rows of (low, high) for the outermost groups. words: rows of integers, one for each
    element, for ``stochastic`` rounding.
    """
    shape = len(matrix), len(matrix[0])
    with_nan = [i for i, lev in enumerate(scheme.levels) if lev.format.name in (*FLOATS, "e8m0")]
    level = with_nan[-1]
    x = {(r, c): matrix[r][c] for r in range(shape[0]) for c in range(shape[1])}
    poisoned = set()
    for group in chain(*groups_of(shape, scheme.levels[level].granularity)):
        if any(poisons(x[at], scheme, nonfinite) for at in group):
            poisoned |= set(group)
    x |= dict.fromkeys(poisoned, 0.0)
    word = {at: None if words is None else words[at[0]][at[1]] for at in x}
    tries = [
        encode(x, shape, scheme, element.name, limits, rounding, word)
        for element in scheme.elements
    ]
    inner = groups_of(shape, scheme.levels[-1].granularity)
    pick_one = best
    if scheme.error_digits is not None:
        pick_one = partial(best_of_digits, digits=scheme.error_digits)
    chosen = [[pick_one(x, group, tries) for group in row] for row in inner]
    codes, values, scales = dict(tries[0][0]), dict(tries[0][2]), tries[0][1]
    for i, row in enumerate(inner):
        for j, group in enumerate(row):
            pick = tries[chosen[i][j]]
            scales[-1][i][j] = pick[1][-1][i][j]
            codes |= {at: pick[0][at] for at in group}
            values |= {at: pick[2][at] for at in group}
    for i, row in enumerate(groups_of(shape, scheme.levels[level].granularity)):
        for j, group in enumerate(row):
            if group[0] in poisoned:
                scales[level][i][j] = None
    values |= dict.fromkeys(poisoned)
    return Coded(
        unflatten(codes, shape),
        scales,
        tries[0][3] if scheme.zero_point else None,
        chosen if len(tries) > 1 else None,
        unflatten(values, shape),
    )


def poisons(x: float, scheme, nonfinite) -> bool:
    if nonfinite == "poison":
        return not math.isfinite(x)
    return math.isnan(x) and any(nan_code(element.name) is None for element in scheme.elements)


def nan_code(element: str) -> int | None:
    return None if element in INTEGERS else formats.format_of(element).nan_code


def unflatten(flat, shape):
    return [[flat[r, c] for c in range(shape[1])] for r in range(shape[0])]


def best(x, group, tries) -> int:
    errors = []
    for _, _, values, _ in tries:
        known = [at for at in group if math.isfinite(x[at])]
        level = [float(Fraction(x[at]) - values[at]) ** 2 if at in known else 0.0 for at in group]
        while len(level) > 1:
            level = [sum(level[i : i + 2]) for i in range(0, len(level), 2)]
        errors.append(level[0])
    return errors.index(min(errors))


def best_of_digits(x, group, tries, digits) -> int:
    """Both magnitudes in whole units of 2^(e - digits), e the exponent of the largest one."""
    known = [at for at in group if math.isfinite(x[at])]
    largest = max((abs(Fraction(x[at])) for at in known), default=Fraction(0))
    if not largest:
        return 0
    unit = pow2(max(floor_log2(largest), -127) - digits)
    errors = []
    for _, _, values, _ in tries:
        whole = [(abs(Fraction(x[at])) // unit, abs(values[at]) // unit) for at in known]
        errors.append(sum((given - made) ** 2 for given, made in whole))
    return errors.index(min(errors))


def encode(given, shape, scheme, element, limits, rounding, word):
    """(codes, scales of each level, values, zero points); infinities and NaN as floats."""
    x = {at: v if math.isfinite(v) else 0.0 for at, v in given.items()}
    product = dict.fromkeys(x, Fraction(1))
    zero = dict.fromkeys(x, 0)
    scales, zero_points = [], []
    for i, level in enumerate(scheme.levels):
        inner = math.prod(largest_scale(lev.format.name) for lev in scheme.levels[i + 1 :])
        scales.append([])
        for r, row in enumerate(groups_of(shape, level.granularity)):
            scales[-1].append([])
            zero_points.append([])
            for c, group in enumerate(row):
                values = limits[r][c] if limits and i == 0 else [x[at] for at in group]
                if scheme.zero_point:
                    s, z = affine(values, element, level.format.name)
                    zero_points[-1].append(z)
                    zero |= dict.fromkeys(group, z)
                else:
                    amax = max(abs(Fraction(v)) for v in values) / product[group[0]]
                    s = scale(amax, inner, element, level)
                scales[-1][-1].append(s)
                product |= {at: product[at] * s for at in group}
    codes = {
        at: code(given[at], product[at], zero[at], element, rounding, word[at]) for at in given
    }
    values = {at: value(codes[at], product[at], zero[at], element) for at in codes}
    return codes, scales, values, zero_points


def scale(amax, inner, element, level) -> Fraction:
    name = level.format.name
    if name not in POWERS:
        return round_scale(amax / (inner * largest_element(element)), name)
    low, high = POWERS[name]
    exponent = leading(amax / inner, element, level.rule) if amax else low
    return pow2(max(low, min(high, exponent)))


def affine(values, element, name) -> tuple[Fraction, int]:
    _, lowest, highest, _, _ = INTEGERS[element]
    low = min(Fraction(0), *map(Fraction, values))
    high = max(Fraction(0), *map(Fraction, values))
    s = round_scale((high - low) / (highest - lowest), name)
    return s, max(lowest, min(highest, lowest - round(low / s)))


def code(x: float, s: Fraction, zero: int, element: str, rounding: str, word: int | None) -> int:
    negative = math.copysign(1, x) < 0
    if math.isnan(x):
        code = nan_code(element)
        assert code is not None
        return code
    if math.isinf(x):
        if element == "e5m2":
            return 0x7C | negative << 7
        x = math.copysign(2.0**200, x)  # saturates
        s = Fraction(1)
    magnitude = abs(Fraction(x) / s)
    if element not in INTEGERS:
        return formats.encode_signed(element, int(negative), magnitude, rounding, word)
    bits, lowest, highest, fraction_bits, sign_magnitude = INTEGERS[element]
    rounded = formats.round_magnitude(magnitude * 2**fraction_bits, rounding, word)
    integer = max(lowest, min(highest, (-rounded if negative else rounded) + zero))
    if sign_magnitude:
        return abs(integer) | int(negative) << (bits - 1)
    return integer % 2**bits


def value(code: int, s: Fraction, zero: int, element: str) -> Fraction | float | None:
    """Exact, infinite, or None for NaN."""
    if element not in INTEGERS:
        match formats.decode(element, code):
            case ("nan",):
                return None
            case ("inf", sign):
                return -math.inf if sign else math.inf
    return (decode(code, element) - zero) * s


def decode(code: int, element: str) -> Fraction:
    if element not in INTEGERS:
        return formats.value(element, code)
    bits, lowest, _, fraction_bits, sign_magnitude = INTEGERS[element]
    top = 1 << (bits - 1)
    if sign_magnitude:
        integer = -(code - top) if code >= top else code
    else:
        integer = code - 2 * top if code >= top and lowest < 0 else code
    return integer * pow2(-fraction_bits)


def dequantized_bits(exact: Fraction | float | None) -> int:
    """The float32 bits of an exact or infinite value, +0 for a zero; NaN for None."""
    if exact is None:
        return 0x7FC00000
    if not isinstance(exact, Fraction):
        return 0x7F800000 if exact > 0 else 0xFF800000
    rounded = formats.round_float32(exact, "nearest_even", formats.Status())
    return formats.encode_float32(rounded, 0x7FC00000)


# Products (section 7), one dot product at a time ------------------------------------------------


@dataclass
class Row:
    """One row of an operand: each element, the (g, s) of its block's scales, its region's scale."""

    elements: list[Factor]
    scales: list[list[tuple[Fraction, int] | None]]
    regions: list[Fraction | None] | None
    cuts: set[int]  # where a block starts
    region_cuts: set[int]
    powers: bool  # whether a level's scales are powers of two


def stored_scale(name: str, stored) -> Fraction | None:
    """The value of one stored scale, None for NaN."""
    if name == "e4m3":
        return None if stored == 0x7F else formats.value("e4m3", int(stored))
    if name == "e8m0":
        return None if stored == 255 else pow2(int(stored) - 127)
    if name == "e1m0":
        return pow2(-int(stored))
    value = float(stored)
    return None if value != value else Fraction(value)


def block_scale(name: str, s: Fraction | None) -> tuple[Fraction, int] | None:
    """The significand and the exponent of the unit digit."""
    if s is None:
        return None
    if name in POWERS:
        exponent = floor_log2(s)
    elif name in FLOATS:
        bits, lowest, _ = FLOATS[name]
        exponent = max(floor_log2(s), lowest + bits - 1)
    else:
        exponent = int(name[1:]) - 1
    return s / pow2(exponent), exponent


def factor(element: str, code: int, zero: int | None, shift: int) -> Factor:
    """An element less its zero point, divided by 2^shift."""
    if element in INTEGERS:
        _, lowest, highest, fraction_bits, _ = INTEGERS[element]
        unit = highest.bit_length() - 1 - fraction_bits
        if zero is not None:
            unit = (highest - lowest).bit_length() - 1
        return term((decode(code, element) - (zero or 0)) / pow2(shift), unit - shift)
    made = element_of(element, code)
    if isinstance(made, Special):
        return made
    return made._replace(exponent=made.exponent - shift, unit=made.unit - shift)


def row_of(array, i: int) -> Row:
    scheme = array.scheme
    rows, columns = array.codes.shape
    sizes = [
        (lev.granularity.rows or rows, lev.granularity.columns or columns) for lev in scheme.levels
    ]

    def at(part, level, k):
        height, width = sizes[level]
        return part[i // height, k // width]

    elements, scales = [], []
    regions, cuts, region_cuts = None, {0}, {0}
    for index, lev in enumerate(scheme.levels):
        starts = set(range(0, columns, sizes[index][1]))
        if lev.format.name in FLOATS and index == 0:
            regions = [
                stored_scale(lev.format.name, at(array.scales[0], 0, k)) for k in range(columns)
            ]
            region_cuts |= starts
        elif lev.format.name != "e1m0" or index == 0:
            cuts |= starts
    for k in range(columns):
        chosen = 0 if array.selectors is None else int(at(array.selectors, -1, k))
        zero = None if array.zero_points is None else int(at(array.zero_points, -1, k))
        shift, block_scales = 0, []
        for index, lev in enumerate(scheme.levels):
            name, stored = lev.format.name, at(array.scales[index], index, k)
            if name == "e1m0" and index:
                shift += int(stored)
            elif not (name in FLOATS and index == 0):
                block_scales.append(block_scale(name, stored_scale(name, stored)))
        elements.append(factor(scheme.elements[chosen].name, int(array.codes[i, k]), zero, shift))
        scales.append(block_scales)
    powers = any(lev.format.name in POWERS for lev in scheme.levels)
    return Row(elements, scales, regions, cuts, region_cuts, powers)


def steps_between(a: Row, b: Row, start: int, stop: int, longest: int) -> Iterable[Step]:
    """The blocks of both rows in a region, of at most `longest` elements each."""
    ends = sorted({at for at in a.cuts | b.cuts if start < at < stop} | {start, stop})
    for left, right in pairwise(ends):
        pairs = zip(a.elements[left:right], b.elements[left:right], strict=True)
        products = [multiply(*pair) for pair in pairs]
        yield from step_of(products, a.scales[left] + b.scales[left]).cut(longest)


def dot(a: Row, b: Row, accumulator: str, c_bits: int, lanes: int) -> int:
    """The float32 bits of one dot product."""
    status, c = Status(), formats.decode_float32(c_bits)
    whole = accumulator == "int32" and not (a.powers or b.powers)
    rule = "exact" if accumulator == "int32" else accumulator
    for start, stop in pairwise(sorted(a.region_cuts | b.region_cuts | {len(a.elements)})):
        steps = list(steps_between(a, b, start, stop, 1 if whole else lanes))
        if whole:
            terms = [step.g * pow2(step.scale) * exact_sum(step.finite) for step in steps]
            partial: Number = nearest(sum(terms, Fraction(0)), status)
        elif a.regions is None and b.regions is None:
            c = accumulate(rule, steps, c, status)
            break
        else:
            partial = accumulate(rule, steps, Fraction(0), status)
        scale = region_scale(a, b, start)
        scaled = special_product(scale, partial) or scale * partial  # type: ignore[operator]
        c = nearest_sum(c, scaled, status)
    return formats.encode_float32(c, nan_bits(accumulator))


def region_scale(a: Row, b: Row, column: int) -> Number:
    scale = Fraction(1)
    for row in (a, b):
        if row.regions is not None:
            own = row.regions[column]
            if own is None:
                return Special.NAN
            scale *= own
    return nearest(scale, Status())


def products_of(rows_a: list[Row], rows_b: list[Row], accumulator: str, c, lanes: int):
    """The bits of every dot product, uint32 (M, N)."""
    bits = np.asarray(c, np.float32).view(np.uint32)
    result = np.zeros((len(rows_a), len(rows_b)), np.uint32)
    for i, j in np.ndindex(result.shape):
        result[i, j] = dot(rows_a[i], rows_b[j], accumulator, int(bits[i, j]), lanes)
    return result


def matmul(a, b, accumulator: str, c, lanes: int = 128) -> np.ndarray:
    """Products of two ScaledArrays."""
    left, right = ([row_of(x, i) for i in range(len(x.codes))] for x in (a, b))
    return products_of(left, right, accumulator, c, lanes)


def weight_only(x, weights, accumulator: str, c, lanes: int = 128) -> np.ndarray:
    """Products of float rows and rows of weights that were rounded to their type already."""
    left, right = ([float_row(values) for values in matrix] for matrix in (x, weights))
    step = x.shape[1] if accumulator == "exact" else lanes
    return products_of(left, right, accumulator, c, step)


def float_row(values) -> Row:
    lowest = {"float32": -126, "bfloat16": -126, "float16": -14}[values.dtype.name]
    elements = [float_factor(float(v), lowest) for v in values]
    return Row(elements, [[] for _ in elements], None, {0}, {0}, False)


def float_factor(value: float, lowest: int) -> Factor:
    if math.isnan(value):
        return Special.NAN
    if math.isinf(value):
        return Special.PLUS_INF if value > 0 else Special.MINUS_INF
    return term(Fraction(value), max(floor_log2(abs(Fraction(value))), lowest) if value else lowest)
