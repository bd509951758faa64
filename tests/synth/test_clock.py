"""The search for the smallest unit at a clock, by a stand-in for synthesis; its predictions."""

from dataclasses import replace

import pytest

from mxdot.model import DotConfig
from mxdot.model.pipeline.advice import advice, bound, idle_stages
from mxdot.synth import Cost, Flow, measure
from mxdot.synth.clock import MOST, Search, fastest_ps, pipelines, registers

UNIT = DotConfig("e4m3", 32, "exact")
TEXT = """module top (input clk, input [7:0] a, b, output reg [7:0] y);
always @(posedge clk) y <= y + a * b;
endmodule
"""


class Synthesis:
    """An area that grows with registers and with the tightness of the aim."""

    def __init__(self, slow: float = 1.0):
        self.slow, self.calls = slow, []

    def __call__(self, unit: DotConfig, flow: Flow) -> Cost:
        self.calls.append((unit, flow.effort, flow.aim_ps))
        least = self.slow * fastest_ps(unit)
        loosest = 1.5 * least
        delay = min(loosest, least + 0.8 * max(0, (flow.aim_ps or 0) - 0.55 * least))
        if flow.effort == "balanced":
            delay = loosest
        area = 0.35 * registers(unit) + 1400 * (1 + 0.3 * (loosest - delay) / loosest)
        found = {"area": area, "unit": "um2", "nand2": area, "flipflops": registers(unit)}
        return Cost(**found, depth=10, delay_ps=delay, fmax_mhz=1e6 / delay, stages={})


@pytest.mark.parametrize("rule", ["exact", "aligned:8", "fixed:32:-16"])
@pytest.mark.parametrize("period", [800.0, 1000.0, 2500.0, 10000.0])
def test_what_is_found_meets_the_clock_and_nothing_tried_is_smaller(rule, period):
    synthesis = Synthesis()
    clocked = Search(DotConfig("e4m3", 32, rule), "asap7", period, synthesis).run()
    assert clocked.is_met
    assert clocked.syntheses == len(synthesis.calls) == len(set(synthesis.calls)) <= MOST
    again = map(Synthesis(), *zip_flows(synthesis.calls))
    met = [cost for cost in again if cost.delay_ps <= period]
    assert clocked.cost.area == min(cost.area for cost in met)
    assert clocked.area_error is not None
    assert clocked.config.interval <= clocked.config.interleave  # a block in every cycle


def zip_flows(calls):
    units = [unit for unit, _, _ in calls]
    flows = [Flow.of_process("asap7", effort=e, aim_ps=a, sections=False) for _, e, a in calls]
    return units, flows


def test_the_slack_is_small_where_a_looser_aim_would_be_smaller():
    clocked = Search(UNIT, "asap7", 1000.0, Synthesis(), ("interleave",)).run()
    assert 0 <= clocked.slack_ps < 80


def test_one_effort_for_all_syntheses():
    synthesis = Synthesis()
    clocked = Search(UNIT, "asap7", 1000.0, synthesis, effort="both").run()
    assert clocked.is_met
    assert {effort for _, effort, _ in synthesis.calls} == {"both"}
    assert (clocked.flow.effort, clocked.flow.aim_ps) in {
        ("both", a) for _, _, a in synthesis.calls
    }


def test_a_clock_that_nothing_meets_has_the_fastest_unit():
    synthesis = Synthesis()
    clocked = Search(DotConfig("e4m3", 32, "float32"), "asap7", 1000.0, synthesis).run()
    assert not clocked.is_met
    assert clocked.area_error is None
    assert clocked.bound == "section accumulate"
    assert clocked.cost.delay_ps == pytest.approx(fastest_ps(clocked.config))


def test_predictions_that_are_too_good_are_found_out():
    clocked = Search(UNIT, "asap7", 700.0, Synthesis(slow=1.15)).run()
    assert clocked.is_met
    assert clocked.syntheses <= MOST


def test_options_that_are_given_stay():
    for unit in pipelines(DotConfig("e4m3", 32, "exact", 4), "asap7", 1000.0, ("interleave",)):
        assert unit.stages == 4
    units = list(pipelines(UNIT, "asap7", 1000.0, ()))
    assert [(unit.stages, unit.interleave) for unit in units] == [(4, 1)]
    units = list(pipelines(UNIT, "sky130", 5000.0, ("stages",)))
    assert {unit.interleave for unit in units} == {1}
    assert {unit.delays for unit in units} == {"sky130"}
    assert {unit.interval for unit in units} == {1}


@pytest.mark.parametrize(
    ("unit", "period", "pipeline"),
    [
        (DotConfig("e4m3", 32, "hopper", stages=5), 1000.0, (3, 3)),
        (DotConfig("e2m1", 4, "exact", stages=12), 1428.6, (7, 7)),  # relaxed with one product too
    ],
)
def test_stages_that_are_given_take_a_block_in_every_cycle(unit, period, pipeline):
    guess = Search(unit, "asap7", period, Synthesis(), ("interleave",)).guess
    assert (guess.interleave, guess.interval) == pipeline


@pytest.mark.parametrize("rule", ["exact", "aligned:8", "hopper", "float32"])
def test_all_numbers_of_stages_have_such_a_unit(rule):
    low, high = DotConfig("e2m1", 4, rule).stage_limits
    for stages in range(low, high + 1):
        unit = DotConfig("e2m1", 4, rule, stages=stages)
        units = list(pipelines(unit, "asap7", 1000.0, ("interleave",)))
        assert units
        assert all(unit.interval == unit.interleave for unit in units)


def test_what_is_predicted_is_near_what_was_measured():
    """Delays of docs/area.md, `make area-report ARGS='--clock --effort speed'`."""
    for stages, interleave, mhz in ((4, 1, 540), (4, 7, 912), (8, 7, 1692), (13, 7, 2392)):
        unit = DotConfig("e4m3", 32, "exact", stages, interleave=interleave)
        assert fastest_ps(unit) == pytest.approx(1e6 / mhz, rel=0.17)


def test_stages_that_the_loop_makes_idle():
    assert idle_stages(UNIT) == 2
    line = advice(UNIT)
    assert line is not None
    assert line.startswith("4 stages are no faster than 2: the loop of the running value (distance")
    assert "--interleave 2 to 15" in line
    assert "--interleave 3 to 15 puts" in str(advice(replace(UNIT, interleave=2)))
    least = DotConfig("e4m3", 4, "fused:13", 4, interleave=2)
    assert "--interleave 3 puts" in str(advice(least))
    assert advice(DotConfig("e4m3", 32, "exact", 2)) is None
    assert advice(DotConfig("e4m3", 32, "exact", 8, interleave=15)) is None
    assert advice(DotConfig("e4m3", 32, "float32", 8)) is None  # its loop is one section
    assert bound(DotConfig("e4m3", 32, "fixed:32:-16", 3)) == (
        "the sections sum scale between two registers"
    )


def test_an_aim_is_one_synthesis_with_the_result_of_the_whole_script(tmp_path):
    """What aims share is kept; the netlist does not depend on whether it was."""
    whole = measure(TEXT, "top", Flow.of_process("asap7", sections=False), cache_dir=tmp_path)
    fastest, again = (
        measure(TEXT, "top", flow, cache_dir=tmp_path)
        for flow in (
            Flow.of_process("asap7", aim_ps=1, sections=False),
            Flow.of_process("asap7", aim_ps=2, sections=False),
        )
    )
    loose = measure(
        TEXT, "top", Flow.of_process("asap7", aim_ps=2000, sections=False), cache_dir=tmp_path
    )
    assert (whole.area, whole.delay_ps) == (fastest.area, fastest.delay_ps)
    assert (again.area, again.delay_ps) == (fastest.area, fastest.delay_ps)
    assert loose.area <= fastest.area
    assert len(list(tmp_path.rglob("*.prepared.json.gz"))) == 1


def test_an_aim_and_a_target_exclude_each_other():
    with pytest.raises(ValueError, match="aim_ps and target_ps exclude each other"):
        Flow.of_process("asap7", aim_ps=500, target_ps=600)
    with pytest.raises(ValueError, match="aim_ps is for the flow cells, not gates"):
        Flow(aim_ps=500)
    with pytest.raises(ValueError, match="aim_ps must be at least 1, not 0"):
        Flow.of_process("asap7", aim_ps=0)
