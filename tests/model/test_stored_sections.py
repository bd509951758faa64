"""The sections of every accumulator's unit, as they are stored: what places its registers does not
change unnoticed, since other delays give other Verilog for the same number of stages.

Where a change is meant, `python tests/model/test_stored_sections.py` stores what there is now.
"""

import json
from pathlib import Path

import pytest

from mxdot.model import MACHINES, DotConfig

STORED = Path(__file__).with_name("sections.json")
GENERAL = (
    *("exact", "aligned:13", "fused:25", "fixed:48:-20", "float32", "float16", "bfloat16"),
    *("rvbna:32", "rvbna:32:0"),
)
NARROW = ("aligned:13:float16", "fused:13:bfloat16")
LANES = {
    name: row.own_unit["lanes"]
    for name, row in MACHINES.items()
    if row.has_unit and (row.sums_groups or (row.most_lanes or 32) < 32)
}
UNITS = {
    **{text: DotConfig("e4m3", 32, text) for text in (*GENERAL, *NARROW)},
    **{
        name: DotConfig(machine.operands[0], LANES.get(name, 32), name)
        for name, machine in MACHINES.items()
        if machine.has_unit
    },
    **{
        f"int32, {out}": DotConfig("int8", 32, "int32", out=out)
        for out in ("float32", "int32", "int8_full:shift", "uint8:multiply", "float16:scale")
    },
    "four lanes": DotConfig("e2m1", 4, "float32", out="bfloat16"),
    **{
        f"{text}, scales of E4M3": DotConfig("e2m1", 16, text, scales="e4m3")
        for text in ("exact", "aligned:13", "fused:25", "fixed:48:-20", "float32", "hopper")
    },
    "groups, scales of E4M3": DotConfig(
        "e2m1", 64, "blackwell-mxf4nvf4", scales="e4m3", scale_block=16
    ),
}


def sections(config: DotConfig) -> list[list[object]]:
    """Each section's kind and number, its delay, what stands in a register behind it, and whether
    it is in the loop and holds the running value."""
    return [[s.kind, s.number, s.delay, s.bits, s.loop, s.holds] for s in config.pipeline.sections]


@pytest.mark.parametrize("name", UNITS)
def test_sections_are_those_stored(name):
    assert sections(UNITS[name]) == json.loads(STORED.read_text())[name]


def test_nothing_else_is_stored():
    assert set(json.loads(STORED.read_text())) == set(UNITS)


if __name__ == "__main__":
    lines = [f"{json.dumps(name)}: {json.dumps(sections(unit))}" for name, unit in UNITS.items()]
    STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
