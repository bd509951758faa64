"""The processes that are built in: their libraries, and the tool that makes them."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest
import reduce_liberty

from mxdot.cli import main
from mxdot.synth import Flow, SynthesisError, gates, measure
from mxdot.synth.flow import library_of
from mxdot.synth.liberty_syntax import parse_groups
from mxdot.synth.processes import NAMES, PROCESSES, Process

ADDER = """
module adder (input clk, input rst, input [3:0] a, b, output reg [3:0] sum);
  always @(posedge clk) if (rst) sum <= 0; else sum <= a + b;
endmodule
"""


@pytest.fixture(params=PROCESSES.values(), ids=list(PROCESSES))
def process(request) -> Process:
    return request.param


def test_shipped_library_is_small_and_has_its_notice(process):
    raw = process.file.read_bytes()
    assert len(raw) <= 600_000
    assert raw[4:8] == bytes(4)  # no time in it
    text = gzip.decompress(raw).decode()
    assert process.licence in text
    assert process.origin in text
    notice = process.notice.read_text()
    assert {"Apache-2.0": "Apache License", "BSD-3-Clause": "BSD 3-Clause"}[
        process.licence
    ] in notice
    assert "Origin: " in notice


def test_shipped_library_is_what_the_tool_makes_of_it(process):
    """Nothing is in it that the tool leaves out, and no byte depends on time or place."""
    assert (
        reduce_liberty.packed(process, [reduce_liberty.read(process.file)])
        == process.file.read_bytes()
    )


def test_shipped_library_has_what_a_process_names(process):
    library = library_of(Flow("cells", process=process.name))
    assert library.nand2.name == process.nand2
    driver = library.cells[process.driver]
    assert [output.pin for output in driver.outputs.values()] == list(driver.inputs)
    assert any(cell.is_flipflop for cell in library.cells.values())
    smallest = min(
        (cell for cell in library.cells.values() if len(cell.inputs) == 1 and cell.outputs
         and not cell.clock and next(iter(cell.outputs.values())).pin is None),
        key=lambda cell: cell.area,
    )  # fmt: skip
    load = 4 * next(iter(smallest.inputs.values())) * library.capacitance_ff
    assert process.load_ff == pytest.approx(load, abs=0.06)


def test_a_small_design_in_every_process(process, tmp_path):
    found = measure(
        ADDER, "adder", Flow.of_process(process.name, sections=False), cache_dir=tmp_path
    )
    assert (found.unit, found.flipflops, found.extra["process"]) == ("um2", 4, process.name)
    library = library_of(Flow.of_process(process.name))
    assert found.nand2 == found.area / library.nand2.area
    assert found.delay_ps is not None
    assert found.fmax_mhz == pytest.approx(1e6 / found.delay_ps)


WHOLE = """
/* a comment */
library (whole) {
  delay_model : table_lookup; time_unit : "1ps"; capacitive_load_unit (1, ff);
  nom_voltage : 1;
  lu_table_template (t) { variable_1 : input_net_transition;
    variable_2 : total_output_net_capacitance; index_1 ("0, 10"); index_2 ("0, 10"); }
  power_lut_template (p) { variable_1 : input_transition_time; index_1 ("0, 10"); }
  lu_table_template (unused) { variable_1 : input_net_transition; index_1 ("0, 10"); }
%s
  cell (INV_X1) { area : 1.50;
    pg_pin (VDD) { pg_type : primary_power; } pg_pin (VSS) { pg_type : primary_ground; }
    cell_leakage_power : 3; leakage_power () { value : 3.0; when : "A"; related_pg_pin : VDD; }
    leakage_power () { value : 0; when : "A"; related_pg_pin : VSS; }
    pin (A) { direction : input; capacitance : 1.0; }
    pin (Y) { direction : output; function : "!A"; max_capacitance : 30;
      internal_power () { related_pin : "A"; when : "A"; related_pg_pin : VDD;
        rise_power (p) { values ("1.50, 2"); } fall_power (scalar) { values ("0"); } }
      internal_power () { related_pin : "A"; related_pg_pin : VSS;
        rise_power (p) { values ("7, 7"); } }
      timing () { related_pin : "A"; timing_sense : negative_unate; TABLE } }
  }
  cell (NAND2_X1) { area : 2;
    pin (A) { direction : input; capacitance : 1; }
    pin (B) { direction : input; capacitance : 1; }
    pin (Y) { direction : output; function : "!(A * B)";
      timing () { related_pin : "A"; timing_sense : negative_unate; when : "B"; TABLE }
      timing () { related_pin : "A"; timing_sense : negative_unate; LATER }
      timing () { related_pin : "B"; timing_sense : negative_unate; TABLE } }
  }
  cell (BUF_X1) { area : 3; pin (A) { direction : input; capacitance : 1; }
    pin (Y) { direction : output; function : "A";
      timing () { related_pin : "A"; timing_sense : positive_unate; TABLE } } }
  cell (HOLD_X1) { area : 1; pin (A) { direction : input; }
    pin (Y) { direction : output; function : "A"; } }
  cell (DFF_X2) { area : 9; MEMORY }
  cell (DFF_X1) { area : 8; MEMORY }
  cell (FILL) { area : 1; }
  cell (TIE) { area : 1; dont_use : true; pin (Y) { direction : output; function : "1"; } }
}
"""
TABLE = " ".join(
    f'{name} (t) {{ values ("10, 40", "15, 45"); }}'
    for name in ("cell_rise", "cell_fall", "rise_transition", "fall_transition")
)
FF = f"""ff (IQ, IQN) {{ clocked_on : "CK"; next_state : "D"; }}
    pin (CK) {{ direction : input; capacitance : 1; clock : true; }}
    pin (D) {{ direction : input; capacitance : 1;
      timing () {{ related_pin : "CK"; timing_type : hold_rising; }} }}
    pin (Q) {{ direction : output; function : "IQ";
      timing () {{ related_pin : "CK"; timing_type : rising_edge; {TABLE} }} }}"""
WHOLE = WHOLE.replace("LATER", TABLE.replace("10, 40", "5, 60")).replace("TABLE", TABLE)
WHOLE = WHOLE.replace("MEMORY", FF) % ""


def about(folder: Path) -> Process:
    values = {
        "nand2": "NAND2_X1",
        "driver": "INV_X1",
        "load_ff": 4.0,
        "licence": "L",
        "origin": "O",
    }
    return Process("own", "A library", "1 um", **values, left_out=("HOLD*",))


def test_the_tool_leaves_out_what_nobody_reads(tmp_path):
    text = gzip.decompress(
        reduce_liberty.packed(about(tmp_path), [parse_groups(WHOLE, "whole")])
    ).decode()
    library = parse_groups(text, "own")
    assert [cell.arguments[0] for cell in library.of("cell")] == [
        *("BUF_X1", "DFF_X1", "INV_X1", "NAND2_X1")
    ]
    assert [group.arguments[0] for group in library.of("lu_table_template")] == ["t"]
    for word in ("VSS", "pg_pin", "fall_power", "hold", "comment"):
        assert word not in text.partition("*/")[2]
    inverter = library.of("cell")[2]
    assert inverter.attributes["cell_leakage_power"] == "3"
    assert [state.attributes for state in inverter.of("leakage_power")] == [
        {"value": "3", "when": "A"}
    ]
    (power,) = inverter.of("pin")[1].of("internal_power")
    assert power.attributes == {"related_pin": "A", "when": "A"}
    assert [table.attributes["values"] for table in power.groups] == ["1.5,2"]
    nand = library.of("cell")[3].of("pin")[2]
    first = nand.of("timing")[0].of("cell_rise")[0]
    assert first.attributes["values"] == "10,60,15,45"  # the larger of both arcs, entry by entry
    assert len(nand.of("timing")) == 2


def test_the_tool_thins_conditional_power_once(tmp_path):
    """Every second point of each axis, three digits, and nothing changes the second time."""
    power = """internal_power () { related_pin : "A"; when : "A"; rise_power (q) {
        index_1 ("0, 5, 10"); index_2 ("1, 2, 3");
        values ("0.1234, 2, 3", "4, 5, 6", "7, 8, 9.0006"); } }"""
    template = 'power_lut_template (q) { index_1 ("0, 5, 10"); index_2 ("1, 2, 3"); }'
    text = WHOLE.replace("max_capacitance : 30;", f"max_capacitance : 30; {power}")
    text = text.replace("nom_voltage : 1;", f"nom_voltage : 1; {template}")
    thin = replace(about(tmp_path), name=reduce_liberty.THIN[0])
    once = reduce_liberty.packed(thin, [parse_groups(text, "whole")])
    library = parse_groups(gzip.decompress(once).decode(), "once")
    (table,) = library.of("cell")[2].of("pin")[1].of("internal_power")[0].groups
    assert table.arguments == ["q_thin"]
    assert table.attributes == {"index_1": "0,10", "index_2": "1,3", "values": "0.123,3,7,9.001"}
    (made,) = library.of("power_lut_template")[1:]
    assert made.attributes == {"index_1": "0,10", "index_2": "1,3"}
    assert reduce_liberty.packed(thin, [library]) == once


def test_mapping_with_the_reduced_file_is_that_with_the_whole_one(tmp_path):
    """Conditions of arcs and cells that drop out; joined arcs are equally long."""
    arc = '      timing () { related_pin : "A"; timing_type : combinational;'
    text = gates.liberty_text().replace("    area", "    cell_leakage_power : 3;\n    area")
    before, found, after = text.partition('"!(A & B)";\n')
    same = after[: after.index("      }\n") + len("      }\n")]
    assert same.startswith(arc)
    text = before + found + same.replace(arc, f'{arc} when : "B";') + after
    text = text.replace("  cell (LATCH)", "  cell (HOLD) { area : 1; }\n  cell (LATCH)")
    whole, small = tmp_path / "whole.lib", tmp_path / "small.lib.gz"
    whole.write_text(reduce_liberty.without(about(tmp_path), _written(tmp_path / "raw.lib", text)))
    small.write_bytes(
        reduce_liberty.packed(about(tmp_path), [reduce_liberty.read(tmp_path / "raw.lib")])
    )
    for effort in ("area", "speed"):
        first, second = (
            measure(ADDER, "adder", Flow("cells", liberty=path, effort=effort), cache_dir=tmp_path)
            for path in (whole, small)
        )
        assert (first.area, first.delay_ps, first.extra["cells"]) == (
            second.area, second.delay_ps, second.extra["cells"]
        )  # fmt: skip


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_a_library_in_several_files(tmp_path):
    """One file of gates and one of flip-flops give what one of both gives."""
    head, _, rest = gates.liberty_text().partition("  cell (BUF)")
    combinational, _, sequential = rest.partition("  cell (DFF)")
    one = _written(tmp_path / "a.lib", f"{head}  cell (BUF){combinational}}}\n")
    two = _written(tmp_path / "b.lib", f"{head}  cell (DFF){sequential}")
    whole = _written(tmp_path / "whole.lib", gates.liberty_text())
    first, second = (
        measure(ADDER, "adder", Flow("cells", liberty=liberty), cache_dir=tmp_path)
        for liberty in ((whole,), (one, two))
    )
    assert (first.area, first.delay_ps, first.stages) == (
        second.area,
        second.delay_ps,
        second.stages,
    )


def test_files_that_do_not_go_together(tmp_path):
    one = _written(tmp_path / "a.lib", gates.liberty_text())
    two = _written(tmp_path / "b.lib", gates.liberty_text().replace('"1ps"', '"1ns"'))
    flow = Flow("cells", liberty=(one, one))
    with pytest.raises(SynthesisError, match="libraries gates and gates both have a cell AND2"):
        measure(ADDER, "adder", flow, cache_dir=tmp_path)
    flow = Flow("cells", liberty=(one, two))
    with pytest.raises(SynthesisError, match="must have the same time_ps, not 1 and 1000"):
        measure(ADDER, "adder", flow, cache_dir=tmp_path)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ("--process tsmc5", f"process must be one of {', '.join(NAMES)}, not 'tsmc5'"),
        ("--process gates,,asap7", "process must be items separated by commas"),
        ("--process asap7 --flow cells", "flow and process exclude each other"),
        ("--process asap7 --liberty a.lib", "liberty and process exclude each other"),
        ("--process xilinx", "process must be one of"),
    ],
)
def test_options_of_synth_that_make_no_sense(options, error, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "adder.v").write_text(ADDER)
    assert main(["synth", "adder.v", "--top", "adder", *options.split()]) == 2
    found = capsys.readouterr().err
    assert error in found
    assert found.count("\n") == 1


def test_synth_in_several_processes(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "adder.v").write_text(ADDER)
    command = ["synth", "adder.v", "--top", "adder", "--process", "gates,gt2n", "--no-sections"]
    assert main([*command, "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert (first["unit"], second["unit"]) == ("NAND2", "um2")
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert "adder in gt2n: " in shown
    assert "NAND2\n" in shown
    assert " ps, " in shown
    assert " MHz\n" in shown
