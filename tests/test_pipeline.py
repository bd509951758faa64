"""Where a unit's registers stand: as many as asked for, the mandatory ones, as well as can be."""

from itertools import combinations

import pytest

from mxdot.model import PRESETS, DotConfig, accumulator
from mxdot.model.pipeline import Pipeline, place, sections, stage_limits, steps_per_block

ACCUMULATORS = ("exact", "aligned:13", "fused:25", "fixed:48:-20", "float32", "int32", *PRESETS)
LANES = (4, 16, 32, 128)


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
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("text", ACCUMULATORS)
def test_every_number_of_stages(text, lanes, out):
    parts = sections(accumulator(text), lanes, out)
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


@pytest.mark.parametrize("text", ACCUMULATORS)
def test_no_other_placement_is_faster(text):
    parts = sections(accumulator(text), 32, "float32")
    low, high = stage_limits(parts)
    for stages in range(low, high + 1):
        pipeline = place(parts, stages)
        others = [
            Pipeline(parts, frozenset(chosen))
            for chosen in combinations(range(len(parts)), stages)
            if all(i in chosen for i, s in enumerate(parts) if s.holds)
        ]
        assert slowest(pipeline) == min(map(slowest, others))


@pytest.mark.parametrize("text", ACCUMULATORS)
def test_config_passes_them_on(text):
    fmt = "int8" if text == "int32" else "e4m3"
    low, high = stage_limits(sections(accumulator(text), 32, "float32"))
    for stages in range(low, high + 1):
        unit = DotConfig(fmt, 32, text, stages)
        assert unit.stages == unit.latency == stages
    default = DotConfig(fmt, 32, text).stages
    assert default == min(max(4, low), high)


def test_interval():
    """One block a cycle for all but the chained blocks of a pipelined `fused` product."""
    for text in ("exact", "aligned:13", "fixed:48:-20", "float32"):
        for stages in range(1, stage_limits(sections(accumulator(text), 32, "float32"))[1] + 1):
            assert DotConfig("e4m3", 32, text, stages).interval == 1
    intervals = [DotConfig("e4m3", 32, "hopper", stages).interval for stages in range(1, 6)]
    assert intervals == [1, 2, 2, 3, 3]
    # A partial sum that is promoted after each block does not come round.
    assert DotConfig("e4m3", 128, "hopper-promoted", 9).interval == 1
    assert DotConfig("e4m3", 64, "hopper-promoted", 9).interval > 1


def test_a_register_to_spare_stays_out_of_the_loop():
    """Where one more register makes nothing faster, it does not lengthen the interval either."""
    for lanes in LANES:
        parts = sections(PRESETS["hopper"], lanes, "bfloat16")
        for stages in range(1, len(parts)):
            fewer, more = place(parts, stages), place(parts, stages + 1)
            outside = [i for i, s in enumerate(parts) if not s.loop and i not in fewer.registered]
            if outside and slowest(fewer) == slowest(more):
                assert more.interval <= fewer.interval


def test_steps_per_block():
    steps = {
        text: [steps_per_block(accumulator(text), lanes) for lanes in (4, 16, 32, 64, 128)]
        for text in ("exact", "fused:13", "hopper", "ada")
    }
    assert steps == {
        "exact": [1] * 5,
        "fused:13": [1] * 5,
        "hopper": [1, 1, 1, 2, 4],
        "ada": [1, 1, 2, 4, 8],
    }


def test_refused():
    parts = sections(PRESETS["hopper-promoted"], 32, "float32")
    with pytest.raises(ValueError, match=r"^stages must be at least 2, not 1$"):
        place(parts, 1)
    with pytest.raises(TypeError, match=r"^accumulator exact has no datapath$"):
        sections("exact", 32, "float32")  # type: ignore[arg-type]
