"""DotUnit against the model: results and flags of every accumulator, under gaps and stalls."""

from dataclasses import replace

import numpy as np
import pytest
from amaranth.hdl import Shape

from compare import FULL, generator, some
from mxdot.hw.dot.unit import InputLayout, ResultLayout, section_values
from mxdot.model import PRESETS, DotConfig
from unit_bench import Run, drive, evaluate, random_work, simulate

ALL = "e4m3,e5m2,e3m2,e2m3,e2m1,int8,e5m2xe4m3,int8xe2m1"
FP8 = "e4m3,e5m2xe4m3"


def unit(accumulator: str, formats: str = ALL, lanes: int = 4, **options) -> DotConfig:
    return DotConfig(formats=formats, lanes=lanes, accumulator=accumulator, **options)


# Every accumulator and preset with every format; then what changes its datapath.
UNITS = [
    unit("exact"),
    unit("aligned:0", stages=1),
    unit("aligned:13", stages=6),
    unit("fused:13", stages=1),
    unit("fixed:48:-20"),
    unit("fixed:24:-8:wrap", stages=1),
    unit("fixed:2:3", "e4m3,int8"),
    unit("float32"),
    unit("int32", "int8", lanes=8),
    unit("hopper", FP8, lanes=8),
    unit("hopper-promoted"),
    unit("hopper-mx", "e4m3", lanes=8, stages=3),
    unit("hopper-fp16", "e5m2", stages=5),
    unit("ada", "e4m3", lanes=32, stages=8),
    unit("blackwell", "e4m3,e2m1", lanes=8, out="bfloat16", stages=6),
    unit("volta", "fp16", lanes=8),
    unit("blackwell-mma", "e5m2", lanes=8, stages=4),
    # AMD's machines.
    unit("cdna1-fp16", "fp16"),
    unit("cdna3-fp8", "e4m3fnuzxe5m2fnuz", lanes=8),
    unit("hopper-promoted", FP8, load_c=False, status=False, out="float16"),
    unit("fixed:30:-12", load_c=False),
    # Running values of 16 bits.
    unit("fused:25:bfloat16", "e5m2", out="bfloat16", stages=2),
    unit("aligned:13:float16", FP8, out="float16", stages=9),
    unit("float16", "e4m3,fp16"),
    unit("bfloat16", "e5m2", out="float16"),
    unit("volta-float16", "fp16", lanes=8, out="float16"),
    unit("hopper-mma", "e4m3", lanes=8),
    unit("hopper-mma-float16", "e5m2", lanes=8, stages=5),
    # Scales with a significand, and several of a beat.
    unit("exact", "e2m1", lanes=16, scales="e4m3"),
    unit("int32", "int4", lanes=16, scales="e4m3"),
    unit("aligned:13", "e2m1", scales="e4m3", stages=6),
    unit("fused:25", FP8, lanes=8, scale_block=4, stages=5),
    unit("hopper-promoted", "e2m1", lanes=16, scales="e4m3", scale_block=8, stages=6),
    unit("blackwell-mxf4nvf4", "e2m1", lanes=64, scales="e4m3", scale_block=16),
    # Others of the same datapaths.
    *[
        unit("hopper-fp16", "e5m2", lanes=16, stages=5),
        unit("bfloat16", "e5m2", lanes=8, out="float16"),
        unit("cdna2-fp16", "fp16"),
        unit("cdna2-bf16", "bf16", lanes=2, out="float16"),
        unit("cdna3-fp16", "fp16,bf16"),
        unit("cdna3-xf32", "tf32", stages=1),
        unit("fixed:40:-22", "e2m1,e4m3", lanes=8, scales="e4m3"),
        unit("float32", FP8, scales="e4m3", stages=5),
        unit("aligned:40", "e4m3,int8"),
        unit("fused:0"),
        unit("fixed:100:-60", "e4m3"),
        unit("cdna1-bf16", "bf16", lanes=2, stages=6),
        unit("cdna3-fp8", FP8, lanes=8, scale_block=4, out="bfloat16", stages=6),
        unit("aligned:13", status=False),
        unit("fused:13", load_c=False),
        unit("fused:13:float16", FP8),
        unit("exact", "e2m1", out="bfloat16"),
        unit("exact", "e4m3,int4", scales="e4m3", out="float16"),
        unit("fused:25", stages=5),
        unit("fused:13", "e2m1,e4m3", lanes=8, scales="e4m3"),
        unit("float32", lanes=8),
        unit("hopper", FP8, lanes=32),
        unit("hopper-promoted", "e4m3", lanes=16, stages=6),
        unit("hopper-mx", FP8, lanes=32, stages=3),
        unit("hopper-fp16", FP8, lanes=32, stages=8),
        unit("ada", FP8, lanes=32, stages=8),
        unit("blackwell", lanes=8, out="bfloat16", stages=6),
        unit("hopper-mma", FP8, lanes=8),
        unit("hopper-mma-float16", FP8, lanes=8, stages=5),
        unit("blackwell-mma", FP8, lanes=8, stages=4),
        unit("cdna3-fp16", "fp16,bf16", lanes=8),
        unit("cdna3-fp8", "e4m3fnuz,e5m2fnuz,e4m3fnuzxe5m2fnuz", lanes=16),
        unit("aligned:40:bfloat16", "bf16"),
        unit("aligned:3"),
        unit("fused:60", "e5m2"),
        unit("fixed:20:-145", "e5m2,e2m1", out="float16"),
        unit("fixed:40:100", "e4m3", stages=6),
        unit("hopper", out="float16", stages=2),
        unit("hopper-mx"),
        unit("cdna1-fp16", "e4m3", scales="e4m3"),
        unit("cdna2-fp16", "fp16,bf16", stages=2),
        unit("cdna3-fp16", "bf16", lanes=16, stages=7),
        unit("cdna3-fp8", "e5m2fnuz", lanes=32, scale_block=16, stages=9),
        unit("fused:5:float16", "fp16", lanes=8, out="bfloat16"),
        unit("aligned:0:float16", "e2m1", load_c=False),
        unit("ada-float16", "e4m3", lanes=32),
        unit("aligned:30", FP8, scales="e4m3", stages=2),
        unit("aligned:13:float16", "e2m1", scales="e4m3"),
        unit("fixed:24:-10:wrap", "int8", scales="e4m3", stages=7),
        unit("float16", "e2m1", lanes=16, scales="e4m3", out="float16"),
        unit("fused:4", "e2m1", lanes=16, scales="e4m3", scale_block=4),
        unit("hopper-mma", "e4m3", lanes=16, scale_block=8),
        unit("blackwell-mxf4nvf4", "e2m1", lanes=64, scale_block=32, stages=2),
        unit("hopper-promoted", "e2m1", lanes=32, scales="e4m3", scale_block=16, stages=6),
        unit("blackwell-mxf4nvf4", "e2m1", lanes=128, scales="e4m3", scale_block=8, stages=9),
    ]
    * FULL,
]


def sides(config: DotConfig, n: int, longest: int = 5) -> tuple:
    rng = generator("unit", str(config))
    return random_work(config, rng, rng.integers(1, longest + 1, n)), rng


def test_the_list_has_every_accumulator():
    keywords = {config.accumulator.keyword for config in UNITS}
    assert keywords == {
        *("exact", "aligned", "fused", "fixed", "float32", "int32", "preset"),
        *("float16", "bfloat16"),
    }
    assert {str(config.accumulator) for config in UNITS} >= set(PRESETS)


@pytest.mark.parametrize("config", UNITS, ids=str)
@pytest.mark.contract(
    "C1", "A2", "A3", "A4", "A7", "R1", "R3", "R5", "T11", "T12", "T13", "T14", "U4"
)
def test_results_and_flags(config):
    """Many streams at once, each with gaps and stalls of its own."""
    work, rng = sides(config, 1200 if config.lanes < 32 else 400)
    for gap, stall in ((0.0, 0.0), (0.4, 0.4)):
        run: Run = evaluate(config, drive(work, rng, streams=len(work) // 4, gap=gap, stall=stall))
        run.check()
        assert not run.lost.any()
    if config.status:
        seen = {name for name in work.want if work.want[name].any()}
        assert seen >= {"result", "invalid", "inexact"}


SMALL = sorted(
    (config for config in UNITS if config.lanes <= 16),
    key=lambda config: (config.lanes > 4, len(config.formats)),
)
SMALL = list({type(config.accumulator): config for config in reversed(SMALL)}.values())
"""A unit of each family, of few lanes and formats."""


@pytest.mark.parametrize("config", some(SMALL, 6), ids=str)
def test_results_and_flags_in_the_simulator(config):
    """The cases of the netlist tests in Amaranth's own simulator, which is slower."""
    work, rng = sides(config, 12)
    run: Run = simulate(config, drive(work, rng, gap=0.3, stall=0.4))
    run.check()


def test_results_of_a_stream_that_stalls_for_long():
    config = unit("fused:13", FP8)
    work, rng = sides(config, 60, longest=8)
    for gap, stall in ((0.0, 0.9), (0.9, 0.0), (0.8, 0.8)):
        evaluate(config, drive(work, rng, streams=20, gap=gap, stall=stall)).check()


@pytest.mark.parametrize(
    "config",
    some([unit("aligned:13", "int8"), unit("hopper", "int8"), unit("fused:25", "int8")], 2),
    ids=str,
)
@pytest.mark.contract("A1")
def test_a_long_chain(config):
    """A hundred blocks of one product and more; c grows until most of a block is cut off."""
    rng = generator("chain", str(config))
    work = random_work(config, rng, [200, 1, 100, 7], scales=["unit"], operands=["finite"])
    run: Run = evaluate(config, drive(work, rng, gap=0.1, stall=0.1))
    run.check()


def test_products_that_follow_each_other_share_nothing():
    """A NaN, an infinity, a saturated register: none of it reaches the next product."""
    for accumulator in ("fixed:24:-8", "fused:13", "exact", "hopper-promoted"):
        config = unit(accumulator, FP8)
        rng = generator("sticky", accumulator)
        lengths = [2] * 300
        bad = random_work(config, rng, lengths, scales=["nan", "high end"], running=["nan", "huge"])
        assert bad.want["invalid"].mean() > 0.1
        tame = {"scales": ["low end"], "operands": ["tiny"], "running": ["zero"]}
        good = random_work(config, rng, lengths, **tame)
        assert not good.want["invalid"].any()
        blocks = {name: _alternate(bad.blocks[name], good.blocks[name], 2) for name in bad.blocks}
        want = {name: _alternate(bad.want[name], good.want[name], 1) for name in bad.want}
        work = type(bad)(config, blocks, np.arange(0, 1201, 2), want)
        evaluate(config, drive(work, rng, streams=10, stall=0.2)).check()


def _alternate(x: np.ndarray, y: np.ndarray, size: int) -> np.ndarray:
    """Pieces of `size` of x and y in turn."""
    pieces = np.stack([v.reshape(-1, size, *v.shape[1:]) for v in (x, y)], axis=1)
    return pieces.reshape(-1, *x.shape[1:])


def test_a_slot_past_the_last_is_the_last():
    config = DotConfig("e4m3", 4, "exact", 8, interleave=3)
    rng = generator("slots")
    work = random_work(config, rng, rng.integers(1, 5, 60))
    other = rng.random(len(work)) < 0.5  # whole products of slot 2, which they call 2 or 3
    slot = np.repeat(np.where(other, 3, 2), np.diff(work.start))
    work = replace(work, blocks={**work.blocks, "slot": slot})
    evaluate(config, drive(work, rng, gap=0.2, stall=0.2)).check()


@pytest.mark.parametrize(
    ("formats", "accumulator", "stages", "interleave", "options"),
    some(
        [
            ("e4m3", "aligned:13", 24, 16, {}),
            ("e4m3", "exact", 20, 15, {}),
            ("e4m3,e2m1", "aligned:13:bfloat16", 22, 15, {}),
            ("e2m1", "exact", 20, 6, {"scales": "e4m3"}),
            ("bf16", "aligned:13", 20, 3, {}),
            ("e2m1", "exact", 14, 5, {"out": "bfloat16"}),
            ("int8", "int32", 19, 15, {}),
        ],
        3,
    ),
)
def test_interleaved_loops_that_are_cut_finer(formats, accumulator, stages, interleave, options):
    config = DotConfig(formats, 4, accumulator, stages, interleave=interleave, **options)
    assert config.is_cut_finer
    rng = generator("finer", str(config))
    work = random_work(config, rng, rng.integers(1, 5, 200))
    slot = np.repeat(rng.integers(0, interleave, len(work)), np.diff(work.start))
    work = replace(work, blocks={**work.blocks, "slot": slot})
    for gap, stall in ((0.2, 0.2), (0.0, 0.0)):  # ten products in a row each
        evaluate(config, drive(work, rng, streams=20, gap=gap, stall=stall)).check()


def test_values_of_every_section():
    config = unit("ada", FP8, lanes=32)
    values = section_values(config)
    assert list(values) == [section.name for section in config.pipeline.sections]
    assert list(values["multiply"]) == ["products", "special", "negatives"]
    assert list(values["round1"]) == ["running"]
    assert all(Shape.cast(shape).width for written in values.values() for shape in written.values())


def test_payloads():
    config = DotConfig(formats="e4m3,e2m1xint8,e2m1", lanes=8, accumulator="exact", out="float16")
    inputs = {name: Shape.cast(field.shape).width for name, field in InputLayout(config)}
    assert inputs == {
        "a": 64, "b": 64, "scale_a": 8, "scale_b": 8, "mode": 2, "c": 32, "first": 1, "last": 1,
    }  # fmt: skip
    outputs = {name: Shape.cast(field.shape).width for name, field in ResultLayout(config)}
    assert outputs == {"result": 16, "flags": 5}
    bare = DotConfig(lanes=8, status=False, load_c=False)
    assert InputLayout(bare).size == 2 * 64 + 2 * 8 + 2
    assert ResultLayout(bare).size == 32
