"""Claims about what whole small units compute, for all codes, scales and running values.

Each is a lemma about a whole unit of one stage with nets cut between its sections (`cut`):
`sum` says that codes become the sum of their products on its grid, `loop` that a sum on any grid
and any running value, or the caller's c, become the result. Both speak of the same nets: together
they say the result of every block, and so, from block to block, of every product.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed

from ...model import DotConfig
from ...model.formats import FLOAT32, FORMATS, FloatFormat
from . import engine, linear
from .claim import Claim, Decision
from .engine import Verdict
from .observer import CASE, ObservedUnit, Rule, cut, unit
from .rounding import round_to

ROWS = "sum_o_rows"
NAN = 0x7FC00000
EXACT = (("e2m1", 4), ("e3m2", 4), ("e4m3", 8))
"""Formats and lanes of `exact` units."""


def claims() -> Iterator[Claim]:
    """Claims about units of `exact`."""
    for name, lanes in EXACT:
        fmt = FORMATS[name]
        assert isinstance(fmt, FloatFormat)
        config = DotConfig(name, lanes, "exact", 1, status=False)
        codes = 2 * lanes * fmt.bits
        yield Claim(
            f"sum:exact-{name}",
            f"two rows add up to the sum of {lanes} products, all codes that are numbers",
            lambda config=config: replace(cut(unit(config), ROWS), cycles=1, cases=config.lanes),
            _sum(fmt, lanes), ("i_products_sign[0]", "~i_products_sign[0]"),
            sum_of_lanes(fmt, lanes), codes,
        )  # fmt: skip
        most = lanes * int(fmt.largest_finite / fmt.smallest) ** 2
        yield Claim(
            f"loop:exact-{name}",
            "RNE_fp32(c + 2^s x sum), any sum, scales, c and running value; nan and inf",
            lambda config=config, most=most: replace(
                cut(unit(config), ROWS), cycles=2, cases=cases(most)
            ),
            loop(most, _grid(fmt), lambda p, fmt=fmt, lanes=lanes: _nan_codes(p, fmt, lanes)),
            ("(i_normalized_sticky |", "(~i_normalized_sticky |"),
            bits=2 * 8 + 32 + most.bit_length() + 1 + codes * (fmt.nan_code is not None),
        )  # fmt: skip


def _codes(p: Any, fmt: FloatFormat, lanes: int) -> list[tuple[Value, Value]]:
    """Codes of a and b by lane."""
    words = (p.in_a, p.in_b)
    return [tuple(word.word_select(i, fmt.bits) for word in words) for i in range(lanes)]


def _nan_codes(p: Any, fmt: FloatFormat, lanes: int) -> Value:
    """Whether a code is NaN."""
    if fmt.nan_code is None:
        return Const(0, 1)
    codes = [code for pair in _codes(p, fmt, lanes) for code in pair]
    return Cat(code[:-1] == fmt.nan_code for code in codes).any()


def element(m: Module, code: Value, fmt: FloatFormat) -> Value:
    """The value of a code, in units of the smallest number."""
    p, bits = fmt.mantissa_bits, fmt.bits
    fraction, field = code[:p], code[p : bits - 1]
    magnitude = Mux(field == 0, fraction, ((1 << p) + fraction) << (field - 1)[: len(field)])
    value = Signal(signed(len(magnitude) + 1))
    m.d.comb += value.eq(Mux(code[bits - 1], -magnitude, magnitude))
    return value


def _product(m: Module, a: Value, b: Value, fmt: FloatFormat) -> Value:
    """The product of two codes, in units of the square of the smallest number."""
    p, bits = fmt.mantissa_bits, fmt.bits
    fields = [code[p : bits - 1] for code in (a, b)]
    digits = [Cat(code[:p], field != 0) for code, field in zip((a, b), fields, strict=True)]
    places = [Mux(field == 0, 0, field - 1)[: len(field)] for field in fields]
    magnitude = (digits[0] * digits[1]) << (places[0] + places[1])
    value = Signal(signed(len(magnitude) + 1))
    m.d.comb += value.eq(Mux(a[bits - 1] ^ b[bits - 1], -magnitude, magnitude))
    return value


def _sum(fmt: FloatFormat, lanes: int) -> Rule:
    """Rule for codes in lane CASE alone."""

    def wrong(m: Module, p: Any) -> Value:
        case, codes = vars(p)[CASE], _codes(p, fmt, lanes)
        given = Cat((case == i) | (Cat(pair) == 0) for i, pair in enumerate(codes)).all()
        products = [_product(m, a, b, fmt) for a, b in codes]
        rows = vars(p)[f"{ROWS}_made"]
        bits = len(rows) // 2
        total = Signal(bits)
        m.d.comb += total.eq(sum(products[1:], products[0]))
        unlike = (rows[:bits] + rows[bits:])[:bits] != total
        return given & ~_nan_codes(p, fmt, lanes) & unlike

    return wrong


def sum_of_lanes(fmt: FloatFormat, lanes: int, *shared: str) -> Decision:
    """Whether the rows are a sum of a function of each lane, and whether these are products.

    shared: inputs that functions of all lanes depend on.
    """

    def decide(subject: ObservedUnit, rule: Rule, directory: Path, limit: float) -> Verdict:
        netlist = linear.read(subject.text, directory / "linear", limit)
        rows, a, b = (netlist.ports[name] for name in (f"{ROWS}_made", "in_a", "in_b"))
        places = [slice(i * fmt.bits, (i + 1) * fmt.bits) for i in range(lanes)]
        owned = [[*a[place], *b[place]] for place in places]
        half = len(rows) // 2
        common = [net for name in shared for net in netlist.ports[name]]
        if not linear.is_sum_of_lanes(netlist, (rows[:half], rows[half:]), owned, common):
            return Verdict.UNDECIDED
        return engine.decide(subject, rule, directory, limit)

    return decide


def _grid(fmt: FloatFormat) -> Callable[[Any], Value]:
    return lambda p: p.in_scale_a + p.in_scale_b - 254 + 2 * fmt.lsb


def loop(
    most: int,
    grid: Callable[[Any], Value],
    nan_codes: Callable[[Any], Value] = lambda p: Const(0, 1),
) -> Rule:
    """most: the largest magnitude of the sum, an integer; grid: the exponent of its last digit;
    nan_codes: whether a code is NaN, under which the sum is any word."""

    def wrong(m: Module, p: Any) -> Value:
        rows, case = vars(p)[ROWS], vars(p)[CASE]
        bits = len(rows) // 2
        total = Signal(signed(bits))
        m.d.comb += total.eq(rows[:bits] + rows[bits:])
        c, unit_exponent = Signal(32), Signal(signed(11))
        m.d.comb += c.eq(Mux(p.in_first, p.in_c, p.out_result))
        m.d.comb += unit_exponent.eq(grid(p))
        distance = Signal(signed(12))
        m.d.comb += distance.eq(_exponent(c) - unit_exponent + FAR_BELOW + 1)
        last = cases(most) - 1
        here = Mux(distance < 0, 0, Mux(distance > last, last, distance)) == case
        finite = add_to_float(m, c, total, unit_exponent, most, case)
        infinite, special = c[:23] == 0, c[23:31] == 255
        poisoned = nan_codes(p)
        nan = poisoned | (p.in_scale_a == 255) | (p.in_scale_b == 255) | (special & ~infinite)
        want, counts = Signal(32), Signal()
        given = poisoned | ((total <= most) & (total >= -most))
        given &= p.in_valid & p.in_ready & ~p.rst
        m.d.sync += [want.eq(Mux(nan, NAN, Mux(special, c, finite))), counts.eq(given & here)]
        return counts & (p.out_result != want)

    return wrong


FAR_BELOW = 50
"""Places by which the last digit of a sum is above that of c where c counts by its sign alone."""


def _far_above(most: int) -> int:
    """Places from which c counts by its sign alone in a sum below it."""
    return most.bit_length() + 3


def cases(most: int) -> int:
    """Distances from FAR_BELOW to _far_above, and all beyond at both ends."""
    return _far_above(most) + FAR_BELOW + 3


def _exponent(c: Value) -> Value:
    """Exponent of the last digit of a float32."""
    return Mux(c[23:31] == 0, 1, c[23:31]) - 150


def add_to_float(
    m: Module, c: Value, total: Value, unit_exponent: Value, most: int, case: Value
) -> Value:
    """RNE_fp32(c + total x 2^unit_exponent) of a finite c and |total| <= most.

    The sum is exact, on the finer of the two grids, as far as they are near each other. Of two
    numbers of which one is less than a quarter of the last digit of any result, the sign alone
    counts. case: the distance between both grids, from -FAR_BELOW - 1 on.
    """
    up, down = _far_above(most), FAR_BELOW
    significand = Signal(signed(25))
    digits = Cat(c[:23], c[23:31] != 0)
    m.d.comb += significand.eq(Mux(c[31], -digits, digits))
    exponent = _exponent(c)
    bits = max(24 + up, most.bit_length() + down) + 2
    exact, grid = Signal(signed(bits)), Signal(signed(12))
    with m.Switch(case):
        for number, distance in enumerate(range(-down - 1, up + 2)):
            with m.Case(number):
                if distance < -down:
                    m.d.comb += exact.eq(_sign(significand) + (total << down))
                    m.d.comb += grid.eq(unit_exponent - down)
                elif distance > up:
                    m.d.comb += exact.eq((significand << up) + _sign(total))
                    m.d.comb += grid.eq(exponent - up)
                elif distance < 0:
                    m.d.comb += exact.eq(significand + (total << -distance))
                    m.d.comb += grid.eq(exponent)
                else:
                    m.d.comb += exact.eq((significand << distance) + total)
                    m.d.comb += grid.eq(unit_exponent)
    magnitude, top = Signal(bits), Signal(signed(12))
    m.d.comb += [magnitude.eq(Mux(exact < 0, -exact, exact)), top.eq(grid + (bits - 1))]
    rounded = round_to(m, magnitude, top, FLOAT32, True, 23)
    result = Cat(rounded.bits, (exact < 0) & (rounded.bits != 0))
    alone = Mux(c[:31] == 0, 0, c)  # nothing is added; a zero is +0
    return Mux(total == 0, alone, result)


def _sign(value: Value) -> Value:
    """-1, 0 or 1."""
    return Mux(value < 0, Const(-1, signed(2)), value != 0)
