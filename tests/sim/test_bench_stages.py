"""Stage by stage: a right unit shows the model's intermediates in every section."""

import json
from fractions import Fraction

import numpy as np
import pytest

from compare import FULL
from mxdot.hw.verilog import generate
from mxdot.model import DotConfig
from mxdot.sim.dot import failures, stages
from mxdot.sim.dot import unit as dot_unit
from mxdot.sim.dot.item import model_trace, outcome, products
from mxdot.sim.dot.scales import for_unit
from mxdot.sim.dot.stages import SectionRow, compare_stages
from mxdot.sim.dot.stimulus import SEQUENCES
from mxdot.sim.dot.target import Target
from mxdot.sim.engine.job import Failure, UnitJob

UNITS = {
    "aligned": DotConfig("e5m2,e2m1", 4, "aligned:13", out="bfloat16"),
    "exact": DotConfig("e2m1,int8", 4, "exact", 5, scales="e4m3"),  # of different grids
    "fixed": DotConfig("e4m3", 4, "fixed:40:-20:wrap", 1),
    "float32": DotConfig("e3m2", 4, "float32"),
    "steps": DotConfig("e2m1", 4, "hopper-mma-float16", 6),  # which promotes, too
}
MORE = {
    "groups": DotConfig("e2m1", 64, "blackwell-mxf4nvf4", scales="e4m3", scale_block=16, stages=6),
    "powers": DotConfig("e4m3,int8", 4, "exact", 5),
    "tree": DotConfig("e3m2", 8, "float32"),
    "mma": DotConfig("e2m1", 16, "hopper-mma", 6),
    "promoted": DotConfig("e4m3", 4, "hopper-promoted", 6),
    "scales": DotConfig("e2m1", 8, "fused:25", scales="e4m3", scale_block=4, stages=6),
    "halves": DotConfig("e4m3fnuz", 8, "cdna3-fp8", scale_block=4, stages=6),
    "flushed": DotConfig("bf16", 2, "cdna2-bf16"),
}
TRIED = ("random_classes", "sticky", "chains")
CASES = [(name, [TRIED[i % 3]]) for i, name in enumerate(UNITS)]
if FULL:
    UNITS |= MORE
    CASES = [(name, TRIED) for name in UNITS]
# No counterpart in the model.
UNCOMPARED = {
    "narrow",
    "scale",
    "offset",
    "distance",
    "approach",
    "add",
    "carry",
    "count",
    "normalize",
}


@pytest.mark.parametrize(("name", "sequences"), CASES)
def test_right_unit_agrees_in_every_section(name, sequences, simulation_dir, tmp_path):
    config = UNITS[name]
    job = UnitJob(name, config, 1, tmp_path, builds=simulation_dir / f"stages-{name}")
    job.write()
    verilog = job.directory / "unit.v"
    verilog.write_text(generate(config))
    seen = set()
    for sequence in sequences:
        make, _ = SEQUENCES[sequence]
        batch = make(Target(config, 0), np.random.default_rng(5), 8)[-1].take(slice(0, 1))
        batch = for_unit(config, np.random.default_rng(6), batch)
        (product,) = products(config, batch)
        values = {"mode": 0, "c": product.c, "blocks": [list(b) for b in product.blocks]}
        failures.failure_file(job).write_text(json.dumps(values))
        record = dot_unit.replay(job, verilog)
        trace = model_trace(config, batch, stages=True)
        want = outcome(config, trace)
        assert record["result"] == [int(want.result[0]), int(want.flags[0])]
        rows = compare_stages(config, batch, trace, record["stages"])
        assert [row for row in rows if row.differs] == []
        seen |= {row.stage for row in rows}
    assert seen == {section.name for section in config.pipeline.sections} - UNCOMPARED


def test_both_sides_of_a_difference_have_one_unit():
    texts = {
        (0, 0): ("0", "0"),
        (11, 10): ("11", "10"),
        (12, 8): ("12", "8"),
        (Fraction(5, 8), 3): ("5 x 2^-3", "24 x 2^-3"),
        (0, -(2**20)): ("0", "-1 x 2^20"),
        (2**40, 1): ("1 x 2^40", "1"),
    }
    for sides, text in texts.items():
        assert stages._pair("sum", *sides) == ("sum", *text)


def test_text_of_a_difference():
    rows = [
        SectionRow(0, "multiply", "product 0", "1", "1"),
        SectionRow(0, "sum", "sum", "3", "5 x 2^-3"),
        SectionRow(1, "multiply", "product 0", "9", "9"),
    ]
    lines = failures.stage_table(rows)
    assert lines[0] == "first difference: section sum of block 0, sum"
    assert lines[2].split() == ["0", "multiply", "1", "values", "equal"]
    assert lines[3].split() == ["0", "sum", "sum", "3", "5", "x", "2^-3", "<--"]
    assert len(lines) == 4
    assert failures.stage_table(rows[:1])[0].startswith("no stage differs from the golden model")
    assert failures.stage_table([]) == ["no stage could be compared"]


def test_a_verilog_that_cannot_be_replayed_is_still_reported(tmp_path):
    verilog = tmp_path / "bad.v"
    verilog.write_text("module mxdot_dot(; endmodule\n")
    config = UNITS["float32"]
    job = UnitJob("bad", config, 4, tmp_path / "bad", repeat="mxdot sim --seed 4")
    job.write()
    blocks = [[0x0102030405060708, 0, 127, 128]] * 10
    failure = Failure({"mode": 0, "c": 1, "blocks": blocks}, [0x3F800000, 8], [0, 9], "traffic")
    text = failures.describe_failure(job, failure, lambda: dot_unit.replay(job, verilog))
    for part in (
        "traffic: result differs",
        "seed 4, unit bad: e3m2 float32 x4 stages 4",
        "c       0x00000001",
        "block 7: scale_a 0x7f, scale_b 0x80; lane 0 first:",
        "(2 more blocks: ",
        "got  0x3f800000 float32, flags ['inexact']",
        "want 0x00000000 float32, flags ['invalid', 'inexact']",
        "the replay of this dot product failed: Verilator on mxdot_bench failed",
        "repeat with: mxdot sim --seed 4",
    ):
        assert part in text
