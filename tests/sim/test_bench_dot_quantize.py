"""The bench of dot units with a quantiser: right ones pass, wrong ones fail and are described."""

from pathlib import Path

import numpy as np
import pytest
from amaranth.hdl import Signal

from compare import FULL, some
from matrices import every_unit
from mxdot.cli import main
from mxdot.hw.quantize import dot_quantize
from mxdot.hw.verilog import generate
from mxdot.model import DotConfig, DotQuantizeConfig
from mxdot.sim.dot_quantize import item, stimulus
from mxdot.sim.dot_quantize.subject import Timeline
from mxdot.sim.engine import regression_units
from mxdot.sim.engine.job import UnitJob
from mxdot.sim.engine.regression import run_unit
from mxdot.sim.engine.regression_units import BULK as BULK_OF_SIM
from mxdot.verify.small_units import UNITS
from wrong_units import AT_THE_CARRY, frozen_words, overridden, run_none_of, run_one_of

CONFIG = DotQuantizeConfig(
    DotConfig("e5m2xe4m3", 4, "hopper", 2, out="bfloat16"), "e2m1", 4, "even", "stochastic",
    "element", seed=5, quantizer_stages=2,
)  # fmt: skip
WIDE = DotQuantizeConfig(
    DotConfig("e4m3", 4, "exact", 2), "e2m1", 4, "even", "stochastic", "element", seed=5,
    quantizer_stages=2,
)  # fmt: skip
"""float32 results have digits enough to meet a random word."""
TRAFFIC = {"traffic": 600, "bulk": 2000}
WRONG_TRAFFIC = {"traffic": 300, "bulk": 800}
"""Which is not long enough for every bin of coverage."""
MATRIX = [u for u in regression_units.default_matrix() if isinstance(u.config, DotQuantizeConfig)]
EVERY = [u for u in every_unit() if isinstance(u.config, DotQuantizeConfig)]


def job(config: DotQuantizeConfig, directory: Path, **options) -> UnitJob:
    return UnitJob("small", config, 1, directory, repeat="mxdot sim --seed 1", **options)


def between(patch, when, override) -> None:
    """Let `override(m, unit, dot, quantizer)` add statements where both are joined."""
    parts = {}

    def submodule(m, name, component):
        parts[name] = component
        return right(m, name, component)

    right = dot_quantize.submodule
    patch.setattr(dot_quantize, "submodule", submodule)
    overridden(
        patch, dot_quantize.DotQuantizeUnit, lambda unit, m: override(m, unit, **parts), when
    )


def late_scale(patch, when):
    """A block has the scale of the one before."""

    def override(m, unit, dot, quantizer):
        codes, before = quantizer.o.payload, Signal(8)
        with m.If(unit.o.valid & unit.o.ready & codes.last):
            m.d.sync += before.eq(codes.scale)
        m.d.comb += unit.o.payload.scale.eq(before)

    between(patch, when, override)


def dropped_bit(patch, when):
    """The lowest bit of the result does not reach the quantiser."""

    def override(m, unit, dot, quantizer):
        m.d.comb += quantizer.i.payload["values"][0][0].eq(0)

    between(patch, when, override)


def lost_results(patch, when):
    """The dot unit does not wait for the quantiser."""

    def override(m, unit, dot, quantizer):
        m.d.comb += dot.o.ready.eq(1)

    between(patch, when, override)


WRONG = [late_scale, frozen_words, dropped_bit, lost_results]


def test_a_right_unit_passes(simulation_dir, tmp_path):
    result = run_none_of(WRONG, CONFIG, tmp_path, simulation_dir, **TRAFFIC)
    assert result.errors == []
    assert (result.passed, result.mismatches, result.coverage) == (True, 0, 100.0)
    assert result.items == "requantised blocks"
    assert result.compared > 1200


@pytest.mark.parametrize(
    ("wrong", "what"),
    [(late_scale, "scale differs"), (frozen_words, "codes differ"), (dropped_bit, "codes differ")],
)
def test_wrong_units_are_caught(wrong, what, simulation_dir, tmp_path):
    """In bulk mode; the bench of cycles, too, as one of them shows."""
    where = "traffic" if FULL or wrong is frozen_words else "bulk"
    options = WRONG_TRAFFIC | ({"traffic": 0} if where == "bulk" else {})
    result = run_one_of(WRONG, wrong, CONFIG, tmp_path, simulation_dir, **options)
    assert any("bulk: " in e and "results differ from the model's" in e for e in result.errors)
    assert result.mismatches > 0
    for text in (
        what,
        f"{where}, requantised block ",
        "seed 1, unit small: e5m2xe4m3 hopper x4 stages 2 bfloat16 no-status, quantize bfloat16",
        " after the reset; the golden model's results:",
        "results ",
        "words  ",
        "got  scale 0x",
        "want scale 0x",
        "dot product ",
        "formats e5m2xe4m3 (mode 0)",
        "block 0: scale_a 0x",
        "repeat with: mxdot sim --seed 1",
    ):
        assert text in result.report
    assert (tmp_path / "failure.json").is_file()


def test_lost_results_are_caught(simulation_dir, tmp_path):
    result = run_one_of(WRONG, lost_results, CONFIG, tmp_path, simulation_dir, **WRONG_TRAFFIC)
    assert any("no result for 2000 cycles" in error for error in result.errors)


def test_a_wrong_model_is_caught(simulation_dir, tmp_path):
    bulk = 800 if FULL else 0
    options = {
        "traffic": 300,
        "bulk": bulk,
        "predictor": "wrong_predictors:words_of_the_next_block",
    }
    result = run_none_of(WRONG, CONFIG, tmp_path, simulation_dir, **options)
    assert not result.passed
    assert result.mismatches > 0


@pytest.mark.parametrize("name", some(AT_THE_CARRY, 2))
def test_wrong_carries_of_random_words_are_caught(name, simulation_dir, tmp_path):
    options = {"traffic": 0, "bulk": BULK_OF_SIM}
    builds = simulation_dir / name.replace(" ", "-")
    wrong = AT_THE_CARRY[name]
    result = run_one_of([wrong], wrong, WIDE, tmp_path, builds, **options)
    assert result.mismatches > 0
    assert "words  " in result.report


def test_a_digit_far_below_a_tie_decides_it(simulation_dir, tmp_path):
    """The quantiser hides nearly every last place: digits are taken away down to it."""
    (config,) = (u.config for u in UNITS if isinstance(u.config, DotQuantizeConfig))
    right, wrong = "|shifted2[3:0]", "|shifted2[3:1]"
    text = generate(config)
    assert text.count(right) == 1
    verilog = tmp_path / "unit.v"
    verilog.write_text(text.replace(right, wrong))
    options = {"builds": simulation_dir / "far", "verilog": verilog, "explains": False}
    result = run_unit(job(config, tmp_path, bulk=BULK_OF_SIM, **options))
    assert any("results differ from the model's" in error for error in result.errors)


# Stimulus ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", MATRIX, ids=lambda unit: unit.name)
def test_blocks_travel_through_pins_and_files(unit, tmp_path):
    config = unit.config
    batch = stimulus.traffic(job(config, tmp_path), "traffic", 300, None)
    batch = batch.take(np.random.default_rng(1).permutation(len(batch))[:40])
    blocks = item.blocks(config, batch)
    assert [item.block_of(item.plain(block)) for block in blocks] == blocks
    again = item.batch_of(config, blocks)
    assert item.blocks(config, again) == blocks
    got, want = item.predict(config, again), item.predict(config, batch)
    assert (got.codes.codes == want.codes.codes).all()
    assert (got.codes.scale == want.codes.scale).all()


def test_every_dot_product_is_in_a_block(tmp_path):
    x = np.random.default_rng(2).standard_normal((5, 10)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x, y=x)
    options = {"tensors": tmp_path / "x.npz", "all_tensors": True}
    batch = stimulus.traffic(job(CONFIG, tmp_path, **options), "bulk", 500, None)
    count = sum(map(len, batch.products))
    assert set(batch.order.ravel().tolist()) == set(range(count))
    assert batch.order.size - count < CONFIG.quantizer.block
    tensors = [part for part in batch.products if part.sequence == "tensors"]
    assert sum(map(len, tensors)) == 25
    assert tensors[0].blocks == 3


def test_results_are_due_one_after_the_other():
    """Two blocks of dot products without a gap: codes follow without one."""
    config = MATRIX[0].config
    line = Timeline(config, lambda: (True, True))
    for now in range(16):
        first, last = line.marks()
        assert (first, last) == (now % 8 == 0, now % 8 == 7)
        assert line.must_accept(now, first)
        line.accept(now, first, last)
    assert list(line.due) == list(range(7 + config.latency, 23 + config.latency))


def test_the_matrix():
    units = [unit.config for unit in MATRIX]
    assert {unit.dot.out.name for unit in units} == {"float32", "bfloat16", "float16"}
    assert {unit.quantizer.scale_rule for unit in units} == {"floor", "ceil", "even"}
    assert len({unit.quantizer.rounding for unit in units}) == 3
    assert len({unit.quantizer.nonfinite for unit in units}) == 2
    assert {unit.dot.interval > 1 for unit in units} == {False, True}
    assert {str(unit.config.dot.accumulator) for unit in EVERY} >= set(
        regression_units.ACCUMULATORS
    )


def test_command_line(capsys):
    arguments = "dot-quantize --accumulator hopper --to e2m1 --block 8 --list"
    assert main(["sim", *arguments.split()]) == 0
    name = "dot-quantize-hopper-e4m3-x32-s4-to-e2m1-x8-s4-floor"
    assert capsys.readouterr().out.startswith(f"{name} e4m3 hopper x32 ")
