"""The loop that adds a block's sum to a float32 c, against exact arithmetic: flags too.

Sums and places are free here, as no block of elements gives them: every distance of c from the sum,
results at both ends of float32, cancellation, ties, and sums whose magnitude is a power of two.
"""

from dataclasses import asdict
from fractions import Fraction

import numpy as np
import pytest

from compare import FULL, generator
from hw_bench import Evaluator, assert_same
from mxdot.hw.dot.sections import build
from mxdot.hw.dot.window import Window
from mxdot.hw.hierarchy import used
from mxdot.model import DotConfig
from mxdot.model.accumulators import NAN_DEFAULT
from mxdot.model.pipeline.widths import Widths
from rational.formats import Special, Status, decode_float32, encode_float32, pow2, round_float32

FLAGS = ("overflow", "underflow", "inexact")
BIAS = 127
CASES = 6000 if FULL else 2500
ONE, INF, MINUS_INF, NAN = 0x3F800000, 0x7F800000, 0xFF800000, 0x7FC12345


class Loop:
    """The sections of a unit's loop, one after the other, without registers."""

    def __init__(self, config: DotConfig) -> None:
        self.widths = Widths(config)
        self.window = Window(self.widths.sum_bits)
        built = [used(section) for section in build(self.widths)]
        parts = zip(config.pipeline.sections, built, strict=True)
        self.sections = [section for part, section in parts if part.loop]
        self.evaluators = [Evaluator(section) for section in self.sections]

    def __call__(self, total: list[int], lsb: np.ndarray, c: np.ndarray, **others) -> dict:
        """c + total x 2^lsb: what leaves the loop. others: more inputs of its sections."""
        modulus = 1 << self.window.row_bits
        word = np.array([x % modulus for x in total], dtype=object)
        part = word // 3  # two rows of any kind
        zeros = np.zeros(len(total), int)
        values = {
            "rows": np.stack([part, (word - part) % modulus], axis=1),
            "top_exponent": lsb + self.window.top + BIAS,
            "c": c,
            "first": zeros + 1,
            "special": dict.fromkeys(("nan", "pos_inf", "neg_inf"), zeros[:, None]),
            "running": {"c": zeros},
            **others,
        }
        for section, evaluator in zip(self.sections, self.evaluators, strict=True):
            values |= evaluator(i={name: values[name] for name in section.reads})["o"]
        return values["running"]


def finite(bits: int) -> Fraction:
    value = decode_float32(bits)
    assert isinstance(value, Fraction)
    return value


def check(loop: Loop, total: list[int], lsb: np.ndarray, c: np.ndarray) -> None:
    got = loop(total, lsb, c)
    for index, (s, place, bits) in enumerate(zip(total, lsb.tolist(), c.tolist(), strict=True)):
        status = Status()
        x = finite(bits) + s * pow2(place)
        want = encode_float32(round_float32(x, "nearest_even", status), NAN_DEFAULT)
        flags = {name: bool(got["flags"][name][index]) for name in FLAGS}
        wanted = {name: asdict(status)[name] for name in FLAGS}
        case = f"c {bits:#010x}, sum {s} x 2^{place}"
        assert hex(got["c"][index]) == hex(want), case
        assert flags == wanted, case


def sums(rng: np.random.Generator, bits: int) -> list[int]:
    """Integers below 2^bits in magnitude: of any length, powers of two, all ones, and 0."""
    lengths = rng.integers(0, bits + 1, CASES)
    kinds = rng.integers(0, 4, CASES)
    found = []
    for length, kind in zip(lengths.tolist(), kinds.tolist(), strict=True):
        any_bits = int.from_bytes(rng.bytes(-(-length // 8)), "little") % (1 << length)
        power = 1 << max(length - 1, 0)
        magnitude = (any_bits, power, (1 << length) - 1, power + (any_bits & 7))[kind]
        magnitude = min(magnitude, (1 << bits) - 1)
        found.append(-magnitude if rng.random() < 0.5 else magnitude)
    return found


FEW = [
    DotConfig("e2m1", 4, "exact"),
    DotConfig("e5m2", 32, "exact"),
    DotConfig("e4m3", 4, "exact", 11),  # the addition is cut before its carries
    DotConfig("e4m3", 4, "exact", 20),  # cut in parts
    DotConfig("int8", 32, "exact", 13),  # in parts, without registers in the loop but the last
]
UNITS = [
    *FEW,
    DotConfig("e4m3", 4, "exact"),
    DotConfig("int8", 32, "exact"),
    DotConfig("e2m1", 4, "exact", 11),
    DotConfig("e2m1", 4, "exact", 20),
]


@pytest.fixture(scope="module", params=UNITS if FULL else FEW, ids=lambda unit: unit.name)
def loop(request) -> Loop:
    return Loop(request.param)


def random_c(rng: np.random.Generator) -> np.ndarray:
    """Finite float32: any, few digits, subnormal, 0."""
    bits = rng.integers(0, 1 << 32, CASES)
    bits = np.where(bits >> 23 & 255 == 255, bits & ~(1 << 23), bits)
    kind = rng.integers(0, 5, CASES)
    few = bits & 0xFFE00000
    return np.choose(kind, [bits, few, bits & 0x807FFFFF, bits & (1 << 31), bits | 0x7FFFFF])


def test_every_distance_of_c(loop):
    """The sum's places lie anywhere about c's."""
    rng = generator("distance", str(loop.widths.config))
    c = random_c(rng)
    c = np.where(c >> 23 & 255 == 255, c & ~(1 << 23), c)
    exponent = np.maximum((c >> 23 & 255) - 127, -126)
    reach = loop.window.bits + 40
    lsb = exponent + rng.integers(-reach, 60, CASES)
    check(loop, sums(rng, loop.widths.sum_bits), np.clip(lsb, -600, 300), c)


def test_cancellation_and_ties(loop):
    """-c as the sum's digits, give or take a little."""
    rng = generator("cancel", str(loop.widths.config))
    bits = loop.widths.sum_bits
    c = random_c(rng) & ~(1 << 30) | (1 << 29)
    total, lsb = [], []
    for word in c.tolist():
        exact = finite(word)
        exponent = int(rng.integers(0, max(bits - 23, 1)))
        place = max((word >> 23 & 255) - 127, -126) - 23 - exponent
        digits = -exact / pow2(place)
        digits = digits.numerator // digits.denominator + int(rng.integers(-3, 4))
        limit = (1 << bits) - 1
        total.append(max(-limit, min(limit, digits)))
        lsb.append(place)
    check(loop, total, np.array(lsb), c)


@pytest.mark.parametrize("end", ["largest", "subnormal"])
def test_ends_of_float32(loop, end):
    rng = generator(end, str(loop.widths.config))
    total = sums(rng, loop.widths.sum_bits)
    lengths = np.array([abs(x).bit_length() for x in total])
    if end == "largest":
        lsb = 128 - lengths + rng.integers(-2, 2, CASES)
    else:
        lsb = -126 - lengths + rng.integers(-28, 4, CASES)
    c = np.where(rng.random(CASES) < 0.5, random_c(rng) & (1 << 31), random_c(rng))
    c = np.where(c >> 23 & 255 == 255, c & ~(1 << 23), c)
    check(loop, total, lsb, c)


def test_the_oracle_knows_the_carry_that_overflows():
    """-2^128 has one digit: its magnitude less one, as the loop has it, is a finite float32."""
    status = Status()
    assert round_float32(Fraction(-(2**128)), "nearest_even", status) is Special.MINUS_INF
    assert status.overflow
    assert status.inexact
    loop = Loop(FEW[0])
    check(loop, [-1, 1, -2, -1], np.array([128, 128, 127, 127]), np.array([0, 0, 0, 0xFF000000]))


@pytest.mark.parametrize("c", [ONE, INF, MINUS_INF, NAN, 0xFFFFFFFF])
def test_every_special(loop, c):
    """c with every set of special terms, as the caller's and as the running value."""
    kinds = np.arange(8)
    flags = {"nan": kinds & 1, "pos_inf": kinds >> 1 & 1, "neg_inf": kinds >> 2 & 1}
    special = {name: flag[:, None] for name, flag in flags.items()}  # of one step
    start = {ONE: 1.0, INF: np.inf, MINUS_INF: -np.inf}.get(c, np.nan)
    want = []
    for kind in kinds:
        parts = [v for bit, v in enumerate((np.nan, np.inf, -np.inf)) if kind >> bit & 1]
        with np.errstate(invalid="ignore"):
            total = np.float32(start + sum(parts) if parts else start + 1.0)
        want.append(hex(NAN_DEFAULT if np.isnan(total) else int(total.view(np.uint32))))
    other = np.full(8, 0x41234567)
    for first, given, running in ((1, kinds * 0 + c, other), (0, other, kinds * 0 + c)):
        got = loop(
            [1] * 8, kinds * 0, given,
            special=special, first=kinds * 0 + first, running={"c": running},
        )  # fmt: skip
        assert [hex(v) for v in got["c"]] == want


def test_flags_stay_until_the_next_product(loop):
    raised = {"overflow": 1, "underflow": 1, "inexact": 1, "saturated": 0}
    zeros = np.zeros(2, int)
    got = loop([0, 0], zeros, zeros, first=np.array([0, 1]), running={"c": zeros, "flags": raised})
    for name in FLAGS:
        assert_same(got["flags"][name], [1, 0])
