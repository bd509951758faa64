"""Coverage of the Verilog: Verilator's files by hand, constant nets, reasons, the report."""

import json
from dataclasses import replace
from functools import partial

import evidence
import pytest

from here import HERE
from mxdot.cli import main
from mxdot.verify.command import Session
from mxdot.verify.coverage import run as command
from mxdot.verify.coverage.judge import Covered, constant, judge, measured
from mxdot.verify.coverage.points import Point, reached, read
from mxdot.verify.coverage.reasons import FILE, Reason, explained, load
from mxdot.verify.small_units import UNITS

VERILOG = """module top (input wire clk, input wire a, output reg held, output wire [1:0] <y>);
  reg stuck;
  always @(posedge clk) begin
    stuck <= stuck & a;
    held <= a;
  end
  part below (.i(a & ~a), .o(y[0]));
  assign y[1] = a | ~held;
endmodule
module part (input wire i, output wire o);
  assign o = i;
endmodule
""".replace("<y>", "y")
NETS = ("stuck", "held", "y[0]", "y[1]", "below.i", "below.o")


def item(what, hits, *, line=1, kind="toggle", module="top", path="dut", file="top.v"):
    """A line of a file as Verilator writes it."""
    keys = {"f": f"x/{file}", "l": line, "n": 3, "page": f"v_{kind}/{module}", "o": what}
    keys["h"] = f"TOP.mxdot_bench.{path}"
    text = "".join(f"\x01{name}\x02{value}" for name, value in keys.items())
    return f"C '{text}' {hits}\n"


@pytest.fixture
def verilog(tmp_path):
    path = tmp_path / "top.v"
    path.write_text(VERILOG)
    return path


def covered(tmp_path, *lines):
    path = tmp_path / "run.dat"
    path.write_text("# SystemC::Coverage-3\n" + "".join(lines))
    return [path]


def judged(name, verilog, files, reasons, directory):
    """The verdict, of coverage as a result keeps it."""
    measure = measured(name, verilog, files, directory)
    return judge(Covered.of_dict(name, json.loads(json.dumps(measure.to_dict()))), reasons)


def test_points_add_up_over_runs_and_instances(tmp_path, verilog):
    one = covered(
        tmp_path,
        item("o:0->1", 0, module="part", path="dut.p0"),
        item("o:0->1", 2, module="part", path="dut.p1"),
        item("if", 0, kind="branch"),
        item("clk:0->1", 5, file="bench.sv"),
    )
    counts = read([*one, *one], verilog)
    point = Point("part", "toggle", 1, 3, "o:0->1")
    assert counts[point].hits == 4
    assert counts[point].instances == {"TOP.mxdot_bench.dut.p0", "TOP.mxdot_bench.dut.p1"}
    assert point.bit == "o"
    assert reached(counts, "branch") == (0, 1)
    assert reached(counts, "toggle") == (1, 1)


def test_another_file_is_refused(tmp_path, verilog):
    path = tmp_path / "run.dat"
    path.write_text("nothing\n")
    with pytest.raises(ValueError, match=r"must hold coverage of Verilator, not 'nothing'"):
        read([path], verilog)
    with pytest.raises(ValueError, match=r"coverage of unit must have points of top\.v, not none"):
        measured("unit", verilog, covered(tmp_path), tmp_path)


def test_nets_that_cannot_change(tmp_path, verilog):
    """Combinational and by induction; those that can are never called constant."""
    still = constant(verilog, "top", NETS, tmp_path / "case")
    assert still == {"stuck", "y[0]", "below.i", "below.o"}
    assert constant(verilog, "top", [], tmp_path) == set()


def test_holes_are_what_no_proof_and_no_reason_holds(tmp_path, verilog):
    files = covered(
        tmp_path,
        item("stuck:0->1", 0, line=2),
        item("held:0->1", 0),
        item("y[1]:1->0", 0),
        item("a:0->1", 7),
    )
    reason = Reason("unit", "t*", "toggle", "y[1]", "by hand")
    other = Reason("another", "*", "toggle", "*", "of another unit")
    verdict = judged("unit", verilog, files, [other, reason], tmp_path / "case")
    assert [point.what for point in verdict.constants] == ["stuck:0->1"]
    assert {point.what: why for point, why in verdict.reasons.items()} == {"y[1]:1->0": reason}
    assert [point.what for point in verdict.holes] == ["held:0->1"]
    assert verdict.row("toggle") == (4, 1, 1, 1, 1)
    assert verdict.row("line") == (0, 0, 0, 0, 0)


def test_bits_of_any_range_and_of_memories(tmp_path, verilog):
    """Yosys counts the bits of `[4:3]` from 0; a word of a memory is no net."""
    verilog.write_text("""module top (input clk, input a, input [1:0] at, output o);
  wire [4:3] pair = {a & ~a, a};
  reg [1:0] words [0:3];
  always @(posedge clk) words[at] <= {a & ~a, a};
  assign o = words[at][0] ^ pair[3];
endmodule
""")
    files = covered(
        tmp_path,
        item("pair[4]:0->1", 0, line=2),
        item("pair[3]:0->1", 0, line=2),
        item("words[0][1]:0->1", 0, line=3),
    )
    verdict = judged("unit", verilog, files, [], tmp_path / "case")
    assert [point.what for point in verdict.constants] == ["pair[4]:0->1"]
    assert [point.what for point in verdict.holes] == ["pair[3]:0->1", "words[0][1]:0->1"]


@pytest.fixture
def conclude(tmp_path):
    return partial(command.conclude, directory=tmp_path / "report")


def test_a_hole_fails_and_so_does_an_unused_reason(tmp_path, verilog, conclude, capsys):
    closed = judged("unit", verilog, covered(tmp_path, item("a:0->1", 7)), [], tmp_path / "case")
    assert conclude([closed], []) == 0
    assert "toggle 1 of 1, 100.0%" in capsys.readouterr().out
    unused = Reason("unit", "*", "toggle", "b", "why")
    assert conclude([closed], [unused]) == 1
    assert "no hole needs the reason 'b' of unit: why" in capsys.readouterr().out
    assert conclude([closed], [replace(unused, unit="another")]) == 0
    files = covered(tmp_path, item("held:0->1", 0))
    assert conclude([judged("unit", verilog, files, [], tmp_path / "case")], []) == 1
    assert "1 holes, " in capsys.readouterr().out.replace(";", ",")


@pytest.mark.parametrize(
    ("what", "wide"),
    [
        ("y[1:0]", "y[0] of top, line 1"),
        ("y[1]", ""),
        ("held", "held of top, line 3"),
        ("y*", "y[0] of top, line 1"),
    ],
)
def test_a_reason_of_what_was_reached_fails(what, wide, tmp_path, verilog, conclude, capsys):
    """In every direction; of the branches of a line there is one that was not."""
    files = covered(
        tmp_path,
        item("y[0]:0->1", 1),
        item("y[0]:1->0", 1),
        item("y[1]:0->1", 1),
        item("y[1]:1->0", 0),
        item("held:0->1", 1, line=3),
    )
    reason = Reason("unit", "*", "toggle", what, "why")
    verdict = judged("unit", verilog, files, [reason], tmp_path / "case")
    assert conclude([verdict], [reason]) == bool(wide)
    told = f"{wide}, was reached, in spite of the reason {what!r} of unit\n"
    assert (told in capsys.readouterr().out) == bool(wide)


def test_hostile_names_are_text_in_the_report(tmp_path, verilog, conclude):
    evil = "<script>alert(1)</script>"
    files = covered(tmp_path, item(f"{evil}:0->1", 0, kind="branch", module=evil))
    verilog.write_text(f"{VERILOG}// {evil}\n")
    reason = Reason(evil, "*", "branch", "*", evil)
    assert conclude([judged(evil, verilog, files, [reason], tmp_path / "case")], []) == 0
    page = (tmp_path / "report" / "report.html").read_text()
    assert "<script" not in page
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 5


def test_reasons(tmp_path):
    assert {reason.unit for reason in load(FILE)} <= {unit.name for unit in UNITS}
    path = tmp_path / "reasons.toml"
    path.write_text(
        '[[reason]]\nunit = "u"\nmodule = "m"\nkind = "toggle"\nwhat = "w"\nwhy = "y"\n'
    )
    assert load(path) == [Reason("u", "m", "toggle", "w", "y")]
    path.write_text(path.read_text().replace('"w"', '["v", "w"]'))
    assert load(path) == [Reason("u", "m", "toggle", what, "y") for what in "vw"]
    point = Point("m", "line", 1, 1, "w")
    assert explained(load(path), "u", [point], [""]) == ({}, [point])
    path.write_text(path.read_text().replace("toggle", "net"))
    with pytest.raises(
        ValueError, match=r"kind in .* must be one of line, branch, toggle, not 'net'"
    ):
        load(path)
    path.write_text('[[reason]]\nunit = "u"\n')
    with pytest.raises(ValueError, match=r"a reason in .* must have texts unit, module"):
        load(path)


@pytest.mark.parametrize(
    ("what", "bits"),
    [
        ("count[5:3]", "3 4 5"),
        ("c*[3]", "3"),
        ("count", ""),
        ("count*", "2 3 4 5 6"),
        ("other[5:3]", ""),
    ],
)
def test_reasons_of_bits(what, bits):
    reason = Reason("u", "*", "toggle", what, "why")
    points = [Point("m", "toggle", 1, 1, f"count[{bit}]:0->1") for bit in range(2, 7)]
    with_reason, left = explained([reason], "u", points, [""])
    assert [point.bit for point in with_reason] == [f"count[{bit}]" for bit in bits.split()]
    assert [*with_reason, *left] == sorted(points, key=lambda point: point in left)


def test_reasons_of_a_line():
    reason = Reason("u", "*", "branch", "cond_then", "why", source="a ? 1")
    points = [Point("m", "branch", line, 1, "cond_then") for line in (1, 2)]
    with_reason, left = explained(
        [reason], "u", points, ["assign x = b ? 1 : 0;", "y = a ? 1 : 0;"]
    )
    assert ([*with_reason], left) == ([points[1]], [points[0]])


@pytest.mark.slow
@pytest.mark.usefixtures("simulation_dir")
def test_a_unit_is_closed(tmp_path, monkeypatch, capsys):
    """Simulated whole: no hole without a reason, no reason without a hole; once."""
    session = Session(tmp_path, HERE)
    for _ in range(2):
        status = command.run("dot-hopper", 1, session, list_only=False)
        out = capsys.readouterr().out
        assert status == 0, out
        assert "functional 100.0%; 0 holes; 0 unused reasons; 0 too wide: closed" in out
        (row,) = evidence.told(out.splitlines()).values()
        (before, reached, possible) = ("dot-hopper: lines ", *row["line"])
        assert f"{before}{reached} of {possible}, " in out
        monkeypatch.setattr(command, "run_unit", None)


def test_an_interrupted_run_goes_on(tmp_path, verilog, monkeypatch, capsys):
    """Units that were covered are not covered again, unless `fresh`; a failed one is refused."""
    value = measured("x", verilog, covered(tmp_path, item("a:0->1", 7)), tmp_path).to_dict()
    ran: list[str] = []

    def result(task):
        ran.append(task.label)
        if len(ran) == 2:
            raise KeyboardInterrupt
        return {**value, "functional": "{}"}

    monkeypatch.setattr(command.CoverageOfUnit, "result", result)
    monkeypatch.setattr(command, "load", list)
    names = [unit.name for unit in UNITS if "quantize-" in unit.name]

    def run(**options):
        return command.run("quantize-", 1, Session(tmp_path, HERE, **options), list_only=False)

    with pytest.raises(KeyboardInterrupt):
        run()
    assert run() == 0
    assert ran == [names[0], names[1], names[1]]
    assert "coverage of 2 units" in capsys.readouterr().out
    assert run(fresh=True) == 0
    assert ran[3:] == names
    monkeypatch.setattr(command.CoverageOfUnit, "result", lambda task: 1 / 0)
    with pytest.raises(RuntimeError, match=r"^quantize-scale failed: ZeroDivisionError: "):
        run(fresh=True)


def test_command(capsys):
    assert main(["verify", "coverage", "--list"]) == 0
    assert "dot-exact" in capsys.readouterr().out
    assert main(["verify", "coverage", "--only", "nothing"]) == 2
    assert main(["verify", "coverage", "--seed", "-1"]) == 2
    assert "seed must be from 0 to 2147483647, not -1" in capsys.readouterr().err
