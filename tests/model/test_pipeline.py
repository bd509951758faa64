"""Places of a unit's registers: as many as asked for, mandatory ones included, and the best."""

from itertools import combinations

import pytest

from compare import some
from mxdot.model import (
    PRESETS,
    DotConfig,
    DotQuantizeConfig,
    QuantizeConfig,
    accumulator,
)
from mxdot.model.pipeline.placement import Pipeline, Section, cut_finer, place, stage_limits
from mxdot.model.pipeline.sections import FLOAT_LOOP

ACCUMULATORS = ("exact", "aligned:13", "fused:25", "fixed:48:-20", "float32", "int32", *PRESETS)
LANES = (4, 16, 32, 128)
PROMOTES = {name: preset.promote for name, preset in PRESETS.items()}


def sections(text: str, lanes: int = 32, out: str = "float32") -> tuple[Section, ...]:
    """The datapath of a unit for E4M3, or for INT8 where its sums are integers."""
    fmt = "int8" if text == "int32" else "e4m3"
    return DotConfig(fmt, lanes, text, out=out).pipeline.sections


def slowest(pipeline: Pipeline) -> int:
    """The longest stretch of sections without a register."""
    stretches, stretch = [0], 0
    for i, section in enumerate(pipeline.sections):
        stretch += section.delay
        stretches.append(stretch)
        if i in pipeline.registered:
            stretch = 0
    return max(stretches)


@pytest.mark.parametrize("out", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("text", "lanes"),
    [(a, n) for a in ACCUMULATORS for n in LANES if n <= (PROMOTES.get(a) or max(LANES))],
)
def test_every_number_of_stages(text, lanes, out):
    parts = sections(text, lanes, out)
    low, high = stage_limits(parts)
    assert high == len(parts)
    speeds = []
    for stages in range(low, high + 1):
        pipeline = place(parts, stages)
        assert pipeline.sections == parts
        assert pipeline.latency == len(pipeline.registered) == stages
        assert {i for i, s in enumerate(parts) if s.holds} <= pipeline.registered
        assert 1 <= pipeline.interval <= stages
        speeds.append(slowest(pipeline))
    assert speeds == sorted(speeds, reverse=True)
    assert speeds[-1] == max(s.delay for s in parts)


@pytest.mark.parametrize(("fmt", "digits"), [("e2m1", 3), ("e4m3", 5), ("int4", 4)])
def test_digits_of_a_quotient(fmt, digits):
    """One for each bit of the significand, and one that decides the rounding."""
    parts = QuantizeConfig(fmt, 16, scales="e4m3").pipeline.sections
    assert [p.number for p in parts if p.kind == "divide"] == [*range(1, digits + 1)]


@pytest.mark.parametrize("text", ACCUMULATORS)
def test_no_other_placement_is_faster(text):
    """Other placements keep joined sections together while registers have other places."""
    parts = sections(text)
    low, high = stage_limits(parts)
    inside = {i for i, section in enumerate(parts[1:]) if section.joined}
    outside = set(range(len(parts))) - inside
    for stages in range(low, high + 1):
        pipeline = place(parts, stages)
        others = [
            Pipeline(parts, frozenset(chosen))
            for chosen in combinations(range(len(parts)), stages)
            if all(i in chosen for i, s in enumerate(parts) if s.holds)
            and (outside <= set(chosen) or not inside & set(chosen))
        ]
        assert slowest(pipeline) == min(map(slowest, others))


@pytest.mark.parametrize("text", ACCUMULATORS)
def test_config_passes_them_on(text):
    fmt = "int8" if text == "int32" else "e4m3"
    low, high = DotConfig(fmt, 32, text).stage_limits
    for stages in range(low, high + 1):
        unit = DotConfig(fmt, 32, text, stages)
        assert unit.stages == unit.latency == stages
        assert unit.is_cut_finer == (stages > len(sections(text)))
    default = DotConfig(fmt, 32, text).stages
    assert default == min(max(4, low), high)


LOOPS_OF_ONE_ADDITION = ("exact", "aligned:13", "int32", "aligned:24")


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("text", LOOPS_OF_ONE_ADDITION)
def test_parts_of_sections_are_the_sections(text, lanes):
    parts = sections(text, lanes, "bfloat16")
    finer = cut_finer(parts)
    assert cut_finer(finer) == finer
    assert len({part.name for part in finer}) == len(finer)
    for kind in {part.kind for part in parts}:
        whole, cut = ([p for p in all_ if p.kind == kind] for all_ in (parts, finer))
        assert sum(p.delay for p in cut) == sum(p.delay for p in whole)
        assert {p.loop for p in cut} == {p.loop for p in whole}
    assert [part.kind for part in finer if part.holds] == ["round"]
    assert finer[-2].holds  # before the conversion
    assert max(part.delay for part in finer) <= max(part.delay for part in parts)
    interleaved = place(finer, len(finer), 16)
    assert interleaved.registered == frozenset(range(len(finer)))
    assert interleaved.interval == 15


def test_later_parts_of_a_section_wait_for_the_first():
    parts = [part for part in cut_finer(FLOAT_LOOP) if part.kind == "distance"]
    assert [(part.number, part.parallel, part.joined) for part in parts] == [
        (1, True, False), (2, False, True),
    ]  # fmt: skip


@pytest.mark.parametrize("interleave", [7, 15, 16])
@pytest.mark.parametrize("text", ["exact", "aligned:13"])
def test_more_stages_are_no_slower(text, interleave):
    low, high = DotConfig("e4m3", 32, text).stage_limits
    stages = some(range(low, high + 1), 3)
    units = [DotConfig("e4m3", 32, text, n, interleave=interleave) for n in stages]
    speeds = [slowest(unit.pipeline) for unit in units]
    assert speeds == sorted(speeds, reverse=True)
    assert all(unit.interval <= max(interleave, unit.stages) for unit in units)


@pytest.mark.parametrize("text", [*PRESETS, "fused:13", "fixed:48:-20", "float32"])
def test_other_loops_are_not_cut(text):
    """No section is cut, though `multiply` and `largest` could be."""
    parts = sections(text, 16)
    assert cut_finer(parts) == parts


def test_interval():
    """One block a cycle for all but the chained blocks of a product whose loop is pipelined: at
    any depth for `fused`, behind all other places for the loops of one addition."""
    for text, whole in {"exact": 7, "aligned:13": 11, "fixed:48:-20": 99, "float32": 99}.items():
        low, high = stage_limits(sections(text))
        for stages in range(low, high + 1):
            interval = DotConfig("e4m3", 32, text, stages).interval
            assert interval == max(1, stages - whole + 1)
    intervals = [DotConfig("e4m3", 32, "hopper", stages).interval for stages in range(1, 6)]
    assert intervals == [1, 2, 2, 3, 3]
    # A partial sum that is promoted after each block does not come round.
    assert DotConfig("e4m3", 128, "hopper-promoted", 9).interval == 1
    assert DotConfig("e4m3", 64, "hopper-promoted", 9).interval > 1


def test_a_register_to_spare_stays_out_of_the_loop():
    """A register that makes nothing faster does not lengthen the interval."""
    for lanes in LANES:
        parts = sections("hopper", lanes, "bfloat16")
        for stages in range(1, len(parts)):
            fewer, more = place(parts, stages), place(parts, stages + 1)
            outside = [i for i, s in enumerate(parts) if not s.loop and i not in fewer.registered]
            if outside and slowest(fewer) == slowest(more):
                assert more.interval <= fewer.interval


def test_what_is_not_the_slowest_has_slack():
    """The number of registers stays the same, though they hold more bits."""
    delays, bits = {"a": 20, "b": 20, "c": 20, "d": 20, "last": 70}, {"a": 9, "b": 9}
    parts = tuple(
        Section(name, delay, bits=bits.get(name, 1), holds=name == "last")
        for name, delay in delays.items()
    )
    assert place(parts, 3).path == "a b | c d | last |"  # "a b c |" takes 60 of 70
    assert place(parts, 2).path == "a b c d | last |"


def test_steps_per_block():
    steps = {
        text: [accumulator(text).steps(lanes) for lanes in (4, 16, 32, 64, 128)]
        for text in ("exact", "fused:13", "hopper", "ada", "hopper-mma")
    }
    assert steps == {
        "exact": [1] * 5,
        "fused:13": [1] * 5,
        "hopper": [1, 1, 1, 2, 4],
        "ada": [1, 1, 2, 4, 8],
        "hopper-mma": [2, 2, 2, 4, 8],
    }


def test_refused():
    parts = sections("hopper-promoted")
    with pytest.raises(ValueError, match=r"^stages must be at least 2, not 1$"):
        place(parts, 1)


@pytest.mark.parametrize("interleave", [2, 3, 4, 16])
@pytest.mark.parametrize(
    "text", ["exact", "aligned:13", "hopper", "hopper-promoted", "hopper-fp16", "fixed:48:-20"]
)
def test_interleaved_loops(text, interleave):
    """Registers anywhere, of each loop no more than there are products, or than must be; as fast
    as any such."""
    parts = sections(text)
    always = {i for i, section in enumerate(parts) if section.holds}

    def most_inside(registered):
        loops, inside = [], 0
        for i, part in enumerate(parts):
            inside += part.loop and i in registered
            if part.holds:
                loops, inside = [*loops, inside], 0
        return max(loops)

    low, high = stage_limits(parts)
    for stages in range(low, high + 1):
        choices = [
            frozenset(others) | always
            for others in combinations(set(range(len(parts))) - always, stages - low)
        ]
        limit = max(interleave, min(map(most_inside, choices)))
        pipeline = place(parts, stages, interleave)
        assert most_inside(pipeline.registered) <= limit
        speeds = [slowest(Pipeline(parts, c)) for c in choices if most_inside(c) <= limit]
        assert slowest(pipeline) == min(speeds)


@pytest.mark.parametrize("text", ACCUMULATORS)
def test_more_products_than_sections(text):
    """They find no more places than as many as there are sections."""
    parts = sections(text)
    most = place(parts, len(parts), len(parts))
    assert place(parts, len(parts), 16) == most


def test_interleave_is_one_where_products_are_not_told_apart():
    with pytest.raises(ValueError, match=r"^interleave in a dot-quantize unit must be 1, not 2$"):
        DotQuantizeConfig(DotConfig(interleave=2))
    with pytest.raises(ValueError, match=r"^interleave must be from 1 to 16, not 17$"):
        DotConfig(interleave=17)
