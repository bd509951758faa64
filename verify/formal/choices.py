"""Claims about what quantisers make for themselves: words of shift registers, choice of a format.

Those of a choice are about a whole unit of one stage with nets cut between its sections (`cut`):
`errors` says how far each element is from its value, whatever the block, `sums` that these are
squared and added up, `least` which format is taken.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from ...hw.quantize.encode import LaneWords
from ...model import QuantizeConfig
from .claim import Claim
from .facts import exposed
from .observer import ObservedUnit, component, cut, unit

BLOCK, DIGITS = 4, 4
CHOICE = QuantizeConfig("e2m1,int4_symmetric", BLOCK, "bfloat16", select=DIGITS, stages=1)
E2M1_HALVES = (0, 1, 2, 3, 4, 6, 8, 12)
"""Magnitudes of E2M1, in halves: the table of the OCP specification."""
BITS = 4  # of a code
FRACTION = 7  # of bfloat16
NUMBERS = (0, 1)
MOST = (7, 8)
"""Steps that an error of E2M1, or of INT4, has at most."""
SEED, LANES = 7, 4
AHEAD = 25
"""Lane i begins i x 2^AHEAD steps after lane 0."""
HELD = {"codes0": 16, "codes1": 16, "scale0": 8, "scale1": 8}
ERRORS, SUMS = ("error_o_errors0", "error_o_errors1"), ("sum2_o_sums0", "sum2_o_sums1")


def claims() -> Iterator[Claim]:
    """Claims about shift registers and a unit that chooses between E2M1 and INT4."""
    yield Claim(
        "lfsr:words",
        f"words of {LANES} lanes: after a reset lane i has the seed i x 2^{AHEAD} steps on; x ^= x "
        "<< 13, x ^= x >> 17, x ^= x << 5 of any word with `step`, else it stays",
        lambda: component(LaneWords(SEED, LANES)), _words,
    )  # fmt: skip
    yield Claim(
        "errors:quantize-choice",
        f"E2M1 or INT4, {DIGITS} digits: each error is how far value and element are from each "
        f"other, both cut to steps of 2^(e - {DIGITS}), and at most {MOST[0]} and {MOST[1]} of "
        "them, any block",
        _errors_of_unit, _errors, ("result > {1'b0, given}", "result < {1'b0, given}"), bits=64,
    )  # fmt: skip
    yield Claim(
        "sums:quantize-choice",
        f"the squares of {BLOCK} errors of each format added up, of all errors that there can be",
        lambda: replace(cut(unit(CHOICE), *ERRORS, *SUMS), cycles=1), _sums,
        ("i_sums0[6:0]} + ", "i_sums0[6:0]} | "), bits=BLOCK * (3 + 4),
    )  # fmt: skip
    yield Claim(
        "least:quantize-choice",
        "mode, codes and scale of the format of the least sum, the first of equals",
        lambda: replace(_shown(cut(unit(CHOICE), *SUMS)), cycles=1), _least, (" < ", " <= "),
        bits=8 + 9 + 2 * (16 + 8),
    )  # fmt: skip


def _stepped(word: Value) -> Value:
    for left, places in ((True, 13), (False, 17), (True, 5)):
        moved = Cat(Const(0, places), word)[:32] if left else word[places:]
        word = word ^ moved
    return word


def _plain_step(word: int) -> int:
    word ^= word << 13 & 0xFFFFFFFF
    word ^= word >> 17
    return word ^ word << 5 & 0xFFFFFFFF


def _seeds() -> list[int]:
    """Images of single bits after 2^AHEAD steps: the map of one step, squared AHEAD times."""
    columns = [_plain_step(1 << bit) for bit in range(32)]

    def mapped(word: int) -> int:
        total = 0
        for bit, column in enumerate(columns):
            total ^= column if word >> bit & 1 else 0
        return total

    for _ in range(AHEAD):
        columns = [mapped(column) for column in columns]
    seeds = [SEED]
    while len(seeds) < LANES:
        seeds.append(mapped(seeds[-1]))
    return seeds


def _words(m: Module, p: Any) -> Value:
    words = Cat(p.words) if isinstance(p.words, list) else Value.cast(p.words)
    lanes = [words.word_select(i, 32) for i in range(LANES)]
    before, stepped, reset = Signal(len(words)), Signal(), Signal(init=1)
    m.d.sync += [before.eq(words), stepped.eq(p.step), reset.eq(0)]
    wanted = []
    for i, seed in enumerate(_seeds()):
        word = before.word_select(i, 32)
        wanted.append(Mux(reset, seed, Mux(stepped, _stepped(word), word)))
    return ~p.rst & Cat(lane != want for lane, want in zip(lanes, wanted, strict=True)).any()


def _shown(subject: ObservedUnit) -> ObservedUnit:
    return exposed(subject, {f"encode_register_{name}": width for name, width in HELD.items()})


def _errors_of_unit() -> ObservedUnit:
    return replace(_shown(cut(unit(CHOICE), *ERRORS)), cycles=2)


def _errors(m: Module, p: Any) -> Value:
    """Compare errors of the block that came in the cycle before."""
    values = [p.in_values.word_select(i, 16) for i in range(BLOCK)]
    fields = [value[FRACTION:15] for value in values]
    largest: Value = Const(0, 8)
    for field in fields:
        largest = Mux(field > largest, field, largest)
    came, poisoned, top = Signal(), Signal(), Signal(8)
    m.d.sync += [
        came.eq(p.in_valid & p.in_ready & ~p.rst),
        poisoned.eq(largest == 255),
        top.eq(largest),
    ]
    unlike = []
    for lane, (value, field) in enumerate(zip(values, fields, strict=True)):
        significand = Cat(value[:FRACTION], field != 0) << 1  # of 2^(field - bias - FRACTION - 1)
        below = Signal(9)
        m.d.comb += below.eq(largest - Mux(field == 0, 1, field) + FRACTION + 1 - DIGITS)
        given = Signal(DIGITS + 1)
        m.d.sync += given.eq((significand >> below[:5]) & Mux(below < 32, 0xFFFF, 0))
        for number in NUMBERS:
            held = vars(p)
            code = held[f"encode_register_codes{number}"].word_select(lane, BITS)
            scale = held[f"encode_register_scale{number}"]
            halves = Signal(range(17))
            m.d.comb += halves.eq(_halves(code, number))
            place = Signal(4)  # of a half, in steps
            m.d.comb += place.eq(scale + (DIGITS - 1) - top)
            made = halves << place
            want = Mux(poisoned, 0, Mux(made > given, made - given, given - made))
            errors = held[f"{ERRORS[number]}_made"]
            error = errors.word_select(lane, len(errors) // BLOCK)
            unlike += [error != want, error > MOST[number]]
    return came & Cat(unlike).any()


def _halves(code: Value, number: int) -> Value:
    """The magnitude of a code, in halves."""
    if number:
        return Mux(code[-1], -code.as_signed(), code)[:4] << 1
    magnitude: Value = Const(0, 4)
    for index, halves in enumerate(E2M1_HALVES):
        magnitude = Mux(code[:3] == index, halves, magnitude)
    return magnitude


def _sums(m: Module, p: Any) -> Value:
    unlike, given = [], []
    for errors, sums, most in zip(ERRORS, SUMS, MOST, strict=True):
        word, made = vars(p)[errors], vars(p)[f"{sums}_made"]
        lanes = [word.word_select(i, len(word) // BLOCK) for i in range(BLOCK)]
        total = Signal(len(word))
        m.d.comb += total.eq(sum(lane * lane for lane in lanes))
        given += [lane <= most for lane in lanes]
        unlike.append(made != total)
    return Cat(given).all() & Cat(unlike).any()


def _least(m: Module, p: Any) -> Value:
    first, second = (vars(p)[name] for name in SUMS)
    second_is_less = second < first
    wanted = {"mode": Const(0, 1) | second_is_less}
    for name in ("codes", "scale"):
        held = [vars(p)[f"encode_register_{name}{number}"] for number in NUMBERS]
        wanted[name] = Mux(second_is_less, held[1], held[0])
    return Cat(getattr(p, f"out_{name}") != want for name, want in wanted.items()).any()
