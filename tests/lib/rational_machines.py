"""The machines of the contract in exact rational arithmetic: what `rational.py` says holds here.

The presets are those of `rational.py`; here are the others, each with data of its own, written from
docs/numerics.md.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import floor
from typing import NamedTuple

import rational
from rational import Block, Product, Result, Step, run, special_sum, truncate_fraction
from rational_formats import (
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

NAN, NVIDIA = 0x7FC00000, 0x7FFFFFFF


class Fused(NamedTuple):
    """`fused:f` in steps; see docs/numerics.md."""

    terms: int
    f: int
    running: str = "float32"
    fraction_bits: int = 23
    least: int | None = None
    promote: int | None = None
    permuted: bool = False


HALF = "float16"
FUSED = {
    "volta": Fused(4, 23),
    "volta-float16": Fused(4, 23, HALF, least=-19),
    "ampere": Fused(8, 24),
    "ampere-bf16": Fused(8, 24, least=-132),
    "ampere-tf32": Fused(4, 24, least=-132),
    "ampere-float16": Fused(8, 24, HALF, least=-20),
    "ada-fp16": Fused(8, 24),
    "ada-bf16": Fused(8, 24, least=-132),
    "ada-tf32": Fused(4, 24, least=-132),
    "ada-fp16-float16": Fused(8, 24, HALF, least=-20),
    "ada-float16": Fused(16, 13, HALF),
    "hopper-bf16": Fused(16, 25, least=-133),
    "hopper-tf32": Fused(8, 25, least=-133),
    "hopper-fp16-float16": Fused(16, 25, HALF, least=-21),
    "hopper-float16": Fused(32, 13, HALF),
    "hopper-mma": Fused(16, 25, permuted=True),
    "hopper-mma-float16": Fused(16, 25, HALF, least=-21, promote=32, permuted=True),
    "blackwell-fp16": Fused(16, 25),
    "blackwell-bf16": Fused(16, 25, least=-133),
    "blackwell-tf32": Fused(8, 25, least=-133),
    "blackwell-fp16-float16": Fused(16, 25, HALF, least=-21),
    "blackwell-float16": Fused(32, 25, HALF),
    "blackwell-mma": Fused(32, 25, promote=32),
    "blackwell-mma-float16": Fused(16, 25, HALF, least=-21, promote=32, permuted=True),
}
GROUPED = {"blackwell-mxf4nvf4": (16, 64, 35)}  # terms, elements together, f
EXACT = {"cdna1-fp16": 4, "cdna1-bf16": 2}
TREES = {"cdna2-fp16": 4, "cdna2-bf16": 2}
FLOORED = {"cdna3-fp16": (8, False), "cdna3-xf32": (4, False), "cdna3-fp8": (16, True)}
NAMES = (*FUSED, *GROUPED, *EXACT, *TREES, *FLOORED)


def dot(
    fmt_a: str,
    fmt_b: str,
    blocks: Iterable[Sequence],
    accumulator_text: str,
    c_bits: int = 0,
    scales: str = "e8m0",
) -> Result:
    """As `rational.dot`, by any rule or machine of the contract."""
    name, status, c = accumulator_text, Status(), decode_float32(c_bits)
    nan_bits = NAN
    if name in FUSED:
        row = FUSED[name]
        steps = machine_steps(fmt_a, fmt_b, blocks, row, scales)
        c, nan_bits = fused(steps, c, status, row), NVIDIA
    elif name in GROUPED:
        terms, *rest = GROUPED[name]
        steps = rational.steps_of(fmt_a, fmt_b, blocks, terms, scales)
        c, nan_bits = grouped(steps, c, status, *rest), NVIDIA
    elif name in EXACT:
        steps = rational.steps_of(fmt_a, fmt_b, blocks, EXACT[name], scales)
        c = run(c, steps, rational.exact, status)
    elif name in TREES:
        c = flushed(c, status)
        c = run(c, flushed_steps(fmt_a, fmt_b, blocks, TREES[name], scales), tree, status)
    elif name in FLOORED:
        terms, halves = FLOORED[name]
        steps = rational.steps_of(fmt_a, fmt_b, blocks, terms, scales)
        c = run(c, steps, floored, status, halves)
    else:
        return rational.dot(fmt_a, fmt_b, blocks, accumulator_text, c_bits, scales)
    return Result(
        encode_float32(c, nan_bits),
        c is Special.NAN,
        status.overflow,
        status.underflow,
        status.inexact,
        status.saturated,
    )


# fused:F of a machine ---------------------------------------------------------------------------


def machine_steps(
    fmt_a: str, fmt_b: str, blocks: Iterable[Sequence], row: Fused, scales: str
) -> list[Step]:
    if not row.permuted:
        return rational.steps_of(fmt_a, fmt_b, blocks, row.terms, scales)
    steps = []
    for codes_a, codes_b, *own in blocks:
        for start in range(0, len(codes_a), 32):
            group = range(start, min(start + 32, len(codes_a)))
            for wanted in ((0, 1), (2, 3)):
                places = [i for i in group if i % 4 in wanted]
                if places:
                    part = [[codes[i] for i in places] for codes in (codes_a, codes_b)]
                    steps += rational.steps_of(fmt_a, fmt_b, [(*part, *own)], None, scales)
    return steps


def fused(steps: list[Step], c: Number, status: Status, row: Fused) -> Number:
    rounding = "toward_zero" if row.running == "float32" else "nearest_even"
    rule = row.f, row.fraction_bits, row.running, rounding, row.least
    c = nearest(c, status, row.running)
    if row.promote is None:
        return run(c, steps, rational.fused, status, *rule)
    partial: Number = Fraction(0)
    taken = 0
    for i, step in enumerate(steps):
        partial = run(partial, [step], rational.fused, status, *rule)
        taken += len(step.products)
        if taken >= row.promote or i == len(steps) - 1:
            special = special_sum(c, partial)
            if special is None:
                assert isinstance(c, Fraction)
                assert isinstance(partial, Fraction)
                c = nearest(c + partial, status, row.running)
            else:
                c = special
            partial, taken = Fraction(0), 0
    return c


def nearest(x: Number, status: Status, running: str = "float32") -> Number:
    return x if isinstance(x, Special) else round_float32(x, "nearest_even", status, 23, running)


# Exact sums of groups ---------------------------------------------------------------------------


def grouped(steps: list[Step], c: Number, status: Status, together: int, f: int) -> Number:
    met: list[Step] = []
    for i, step in enumerate(steps):
        met.append(step)
        if sum(len(one.products) for one in met) >= together or i == len(steps) - 1:
            special = special_sum(c, *(x for one in met for x in one.specials))
            c = special or one_grid(c, met, status, f)
            met = []
    return c


def one_grid(c: Number, met: list[Step], status: Status, f: int) -> Number:
    assert isinstance(c, Fraction)
    sums = [(one.g * rational.exact_sum(one.finite) * pow2(one.scale), one.scale) for one in met]
    largest = max(scale for _, scale in sums)
    if c != 0:
        largest = max(largest, floor_log2(abs(c)), -126)
    total = sum(
        truncate_fraction(x * pow2(f - largest), status) for x in (c, *(s for s, _ in sums))
    )
    return round_float32(total * pow2(largest - f), "toward_zero", status)


# Trees without subnormal numbers ----------------------------------------------------------------


def flushed_code(fmt: str, code: int) -> int:
    """The code of a zero for a subnormal one."""
    element = decode(fmt, code)
    if fmt in INTEGERS or len(element) != 3:
        return code
    return 0 if element[1] < 1 << FORMATS[fmt].mantissa_bits else code


def flushed_steps(
    fmt_a: str, fmt_b: str, blocks: Iterable[Sequence], terms: int, scales: str
) -> list[Step]:
    read = []
    for block in blocks:
        codes_a, codes_b, *own = Block(*block)
        a = [flushed_code(fmt_a, code) for code in codes_a]
        b = [flushed_code(fmt_b, code) for code in codes_b]
        read.append((a, b, *own))
    return rational.steps_of(fmt_a, fmt_b, read, terms, scales)


def flushed(x: Number, status: Status) -> Number:
    """RNE to float32, whose subnormal results are zeros."""
    rounded = nearest(x, status)
    if isinstance(rounded, Fraction) and 0 < abs(rounded) < pow2(-126):
        status.inexact = status.underflow = True
        return Fraction(0)
    return rounded


def tree(c: Fraction, step: Step, status: Status) -> Number:
    level = [flushed(rational.exact_sum([p]), status) for p in step.finite]
    while len(level) > 1:
        pairs = [level[i : i + 2] for i in range(0, len(level), 2)]
        level = [flushed_sum(pair, status) for pair in pairs]
    scaled = rational.under_scale(step, level[0])
    return scaled if isinstance(scaled, Special) else flushed(c + scaled, status)


def flushed_sum(pair: list[Number], status: Status) -> Number:
    if len(pair) == 1:
        return pair[0]
    special = special_sum(*pair)
    if special is not None:
        return special
    return flushed(pair[0] + pair[1], status)  # type: ignore[operator]


# Sums that are cut downwards --------------------------------------------------------------------


def cut_down(x: Fraction, exponent: int, status: Status) -> Fraction:
    """x down to a multiple of 2^exponent."""
    result = floor(x * pow2(-exponent)) * pow2(exponent)
    if result != x:
        status.inexact = True
    return result


def aligned_sum(
    products: Sequence[Product], step: Step, status: Status
) -> tuple[Fraction, int | None]:
    """The sum of RZ products and the exponent of its largest; None where all are zeros.

    products: of the step, under its scale.
    """
    nonzero = [p for p in products if p.significand]
    if not nonzero:
        return Fraction(0), None
    largest = max(p.unit for p in nonzero) + step.scale
    unit = pow2(largest - 24)
    values = [step.g * p.significand * pow2(p.exponent + step.scale) for p in nonzero]
    return sum((truncate_fraction(v / unit, status) * unit for v in values), Fraction(0)), largest


def floored(c: Fraction, step: Step, status: Status, halves: bool) -> Number:
    values = [step.g * p.significand * pow2(p.exponent + step.scale) for p in step.finite]
    too_large = [v > 0 for v in values if abs(v) >= pow2(128)]
    parts = [step.finite[0::2], step.finite[1::2]] if halves else [step.finite]
    sums = [aligned_sum(part, step, status) for part in parts]
    largest = max((e for _, e in sums if e is not None), default=None)
    total = sum((x for x, _ in sums), Fraction(0))
    if halves and largest is not None:
        total = sum((cut_down(x, largest - 24, status) for x, _ in sums), Fraction(0))
    exponent = max(floor_log2(abs(c)), -126) if c else -126
    top = exponent if largest is None else max(exponent, largest)
    total = cut_down(total, top - 31, status)
    cut = cut_down(c, top - 24, status)
    if halves and exponent < top - 25:
        cut = Fraction(0)
    if too_large:
        status.overflow = status.inexact = True
        if len(set(too_large)) == 2:
            return Special.NAN
        return Special.PLUS_INF if too_large[0] else Special.MINUS_INF
    return round_float32(total + cut, "nearest_even", status)
