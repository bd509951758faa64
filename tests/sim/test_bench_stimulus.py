"""Stimulus, features and the form in which dot products travel between them."""

from dataclasses import fields
from itertools import product as combinations

import numpy as np
import pytest

from matrices import every_unit
from mxdot.model import E2M1, MACHINES, MX_FORMATS, DotConfig, format_pairs
from mxdot.model.formats import IntegerFormat
from mxdot.model.trace import FLAG_NAMES
from mxdot.model.units.matmul.config import MatmulConfig
from mxdot.sim.bench.operands import (
    CLASSES,
    E4M3_CLASSES,
    SPECIAL_C,
    class_codes,
    class_table,
    scale_class,
    split_scale,
    weighted,
)
from mxdot.sim.dot import block_features, features, integer_stimulus
from mxdot.sim.dot.corners import carried
from mxdot.sim.dot.integer_stimulus import INTEGER_SEQUENCES
from mxdot.sim.dot.item import Batch, Bundle, Turns, batch_of, concatenate, predict, products
from mxdot.sim.dot.scales import for_unit
from mxdot.sim.dot.stimulus import FEWEST, LONG_CHAIN, SEQUENCES, SHORT_RANGE, traffic
from mxdot.sim.dot.subject import Timeline
from mxdot.sim.dot.target import Pairs, Target, fractions, pairs_of
from mxdot.sim.engine import regression_units

DOT_UNITS = [
    unit for unit in regression_units.default_matrix() if isinstance(unit.config, DotConfig)
]
PAIRS = regression_units.EVERY_FORMAT.split(",")


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_classes_of_a_format():
    assert {name: codes.tolist() for name, codes in class_codes(MX_FORMATS["e2m1"]).items()} == {
        "zero": [0, 8],
        "subnormal": [1, 9],
        "smallest_normal": [2, 10],
        "normal": [3, 4, 5, 6, 11, 12, 13, 14],
        "largest": [7, 15],
    }
    e5m2 = class_codes(MX_FORMATS["e5m2"])
    assert e5m2["inf"].tolist() == [0x7C, 0xFC]
    assert e5m2["nan"].tolist() == [0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF]
    int8 = class_codes(MX_FORMATS["int8"])
    assert int8["most_negative"].tolist() == [0x80]
    assert int8["largest"].tolist() == [0x7F, 0x81]
    assert "subnormal" not in int8


@pytest.mark.parametrize("fmt", MX_FORMATS.values(), ids=str)
def test_every_class_is_drawn(fmt):
    codes = weighted(rng(), fmt, (500, 8), special=1.0)
    seen = set(class_table(fmt)[codes].flatten().tolist())
    assert {CLASSES[i] for i in seen} == set(class_codes(fmt))


@pytest.mark.parametrize("fmt", MX_FORMATS.values(), ids=str)
def test_negation(fmt):
    codes = np.arange(2**fmt.bits, dtype=np.uint8)
    values, flipped = fmt.values[codes], fmt.values[fmt.negated(codes)]
    same = (values == -flipped) | (np.isnan(values) & np.isnan(flipped))
    assert codes[~same].tolist() == ([2 ** (fmt.bits - 1)] if fmt.is_integer else [])


CARRIED = [
    DotConfig("e3m2", 4, "exact"),
    DotConfig("e4m3", 4, "aligned:13"),
    DotConfig("e4m3", 4, "aligned:13:float16"),
    DotConfig("e5m2", 4, "float16"),
    DotConfig("bf16", 4, "exact"),
    DotConfig("e4m3", 4, "exact", out="float16"),
    DotConfig("e4m3", 4, "fused:13"),
    DotConfig("e4m3", 4, "hopper"),
    DotConfig("e2m1", 4, "fixed:48:-20"),
]


@pytest.mark.parametrize("config", CARRIED, ids=str)
def test_a_carry_goes_through_the_whole_of_c(config):
    (batch,) = carried(Target(config, 0), rng(), 500)
    codes = predict(config, for_unit(config, rng(), batch)).result
    is_half = str(config.out) == "float16"
    result = codes.astype(np.uint16).view(np.float16) if is_half else codes.view(np.float32)
    assert np.isfinite(result).all()
    moved = np.frexp(result)[1] - np.frexp(batch.c.view(np.float32))[1]
    assert np.mean(moved == 1) > 0.02  # carries
    assert is_half or np.mean(moved == -1) > 0.02  # borrows, which a narrower result rounds away


def test_scales_add_up():
    wanted = np.arange(-300, 301)
    for seed in range(5):
        a, b = split_scale(rng(seed), wanted)
        assert max(a.max(), b.max()) < 255
        total = a.astype(int) + b - 254
        assert np.array_equal(total, np.clip(wanted, -254, 254))


@pytest.mark.parametrize("name", PAIRS)
def test_pairs_are_drawn_by_sign_and_exponent(name):
    (pair,) = DotConfig(formats=name).formats
    pairs = pairs_of(*pair)
    low, high = pairs.limits
    exponent = np.repeat(np.arange(low, high + 1), 20)
    negative = rng().random(len(exponent)) < 0.5
    a, b = pairs.draw(rng(), exponent, negative)
    product = pair[0].values[a] * pair[1].values[b]
    made = np.frexp(product)[1] - 1
    if not pair[0].is_integer:
        assert np.array_equal(product < 0, negative)
        assert np.array_equal(made, exponent)
    # INT8's largest product, (-2)^2, has no negative: the nearest there is takes its place.
    assert np.array_equal(made[~negative], exponent[~negative])
    a, b = pairs.draw(rng(), exponent, negative, power=True)
    assert (np.abs(np.frexp(pair[0].values[a] * pair[1].values[b])[0]) == 0.5).all()


@pytest.mark.parametrize("name", PAIRS)
def test_pairs_are_drawn_by_sign_and_last_digit(name):
    """Products with this last digit have it at every place of the significand, each as often."""
    (pair,) = DotConfig(formats=name).formats
    pairs, n = pairs_of(*pair), 2000
    assert isinstance(pairs, Pairs)
    finite = np.isfinite(pairs.table.values) & (pairs.table.values > 0)
    lasts = sorted({_last_digit(value) for value in pairs.table.values[finite]})
    for last in (lasts[0], lasts[len(lasts) // 2], lasts[-1]):
        negative = rng().random(n) < 0.5
        a, b = pairs.ending(rng(), np.full(n, last), negative)
        product = pair[0].values[a] * pair[1].values[b]
        assert np.array_equal(product < 0, negative)
        # INT8's largest product, (-2)^2, has no negative: the nearest there is takes its place.
        wanted = product if not pair[0].is_integer else product[~negative]
        assert {_last_digit(value) for value in wanted} == {last}
        number = a.astype(int) << pair[1].bits | b
        raw = pairs.table.significands[number[~negative]]
        _, counts = np.unique([_last_digit(value) for value in raw], return_counts=True)
        assert counts.max() < 2 * counts.min()


def _last_digit(value: float) -> int:
    """Exponent of the last digit that is 1."""
    numerator, denominator = float(value).as_integer_ratio()
    return (numerator & -numerator).bit_length() - denominator.bit_length()


WIDE = [*PAIRS, "int4", "int4xe2m1", "fp16", "bf16", "tf32", "bf16xint4"]


@pytest.mark.parametrize("micro", [False, True])
@pytest.mark.parametrize("lanes", [4, 64])
@pytest.mark.parametrize("name", WIDE)
def test_few_cancellations_are_of_every_depth(name, lanes, micro):
    """The fewest that a sequence has, and three times as many, reach every depth except `none`."""
    config = DotConfig(formats=name, lanes=lanes, micro=micro)
    for seed, count in combinations(range(3), (FEWEST, 3 * FEWEST)):
        (batch,) = SEQUENCES["cancellation"][0](Target(config, 0), rng(seed), count)
        depths = set().union(*block_features.depths(config, batch))
        assert depths | {"none"} >= set(block_features.depth_bins(config)), (seed, count)


@pytest.mark.parametrize("name", WIDE)
def test_few_products_are_at_every_distance(name):
    config = DotConfig(formats=name, lanes=4)
    for seed in range(3):
        (batch,) = SEQUENCES["alignment"][0](Target(config, 0), rng(seed), FEWEST)
        distances = set().union(*block_features.distances(config, batch))
        assert distances | {"0"} == set(block_features.distance_bins(config)), seed


@pytest.mark.parametrize("name", ["e2m1", "e4m3", "bf16"])
def test_some_sums_are_in_range_because_they_cancel(name):
    config = DotConfig(name, 4, "exact")
    (batch,) = SEQUENCES["cancellation"][0](Target(config, 0), rng(), FEWEST)
    s = batch.scale_a[:, 0].astype(int) + batch.scale_b[:, 0] - 254
    values = config.formats[0][0].values
    largest = np.log2(np.abs(values[batch.a] * values[batch.b]).max(axis=(1, 2))) + s
    finite = np.isfinite(predict(config, batch).result.view(np.float32))
    assert (finite & (largest > 128)).any()


@pytest.mark.parametrize(("lanes", "block"), [(8, 8), (8, 4), (32, 16)])
def test_few_scales_are_of_every_pair_of_classes(lanes, block):
    config = DotConfig("e2m1", lanes, "blackwell", scales="e4m3", scale_block=block)
    (batch,) = SHORT_RANGE["short_scales"][0](Target(config, 0), rng(), 1)
    a, b = (
        scale_class(codes, E4M3_CLASSES).reshape(len(batch), -1)
        for codes in (batch.scale_a, batch.scale_b)
    )
    assert a.shape[1] == lanes // block
    # One scale block of a row has the turn's pair.
    turn, count = np.arange(len(batch))[:, None], len(E4M3_CLASSES)
    assert len(batch) >= count**2
    assert ((a == turn // count % count) & (b == turn % count)).any(axis=1).all()
    assert batch.has_unit_scales


def test_few_sums_begin_at_both_ends_of_int32():
    for load_c, ends in ((True, {-(2**31), 2**31 - 1}), (False, set())):
        config = DotConfig("int8", 4, "int32", out="float16:scale", load_c=load_c)
        (batch,) = INTEGER_SEQUENCES["ends"][0](Target(config, 0), rng(), 2)
        assert set(batch.c.view(np.int32).tolist()) - {0} == ends


@pytest.mark.parametrize(
    ("out", "longest"), [("int8_full:shift", 32), ("uint8:shift", 31), ("int8_full:multiply:8", 38)]
)
def test_one_digit_alone_leaves_the_range_of_results(out, longest):
    """Each above the result's, of sums on either side, before they are limited."""
    config = DotConfig("int8", 4, "int32", out=out)
    fmt = integer_stimulus.output(config).format
    assert isinstance(fmt, IntegerFormat)
    (batch,) = INTEGER_SEQUENCES["limits"][0](Target(config, 0), rng(), 600)
    side = {name: bits[:, 0].astype(np.int64) for name, bits in batch.side.items()}
    shift, zero = side["shift"], side["zero_out"]
    zero = np.where(zero > fmt.highest, zero - 2**fmt.bits, zero)
    product = batch.c.view(np.int32).astype(np.int64) * side.get("multiplier", 1)
    moved = (2 * product >> shift) + 1 >> 1  # a tie goes up
    moved += zero
    digits = fmt.highest.bit_length()
    above = np.where(moved < 0, ~moved, moved) >> digits
    alone = (above > 0) & (above & (above - 1) == 0)
    for sign in (moved < 0, moved >= 0):
        places = set(np.frexp(above[alone & sign].astype(float))[1] - 1 + digits)
        assert places >= set(range(digits, longest))


def test_scales_around_the_least_normal_result():
    """Each of them beside zeros and beside a product that c takes away, wholly or in part."""
    config = DotConfig("e2m1", 4, "aligned:13", 3)
    (batch,) = SEQUENCES["below"][0](Target(config, 0), rng(), 2000)
    s = batch.scale_a[:, 0].astype(int) + batch.scale_b[:, 0] - 254
    result = predict(config, batch).result.view(np.float32)
    values = E2M1.values
    zeros = ((values[batch.a] * values[batch.b]) == 0).all(axis=(1, 2))
    subnormal = (result != 0) & (np.abs(result) < np.finfo(np.float32).tiny)
    scales = set(range(s.min(), s.max() + 1))
    assert len(scales) == 96
    assert set(s[zeros & subnormal]) == set(s[~zeros]) == scales
    assert (~zeros & (result == 0)).any()
    assert (~zeros & subnormal).any()


@pytest.mark.parametrize("accumulator", ["aligned:13", "exact"])
def test_remnants_are_a_unit_or_two_around_the_least_normal_result(accumulator):
    """For every place of the digit that c takes away; each exponent and number of units."""
    config = DotConfig("e4m3", 4, accumulator, 3)
    (batch,) = SEQUENCES["remnants"][0](Target(config, 0), rng(), 2000)
    with_c = batch.take(batch.c != 0)
    result = predict(config, with_c).result.view(np.float32).astype(np.float64)
    of_c = np.frexp(with_c.c.view(np.float32))[1]
    assert set(of_c - np.frexp(result)[1]) == {22, 23}
    assert set(range(-127, -123)) <= set(np.frexp(result)[1] - 1)
    scale = with_c.scale_a[:, 0].astype(int) + with_c.scale_b[:, 0] - 254
    assert len(set(of_c - scale)) > 14


def test_fractions_have_one_digit_at_each_place():
    assert {1 << place for place in range(23)} <= set(fractions(rng(), 2000).tolist())


def test_special_values_of_c_have_their_digit_at_each_place():
    config = DotConfig("e2m1", 4)
    (batch,) = SEQUENCES["c_classes"][0](Target(config, 0), rng(), 16 * 23)
    for base in (0, 0x7F800000):
        assert {base | 1 << place for place in range(23)} <= set(batch.c.tolist())


@pytest.mark.parametrize(("name", "turns"), [("e4m3", range(4)), ("e2m3", [1])])
def test_a_term_alone_loses_its_last_digit_or_none(name, turns):
    """Below a product, c, or what cancels, in turn; products of E2M3 reach no product's limit."""
    config = DotConfig(name, 4, "hopper")
    (batch,) = SEQUENCES["lone"][0](Target(config, 0), rng(), 2000)
    outcome = predict(config, batch)
    inexact = (outcome.flags & 1 << FLAG_NAMES.index("inexact")).astype(bool)
    for turn in turns:
        assert set(inexact[turn::4].tolist()) == {False, True}


def exact_sums(target, batch):
    """Sums of the elements' products, without scales, of batches of one block."""
    a, b = target.format_a.values[batch.a[:, 0]], target.format_b.values[batch.b[:, 0]]
    return (a * b).sum(axis=1), np.count_nonzero(a * b, axis=1)


@pytest.mark.parametrize("name", ["e4m3", "int8", "e4m3xbf16", "bf16"])
def test_two_products_leave_little(name):
    target = Target(DotConfig(name, 2, "cdna1-bf16"), 0)
    (batch,) = SEQUENCES["cancellation"][0](target, rng(), 400)
    sums, _ = exact_sums(target, batch)
    largest = np.abs(target.format_a.values[batch.a[:, 0]] * target.format_b.values[batch.b[:, 0]])
    left = np.abs(sums) / np.maximum(largest.max(axis=1), np.finfo(float).tiny)
    assert np.count_nonzero(sums == 0) <= 130  # the fourth that cancels, and few others
    assert np.count_nonzero((left > 0) & (left < 2**-6)) > 20


@pytest.mark.parametrize("accumulator", ["aligned:13", "aligned:13:float16"])
def test_a_digit_alone_falls_off_the_grid(accumulator):
    """One product a row; c has two digits in every second row, and a running value has both."""
    target = Target(DotConfig("e4m3", 8, accumulator), 0)
    (batch,) = SEQUENCES["lost"][0](target, rng(), 800)
    assert (exact_sums(target, batch)[1] == 1).all()
    fraction = batch.c & 0x7FFFFF
    assert not fraction[1::2].any()
    assert all(int(x).bit_count() == 1 for x in fraction[::2])
    assert fraction[::2].min() >= 1 << 23 - target.config.accumulator.running.mantissa_bits


@pytest.mark.parametrize("name", SEQUENCES)
def test_sequences_make_dot_products_of_every_unit(name):
    make, _ = SEQUENCES[name]
    for config in (
        DotConfig(formats=regression_units.EVERY_FORMAT, lanes=8, accumulator="fixed:48:-20"),
        DotConfig(formats="int8", lanes=4, accumulator="int32", out="float16"),
        DotConfig(formats="e3m2", lanes=8, load_c=False),
    ):
        for mode, (a, b) in enumerate(config.formats):
            for batch in make(Target(config, mode), rng(), 16):
                assert batch.mode == mode
                assert batch.a.shape == batch.b.shape == (len(batch), batch.blocks, config.lanes)
                assert batch.scale_a.shape == batch.scale_b.shape == (len(batch), batch.blocks)
                assert (batch.a.max(), batch.b.max()) < (2**a.bits, 2**b.bits)
                assert {batch.a.dtype, batch.b.dtype, batch.scale_a.dtype} == {np.dtype(np.uint8)}
                assert batch.c.dtype == np.uint32
                assert config.load_c or not batch.c.any()
                predict(config, batch)


def test_traffic_repeats_by_seed():
    config = DOT_UNITS[0].config

    def first(seed: int) -> Batch:
        return concatenate(traffic(config, rng(seed), 500))[0]

    one, again, other = first(1), first(1), first(2)
    for field in fields(Batch):
        assert np.array_equal(getattr(one, field.name), getattr(again, field.name))
    assert not np.array_equal(one.a, other.a)


def test_traffic_has_long_chains_every_special_c_and_the_facts():
    config = DotConfig(formats="e4m3", lanes=32, accumulator="hopper")
    batches = traffic(config, rng(), 2000)
    assert max(batch.blocks for batch in batches) > LONG_CHAIN
    classes = next(batch for batch in batches if batch.sequence == "c_classes")
    assert set(SPECIAL_C.tolist()) <= set(classes.c.tolist())
    facts = next(batch for batch in batches if batch.sequence == "facts")
    result = predict(config, facts.take(slice(0, 8))).result.view(np.float32)
    # 2^16 and -2^16 keep 2^3, lose 31 x 7, keep 31 x 8, lose 31 x -7.
    gains = [8, 8, 0, 0, 248, 248, 0, 0]
    assert result.tolist() == [(-1) ** i * 65536 + gain for i, gain in enumerate(gains)]


def test_products_travel_as_words_and_back():
    config = DotConfig(formats="e3m2xe2m1", lanes=8)
    for batch in concatenate(traffic(config, rng(), 300)):
        again = batch_of(config, products(config, batch))
        for name in ("a", "b", "scale_a", "scale_b", "c"):
            assert np.array_equal(getattr(again, name), getattr(batch, name))


def test_names_of_the_matrix_differ():
    units = every_unit()
    assert len({unit.name for unit in units}) == len({str(unit.config) for unit in units})


def test_the_default_matrix_holds_every_accumulator_with_every_format():
    units = DOT_UNITS
    covered = {
        (str(unit.config.accumulator).split(":")[0], features.pair_name(pair))
        for unit in units
        for pair in unit.config.formats
    }
    rules = {rule.split(":")[0] for rule in regression_units.ACCUMULATORS} - {"int32"}
    pairs = {
        features.pair_name(p) for p in DotConfig(formats=regression_units.EVERY_FORMAT).formats
    }
    assert {(rule, pair) for rule in rules for pair in pairs} - covered == set()
    assert ("int32", "int8xint8") in covered
    assert {unit.config.lanes for unit in units} == {2, 4, 8, 16, 32, 64, 128}
    floats = {"float32", "bfloat16", "float16"}
    assert {unit.config.out.name for unit in units} == floats | {
        "int8_full:shift",
        "uint8:multiply",
        "int8_full:multiply:8",
        "float16:scale",
    }
    depths = [(u.config.stages, *u.config.stage_limits) for u in units]
    assert any(stages == low for stages, low, _ in depths)
    assert any(stages == high for stages, _, high in depths)
    assert sum(unit.bulk for unit in units) >= 1_000_000


def test_the_matrix_holds_matrix_units_of_many_kinds():
    units = [
        u.config for u in regression_units.default_matrix() if isinstance(u.config, MatmulConfig)
    ]
    assert {unit.initial_c for unit in units} == {False, True}
    assert {unit.dot.out.name for unit in units} == {"float32", "bfloat16"}
    assert {unit.dot.interval > 1 for unit in units} == {False, True}
    widths = [(u.stream_bytes(side), u.unit_bytes(side)) for u in units for side in "abc"]
    assert any(stream == 1 < whole for stream, whole in widths)
    assert any(1 < stream < whole and whole % stream for stream, whole in widths)
    assert any(stream == whole for stream, whole in widths)
    assert any(stream > whole for stream, whole in widths)
    full = [u.config for u in every_unit() if isinstance(u.config, MatmulConfig)]
    assert {str(unit.dot.accumulator) for unit in full} >= set(regression_units.ACCUMULATORS)


def test_the_full_matrix_is_the_cross_product():
    names = {unit.name for unit in every_unit()}
    assert names > {unit.name for unit in regression_units.default_matrix()}
    for rule in regression_units.ACCUMULATORS:
        for pair in ["int8"] if rule == "int32" else PAIRS:
            prefix = f"{rule.replace(':', '_')}-{pair}-x16-"
            assert sum(name.startswith(prefix) for name in names) >= 2


def test_the_full_matrix_holds_every_machine_with_its_own_operands():
    units = [u.config for u in every_unit() if isinstance(u.config, DotConfig)]
    held = {(str(unit.accumulator), pair) for unit in units for pair in unit.formats}
    for name, machine in MACHINES.items():
        if not machine.has_unit:
            continue
        pairs = format_pairs(",".join(machine.operands))
        assert {(name, pair) for pair in pairs} <= held


@pytest.mark.parametrize("stages", [1, 3, 5])
def test_timeline_of_a_fused_loop(stages):
    config = DotConfig(accumulator="fused:13", stages=stages)
    line = Timeline(config)
    assert line.before + line.after == config.latency
    # Blocks that start products of their own enter every cycle, each due after the latency.
    for now in range(5):
        assert line.must_accept(now, first=True)
        line.accept(now, first=True, last=True)
    assert list(line.due) == [now + config.latency for now in range(5)]
    # A chain offered without pause enters the loop once per interval.
    line.reset()
    now, accepted = 0, 0
    while accepted < 6:
        if line.must_accept(now, first=accepted == 0):
            line.accept(now, first=accepted == 0, last=accepted == 5)
            accepted += 1
        now += 1
    assert list(line.due) == [config.latency + 5 * config.interval]


def test_products_in_flight_together_begin_while_others_run():
    config = DotConfig("e4m3", 8, "exact", 8, interleave=3)
    made = traffic(config, np.random.default_rng(1), 300)
    items = [item for batch in made for item in products(config, batch)]
    bundle = Bundle.of(items, 3, np.random.default_rng(2))
    assert sorted(map(repr, bundle.order)) == sorted(
        repr((place, block))
        for place, item in enumerate(bundle.products)
        for block in range(len(item.blocks))
    )
    running: dict[int, int] = {}  # slot: product
    next_block = [0] * len(items)
    began_beside = chained = 0
    for place, block in bundle.order:
        slot = bundle.products[place].slot
        assert block == next_block[place]
        assert 0 <= slot < 3
        next_block[place] += 1
        if block == 0:
            assert slot not in running  # the last product of its slot has ended
            began_beside += bool(running)
        chained += running.get(slot) == place
        running[slot] = place
        if next_block[place] == len(bundle.products[place].blocks):
            del running[slot]
    assert not running
    assert began_beside > 50
    assert chained > 50


def test_results_come_in_the_order_of_last_blocks():
    lengths = np.random.default_rng(1).integers(1, 9, 500)
    turns = Turns.mixed(lengths, 5, np.random.default_rng(2))
    order, ordered = turns.by_end()
    assert (lengths[order][ordered.place] == lengths[turns.place]).all()
    assert (turns.slot[order] == ordered.slot).all()
    last = ordered.step == lengths[order][ordered.place] - 1
    assert (ordered.place[last] == np.arange(500)).all()
    assert (np.diff(order) < 0).sum() > 50  # overtaken
