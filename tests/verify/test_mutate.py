"""Mutants: the bench kills wrong ones, ABC proves the others equal, and what is left is told."""

import ast
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import evidence
import pytest

from here import HERE
from mxdot.cli import main
from mxdot.hw.matmul.registers import Counters
from mxdot.hw.verilog import default_top, generate
from mxdot.model import QuantizeConfig
from mxdot.sim.engine.unit import UnitResult
from mxdot.synth.errors import SynthesisError
from mxdot.synth.tools import run_yosys
from mxdot.util.jobs import DryRun
from mxdot.verify.command import Session
from mxdot.verify.formal import aig
from mxdot.verify.formal.claim import Claim
from mxdot.verify.formal.engine import Verdict, ask
from mxdot.verify.formal.facts import Fact, exposed, facts
from mxdot.verify.formal.observer import component, unit
from mxdot.verify.mutate import bench, design, equivalence, parts, python_source, rows, rtlil, tasks
from mxdot.verify.mutate import run as command
from mxdot.verify.mutate.copies import Given, kept
from mxdot.verify.mutate.equivalence import Limits
from mxdot.verify.mutate.first_block import FirstBlock, NoFirstBlockError
from mxdot.verify.mutate.flow import NoPipelineError
from mxdot.verify.mutate.reachable import reachable
from mxdot.verify.mutate.score import Fate, MutantOutcome, score
from mxdot.verify.small_units import UNITS, Unit

LIMIT = 60  # seconds
LIMITS = Limits(LIMIT, LIMIT)
UNIT = Unit("small", QuantizeConfig("e2m1", 4, "bfloat16", stages=2), 1000, 2000)
COUNT = 24


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return design.make(UNIT, COUNT, 1, tmp_path_factory.mktemp("mutants"))


def judged(made, directory):
    """Outcomes of all mutants."""
    outcomes = []
    for mutant in made.mutants:
        outcome = tasks.simulated(made, mutant.number, 1, directory / "builds")
        if outcome.fate is not Fate.KILLED:
            outcome = tasks.proved(made, mutant, directory / "proof", LIMITS)
        outcomes.append(outcome)
    return outcomes


@pytest.fixture(scope="module")
def outcomes(made, tmp_path_factory):
    return judged(made, tmp_path_factory.mktemp("judged"))


def test_each_mutant_is_killed_or_proved_equal(outcomes):
    fates = Counter(outcome.fate for outcome in outcomes)
    assert fates[Fate.KILLED] >= COUNT / 2
    assert fates[Fate.EQUIVALENT] > 0
    assert fates.total() == COUNT


def test_outputs_of_what_enters_are_alike_for_equal_mutants_alone(made, outcomes, tmp_path):
    graph = aig.read(made.aiger)
    graph = replace(graph, registers=design.registers_of(graph))
    alike = set()
    for mutant, outcome in zip(made.mutants, outcomes, strict=True):
        for masked in (True, False):
            with suppress(NoPipelineError):
                file = tmp_path / "flow.aig"
                equivalence.write_flow(graph, mutant.number, file, masked=masked)
                if ask(equivalence.FLOW, tmp_path, mutant.text, LIMIT) is Verdict.PROVED:
                    alike.add(outcome.fate)
    assert alike == {Fate.EQUIVALENT}


@pytest.mark.parametrize(
    ("hides", "verdict"), [("poisoned", Verdict.PROVED), ("kept", Verdict.REFUTED)]
)
def test_a_mask_hides_what_a_mutant_makes(hides, verdict, tmp_path):
    """The mutant's x differs where d is 1; outputs are 0 where the section is poisoned or kept."""
    (tmp_path / "unit.v").write_text(f"""
module unit (input wire clk, rst, mutant, in_valid, a, d, output wire out_x, out_y, out_valid);
  reg s_register_x, s_register_poisoned, s_register_kept, s_register_valid;
  assign out_x = s_register_x & ~s_register_{hides};
  assign out_y = ~(s_register_x & ~s_register_{hides});
  assign out_valid = s_register_valid;
  always @(posedge clk) s_register_valid <= in_valid & ~rst;
  always @(posedge clk) if (in_valid) begin
    s_register_x <= (mutant & d) ^ a;
    s_register_poisoned <= d;
    s_register_kept <= ~d;
  end
endmodule
""")
    equivalence.write_flow(graph_of(tmp_path), 1, tmp_path / "flow.aig", masked=True)
    assert ask(equivalence.FLOW, tmp_path, "", LIMIT) is verdict


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize(
    ("second", "out", "message"),
    [("s_x", "t_register_x & d", "outputs of inputs"), ("s_x & d", "t_register_x", "enter later")],
)
def test_an_input_of_another_cycle_is_no_mask(second, out, message, masked, tmp_path):
    """The mutant's x differs where d is 0, and d may change before it is read."""
    (tmp_path / "unit.v").write_text(f"""
module unit (input wire clk, rst, mutant, in_valid, a, d, output wire out_x, out_valid);
  reg s_register_x, t_register_x, s_register_valid, t_register_valid;
  wire s_x = s_register_x;
  assign out_x = {out};
  assign out_valid = t_register_valid;
  always @(posedge clk) s_register_valid <= in_valid & ~rst;
  always @(posedge clk) t_register_valid <= s_register_valid & ~rst;
  always @(posedge clk) if (in_valid) s_register_x <= (mutant & ~d) ^ a;
  always @(posedge clk) if (s_register_valid) t_register_x <= {second};
endmodule
""")
    with pytest.raises(NoPipelineError, match=message):
        equivalence.write_flow(graph_of(tmp_path), 1, tmp_path / "flow.aig", masked=masked)


@pytest.mark.parametrize(
    ("y", "loads", "verdict"),
    [
        ("a", "s_register_valid & ~rst", Verdict.PROVED),
        ("a & d", "s_register_valid & ~rst", Verdict.REFUTED),
        ("a", "s_register_valid", Verdict.REFUTED),  # before the reset, x and y are anything
        ("a", "~rst", Verdict.REFUTED),  # what is not valid is anything, too
    ],
)
def test_a_loop_takes_what_entered_alone(y, loads, verdict, tmp_path):
    """The mutant of a running sum reads one of two registers that are alike while valid."""
    (tmp_path / "unit.v").write_text(f"""
module unit (input wire clk, rst, mutant, in_valid, a, d, output wire out_x, out_valid);
  reg s_register_x, s_register_y, s_register_valid, t_register_running_x, t_register_valid;
  assign out_x = t_register_running_x;
  assign out_valid = t_register_valid;
  always @(posedge clk) s_register_valid <= in_valid & ~rst;
  always @(posedge clk) t_register_valid <= s_register_valid & ~rst;
  always @(posedge clk) if (in_valid) begin
    s_register_x <= a;
    s_register_y <= {y};
  end
  always @(posedge clk) if ({loads})
    t_register_running_x <= t_register_running_x ^ (mutant ? s_register_y : s_register_x);
endmodule
""")
    file = tmp_path / "flow.aig"
    equivalence.write_loop(graph_of(tmp_path), 1, "rst", file)
    assert ask(equivalence.FLOW, tmp_path, "", LIMIT) is verdict


@pytest.mark.parametrize(
    ("s_valid", "t_valid", "of", "message"),
    [
        ("in_valid", "s_register_valid & ~rst", "a", "valid bits that a reset does not clear"),
        ("in_valid & ~rst", "s_register_valid & ~rst & mutant", "a", "another control"),
        ("in_valid & ~rst", "t_register_running_x & ~rst", "s_register_y", "nothing before a loop"),
    ],
)
def test_other_units_and_mutants_have_no_loop(s_valid, t_valid, of, message, tmp_path):
    (tmp_path / "unit.v").write_text(f"""
module unit (input wire clk, rst, mutant, in_valid, a, output wire out_x, out_valid);
  reg s_register_y, s_register_valid, t_register_running_x, t_register_valid;
  assign out_x = t_register_running_x;
  assign out_valid = t_register_valid;
  always @(posedge clk) s_register_valid <= {s_valid};
  always @(posedge clk) t_register_valid <= {t_valid};
  always @(posedge clk) if (in_valid) s_register_y <= {of} ^ a;
  always @(posedge clk) if (s_register_valid & ~rst)
    t_register_running_x <= t_register_running_x ^ s_register_y ^ mutant;
endmodule
""")
    with pytest.raises(NoPipelineError, match=message):
        equivalence.write_loop(graph_of(tmp_path), 1, "rst", tmp_path / "flow.aig")


TWO_SECTIONS = """
  always @(posedge clk) u_register_valid <= s_register_valid & ~rst;
  always @(posedge clk) t_register_valid <= u_register_valid & s_register_valid & ~rst;
  always @(posedge clk) if (s_register_valid) u_register_x <= s_register_x;
  always @(posedge clk) if (u_register_valid & s_register_valid & ~rst)
    t_register_running_x <= t_register_running_x ^ (mutant ? s_register_x : u_register_x);
"""
SUM_BEFORE = """
  always @(posedge clk) u_register_valid <= s_register_valid & ~rst;
  always @(posedge clk) t_register_valid <= d & ~rst;
  always @(posedge clk) if (~rst) u_register_running_x <= mutant ? s_register_y : s_register_x;
  always @(posedge clk) if (~rst)
    t_register_running_x <= t_register_running_x ^ u_register_running_x;
"""
NO_OWNER = """
  always @(posedge clk) toggle <= ~toggle & ~rst;
  always @(posedge clk) if (s_register_valid) u_register_x <= toggle;
  always @(posedge clk) u_register_valid <= s_register_valid & ~rst;
  always @(posedge clk) t_register_valid <= u_register_valid & ~rst;
  always @(posedge clk) if (u_register_valid & ~rst)
    t_register_running_x <= t_register_running_x ^ (mutant ? toggle : u_register_x);
"""


@pytest.mark.parametrize("rest", [TWO_SECTIONS, SUM_BEFORE, NO_OWNER])
def test_a_loop_that_reads_more_than_what_entered_once_is_not_proved(rest, tmp_path):
    (tmp_path / "unit.v").write_text(f"""
module unit (input wire clk, rst, mutant, in_valid, a, d, output wire out_x, busy, out_valid);
  reg s_register_x, s_register_y, s_register_valid, u_register_x, u_register_running_x, toggle;
  reg u_register_valid, t_register_running_x, t_register_valid;
  assign out_x = t_register_running_x;
  assign busy = s_register_valid ^ u_register_valid;
  assign out_valid = t_register_valid;
  always @(posedge clk) s_register_valid <= in_valid & ~rst;
  always @(posedge clk) if (in_valid) begin
    s_register_x <= a;
    s_register_y <= a;
  end
{rest}
endmodule
""")
    file = tmp_path / "flow.aig"
    try:
        equivalence.write_loop(graph_of(tmp_path), 1, "rst", file)
    except NoPipelineError:
        return
    assert ask(equivalence.FLOW, tmp_path, "", LIMIT) is Verdict.REFUTED


def graph_of(directory):
    """The graph of unit.v in the directory."""
    flat = "read_verilog unit.v\nproc\nwrite_rtlil mutants.il\ndesign -reset\n"
    run_yosys(flat + design.WRITE.format(mutations=""), directory, "unit", LIMIT)
    return aig.read(directory / "mutants.aig")


def test_a_bench_that_sees_nothing_leaves_survivors(made, outcomes, tmp_path, monkeypatch):
    """ABC finds each mutant that the bench kills to be another unit."""
    passed = UnitResult(UNIT.name, "", compared=1)
    monkeypatch.setattr(bench, "run", lambda *_: passed)
    blind = judged(made, tmp_path)
    killed = {outcome.text for outcome in outcomes if outcome.fate is not Fate.EQUIVALENT}
    survived = {o.text: o.by for o in blind if o.fate is Fate.SURVIVED}
    assert set(survived) == killed
    assert set(survived.values()) == {"another unit, says ABC"}
    assert score(blind) == 0


@pytest.fixture
def mutate(tmp_path, monkeypatch):
    """Runs the command for the small unit alone, in this process."""
    monkeypatch.setattr(tasks, "BUILD", tmp_path / "build")
    monkeypatch.setattr(command, "subjects", lambda: [tasks.of_unit(UNIT)])

    def mutate(count=4, backend=HERE, only="", **options):
        session = Session(tmp_path, backend, **options)
        sample = tasks.Sample(count, 1)
        return command.run(only, sample, LIMITS, session, list_only=False, markdown=False)

    return mutate


def test_an_interrupted_run_goes_on(mutate, monkeypatch, capsys):
    """Mutants that were judged stay judged, by the bench and by proofs; `fresh` begins anew."""
    ran, proved = [], []

    def run(made, number, *_):
        ran.append(number)
        if ran.count(3) == 1 and number == 3:
            raise KeyboardInterrupt
        return UnitResult(
            UNIT.name,
            "",
            compared=1,
            errors=["wrong"] * (number in (1, 2)),
            mismatches=number in (1, 2),
        )

    def decide(made, number, *_):
        proved.append(number)
        if len(proved) == 2:
            raise KeyboardInterrupt
        return Verdict.PROVED, "how"

    monkeypatch.setattr(bench, "run", run)
    monkeypatch.setattr(equivalence, "decide", decide)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            mutate()
    assert mutate() == 0
    assert ran == [0, 0, 0, 1, 2, 3, 3, 3, 3, 4, 4, 4]  # three stages, one of what is killed
    assert proved == [3, 4, 4]
    shown = "small: 4 mutants, killed by bulk 2; equivalent 2, survived 0: score 100.0%"
    assert shown in capsys.readouterr().out
    assert mutate() == 0
    assert shown in capsys.readouterr().out
    assert len(ran), len(proved) == (12, 3)
    with pytest.raises(DryRun) as plan:
        mutate(backend=replace(HERE, only_lists=True))
    assert (len(plan.value.tasks), plan.value.kept) == (0, 5)
    assert mutate(fresh=True) == 0
    assert (len(ran), len(proved)) == (12 + 11, 3 + 2)


def test_a_run_that_fails_of_the_machine_kills_no_mutant(mutate, monkeypatch, capsys):
    """It fails without a wrong result, once; or the unit fails likewise."""
    ran, proved = [], (Verdict.PROVED, "how")

    def run(made, number, *_):
        ran.append(number)
        return UnitResult(UNIT.name, "", compared=1, errors=["killed"] * (ran.count(2) == 1))

    monkeypatch.setattr(bench, "run", lambda made, number, *_: run(made, number))
    monkeypatch.setattr(equivalence, "decide", lambda *_: proved)
    assert mutate(2) == 0
    assert "killed by none; equivalent 2, survived 0" in capsys.readouterr().out

    def full(made, number, *_):
        errors = ["disk full"] if number or 1 in ran else []
        ran.append(number)
        return UnitResult(UNIT.name, "", compared=1, errors=errors)

    ran.clear()
    monkeypatch.setattr(bench, "run", full)
    with pytest.raises(RuntimeError, match=r"^small itself fails bulk: disk full$"):
        mutate(2, fresh=True)


def test_a_design_moves_with_its_folder_and_is_made_anew_when_it_is_cut(tmp_path, monkeypatch):
    sample, begun = tasks.Sample(2, 1), []
    make = design.make
    monkeypatch.setattr(design, "make", lambda *given: begun.append(given) or make(*given))
    monkeypatch.setattr(tasks, "BUILD", tmp_path / "build")
    text = tasks.designed(UNIT, sample).verilog.read_text()
    (tmp_path / "build").rename(tmp_path / "moved")
    monkeypatch.setattr(tasks, "BUILD", tmp_path / "moved")
    moved = tasks.designed(UNIT, sample)
    assert moved.verilog.is_relative_to(tmp_path / "moved")
    assert moved.aiger.is_file()
    assert len(begun) == 1
    moved.verilog.write_text(text[:-100])
    assert tasks.designed(UNIT, sample).verilog.read_text() == text
    assert len(begun) == 2


def test_a_unit_that_fails_by_itself_is_refused(mutate, monkeypatch):
    monkeypatch.setattr(bench, "run", lambda *_: UnitResult(UNIT.name, "", errors=["wrong"]))
    with pytest.raises(RuntimeError, match=r"^small itself fails bulk: wrong$"):
        mutate()


def test_a_subject_that_fails_by_itself_stops_no_other(mutate, monkeypatch, capsys):
    bad = replace(UNIT, name="bad")
    monkeypatch.setattr(command, "subjects", lambda: [tasks.of_unit(bad), tasks.of_unit(UNIT)])

    def run(made, number, *_):
        errors = ["wrong"] * (made.unit.name == "bad" or number > 0)
        return UnitResult(made.unit.name, "", compared=1, errors=errors, mismatches=number)

    monkeypatch.setattr(bench, "run", run)
    assert mutate(2) == 1
    out, err = capsys.readouterr()
    assert out.startswith("small: 2 mutants, killed by bulk 2; ")
    assert "not judged: bad itself fails bulk: wrong\n2 mutants, score 100.0%\n" in err


def test_mutants_are_of_every_operator_and_the_same_each_time(made, tmp_path):
    assert {mutant.operator for mutant in made.mutants} == {
        "inverted net", "stuck net", "swapped operator", "off by one", "dropped sticky bits",
        "handshake term",
    }  # fmt: skip
    again = design.make(UNIT, COUNT, 1, tmp_path / "again")
    assert again.mutants == made.mutants
    assert again.verilog.read_text() == made.verilog.read_text()
    assert design.make(UNIT, COUNT, 2, tmp_path / "other").mutants != made.mutants


def test_an_unreachable_state_is_equal_in_sequences_alone(made, tmp_path):
    """Two registers that are always alike: either may stand for the other, once both are reset."""
    graph = aig.Aig(
        inputs=[("d", 0), ("rst", 0), (design.SELECT, 0)],
        nexts=[12, 12],
        outputs={("q", 0): 19},
        ands=[(5, 2), (10, 6), (8, 7), (17, 15)],  # d & ~rst; q = mutant ? second : first
    )
    verdicts = []
    for number in (0, 1):
        equivalence.step(graph, number, tmp_path / "step.aig")
        verdicts.append(equivalence.ask(equivalence.STEP, tmp_path, "", LIMIT))
    assert verdicts == [Verdict.PROVED, Verdict.REFUTED]
    equivalence.sequence(graph, 1, "rst", tmp_path / "sequence.aig")
    assert equivalence.ask(equivalence.SEQUENTIAL, tmp_path, "", LIMIT) is Verdict.PROVED


@pytest.mark.parametrize(("output", "verdict"), [("out_x", Verdict.PROVED), ("x", Verdict.REFUTED)])
def test_a_register_that_holds_nothing_may_differ(output, verdict, tmp_path):
    """The mutant loads it in every cycle; an output that always counts tells."""
    graph = aig.Aig(
        inputs=[("d", 0), ("in_valid", 0), (design.SELECT, 0)],
        nexts=[19, 4],
        outputs={(output, 0): 8, ("out_valid", 0): 10},
        ands=[(7, 5), (13, 2), (12, 8), (17, 15)],  # loads = in_valid | mutant
        registers=[("s_register_x", 0), ("s_register_valid", 0)],
    )
    equivalence.step(graph, 1, tmp_path / "step.aig")
    assert equivalence.ask(equivalence.STEP, tmp_path, "", LIMIT) is Verdict.REFUTED
    equivalence.waiting(graph, 1, tmp_path / "step.aig")
    assert equivalence.ask(equivalence.STEP, tmp_path, "", LIMIT) is verdict


JOINED = "(joined_register_valid | mutant) & last_ready"
"""The mutant of a loop also loads what its section before holds, when this has no step."""


@pytest.mark.parametrize(
    ("loads", "starts", "verdict"),
    [
        (JOINED, "first_register_first", Verdict.PROVED),
        (JOINED, "1'b0", Verdict.REFUTED),
        ("joined_register_valid & (last_ready | mutant)", "first_register_first", Verdict.REFUTED),
        ("joined_register_valid & last_ready & ~mutant", "first_register_first", Verdict.REFUTED),
    ],
    ids=["equal", "a value from before a reset is read", "a result is lost", "nothing is loaded"],
)
def test_the_first_block_after_a_reset_is_a_first_one(loads, starts, verdict, tmp_path):
    """One step and sequences answer alike: those that break the rule do not count."""
    (tmp_path / "unit.v").write_text(running_unit(loads, starts))
    graph = graph_of(tmp_path)
    FirstBlock(graph, 1, Given((), "rst")).write(tmp_path / "first.aig")
    assert ask(equivalence.FIRST, tmp_path, "", LIMIT) is verdict
    equivalence.sequence(graph, 1, "rst", tmp_path / "sequence.aig")
    assert ask(equivalence.SEQUENTIAL, tmp_path, "", LIMIT) is verdict


@pytest.mark.parametrize(
    ("clears", "verdict"),
    [("rst", Verdict.PROVED), ("in_valid & in_first & ~in_slot", Verdict.REFUTED)],
)
def test_the_first_block_of_each_slot_is_a_first_one(clears, verdict, tmp_path):
    """Slot 1 is cleared by a reset, which nothing tells, or by a block of slot 0."""
    (tmp_path / "unit.v").write_text(f"""
module unit (input wire clk, rst, mutant, in_valid, in_first, in_slot, a,
             output wire in_ready, out_y, output reg out_valid);
  reg slot, y0, y1;
  assign in_ready = 1'b1, out_y = slot ? y1 : y0;
  always @(posedge clk) begin
    slot <= in_slot;
    if (in_valid & ~in_slot) y0 <= a ^ (y0 & ~in_first);
    if (in_valid & in_slot) y1 <= a ^ (y1 & ~in_first);
    else if (mutant & ({clears})) y1 <= 1'b0;
    out_valid <= in_valid & ~rst;
  end
endmodule
""")
    equivalence.sequence(graph_of(tmp_path), 1, "rst", tmp_path / "sequence.aig")
    assert ask(equivalence.SEQUENTIAL, tmp_path, "", LIMIT) is verdict


def test_a_constant_before_the_loop_is_known(tmp_path):
    """The mutant reads x as 0, which it is while its section has a step."""
    text = running_unit("joined_register_valid & last_ready", "first_register_first")
    x = "joined_register_x & ~mutant"
    text = text.replace("y <= joined_register_y", f"y <= joined_register_y ^ ({x})")
    (tmp_path / "unit.v").write_text(text)
    graph = graph_of(tmp_path)
    rule = equivalence.constants(graph)
    assert rule is not None
    for rules, verdict in (((rule,), Verdict.PROVED), ((), Verdict.REFUTED)):
        FirstBlock(graph, 1, Given(rules, "rst")).write(tmp_path / "first.aig")
        assert ask(equivalence.FIRST, tmp_path, "", LIMIT) is verdict


def running_unit(loads, starts):
    """Two sections and a loop, whose running value y a step of `starts` does not read."""
    return f"""
module unit (input wire clk, rst, mutant, in_valid, in_first, a, out_ready,
             output wire in_ready, out_y, out_valid);
  reg first_register_a, first_register_first, first_register_valid;
  reg joined_register_x, joined_register_y, joined_register_valid;
  reg last_register_y, last_register_valid;
  wire last_ready = out_ready | ~last_register_valid;
  wire joined_ready = last_ready | ~joined_register_valid;
  wire go = first_register_first | ~joined_register_valid;
  assign in_ready = (joined_ready & go) | ~first_register_valid;
  assign out_y = last_register_y, out_valid = last_register_valid;
  always @(posedge clk) if (in_valid & in_ready) begin
    first_register_a <= a;
    first_register_first <= in_first;
  end
  always @(posedge clk) if (first_register_valid & joined_ready & go) begin
    joined_register_x <= 1'b0;
    joined_register_y <= first_register_a ^ (last_register_y & ~{starts});
  end
  always @(posedge clk) if ({loads}) last_register_y <= joined_register_y;
  always @(posedge clk) if (rst) first_register_valid <= 1'b0;
    else if (in_ready) first_register_valid <= in_valid;
  always @(posedge clk) if (rst) joined_register_valid <= 1'b0;
    else if (joined_ready) joined_register_valid <= first_register_valid & go;
  always @(posedge clk) if (rst) last_register_valid <= 1'b0;
    else if (last_ready) last_register_valid <= joined_register_valid;
endmodule
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("in_first", "in_other", "another input"),
        (
            "<= first_register_valid & go",
            "<= (first_register_valid | mutant) & go",
            "another control",
        ),
    ],
)
def test_other_units_and_mutants_have_no_first_block(old, new, message, tmp_path):
    text = running_unit(JOINED, "first_register_first").replace(old, new)
    (tmp_path / "unit.v").write_text(text)
    with pytest.raises(NoFirstBlockError, match=message):
        FirstBlock(graph_of(tmp_path), 1, Given((), "rst"))


@pytest.fixture(scope="module")
def counting():
    """The matrix unit with a digit of a counter inverted where another one is 1: in 2^28 bytes."""
    (matmul,) = (unit for unit in UNITS if unit.name == "matmul")
    text, top = generate(matmul.config, default_top(matmul.config)), default_top(matmul.config)
    inside = rtlil.cells(rows.body(rows.whole(text, top), f"{top}_counters_3"))
    (adder,) = (c for c in inside if "DISCARDED_A_" in c.ports.get("A", "") and c.type == "$add")
    options = "-mode cnot1 -port A -portbit 28 -ctrlbit 31"
    cell = f"$flatten\\counters.{adder.name}"
    mutant = design.Mutant(1, "inverted net", "", "A[28] inverted", "", cell, f"mutate {options}")
    return design.Design(matmul, (mutant,), text, Path(), Path(), "aresetn")


@pytest.mark.parametrize(
    ("verdict", "fate", "by"),
    [
        (Verdict.UNDECIDED, Fate.KILLED, "proof `counters`"),
        (Verdict.REFUTED, Fate.KILLED, "proof `counters`"),
        (Verdict.PROVED, Fate.EQUIVALENT, "how"),
    ],
)
def test_a_survivor_is_killed_by_a_proof(verdict, fate, by, counting, tmp_path, monkeypatch):
    """By the row about the module that it changes, unless the whole unit is the same."""
    monkeypatch.setattr(bench, "run", lambda *_: UnitResult("matmul", "", compared=1))
    monkeypatch.setattr(equivalence, "decide", lambda *_: (verdict, "how"))
    (outcome,) = judged(counting, tmp_path)
    assert (outcome.fate, outcome.by) == (fate, by)


@pytest.mark.parametrize(
    "rule",
    [
        lambda m, p: p.clear & ~p.clear,  # nothing is wrong with a mutant
        lambda m, p: p.clear,  # something is wrong with the unit as it is
    ],
)
def test_a_row_that_does_not_tell_them_apart_kills_nothing(rule, counting, tmp_path):
    claim = Claim("odd", "", lambda: component(Counters(3)), rule)
    (mutant,) = counting.mutants
    assert rows.killer(counting, mutant, tmp_path, LIMIT, [claim]) is None


def test_a_row_about_another_module_is_not_asked(counting, tmp_path):
    (mutant,) = counting.mutants
    wider = Claim("odd", "", lambda: component(Counters(4)), lambda m, p: p.values.CYCLES != 0)
    assert rows.killer(counting, mutant, tmp_path, LIMIT, [wider]) is None
    top = replace(mutant, cell=mutant.cell.replace("$flatten\\counters.", ""))
    assert rows.killer(counting, top, tmp_path, LIMIT) is None


def test_an_operator_of_ours_is_killed_by_a_proof(counting, tmp_path):
    """One and the same change, found again in the module by itself."""
    (mutant,) = counting.mutants
    mine = replace(mutant, operator="swapped operator", what="add becomes $sub", command="")
    assert rows.killer(counting, mine, tmp_path, LIMIT) == "counters"
    unknown = replace(mine, what="add becomes $mul")
    assert rows.killer(counting, unknown, tmp_path, LIMIT) is None


def test_what_takes_too_long_is_asked_again(made, outcomes, tmp_path, monkeypatch):
    """With the longer limit, after all questions have had the first one."""
    equal = next(
        mutant.number
        for mutant, outcome in zip(made.mutants, outcomes, strict=True)
        if outcome.by == "one step from every state"
    )
    asked, right = [], equivalence.ask

    def slow(commands, directory, source, limit):
        asked.append(limit)
        if limit < LIMIT:
            raise SynthesisError("took longer")
        return right(commands, directory, source, limit)

    monkeypatch.setattr(equivalence, "ask", slow)
    how = "one step from every state, in a longer time"
    assert equivalence.decide(made, equal, tmp_path, Limits(1, LIMIT)) == (Verdict.PROVED, how)
    assert asked == [1, 1, 1, 1, LIMIT]
    with pytest.raises(SynthesisError, match="took longer"):
        equivalence.decide(made, equal, tmp_path, Limits(1, 2))


WAITS = {"align_register_valid": 1, "align_register_poisoned": 1, "align_register_scale": 8}


def _unlike(value):
    """A block that waits has this scale, if and only if it is poisoned."""

    def wrong(m, p):
        poisoned = p.align_register_scale == value
        return p.align_register_valid & (poisoned != p.align_register_poisoned)

    return wrong


@pytest.mark.parametrize(("value", "assumed"), [(255, True), (254, False)])
def test_only_a_proved_fact_is_assumed(value, assumed, tmp_path):
    """The mutant looks at a register again whose value the fact tells from another one's."""
    bug = ("o_scale = o_poisoned ? 8'd255", "o_scale = o_poisoned ? 8'd253")
    fact = Fact("fact:odd", "", UNIT.config, WAITS, _unlike(value), bug)
    text = generate(UNIT.config, "whole")
    right = "assign out_scale = align_register_scale;"
    wrong = f"{right[:-1]} | {{8{{{design.SELECT} & align_register_poisoned}}}};"
    assert right in text
    text = text.replace(right, wrong).replace("(\n", f"(\n  input wire {design.SELECT},\n", 1)
    (tmp_path / "whole.v").write_text(text)
    flat = "read_verilog whole.v\nhierarchy -top whole\nproc\nflatten\n"
    flat += "write_rtlil mutants.il\ndesign -reset\n"
    run_yosys(flat + design.WRITE.format(mutations=""), tmp_path, "whole", LIMIT)
    both = design.Design(UNIT, (), "", tmp_path / "x.v", tmp_path / "mutants.aig", "rst")
    verdict, how = equivalence.decide(both, 1, tmp_path, LIMITS, [fact])
    assert ("`fact:odd`" in how) == assumed
    assert verdict is Verdict.PROVED or not assumed


@pytest.mark.parametrize(
    ("name", "later", "output", "verdict"),
    [
        ("y", 12, "out_q", Verdict.REFUTED),
        ("y", 14, "out_q", Verdict.PROVED),  # a reset hides it
        ("s_register_y", 12, "out_q", Verdict.PROVED),  # data, which hold anything after a reset
        ("s_register_y", 12, "q", Verdict.REFUTED),  # and are seen
    ],
)
def test_a_fact_says_nothing_of_the_state_before_a_reset(name, later, output, verdict, tmp_path):
    """x is 0 from the second cycle on, and may be anything before: y must not keep what the mutant
    makes of it in the first cycle, where anything looks at it."""
    graph = aig.Aig(
        inputs=[("rst", 0), (design.SELECT, 0)],
        nexts=[0, later, 0],
        outputs={(output, 0): 8, ("out_valid", 0): 10},
        ands=[(6, 4), (12, 3)],  # mutant & x; the same & ~rst
        registers=[("x", 0), (name, 0), ("s_register_valid", 0)],
    )
    rule = aig.Aig(inputs=[("x", 0)], nexts=[], outputs={("wrong", 0): 2}, ands=[])
    equivalence.waiting(graph, 1, tmp_path / "step.aig", Given([rule], "rst"))
    assert equivalence.ask(equivalence.STEP, tmp_path, "", LIMIT) is verdict


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("x_slot0_y", Verdict.PROVED),
        ("s_register_running_y", Verdict.PROVED),
        ("y", Verdict.REFUTED),
    ],
)
def test_a_running_sum_holds_anything_after_a_reset(name, verdict, tmp_path):
    """x is 0 from the second cycle on; what is made of it in the first one stays in a sum."""
    graph = aig.Aig(
        inputs=[("rst", 0), (design.SELECT, 0)],
        nexts=[0, 10],
        outputs={("q", 0): 8},
        ands=[(6, 4)],  # mutant & x
        registers=[("x", 0), (name, 0)],
    )
    rule = aig.Aig(inputs=[("x", 0)], nexts=[], outputs={("wrong", 0): 2}, ands=[])
    equivalence.waiting(graph, 1, tmp_path / "step.aig", Given([rule], "rst"))
    assert equivalence.ask(equivalence.STEP, tmp_path, "", LIMIT) is verdict


@pytest.mark.parametrize(
    ("later", "constant"),
    [
        (12, True),  # 0 enters
        (17, False),  # an input enters
    ],
)
def test_constants_hold_while_they_are_valid(later, constant, tmp_path):
    """A register that holds what it has, or takes something with its valid bit."""
    graph = aig.Aig(
        inputs=[("in_valid", 0), ("rst", 0), ("d", 0)],
        nexts=[later, 20],
        outputs={},
        ands=[(8, 3), (6, 2), (15, 13), (11, 3), (19, 5)],  # in_valid ? d : x; (valid | in) & ~rst
        registers=[("s_register_x", 0), ("s_register_valid", 0)],
    )
    rule = equivalence.constants(graph)
    assert (rule is not None) == constant
    if rule is not None:
        assert rule.inputs == graph.registers
        assert equivalence.lasts(graph, [rule], "rst", tmp_path, LIMIT)


def test_a_sum_that_goes_round_is_no_constant(tmp_path):
    """x & x stays 0 from a 0 on, but a register that was never valid may hold 1."""
    (tmp_path / "unit.v").write_text("""
module unit (input wire clk, rst, mutant, in_valid, d, output wire out_x, out_valid);
  reg s_register_x, s_register_valid;
  assign out_x = s_register_x;
  assign out_valid = s_register_valid;
  always @(posedge clk) s_register_valid <= in_valid & ~rst;
  always @(posedge clk) s_register_x <= s_register_x & (d | mutant);
endmodule
""")
    graph = graph_of(tmp_path)
    assert equivalence.constants(replace(graph, registers=design.registers_of(graph))) is None


PAIRS = r"""
module unit (input wire clk, rst, mutant, in_valid, in_x, out_ready,
             output wire in_ready, out_x, out_valid);
  reg [1:0] \q.count , \q.left ;
  reg \q.write , \q.read , \q.x0 , \q.x1 ;
  assign out_valid = |\q.left , out_x = \q.read ? \q.x1 : \q.x0 ;
  assign in_ready = (\q.count != 2{or_full}) | ((out_valid{or_none}) & out_ready);
  wire takes = in_valid & in_ready, gives = out_valid & out_ready;
  always @(posedge clk) begin
    if (takes & ~\q.write ) \q.x0 <= in_x;
    if (takes & \q.write ) \q.x1 <= in_x;
    \q.count <= rst ? 2'd0 : \q.count + takes - gives;
    \q.left <= rst ? 2'd0 : takes & \q.write ? 2'd2 : \q.left - gives;
    \q.write <= ~rst & (\q.write ^ takes);
    \q.read <= ~rst & (\q.read ^ gives);
  end
endmodule
"""
"""A queue of two values, which leave when both have come."""


@pytest.mark.parametrize(
    ("or_none", "or_full", "verdict"),
    [(" | mutant", "", Verdict.PROVED), ("", " | mutant", Verdict.REFUTED)],
    ids=["a full queue without a pair, which never is", "a value that finds no place"],
)
def test_states_that_a_queue_never_reaches_are_known(or_none, or_full, verdict, tmp_path):
    text = PAIRS.replace("{or_none}", or_none).replace("{or_full}", or_full)
    (tmp_path / "unit.v").write_text(text)
    graph = graph_of(tmp_path)
    rules = reachable(graph, "rst")
    (rule,) = rules
    assert len(rule.inputs) == 6
    assert equivalence.lasts(graph, rules, "rst", tmp_path, LIMIT)
    equivalence.sequence(graph, 1, "rst", tmp_path / "sequence.aig", rules)
    assert ask(equivalence.SEQUENTIAL, tmp_path, "", LIMIT) is verdict


def test_registers_that_are_loaded_at_once_hold_not_any_value(tmp_path):
    """x waits for a value; y is loaded in every cycle, with two equal digits."""
    (tmp_path / "unit.v").write_text("""
module unit (input wire clk, rst, mutant, in_valid, in_x, output wire out_x, q);
  reg x, valid;
  reg [1:0] y;
  assign out_x = x & valid, q = ^y;
  always @(posedge clk) begin
    if (in_valid) x <= in_x;
    y <= {in_x, in_x & (~mutant | ~rst)};
    valid <= ~rst & in_valid;
  end
endmodule
""")
    graph = graph_of(tmp_path)
    assert {graph.registers[i] for i in kept(graph, "rst")} == {("x", 0)}
    equivalence.sequence(graph, 1, "rst", tmp_path / "sequence.aig")
    assert ask(equivalence.SEQUENTIAL, tmp_path, "", LIMIT) is Verdict.REFUTED


@pytest.mark.parametrize(
    ("ones", "verdict"),
    [("rst", Verdict.REFUTED), ("1'b0", Verdict.PROVED)],
    ids=["y is seen", "y is as in the unit"],
)
def test_a_value_kept_by_a_reset_goes_with_the_rest(ones, verdict, tmp_path):
    """k keeps any value through a reset, but never 1 where w was 1: y is 0 in the unit."""
    (tmp_path / "unit.v").write_text(f"""
module unit (input wire clk, rst, mutant, in_valid, output wire y);
  reg w, n, k;
  assign y = n & k;
  always @(posedge clk) begin
    w <= w & in_valid & ~rst;
    n <= w;
    if (mutant & ({ones})) k <= 1'b1;
    else if (w) k <= 1'b0;
  end
endmodule
""")
    graph = graph_of(tmp_path)
    assert {graph.registers[i] for i in kept(graph, "rst")} == {("k", 0)}
    equivalence.sequence(graph, 1, "rst", tmp_path / "sequence.aig")
    assert ask(equivalence.SEQUENTIAL, tmp_path, "", LIMIT) is verdict


def test_facts_are_about_registers_of_units_that_are_mutated():
    configs = [unit.config for unit in UNITS]
    for fact in facts():
        assert fact.config in configs
    with pytest.raises(ValueError, match=r"^register must be one of the unit's own, not 'x'$"):
        exposed(unit(UNIT.config), {"x": 1})


SOURCE = '''
def f(x: int | None = 3) -> int:
    """Doc."""
    if x < 2 and not x:
        raise ValueError("x must be 1 + 1")
    return -x + 5
'''


def test_mutants_of_python_change_one_expression():
    changes = python_source.sample(SOURCE, 100, "seed")
    assert Counter(change.operator for change in changes) == {
        "swapped operator": 1, "swapped comparison": 1, "swapped condition": 1,
        "dropped sign or negation": 2, "off by one": 6,
    }  # fmt: skip
    texts = {change.text for change in changes} | {ast.unparse(ast.parse(SOURCE))}
    assert len(texts) == len(changes) + 1
    assert all("x must be 1 + 1" in text and "x: int | None" in text for text in texts)
    assert python_source.sample(SOURCE, 4, "seed") == changes[:4]


@pytest.mark.parametrize(
    ("tests", "fate"),
    [
        (("model/test_blocks", "model/test_quantize"), Fate.KILLED),
        (("model/test_trace",), Fate.SURVIVED),
    ],
)
def test_a_mutant_of_the_model(tests, fate):
    part = parts.Part("rules", ("schemes/rules.py",), tests)
    (mutant,) = parts.mutants(part, 1, 1)
    outcome = parts.judged(part, *mutant)
    assert outcome.fate is fate, outcome
    assert not parts.failing(parts.Part("rules", (), tests[:1]))


def has_mutants(file):
    return bool(python_source.sample(file.read_text(), 1, ""))


@pytest.mark.parametrize("folder", ["model", "hw/verilog", "gpu/kernels"])
def test_each_module_that_computes_is_in_one_part(folder):
    root = parts.checkout()
    names = [(part.package, name) for part in parts.PARTS for name in (*part.modules, *part.leaves)]
    of = Counter("/".join(name) for name in names)
    files = {path.relative_to(root).as_posix(): path for path in (root / folder).rglob("*.py")}
    for name, path in files.items():
        assert of[name] == 1 or (not of[name] and not has_mutants(path)), (name, of[name])


def test_tests_of_parts_are_files():
    for part in parts.PARTS:
        for name in part.tests:
            assert (parts.checkout() / "tests" / f"{name}.py").is_file(), name


def test_a_sample_of_many_files_begins_at_none():
    """Fewer mutants than files: the seed says which files have one."""
    (part,) = (part for part in parts.PARTS if part.name == "gpu-kernels")
    files = [{file for file, _ in parts.mutants(part, 8, seed)} for seed in range(8)]
    assert all(len(each) > 4 for each in files)
    assert len(set.union(*files)) > 20


@pytest.fixture
def part_of(tmp_path):
    """A part whose Python is a script of the shell."""

    def part_of(script):
        python = tmp_path / "python"
        python.write_text(f"#!/bin/sh\n{script}\n")
        python.chmod(0o755)
        return parts.Part("odd", (), ("model/test_trace",), python=str(python))

    return part_of


def test_a_fault_of_its_own_kills_and_a_kill_does_not(part_of):
    assert parts.failing(part_of("kill -s SEGV $$")) == "model/test_trace"
    with pytest.raises(ValueError, match=r"^model/test_trace cannot run: status -9$"):
        parts.failing(part_of("kill -s KILL $$"))


def test_tests_of_a_mutant_that_do_not_end_kill_it(part_of):
    assert parts.failing(replace(part_of("sleep 60"), limit=0.1)) == "model/test_trace"


def test_tests_of_a_part_find_no_module_in_the_current_directory(part_of, monkeypatch):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    script = 'case ":$PYTHONPATH:" in *::*) exit 1;; esac'
    assert not parts.failing(part_of(script))
    monkeypatch.setenv("PYTHONPATH", "/x:")
    assert parts.failing(part_of(script)) == "model/test_trace"


def test_a_part_without_its_python_is_left_out_or_refused(mutate, monkeypatch, capsys):
    odd = tasks.of_part(parts.Part("odd", (), (), python="no/python"))
    line = f"odd needs {parts.checkout()}/no/python: make venv-gpu"
    monkeypatch.setattr(command, "subjects", lambda: [odd])
    with pytest.raises(ValueError, match=f"^{line}$"):
        mutate(only="odd")
    assert mutate() == 0
    assert capsys.readouterr().err.startswith(f"left out: {line}\n0 mutants")


def test_the_score_leaves_equal_mutants_out():
    fates = [Fate.KILLED] * 3 + [Fate.SURVIVED, Fate.EQUIVALENT]
    assert score(MutantOutcome("x", "", fate, "", 0.0) for fate in fates) == 75


def test_the_command_says_who_survived(mutate, monkeypatch, capsys):
    monkeypatch.setattr(bench, "run", lambda *_: UnitResult(UNIT.name, "", compared=1))
    monkeypatch.setattr(equivalence, "decide", lambda *_: (Verdict.REFUTED, "how"))
    assert mutate(2) == 1
    out, err = capsys.readouterr()
    assert out.count("survived small: ") == 2
    assert out.count("; another unit, says ABC\n") == 2
    assert err.endswith("2 mutants, score 0.0%: the goal of 99% is missed\n")
    assert evidence.told(out.splitlines()) == {
        "mutants small": {"mutants": 2, "equal": 0, "survived": 2}
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--only", "nothing"],
            "only must be part of a subject's name (see --list), not 'nothing'",
        ),
        (["--count", "1"], "count must be from 2 to 5000, not 1"),
        (["--seed", "-1"], "seed must be from 0 to 2147483647, not -1"),
        (["--limit", "0"], "limit must be above 0, not 0"),
        (["--longer", "10"], "longer must be at least limit, 20, not 10"),
    ],
)
def test_bad_arguments_are_one_line(arguments, message, capsys):
    assert main(["verify", "mutate", *arguments]) == 2
    assert capsys.readouterr().err == f"mxdot: error: {message}\n"


def test_registers_whose_outputs_mutants_change_keep_their_names():
    change = "mutate -mode inv -cell c -port Q -portbit 1 -wire sum_register_rows -wirebit 21"
    other = "mutate -mode inv -cell c -port A -portbit 0"
    rename = "rename -enumerate -pattern sum_register_rows_changed21_% w:$auto$mutate*"
    assert [*design.named([other, change])] == [change, rename, other]
    names = [("sum_register_rows_changed21_0", 0), ("sum_register_valid", 0), None]
    graph = aig.Aig([], [], {}, [], names)
    assert design.registers_of(graph) == [("sum_register_rows", 21), *names[1:]]
