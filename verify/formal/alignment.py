"""Claims about what whole small units of `aligned:F` and `fused:F` compute.

As in `values.py`, lemmas about a unit of one stage with nets cut between its sections, which
together say the result of every block. Of `aligned:F`: `largest` says which exponent leads, `sum`
what the rows that enter the loop add up to, `loop` what becomes of them and the running value. Of
`fused:F`: `largest`, then `terms` for what is cut where, `total` for their sum, `round` for the
result.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed

from ...model import DotConfig
from ...model.formats import FLOAT32, FORMATS, FloatFormat
from . import aig, engine
from .claim import Claim
from .engine import Verdict
from .observer import CASE, ObservedUnit, Rule, cut, unit
from .rounding import round_to
from .values import NAN, ROWS, cases, element, loop, sum_of_lanes

LANES = 4
FRACTION = 13
WORD = FRACTION + 2
"""Bits of a term: products are below 4 units of their exponent."""
LARGEST = "largest1_o_largest"
PEAK, ANY = "largest_o_peaks_exponent", "largest_o_peaks_any"
MAGNITUDES, SIGNS, EXPONENT = "join0_o_terms_magnitude", "join0_o_terms_sign", "join0_o_exponent"
TOTAL = "sum0_o_total"


def claims() -> Iterator[Claim]:
    """Claims about E2M1, and the loop's input of `aligned:F` for E3M2, whose products are cut."""
    e2m1, e3m2 = FORMATS["e2m1"], FORMATS["e3m2"]
    assert isinstance(e2m1, FloatFormat)
    assert isinstance(e3m2, FloatFormat)
    yield from _aligned(e2m1)
    yield from _fused(e2m1)
    yield from list(_aligned(e3m2))[:2]


@dataclass(frozen=True)
class Terms:
    """Products of a format's elements: what a rule says of them.

    A product is `whole` x 2^(2 lsb); its unit exponent is biased by twice the format's bias.
    """

    whole: list[Value]
    exponent: list[Value]


def _products(m: Module, p: Any, fmt: FloatFormat) -> Terms:
    whole, exponents = [], []
    for lane in range(LANES):
        a, b = (code.word_select(lane, fmt.bits) for code in (p.in_a, p.in_b))
        whole.append(element(m, a, fmt) * element(m, b, fmt))
        exponents.append(_biased(a, fmt) + _biased(b, fmt))
    return Terms(whole, exponents)


def _biased(code: Value, fmt: FloatFormat) -> Value:
    field = code[fmt.mantissa_bits : fmt.bits - 1]
    return Mux(field == 0, 1, field)


def _leads(m: Module, terms: Terms) -> Value:
    """The largest unit exponent of products that are not zero; 0 where all are."""
    largest: Value = Const(0, len(terms.exponent[0]))
    for whole, exponent in zip(terms.whole, terms.exponent, strict=True):
        here = Signal(len(terms.exponent[0]))
        m.d.comb += here.eq(Mux((whole != 0) & (exponent > largest), exponent, largest))
        largest = here
    return largest


def _magnitude(value: Value) -> Value:
    return Mux(value < 0, -value, value)[: len(value)]


def _cut(m: Module, magnitude: Value, distance: Value) -> Value:
    """`magnitude` with FRACTION digits more, shifted right by any distance."""
    wide = len(magnitude) + FRACTION
    kept, places = Signal(wide), Signal(range(wide + 1))
    m.d.comb += [
        places.eq(Mux(distance < wide, distance, wide)),
        kept.eq((magnitude << FRACTION) >> places),
    ]
    return kept


def _aligned(fmt: FloatFormat) -> Iterator[Claim]:
    kind = f"aligned{FRACTION}-{fmt.name}"
    config = DotConfig(fmt.name, LANES, f"aligned:{FRACTION}", 1, status=False)
    most = LANES * _largest_term(fmt)
    codes = 2 * LANES * fmt.bits
    exponent_bits = _leading(fmt).bit_length()
    yield Claim(
        f"largest:{kind}", "the largest exponent of the products that are not zero, all codes",
        lambda: replace(cut(unit(config), LARGEST), cycles=1), _largest(fmt),
        ("(level1_0 > level1_1)", "(level1_0 < level1_1)"), bits=codes,
    )  # fmt: skip
    yield Claim(
        f"sum:{kind}",
        f"two rows add up to the sum of {LANES} products, each cut {FRACTION} digits below the "
        "largest exponent, all codes",
        lambda: replace(cut(unit(config), LARGEST, ROWS), cycles=1, cases=LANES),
        _sum(fmt), ("i_products_sign[0]", "~i_products_sign[0]"),
        sum_of_lanes(fmt, LANES, LARGEST), codes + exponent_bits,
    )  # fmt: skip

    def grid(p: Any) -> Value:
        scale = p.in_scale_a + p.in_scale_b - 254
        return scale + vars(p)[LARGEST] - (2 * fmt.bias + FRACTION)

    yield Claim(
        f"loop:{kind}",
        "RNE_fp32(c + 2^s x sum), any sum on any grid, scales, c and running value; nan and inf",
        lambda: replace(cut(unit(config), LARGEST, ROWS), cycles=2, cases=cases(most)),
        loop(most, grid), ("(i_normalized_sticky |", "(~i_normalized_sticky |"),
        bits=2 * 8 + 32 + most.bit_length() + 1 + exponent_bits,
    )  # fmt: skip


def _leading(fmt: FloatFormat) -> int:
    """The largest unit exponent of a product, as `Terms` counts it."""
    return 2 * (fmt.emax + fmt.bias)


def _largest_term(fmt: FloatFormat) -> int:
    """Magnitude of a product, in units of the last digit that is kept."""
    significand = (2 << fmt.mantissa_bits) - 1
    return (significand**2 << FRACTION) >> 2 * fmt.mantissa_bits


def _largest(fmt: FloatFormat) -> Rule:
    return lambda m, p: vars(p)[f"{LARGEST}_made"] != _leads(m, _products(m, p, fmt))


def _sum(fmt: FloatFormat) -> Rule:
    """Rule for codes in lane CASE alone, whose product is not above the exponent that leads."""

    def wrong(m: Module, p: Any) -> Value:
        case, leads = vars(p)[CASE], vars(p)[LARGEST]
        terms, lanes = _products(m, p, fmt), range(LANES)
        codes = [Cat(code.word_select(i, fmt.bits) for code in (p.in_a, p.in_b)) for i in lanes]
        given = Cat((case == i) | (codes[i] == 0) for i in lanes).all()
        total = Signal(signed(32))
        cut_terms = []
        for whole, exponent in zip(terms.whole, terms.exponent, strict=True):
            given &= (whole == 0) | (exponent <= leads)
            kept = _cut(m, _magnitude(whole), leads - 2 * (fmt.bias + fmt.lsb))
            cut_terms.append(Mux(whole < 0, -kept, kept))
        m.d.comb += total.eq(sum(cut_terms[1:], cut_terms[0]))
        rows = vars(p)[f"{ROWS}_made"]
        bits = len(rows) // 2
        return given & ((rows[:bits] + rows[bits:])[:bits] != total[:bits])

    return wrong


def _fused(fmt: FloatFormat) -> Iterator[Claim]:
    kind = f"fused{FRACTION}-{fmt.name}"
    config = DotConfig(fmt.name, LANES, f"fused:{FRACTION}", 1, status=False)
    codes = 2 * LANES * fmt.bits
    exponent_bits = _leading(fmt).bit_length()
    most = LANES * _largest_term(fmt) + (2 << FRACTION)
    yield Claim(
        f"largest:{kind}",
        "the largest exponent of the products that are not zero, and whether there is one, all "
        "codes",
        lambda: replace(cut(unit(config), PEAK, ANY), cycles=1), _peaks(fmt),
        ("(level1_0 > level1_1)", "(level1_0 < level1_1)"), bits=codes,
    )  # fmt: skip
    yield Claim(
        f"terms:{kind}",
        f"products under both scales and c or the running value, each cut {FRACTION} digits below "
        "the largest exponent, and that exponent",
        lambda: replace(cut(unit(config), PEAK, ANY, MAGNITUDES, SIGNS, EXPONENT), cycles=1),
        _terms(fmt), ("products_lead = i_peaks_any & ", "products_lead = i_peaks_any | "),
        bits=codes + exponent_bits + 1 + 2 * 8 + 32,
    )  # fmt: skip
    yield Claim(
        f"total:{kind}", f"sum of {LANES + 1} signed terms of {WORD} bits",
        lambda: replace(cut(unit(config), MAGNITUDES, SIGNS, TOTAL), cycles=1),
        _total, ("add1_run0 = sum_add1_half0 & ", "add1_run0 = sum_add1_half0 | "), by_digits,
        (LANES + 1) * (WORD + 1),
    )  # fmt: skip
    yield Claim(
        f"round:{kind}",
        "RZ_fp32 of any sum on any grid; nan and inf of scales, c and the running value",
        lambda: replace(cut(unit(config), TOTAL, EXPONENT), cycles=2),
        _round(most), ("(rounder_exponent_part_2 ?", "(~rounder_exponent_part_2 ?"),
        bits=WORD + 3 + 11 + 2 * 8 + 32,
    )  # fmt: skip


def _peaks(fmt: FloatFormat) -> Rule:
    def wrong(m: Module, p: Any) -> Value:
        terms = _products(m, p, fmt)
        nonzero = Cat(whole != 0 for whole in terms.whole).any()
        peak, there = vars(p)[f"{PEAK}_made"], vars(p)[f"{ANY}_made"]
        return (there != nonzero) | (nonzero & (peak != _leads(m, terms)))

    return wrong


def _terms(fmt: FloatFormat) -> Rule:
    """True for a finite c, and scales that are numbers."""

    def wrong(m: Module, p: Any) -> Value:
        peak, there = vars(p)[PEAK], vars(p)[ANY]
        terms = _products(m, p, fmt)
        c = Signal(32)
        m.d.comb += c.eq(Mux(p.in_first, p.in_c, p.out_result))
        field = c[23:31]
        significand = Cat(c[:23], field != 0)
        own, scale, leads = (Signal(signed(12), name=name) for name in ("own", "scale", "leads"))
        products = Signal(signed(12))
        m.d.comb += [
            own.eq(Mux(field == 0, 1, field) - 127),
            scale.eq(p.in_scale_a + p.in_scale_b - 254),
            products.eq(peak + scale - 2 * fmt.bias),
            leads.eq(Mux(there & ((significand == 0) | (products > own)), products, own)),
        ]
        given = (field != 255) & (p.in_scale_a != 255) & (p.in_scale_b != 255)
        unlike = [vars(p)[f"{EXPONENT}_made"].as_signed() != leads]
        magnitudes, signs = vars(p)[f"{MAGNITUDES}_made"], vars(p)[f"{SIGNS}_made"]
        word = len(magnitudes) // (LANES + 1)
        wanted: list[tuple[Value, Value, Value]] = []
        for whole, exponent in zip(terms.whole, terms.exponent, strict=True):
            given &= (whole == 0) | (there & (exponent <= peak))
            distance = Signal(12)
            m.d.comb += distance.eq(leads - scale - 2 * fmt.lsb)
            wanted.append((_cut(m, _magnitude(whole), distance), whole < 0, whole != 0))
        away = Signal(12)
        m.d.comb += away.eq(leads - own + 23)
        wanted.append((_cut(m, significand, away), c[31], significand != 0))
        for place, (kept, negative, any_digit) in enumerate(wanted):
            magnitude = magnitudes.word_select(place, word)
            unlike.append(magnitude != Mux(any_digit, kept, 0))
            unlike.append(any_digit & (signs[place] != negative))
        return given & Cat(unlike).any()

    return wrong


def _total(m: Module, p: Any) -> Value:
    magnitudes, signs = vars(p)[MAGNITUDES], vars(p)[SIGNS]
    word = len(magnitudes) // len(signs)
    total = Signal(len(vars(p)[f"{TOTAL}_made"]))
    terms = [magnitudes.word_select(i, word) for i in range(len(signs))]
    signed_terms = [Mux(sign, -term, term) for sign, term in zip(signs, terms, strict=True)]
    m.d.comb += total.eq(sum(signed_terms[1:], signed_terms[0]))
    return vars(p)[f"{TOTAL}_made"] != total


def _round(most: int) -> Rule:
    """most: the largest magnitude of the sum."""

    def wrong(m: Module, p: Any) -> Value:
        total, exponent = vars(p)[TOTAL].as_signed(), vars(p)[EXPONENT].as_signed()
        given = (total <= most) & (total >= -most) & (exponent > -512) & (exponent < 512)
        c = Signal(32)
        m.d.comb += c.eq(Mux(p.in_first, p.in_c, p.out_result))
        # On the grid of float32's smallest number, or a coarser one: what is finer is cut.
        grid, coarse, below = Signal(signed(12)), Signal(signed(12)), Signal(6)
        magnitude = Signal(24)
        m.d.comb += [
            grid.eq(exponent - FRACTION),
            coarse.eq(Mux(grid < -149, -149, grid)),
            below.eq(Mux(coarse - grid < 32, coarse - grid, 32)),
            magnitude.eq(_magnitude(total) >> below),
        ]
        top = Signal(signed(12))
        m.d.comb += top.eq(coarse + 23)
        rounded = round_to(m, magnitude, top, FLOAT32, False, 23)
        finite = Cat(rounded.bits, (total < 0) & (rounded.bits != 0))
        infinite, special = c[:23] == 0, c[23:31] == 255
        nan = (p.in_scale_a == 255) | (p.in_scale_b == 255) | (special & ~infinite)
        want, counts = Signal(32), Signal()
        m.d.sync += [
            want.eq(Mux(nan, NAN, Mux(special, c, finite))),
            counts.eq(p.in_valid & p.in_ready & ~p.rst & given),
        ]
        return counts & (p.out_result != want)

    return wrong


SOON = "read digits.aig; sat -C 5000; print_status"
BY_DIGITS = "read digits.aig; collapse -r; strash; iprove; print_status"
"""Decision diagrams in the order of the inputs: small for sums whose digits go lowest first."""


def by_digits(subject: ObservedUnit, rule: Rule, directory: Path, limit: float) -> Verdict:
    """Decide like `engine.decide`, for a sum of words: inputs by digit, signs first.

    Other means refute a wrong sum soon; its diagrams may be large.
    """
    graph = aig.read(engine.build(subject, rule, directory, limit))
    aig.unroll(graph, 1, {}, directory / "digits.aig", _place)
    soon = engine.ask(SOON, directory, "the subject", limit)
    if soon is not Verdict.UNDECIDED:
        return soon
    return engine.ask(BY_DIGITS, directory, "the subject", limit)


def _place(bit: tuple[str, int]) -> tuple[int, int, int]:
    name, number = bit
    if name == MAGNITUDES:
        return (1, number % WORD, number // WORD)
    return (0 if name == SIGNS else 2, number, 0)
