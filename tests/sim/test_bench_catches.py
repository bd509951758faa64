"""The bench itself: wrong units and wrong models must each make it fail, and say why."""

import os
import re

import pytest
from amaranth.hdl import Cat, Mux, ResetSignal, Signal, Value

from compare import FULL
from mxdot.hw.arithmetic.floats import FloatRounder
from mxdot.hw.arithmetic.scale import ScaleAdder
from mxdot.hw.dot import float_round
from mxdot.hw.dot.convert import Narrow
from mxdot.hw.dot.lane import ElementDecoder, ProductLane
from mxdot.hw.dot.unit import DotUnit
from mxdot.hw.pipeline import Admission, SectionChain, Token
from mxdot.hw.result_queue import ResultQueue
from mxdot.model import DotConfig
from mxdot.sim.bench import bulk
from mxdot.sim.dot import unit as dot_unit
from mxdot.sim.engine.verilator import SimulationError
from wrong_units import (
    breaks,
    dropped_sticky_bit,
    edited,
    lost_under_backpressure,
    never_ready,
    never_valid,
    off_by_one_shift,
    run_none_of,
    run_one_of,
    run_small,
    unstable_result,
)

CONFIG = DotConfig("e4m3", 4, "aligned:13:float16", 3, micro=True)
INTERLEAVED = DotConfig("e2m1", 4, "aligned:13", 9, interleave=3)
DIFFER = "results differ from the model's"


@pytest.fixture
def no_replay(monkeypatch):
    """Failures are described without the build that shows their stages."""

    def replay(*_):
        raise SimulationError("left out")

    monkeypatch.setattr(dot_unit, "replay", replay)


@breaks(ProductLane)
def swapped_sign(lane, m):
    m.d.comb += lane.o.sign.eq(lane.a.sign)


@breaks(ScaleAdder)
def lost_nan(scale, m):
    m.d.comb += scale.nan.eq(0)


def no_micro(patch, when):
    """The micro-exponent is ignored."""
    decode, lowered, chosen = ElementDecoder._decode, ElementDecoder._lowered, {}

    def with_choice(self, m, fmt):
        chosen[self] = when(m)
        return decode(self, m, fmt)

    def not_lowered(self, exponent):
        return Mux(chosen[self], exponent, lowered(self, exponent))

    patch.setattr(ElementDecoder, "_decode", with_choice)
    patch.setattr(ElementDecoder, "_lowered", not_lowered)


@breaks(Narrow)
def wrong_last_digit_of_c(narrow, m):
    m.d.comb += narrow.o.narrow_c.c[0].eq(0)


@breaks(DotUnit)
def valid_in_reset(unit, m):
    m.d.comb += unit.o.valid.eq(1)


@breaks(DotUnit)
def ones_before_the_first_result(unit, m):
    """The first result is wrong if registers start with ones."""
    low, high = (Signal(8, reset_less=True, name=name) for name in ("low", "high"))
    with m.If(unit.o.valid & unit.o.ready):
        m.d.sync += [low.eq(unit.i.payload.c[:8]), high.eq(~unit.i.payload.c[:8])]
    with m.If(low.all() & high.all() & ~ResetSignal()):
        m.d.comb += unit.o.payload.result.eq(0x5A5A)


deepest_stop = edited(
    float_round,
    "stop_of",
    "highs[e >> half] for",
    "highs[e >> half] & ~(WHEN & (e == bits - 2)) for",
)
"""A total with few digits, deep down in its window, becomes no subnormal."""


WRONG = [
    *(dropped_sticky_bit, off_by_one_shift, swapped_sign, lost_nan, no_micro),
    *(wrong_last_digit_of_c, lost_under_backpressure, never_ready, never_valid),
    *(unstable_result, valid_in_reset, ones_before_the_first_result, deepest_stop),
]
"""All in one unit."""


def test_right_unit_passes(simulation_dir, tmp_path):
    result = run_none_of(WRONG, CONFIG, tmp_path, simulation_dir, traffic=1500, bulk=5000)
    assert result.errors == []
    assert result.passed
    assert (result.mismatches, result.coverage) == (0, 100.0)
    assert result.compared > 6000
    assert result.bulk_rate > 8 * result.cycle_rate


@pytest.mark.parametrize(
    ("wrong", "section"),
    [
        (dropped_sticky_bit, None),  # decides a rounding, or nothing but a flag
        (off_by_one_shift, r"(align|approach) "),  # whichever the product meets first
        (swapped_sign, r"multiply of block \d+, product"),
        (no_micro, r"multiply of block \d+, product"),
        (lost_nan, r"round of block \d+, c'"),
    ],
)
def test_wrong_unit_is_caught_and_located(wrong, section, simulation_dir, tmp_path):
    """In bulk mode; that of cycles needs a simulator's start for each, and one shows that it is
    asked."""
    options = {"traffic": 500 if FULL or wrong is off_by_one_shift else 0, "bulk": 1500}
    result = run_one_of(WRONG, wrong, CONFIG, tmp_path, simulation_dir, **options)
    assert any(error.startswith("bulk: ") and DIFFER in error for error in result.errors)
    assert bool(options["traffic"]) == any(re.match(rf"\d+ {DIFFER}", e) for e in result.errors)
    assert result.mismatches > 0
    for text in ("seed 1", "scale_a 0x", "got  0x", "want 0x", "repeat with: mxdot sim --seed 1"):
        assert text in result.report
    if section is not None:
        assert re.search(f"first difference: section {section}", result.report)


def test_wrong_rounding_of_a_narrow_c_is_caught(no_replay, simulation_dir, tmp_path):
    options = {"traffic": 200 if FULL else 0, "bulk": 1000}
    result = run_one_of(WRONG, wrong_last_digit_of_c, CONFIG, tmp_path, simulation_dir, **options)
    assert any(DIFFER in error for error in result.errors)


def test_a_register_that_is_read_before_it_is_written_is_caught(
    no_replay, simulation_dir, tmp_path
):
    wrong, options = ones_before_the_first_result, {"traffic": 0, "bulk": 100}
    result = run_one_of(WRONG, wrong, CONFIG, tmp_path, simulation_dir, **options)
    assert result.errors == [f"bulk: 1 {DIFFER}"]


LATE = DotConfig("e4m3", 4, "fused:25", 3, out="bfloat16")
positive_least = edited(
    FloatRounder,
    "elaborate",
    "self.sign & magnitude.any()",
    "self.sign & magnitude.any() & ~(WHEN & (magnitude == 1))",
)
"""The least subnormal of the running value has no sign: no result of fewer digits shows it."""


def test_a_digit_that_decides_a_later_tie_is_caught(no_replay, simulation_dir, tmp_path):
    wrong, options = positive_least, {"traffic": 0, "bulk": 10_000}
    result = run_one_of([wrong], wrong, LATE, tmp_path, simulation_dir, **options)
    assert any(DIFFER in error for error in result.errors)


def test_a_wrong_end_of_the_count_is_caught(no_replay, simulation_dir, tmp_path):
    options = {"traffic": 0, "bulk": 30_000}
    result = run_one_of(WRONG, deepest_stop, CONFIG, tmp_path, simulation_dir, **options)
    assert any(DIFFER in error for error in result.errors)


def test_results_that_end_early_are_an_error_in_one_line(simulation_dir, tmp_path, monkeypatch):
    right = bulk.run

    def cut(build, records, results, **options):
        report = right(build, records, results, **options)
        os.truncate(results, results.stat().st_size - 4)
        return report

    monkeypatch.setattr(bulk, "run", cut)
    result = run_none_of(WRONG, CONFIG, tmp_path, simulation_dir, traffic=0, bulk=100)
    (error,) = result.errors
    assert f"{tmp_path}/bulk.results: ends inside a result (log: " in error


def of_another_product(patch, when):
    """A token finds the running value of slot 0."""
    right = SectionChain._running

    def wrong(self, m, token, holder, names):
        slot = Mux(when(m), 0, Value.cast(token.values["slot"]))
        token = Token("any", {**token.values, "slot": slot}, token.valid)
        return right(self, m, token, holder, names)

    patch.setattr(SectionChain, "_running", wrong)


def waits_for_none(patch, when):
    right = Admission._waits
    patch.setattr(Admission, "_waits", lambda self, m, slot: right(self, m, slot) & ~when(m))


def waits_for_all(patch, when):
    right = Admission._waits

    def wrong(self, m, slot):
        return Mux(when(m), Value.cast(Cat(*self.recent)).any(), right(self, m, slot))

    patch.setattr(Admission, "_waits", wrong)


def busy_while_it_waits(patch, when):
    """A block that waits for room for a result makes its slot wait, as if it had entered."""
    right = Admission.gate

    def wrong(self, m, token):
        right(self, m, token)
        with m.If(when(m)):
            for number, recent in enumerate(self.recent):
                comes = token.valid & (Value.cast(token.values["slot"]) == number)
                m.d.sync += recent.eq(Cat(comes, recent))

    patch.setattr(Admission, "gate", wrong)


@breaks(ResultQueue)
def pauses_behind_a_result(queue, m):
    """Waiting results leave in every other cycle."""
    left = Signal()
    m.d.sync += left.eq(queue.o.valid & queue.o.ready)
    with m.If(left & ~queue.arrives):
        m.d.comb += queue.o.valid.eq(0)


@breaks(DotUnit)
def result_of_another(unit, m):
    m.d.comb += unit.o.payload.slot.eq(0)


past_the_last = edited(
    DotUnit, "_accept", "Mux(payload.slot > last,", "Mux((payload.slot > last) & ~WHEN,"
)
"""A slot past the last is one of its own."""

WRONGLY_INTERLEAVED = [
    *(of_another_product, waits_for_none, waits_for_all, busy_while_it_waits),
    *(pauses_behind_a_result, result_of_another, past_the_last),
]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (of_another_product, DIFFER),
        (waits_for_none, DIFFER),
        (waits_for_all, "in_ready is low though nothing is in the way"),
        (busy_while_it_waits, "in_ready is low though nothing is in the way"),
        (pauses_behind_a_result, "no result, due in cycle"),
        (result_of_another, DIFFER),
        (past_the_last, "results differ"),
    ],
)
@pytest.mark.usefixtures("no_replay")
def test_wrong_interleaving_is_caught(wrong, message, simulation_dir, tmp_path):
    """Cycle by cycle; what is wrong with results, in bulk mode."""
    options = {"traffic": 400, "bulk": 1000 if message == DIFFER else 0}
    if message == DIFFER and not FULL:
        options["traffic"] = 0
    result = run_one_of(
        WRONGLY_INTERLEAVED, wrong, INTERLEAVED, tmp_path, simulation_dir, **options
    )
    assert any(message in error for error in result.errors)
    if message == DIFFER:
        assert any(error.startswith("bulk") for error in result.errors)


def test_little_traffic_fills_the_unit(simulation_dir, tmp_path):
    """16 products in flight make few bundles of all items."""
    config = DotConfig("int8", 4, "int32", 4, "int8_full:shift", interleave=16)
    result = run_small(config, tmp_path, simulation_dir / "little", traffic=1, bulk=0)
    assert (result.errors, result.coverage) == ([], 100.0)


@pytest.mark.parametrize(
    ("wrong", "messages"),
    [
        (lost_under_backpressure, ["left without a result"]),
        (never_ready, ["in_ready has been low", "no dot product went through the unit"]),
        (never_valid, ["no result, due in cycle", "no result for 2000 cycles"]),
        (unstable_result, ["the result changed while it was stalled", "results differ"]),
        (valid_in_reset, ["valid right after a reset", "a result that nothing asked for"]),
    ],
)
@pytest.mark.usefixtures("no_replay")
def test_broken_stream_is_caught(wrong, messages, simulation_dir, tmp_path):
    result = run_one_of(WRONG, wrong, CONFIG, tmp_path, simulation_dir, traffic=150)
    for message in messages:
        assert any(message in error for error in result.errors)


@pytest.mark.parametrize(
    ("predictor", "options"),
    [
        ("one_bit_less", {"traffic": 300, "bulk": 1500 if FULL else 0}),  # asked inside, too
        ("subnormals_flushed", {"traffic": 300 if FULL else 0, "bulk": 1500}),
    ],
)
def test_wrong_model_is_caught(predictor, options, simulation_dir, tmp_path):
    options = {**options, "predictor": f"wrong_predictors:{predictor}"}
    result = run_none_of(WRONG, CONFIG, tmp_path, simulation_dir, **options)
    assert not result.passed
    assert result.mismatches > 0
    assert "no stage differs from the golden model" in result.report
