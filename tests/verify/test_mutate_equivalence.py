"""Questions that prove a mutant equal: each refutes one that is not."""

from dataclasses import replace

import pytest

from mxdot.hw.verilog import generate
from mxdot.model import QuantizeConfig
from mxdot.synth.tools import run_yosys
from mxdot.verify.formal import aig
from mxdot.verify.formal.engine import Verdict, ask
from mxdot.verify.formal.facts import Fact, exposed, facts
from mxdot.verify.formal.observer import unit
from mxdot.verify.mutate import design, equivalence
from mxdot.verify.mutate.copies import Given, kept
from mxdot.verify.mutate.equivalence import Limits
from mxdot.verify.mutate.first_block import FirstBlock, NoFirstBlockError
from mxdot.verify.mutate.flow import NoPipelineError
from mxdot.verify.mutate.reachable import reachable
from mxdot.verify.small_units import UNITS, Unit

LIMIT = 60  # seconds
UNIT = Unit("small", QuantizeConfig("e2m1", 4, "bfloat16", stages=2), 1000, 2000)


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
    equivalence.write_flow(graph_of(tmp_path), 1, "rst", tmp_path / "flow.aig", masked=True)
    assert ask(equivalence.FLOW, tmp_path, "", LIMIT) is verdict


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize(
    ("second", "out", "message"),
    [
        ("s_x", "t_register_x & d", "outputs of a section and inputs"),
        ("s_x & d", "t_register_x", "registers of a section and inputs"),
    ],
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
        equivalence.write_flow(graph_of(tmp_path), 1, "rst", tmp_path / "flow.aig", masked=masked)


@pytest.mark.parametrize("masked", [True, False])
def test_outputs_are_of_one_section(masked, tmp_path):
    """The section before holds what came later."""
    (tmp_path / "unit.v").write_text("""
module unit (input wire clk, rst, mutant, in_valid, a, output wire out_x, out_valid);
  reg s_register_x, s_register_valid, u_register_x, u_register_valid;
  assign out_x = mutant ? s_register_x : u_register_x;
  assign out_valid = u_register_valid;
  always @(posedge clk) s_register_valid <= in_valid & ~rst;
  always @(posedge clk) u_register_valid <= s_register_valid & ~rst;
  always @(posedge clk) if (in_valid) s_register_x <= a;
  always @(posedge clk) if (s_register_valid) u_register_x <= s_register_x;
endmodule
""")
    with pytest.raises(NoPipelineError, match="outputs of several sections"):
        equivalence.write_flow(graph_of(tmp_path), 1, "rst", tmp_path / "flow.aig", masked=masked)


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize(
    ("valid", "verdict"),
    [("s_register_valid", Verdict.PROVED), ("s_register_valid | busy", Verdict.REFUTED)],
)
def test_outputs_are_of_the_section_that_is_valid(valid, verdict, masked, tmp_path):
    """x and y are alike while their section is valid."""
    (tmp_path / "unit.v").write_text(f"""
module unit (input wire clk, rst, mutant, in_valid, a, d, output wire out_x, out_valid, busy);
  reg s_register_x, s_register_y, s_register_d, s_register_valid;
  assign busy = in_valid;
  assign out_x = (mutant ? s_register_x : s_register_y) & s_register_d;
  assign out_valid = {valid};
  always @(posedge clk) s_register_valid <= in_valid & ~rst;
  always @(posedge clk) if (in_valid) begin
    s_register_x <= a;
    s_register_y <= (a & d) | (a & ~d);
    s_register_d <= d;
  end
endmodule
""")
    equivalence.write_flow(graph_of(tmp_path), 1, "rst", tmp_path / "flow.aig", masked=masked)
    assert ask(equivalence.FLOW, tmp_path, "", LIMIT) is verdict


@pytest.mark.parametrize("masked", [True, False])
def test_a_valid_bit_that_a_reset_keeps_says_nothing(masked, tmp_path):
    (tmp_path / "unit.v").write_text("""
module unit (input wire clk, rst, mutant, in_valid, a, go, output wire out_x, out_valid);
  reg s_register_x, s_register_y, s_register_valid;
  assign out_x = mutant ? s_register_y : s_register_x;
  assign out_valid = s_register_valid;
  always @(posedge clk) if (go) s_register_valid <= in_valid & ~rst;
  always @(posedge clk) if (go) s_register_x <= a;
  always @(posedge clk) if (go) s_register_y <= a;
endmodule
""")
    with pytest.raises(NoPipelineError, match="valid bits that a reset does not clear"):
        equivalence.write_flow(graph_of(tmp_path), 1, "rst", tmp_path / "flow.aig", masked=masked)


def test_a_cell_of_inputs_before_a_later_section_has_no_mask(tmp_path):
    """The cell differs where d is 0 when t loads; m is 1 where d was 0 before."""
    (tmp_path / "unit.v").write_text("""
module unit (input wire clk, rst, mutant, in_valid, a, b, d, go, output wire out_x, out_valid);
  reg s_register_x, s_register_z, s_register_m, s_register_valid;
  reg t_register_x, t_register_m, t_register_valid;
  wire one = mutant ? ~go & d : go | d;
  assign out_x = t_register_x & t_register_m;
  assign out_valid = t_register_valid;
  always @(posedge clk) s_register_valid <= in_valid & ~rst;
  always @(posedge clk) t_register_valid <= go & s_register_valid & ~rst;
  always @(posedge clk) if (in_valid) begin
    s_register_x <= a;
    s_register_z <= b;
    s_register_m <= ~(go | d);
  end
  always @(posedge clk) if (go) begin
    t_register_x <= one ? s_register_x : s_register_z;
    t_register_m <= s_register_m;
  end
endmodule
""")
    graph, file = graph_of(tmp_path), tmp_path / "flow.aig"
    with pytest.raises(NoPipelineError, match="a cell of later inputs"):
        equivalence.write_flow(graph, 1, "rst", file, masked=True)
    equivalence.write_flow(graph, 1, "rst", file)
    assert ask(equivalence.FLOW, tmp_path, "", LIMIT) is Verdict.REFUTED


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


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        (TWO_SECTIONS, "a loop that takes several sections"),
        (SUM_BEFORE, "a sum before the loop"),
        (NO_OWNER, "nothing before a loop"),
    ],
)
def test_a_loop_that_reads_more_than_what_entered_once_is_refused(rest, message, tmp_path):
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
    with pytest.raises(NoPipelineError, match=message):
        equivalence.write_loop(graph_of(tmp_path), 1, "rst", tmp_path / "flow.aig")


def graph_of(directory):
    """The graph of unit.v in the directory."""
    flat = "read_verilog unit.v\nproc\nwrite_rtlil mutants.il\ndesign -reset\n"
    run_yosys(flat + design.WRITE.format(mutations=""), directory, "unit", LIMIT)
    return aig.read(directory / "mutants.aig")


def test_an_unreachable_state_is_equal_in_sequences_alone(tmp_path):
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
    verdict, how = equivalence.decide(both, 1, tmp_path, Limits(LIMIT, LIMIT), [fact])
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
