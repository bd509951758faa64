"""Registers placed by the delays of another process than the model states."""

from itertools import product

import pytest

from mxdot.cli import main
from mxdot.hw.hierarchy import used
from mxdot.hw.verilog import TOPS, generate
from mxdot.model import PRESETS, DotConfig, DotQuantizeConfig, MatmulConfig
from mxdot.model.accumulators import KINDS, accumulator
from mxdot.model.integers import ZERO_POINTS
from mxdot.model.outputs import OUTPUTS
from mxdot.model.pipeline.delays import DEFAULT_DELAYS, DELAYS, RATIOS
from mxdot.model.pipeline.placement import Section, place
from wrong_units import run_small

PROCESSES = [name for name in DELAYS if name != DEFAULT_DELAYS]
RULES = (*(example for kind in KINDS.values() for example in kind.examples), "aligned:24", *PRESETS)


def test_every_process_has_the_same_units_and_kinds():
    tables = [{unit: [*kinds] for unit, kinds in RATIOS[name].items()} for name in PROCESSES]
    assert PROCESSES == ["sky130", "ihp", "gt2n"]
    assert tables[0]
    assert all(table == tables[0] for table in tables)
    assert all(
        r > 0 for units in RATIOS.values() for kinds in units.values() for r in kinds.values()
    )


@pytest.mark.parametrize("process", PROCESSES)
def test_every_section_has_a_delay(process):
    units = [
        DotConfig(formats, lanes, rule, out=out, delays=process)
        for formats, lanes, rule, out in product(
            ("e4m3", "int8", "e2m1", "e4m3,int8"), (4, 32), RULES, ("float32", "bfloat16")
        )
        if formats == "int8" or not accumulator(rule).takes_integers
    ]
    units += [
        DotConfig("int8", 8, "int32", out=out, zero_points=zero, scales=scales, delays=process)
        for out, zero, scales in product(
            [out.name for out in OUTPUTS.values() if not out.name.startswith(("float", "bfloat"))],
            ZERO_POINTS,
            ("none", "u4"),
        )
    ]
    units += [
        DotConfig("e2m1", 16, rule, scales="e4m3", delays=process)
        for rule in RULES
        if accumulator(rule).takes_significands and not accumulator(rule).takes_integers
    ]
    units += [
        DotConfig("e2m1", 64, "blackwell-mxf4nvf4", scale_block=32, delays=process),
        DotConfig("int8", 8, "int32", scales="e4m3", delays=process),
    ]
    for unit in units:
        assert all(part.delay > 0 for part in unit.pipeline.sections)


def test_a_delay_is_the_stated_one_times_the_ratio_of_its_kind():
    stated = DotConfig().pipeline.sections
    scaled = DotConfig(delays="sky130").pipeline.sections
    ratios = RATIOS["sky130"]["e4m3 aligned:13 x32 stages 4 bfloat16"]
    assert [p.delay for p in scaled] == [round(p.delay * ratios[p.kind]) for p in stated]
    assert [p.name for p in scaled] == [p.name for p in stated]
    cut = {
        p.kind: p.delay
        for p in DotConfig("e4m3", 32, "aligned:24", delays="sky130").pipeline.sections
    }
    ratios = RATIOS["sky130"]["e4m3 aligned:24 x32 stages 4 bfloat16"]
    assert cut["sum"] == round(510 * ratios["sum"])


def test_registers_stand_elsewhere():
    units = [DotConfig("e2m1", 4, "exact", 4, interleave=3, delays=name) for name in DELAYS]
    paths = {unit.delays: unit.pipeline.path for unit in units}
    assert paths["asap7"] != paths["sky130"]
    assert len({*units}) == len({str(unit) for unit in units}) == len({unit.name for unit in units})
    assert all(unit.latency == 4 for unit in units)
    default = DotConfig("e2m1", 4, "exact", 4, interleave=3)
    assert units[0] == default
    assert "delays" not in f"{default} {default.name} {generate(default)}"
    header = used(TOPS[DotConfig](units[1])).header("top")
    assert "\n// delays       those of sky130 place the registers\n" in header


def test_what_takes_nothing_from_before_runs_while_the_others_do():
    parts = (
        Section("a", 40),
        Section("b", 40),
        Section("c", 50, parallel=True),
        Section("d", 40),
        Section("e", 30, holds=True),
    )
    in_line = tuple(Section(p.kind, p.delay, holds=p.holds) for p in parts)
    assert place(parts, 2, 2).path == "a b c | d e |"
    assert place(in_line, 2, 2).path == "a b | c d e |"


def test_units_of_other_kinds_hand_them_on():
    dot = DotConfig("e2m1", 4, "exact", 5, delays="ihp")
    for unit in (MatmulConfig(dot, 1, 1), DotQuantizeConfig(dot)):
        assert unit.dot.pipeline == dot.pipeline
        assert "delays ihp" in str(unit)
        assert "delays_ihp" in unit.name
        assert type(unit).of(**unit.arguments) == unit
        assert "ihp" in used(TOPS[type(unit)](unit)).header("top")


def test_a_unit_computes_the_same(simulation_dir, tmp_path):
    unit = DotConfig("e2m1", 4, "exact", 4, interleave=3, delays="sky130")
    default = DotConfig("e2m1", 4, "exact", 4, interleave=3)
    assert unit.pipeline.path != default.pipeline.path
    result = run_small(unit, tmp_path, simulation_dir / "delays", traffic=1000, bulk=2000)
    assert result.errors == []
    assert result.coverage == 100.0


def test_refused(capsys):
    message = "delays must be one of asap7, sky130, ihp, gt2n, not 'gf180'"
    with pytest.raises(ValueError, match=f"^{message}$"):
        DotConfig(delays="gf180")
    assert main(["verilog", "--delays", "gf180"]) == 2
    assert capsys.readouterr().err == f"mxdot: error: {message}\n"
