"""The bench of quantisers: right units pass, wrong units and models fail and are described."""

import numpy as np
import pytest
from amaranth.hdl import Mux, Signal

from compare import FULL
from matrices import every_unit
from mxdot.hw.quantize.align import ElementAligner, MicroExponent
from mxdot.hw.quantize.choose import ChooseFormat, CutMagnitude, SumOfPairs
from mxdot.hw.quantize.encode import ElementEncoder
from mxdot.hw.quantize.outer import NextDigit
from mxdot.hw.quantize.scale import Collector, LargerOfPairs, SharedScale
from mxdot.model import FORMATS, MX_FORMATS, QuantizeConfig
from mxdot.sim.engine.job import UnitJob
from mxdot.sim.engine.regression_units import BULK as BULK_OF_SIM
from mxdot.sim.engine.regression_units import default_matrix
from mxdot.sim.quantize import carries, item, stimulus
from mxdot.sim.quantize.stimulus import tensor_traffic
from wrong_units import (
    AT_THE_CARRY,
    breaks,
    frozen_words,
    lost_under_backpressure,
    never_valid,
    run_none_of,
    run_one_of,
)

PLAIN = QuantizeConfig("e4m3", 4, "bfloat16", stages=2)
RANDOM = QuantizeConfig(
    "e2m1,int8", 4, "float32", "even", "stochastic", "element", beats=2, random="lfsr", stages=3
)
TRAFFIC = {"traffic": 600, "bulk": 1000}
BULK = TRAFFIC if FULL else {"traffic": 0, "bulk": 1000}
"""For wrong results, which bulk mode finds without the bench of cycles."""
UNITS = [unit for unit in default_matrix() if isinstance(unit.config, QuantizeConfig)]


@breaks(ElementEncoder)
def ties_up(encoder, m):
    """Ties are rounded up and not to even."""
    up = encoder.i.discarded[-1] & ~encoder.i.discarded[0] & ~encoder.i.significand[0]
    with m.If(up & ~encoder.poisoned & (encoder.i.field == 1)):
        m.d.comb += encoder.code.eq(((encoder.i.field << 3) + encoder.i.significand + 1)[:7])


@breaks(ElementAligner)
def no_normalization(aligner, m):
    """Subnormal values keep their leading zeros."""
    fraction = aligner.value[:7]
    with m.If((aligner.value[7:15] == 0) & (fraction != 0)):
        m.d.comb += aligner.o.significand.eq(fraction[4:])


@breaks(SharedScale)
def wrong_scale(scale, m):
    """The exponent of the largest value is not clamped."""
    with m.If(scale.i.largest[0] == 3):
        m.d.comb += scale.o.scale.eq(1)


@breaks(LargerOfPairs)
def smaller(level, m):
    """One comparison keeps the smaller value."""
    if level.count == 2:
        a, b = level.i.largest[0], level.i.largest[1]
        m.d.comb += level.o.largest[0].eq(Mux(a[3:] < b[3:], a, b))


WRONG = [ties_up, smaller, no_normalization, wrong_scale, lost_under_backpressure, never_valid]


def forgotten_beat(patch, when):
    """The largest value of the last beat alone sets the scale."""

    def broken(self, m, takes, completes, write):
        place = Signal.like(write)  # every beat is the first of its block
        m.d.comb += place.eq(Mux(when(m), 0, write))
        right(self, m, takes, completes, place)

    right = Collector._summarize
    patch.setattr(Collector, "_summarize", broken)


SCALED = QuantizeConfig("e2m1", 4, "bfloat16", scales="e4m3", stages=2)
WIDE = QuantizeConfig("e2m1", 4, scales="e4m3", stages=2)
MICRO = QuantizeConfig("sm5", 4, "bfloat16", micro=True, stages=2)


@breaks(NextDigit)
def small_remainders(digit, m):
    """A small remainder is none: quotients just above a tie are rounded as one."""
    with m.If(digit.i.remainder[-6:] == 0):
        m.d.comb += digit.o.remainder.eq(0)


@breaks(NextDigit)
def a_lost_digit(digit, m):
    """A remainder before the last digit of a scale has no twos."""
    if digit.number == 4:
        m.d.comb += digit.o.remainder[1].eq(0)


@breaks(MicroExponent)
def first_of_a_pair(pair, m):
    """The second value of a pair takes no part."""
    with m.If(pair.i[1].field.any() & ~pair.i[0].field.any()):
        m.d.comb += pair.micro.eq(1)


CHOICE = QuantizeConfig("e2m1,int4_symmetric", 4, "bfloat16", select=6, stages=4)


@breaks(ChooseFormat)
def last_of_equals(choose, m):
    """A later format wins when errors are equal."""
    with m.If(choose.i.sums1[0] == choose.i.sums0[0]):
        m.d.comb += [
            choose.o.mode.eq(1),
            choose.o.codes.eq(choose.i.codes1),
            choose.o.scale.eq(choose.i.scale1),
        ]


@breaks(SumOfPairs)
def lost_carry(level, m):
    """The sum of all errors of the second format loses a bit."""
    if level.count == 1:
        m.d.comb += level.o.sums1[0][6].eq(0)


@breaks(CutMagnitude)
def rounded_up(cut, m):
    """Digits cut off a value make its last digit odd."""
    m.d.comb += cut.magnitude[0].eq(~cut.poisoned)


@breaks(ChooseFormat)
def mode_alone(choose, m):
    """The format's number is right, its codes are those of the first."""
    m.d.comb += choose.o.codes.eq(choose.i.codes0)


THREE = QuantizeConfig("e3m2,e2m3,e5m2", 4, "bfloat16", "floor,ceil,even", stages=2)


@breaks(ElementEncoder)
def fourth_mode(encoder, m):
    """A mode past the last selects no format."""
    with m.If(encoder.mode == 3):
        m.d.comb += encoder.code.eq(0)


@breaks(SharedScale)
def fourth_rule(scale, m):
    """A rule past the last gives another scale."""
    with m.If(scale.i.rule == 3):
        m.d.comb += scale.o.scale.eq(1)


WORDS = QuantizeConfig("e5m2,int8", 4, "bfloat16", rounding="stochastic", stages=2)


MORE_WRONG = {
    RANDOM: [frozen_words, forgotten_beat],
    SCALED: [small_remainders],
    WIDE: [a_lost_digit],
    MICRO: [first_of_a_pair],
    CHOICE: [last_of_equals, lost_carry, rounded_up, mode_alone],
    THREE: [fourth_mode, fourth_rule],
}


@pytest.mark.parametrize(
    ("wrongs", "config"), [(WRONG, PLAIN), (MORE_WRONG[RANDOM], RANDOM)], ids=["plain", "random"]
)
def test_right_units_pass(wrongs, config, simulation_dir, tmp_path):
    result = run_none_of(wrongs, config, tmp_path, simulation_dir, traffic=800, bulk=4000)
    assert result.errors == []
    assert (result.passed, result.mismatches, result.coverage) == (True, 0, 100.0)
    assert result.items == "blocks"
    assert result.compared > 4500


@pytest.mark.parametrize("wrong", WRONG[:4])
def test_wrong_units_are_caught(wrong, simulation_dir, tmp_path):
    options = TRAFFIC if wrong is ties_up else BULK
    result = run_one_of(WRONG, wrong, PLAIN, tmp_path, simulation_dir, **options)
    differing = [error for error in result.errors if "differ from the model's" in error]
    assert len(differing) == 1 + (options == TRAFFIC)
    assert result.mismatches > 0
    for text in (
        "seed 1, unit small: quantize bfloat16",
        "format e4m3 (mode 0), scale rule floor (rule 0)",
        "values ",
        "got  scale 0x",
        "want scale 0x",
        "repeat with: mxdot sim --seed 1",
    ):
        assert text in result.report


@pytest.mark.parametrize(
    ("wrong", "config", "text"),
    [
        (last_of_equals, CHOICE, "another format was chosen"),
        (lost_carry, CHOICE, ", format int4_symmetric (mode 1)"),
        (rounded_up, CHOICE, "one of e2m1,int4_symmetric, by errors of 6 digits, scale rule"),
        (mode_alone, CHOICE, "codes differ, the last in lane"),
        (frozen_words, RANDOM, "words  "),
        (forgotten_beat, RANDOM, "words  "),
        (small_remainders, SCALED, "outer scale "),
        (a_lost_digit, WIDE, "outer scale "),
        (first_of_a_pair, MICRO, ", micro-exponents "),
        (fourth_mode, THREE, "format e5m2 (mode 2)"),
        (fourth_rule, THREE, "scale rule even (rule 2)"),
    ],
)
def test_more_wrong_units_are_caught(wrong, config, text, simulation_dir, tmp_path):
    wrongs = MORE_WRONG[config]
    # Only the bench of cycles sends numbers past the last.
    options = TRAFFIC if config is THREE else BULK
    result = run_one_of(wrongs, wrong, config, tmp_path, simulation_dir, **options)
    assert result.mismatches > 0
    for line in ("got  scale 0x", "want scale 0x"):
        assert line in result.report
    assert text in result.report


@pytest.mark.parametrize("config", [WORDS, RANDOM], ids=["stream", "lfsr"])
@pytest.mark.parametrize("name", AT_THE_CARRY)
def test_wrong_carries_of_random_words_are_caught(name, config, simulation_dir, tmp_path):
    """Each is wrong where the digits and the word add up to one less than the carry, or to it."""
    wrong = AT_THE_CARRY[name]
    options = {"traffic": 0, "bulk": BULK_OF_SIM}
    builds = simulation_dir / name.replace(" ", "-")
    result = run_one_of([wrong], wrong, config, tmp_path, builds, **options)
    assert result.mismatches > 0
    assert "words  " in result.report


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lost_under_backpressure, "accepted blocks left without a result"),
        (never_valid, "no result for 2000 cycles"),
    ],
)
def test_broken_streams_are_caught(wrong, message, simulation_dir, tmp_path):
    result = run_one_of(WRONG, wrong, PLAIN, tmp_path, simulation_dir, **TRAFFIC)
    assert any(message in error for error in result.errors)


def test_a_wrong_model_is_caught(simulation_dir, tmp_path):
    options = {"traffic": 200, "predictor": "wrong_predictors:scale_rounded_up"}
    result = run_none_of(WRONG, PLAIN, tmp_path, simulation_dir, **options)
    assert not result.passed
    assert result.mismatches > 0


# Stimulus ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("fmt", [fmt for fmt in FORMATS.values() if fmt.bits <= 8], ids=str)
@pytest.mark.parametrize("scales", ["e8m0", "e4m3"])
def test_few_blocks_are_scaled_by_one(fmt, scales):
    """Every rule and every source has one."""
    rules = "floor,ceil,even" if scales == "e8m0" else "amax"
    name = "limits" if scales == "e8m0" else stimulus.BOUNDARIES
    one = {"e8m0": 127, "e4m3": 56}[scales]
    for source in ("float32", "bfloat16", "float16"):
        config = QuantizeConfig(fmt, 4, source, rules, scales=scales)
        batches = stimulus.traffic(config, np.random.default_rng(1), 1)
        firsts = [item.predict(config, b).scale[0] for b in batches if b.sequence == name]
        assert firsts == [one] * len(config.scale_rules)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_blocks_travel_through_pins(unit):
    config = unit.config
    for batch in stimulus.traffic(config, np.random.default_rng(1), 200)[::5]:
        again = item.batch_of(config, item.blocks(config, batch))
        assert (again.bits == batch.bits).all()
        assert (again.words == batch.words).all()
        assert (again.mode, again.rule) == (batch.mode, batch.rule)


def pairs(config: QuantizeConfig, bits: np.ndarray) -> dict[int, int]:
    """Different patterns of finite values under each exponent of the largest value."""
    fraction, ones = config.source.mantissa_bits, 2**config.source.exponent_bits - 1
    field = bits >> fraction & ones
    whole = (field < ones).all(axis=1)
    exponent = field.max(axis=1)
    seen = np.zeros((ones, 2**config.source.bits), bool)
    seen[exponent[whole, np.newaxis], bits[whole]] = True
    return {e: count for e, count in enumerate(seen.sum(axis=1).tolist()) if count}


def test_every_value_under_every_scale():
    """FULL=1 simulates 8,355,840 pairs of a bfloat16 value and an exponent, and specials."""
    config = QuantizeConfig("e4m3", 32, "bfloat16")
    target = stimulus.Target(config, MX_FORMATS["e4m3"])
    count = stimulus.every_pair(config) - stimulus.TRAFFIC
    bits = stimulus.every_value(target, np.random.default_rng(3), count)
    assert len(bits) == count
    counts = pairs(config, bits)
    assert counts == {exponent: 256 * (exponent + 1) for exponent in range(255)}
    assert sum(counts.values()) == 8_355_840
    special = (bits >> 7 & 0xFF) == 0xFF
    assert len(np.unique(bits[special])) == 256
    assert len(stimulus.every_value(target, np.random.default_rng(3), 3000)) == 0


def test_values_at_edges_beyond_the_source():
    config = QuantizeConfig("e4m3", 4, "float16", rounding="stochastic", random="lfsr")
    rng = np.random.default_rng(0)
    for batch in stimulus.traffic(config, rng, 200):
        made = item.values(config, carries.values_at_edges(config, batch, rng).bits)
        same = np.isfinite(made) == np.isfinite(item.values(config, batch.bits))
        assert same.all()


def test_the_default_run_has_every_value_under_some_scales():
    unit = next(u for u in UNITS if u.config.source.name == "bfloat16")
    target = stimulus.Target(unit.config, unit.config.formats[0])
    share = (unit.bulk - stimulus.TRAFFIC) // len(unit.config.formats)
    bits = stimulus.every_value(target, np.random.default_rng(4), share)
    counts = pairs(unit.config, bits)
    assert len(counts) >= stimulus.FEWEST_SCALES
    assert {0, 254} < set(counts)
    assert counts == {exponent: 256 * (exponent + 1) for exponent in counts}


def test_real_tensors_take_part(tmp_path):
    x = np.random.default_rng(5).standard_normal((6, 70)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x, y=2 * x)
    config = QuantizeConfig("e4m3,int8", 32, scale_rule="floor,even")
    options = {"tensors": tmp_path / "x.npz", "all_tensors": True}
    batches = tensor_traffic(UnitJob("small", config, 1, tmp_path, **options))
    assert [(b.mode, b.rule) for b in batches] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    for made in batches:
        values = made.bits.view(np.float32).reshape(12, 96)
        assert (values[:, :70] == np.concatenate([x, 2 * x])).all()
        assert not values[:, 70:].any()
    few = tensor_traffic(UnitJob("small", config, 1, tmp_path, tensors=tmp_path / "x.npz"))
    assert sum(map(len, few)) == 4 * 36
    assert tensor_traffic(UnitJob("small", config, 1, tmp_path)) == []


def test_the_matrices():
    names = [unit.name for unit in every_unit() if isinstance(unit.config, QuantizeConfig)]
    assert len(names) == len(set(names)) > len(UNITS) >= 4
    formats = {fmt for unit in UNITS for fmt in unit.config.formats}
    assert formats >= {fmt for fmt in FORMATS.values() if fmt.bits <= 8}
    for field in ("rounding", "nonfinite", "source", "random"):
        assert len({getattr(unit.config, field) for unit in UNITS}) >= 2
    assert {unit.config.beats for unit in UNITS} > {1}
