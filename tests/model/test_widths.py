"""The declared widths of a dot unit's sums are enough, and none could be one bit less.

What a sum can reach follows from the values of a format alone: all lanes hold the codes of largest
magnitude, or significand, of one sign. That sum is the witness: it does not fit into one bit less,
and a unit of `fused:F` that is built so computes it wrongly.
"""

import math
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pytest

from cases import Cases
from compare import generator
from mxdot.model import FORMATS, DotConfig, ElementFormat, MXArray
from mxdot.model.pipeline.widths import OperandWidths, Widths
from unit_bench import Work, drive, join, products, simulate

PAIRS = list(product(FORMATS, repeat=2))
LANES = (4, 8, 16, 32, 64, 128)
FRACTION_BITS = (40, 25, 1, 13, 3, 0)  # with as many lanes


def finite(fmt: ElementFormat) -> np.ndarray:
    return fmt.values[np.isfinite(fmt.values)]


@cache
def largest(fmt: ElementFormat) -> Fraction:
    return Fraction(float(np.abs(finite(fmt)).max()))


@cache
def last_digit(fmt: ElementFormat) -> Fraction:
    """Weight of the last digit of the smallest number."""
    values = np.abs(finite(fmt))
    return Fraction(float(values[values > 0].min()))


def significands(fmt: ElementFormat) -> tuple[np.ndarray, np.ndarray]:
    """(signed significands, exponents) of all codes; 0 for a code of no finite number.

    A significand is below 2; of an integer it is up to 2.
    """
    values = np.where(np.isfinite(fmt.values), fmt.values, 0.0)
    exponents = np.frexp(values)[1] - 1
    exponents = np.full(len(values), fmt.emin) if fmt.is_integer else exponents.clip(fmt.emin)
    return np.ldexp(values, -exponents), exponents


@cache
def largest_significand(fmt: ElementFormat) -> Fraction:
    return Fraction(float(np.abs(significands(fmt)[0]).max()))


def signed_bits(magnitude: Fraction) -> int:
    """Bits of a signed word for the integer part of `magnitude` and its negative."""
    return max(1, int(magnitude).bit_length()) + 1


def widths_of(pair: tuple[str, str], lanes: int, rule: str) -> Widths:
    return Widths(DotConfig(formats="x".join(pair), lanes=lanes, accumulator=rule))


@pytest.mark.parametrize("pair", PAIRS, ids="x".join)
@pytest.mark.contract("W1")
def test_sums_of_exact_products(pair):
    a, b = (FORMATS[name] for name in pair)
    digits = largest(a) * largest(b) / (last_digit(a) * last_digit(b))
    for lanes in LANES:
        widths = widths_of(pair, lanes, "exact")
        assert widths.term_bits == signed_bits(digits) - 1
        assert widths.total_bits == signed_bits(lanes * digits)


@pytest.mark.parametrize("pair", PAIRS, ids="x".join)
def test_sums_of_aligned_products(pair):
    """Terms at the largest exponent, of which each digit below F is cut off; with c in `fused`."""
    significand = largest_significand(FORMATS[pair[0]]) * largest_significand(FORMATS[pair[1]])
    for lanes, fraction_bits in zip(LANES, FRACTION_BITS, strict=True):
        term = int(significand * 2**fraction_bits)
        c = int(Fraction(2**24 - 1, 2**23) * 2**fraction_bits)
        for rule, most in (("aligned", lanes * term), ("fused", lanes * term + c)):
            widths = widths_of(pair, lanes, f"{rule}:{fraction_bits}")
            assert widths.term_bits == signed_bits(Fraction(term)) - 1
            assert widths.total_bits == signed_bits(Fraction(most)), rule


def witness(config: DotConfig) -> Work:
    """The largest significands in all lanes, and their negatives, with a c of the same exponent."""
    codes, exponent = [], 0
    for fmt in config.formats[0]:
        digits, exponents = significands(fmt)
        order = np.lexsort((exponents, digits))
        codes.append((order[-1], np.lexsort((exponents, -digits))[-1]))
        exponent += int(exponents[order[-1]])
    a, b = (
        MXArray(
            np.repeat(np.array([[code] for code in both], fmt.dtype), config.lanes, axis=1),
            np.full((2, 1), 127, np.uint8),
            fmt,
            config.lanes,
        )
        for both, fmt in zip((codes[0], codes[1][:1] * 2), config.formats[0], strict=True)
    )
    c = np.ldexp(np.array([1, -1], np.float32) * np.float32(2 - 2.0**-23), exponent)
    return join(config, products(config, Cases(a, b, c)))


# Of the others a row is longer than the sum, by what c may add to it.
NARROWED = [("fused:13", "e3m2"), ("fused:25", "e2m1"), ("fused:7", "int8"), ("hopper", "e4m3")]


@pytest.mark.parametrize("bits", ["declared", "one less"])
@pytest.mark.parametrize(("rule", "fmt"), NARROWED)
def test_a_unit_with_one_bit_less_is_wrong(rule, fmt, bits, monkeypatch):
    config = DotConfig(formats=fmt, lanes=4, accumulator=rule)
    work = witness(config)
    if bits == "one less":
        enough = Widths.total_bits.fget
        assert enough is not None
        monkeypatch.setattr(Widths, "total_bits", property(lambda self: enough(self) - 1))
    run = simulate(config, drive(work, generator("widths", rule, fmt)))
    right = (run.got["result"] == run.work.want["result"]).all()
    assert right == (bits == "declared")


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_the_largest_number_of_either_format_has_its_exponent(pair):
    formats = tuple(FORMATS[name] for name in pair)
    widths = OperandWidths(formats)
    tops = [math.frexp(largest(fmt))[1] - 1 for fmt in formats if not fmt.is_integer]
    assert (
        0 <= max(tops, default=widths.exponent_min) - widths.exponent_min < 2**widths.exponent_bits
    )


@pytest.mark.parametrize(("rule", "rows"), [("exact", 2), ("aligned:13", 2), ("fixed:48:-20", 1)])
def test_a_register_holds_a_sum_times_significands(rule, rows):
    """Carries of two rows wait for an adder of the loop."""
    config = DotConfig("e2m1", 16, rule, scales="e4m3")
    widths = Widths(config)
    most = (2**widths.sum_bits - 1) * (2**widths.factor_bits - 1)
    (bits,) = (section.bits for section in config.pipeline.sections if section.kind == "factor")
    assert bits == rows * most.bit_length()
