"""A soak: it counts, goes on after an interruption, and keeps the least that fails."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from amaranth.hdl import Signal

from here import share_builds
from mxdot.hw.quantize.unit import QuantizeUnit
from mxdot.model import DotConfig, DotQuantizeConfig, QuantizeConfig
from mxdot.model.units import UnitConfig
from mxdot.sim.engine.job import UnitJob
from mxdot.sim.engine.regression_units import Unit
from mxdot.sim.engine.stream_unit import StallChances
from mxdot.verify.soak import vector
from mxdot.verify.soak.run import Settings, run_soak
from mxdot.verify.soak.state import Count, State
from processes import descendants, ended
from wrong_units import breaks, chosen_verilog, off_by_one_shift, right_verilog, wrong_verilog

CONFIG = DotConfig(formats="e4m3", lanes=4, accumulator="aligned:13", stages=3)
QUANTIZER = QuantizeConfig("e4m3", 4)
"""Its failures are told without another build and simulation."""
STORED = sorted((Path(__file__).parents[1] / "vectors" / "failures").glob("*.json"))


@pytest.fixture
def built(simulation_dir, tmp_path):
    """A directory for a soak of right units."""
    share_builds(tmp_path, simulation_dir / "soak")
    (tmp_path / VERILOG).write_text(right_verilog(CONFIG))
    return tmp_path


VERILOG = "right.v"


def soak(directory, config: UnitConfig = CONFIG, **options):
    settings = Settings(directory=directory, replay="mxdot sim replay {file}", **options)
    return run_soak([Unit(config)], settings)


def soak_right(directory, **options):
    return soak(directory, verilog=directory / VERILOG, **options)


@pytest.fixture
def soak_wrong(simulation_dir, tmp_path):
    """Runs a soak of the quantiser with one of `WRONG`, which must fail."""
    share_builds(tmp_path, simulation_dir / "soak-wrong")

    def soak_wrong(wrong, **options):
        verilog = chosen_verilog(WRONG, wrong, QUANTIZER, tmp_path)
        return soak(tmp_path, QUANTIZER, seed=1, verilog=verilog, **options)

    return soak_wrong


def test_a_failure_becomes_as_small_as_can_be(tmp_path, simulation_dir, capsys):
    """Two products five places apart: that is what the bug needs, and all that is kept."""
    share_builds(tmp_path, simulation_dir / "soak-wrong")
    verilog = wrong_verilog(off_by_one_shift, CONFIG, tmp_path)
    assert not soak(tmp_path, seed=1, count=2000, verilog=verilog)
    printed = capsys.readouterr().out
    (path,) = (tmp_path / "failures").glob("*.json")
    for text in ("got  0x", "want 0x", "lane 0 first", "seed 1,", str(CONFIG)):
        assert text in printed
    assert f"repeat with: mxdot sim replay {path}" in printed
    small = vector.load(path)
    assert small.state == vector.MINIMISED
    (item,) = small.items
    ((a, b, scale_a, scale_b),) = item["blocks"]
    lanes = [i for i in range(CONFIG.lanes) if (a | b) >> 8 * i & 0xFF]
    assert len(lanes) + (item["c"] != 0) == 2
    assert {scale_a, scale_b} == {127} or item["c"]
    assert State(tmp_path).load()[CONFIG.name].failed == 1

    builds = simulation_dir / "soak" / CONFIG.name
    job = UnitJob("replay", CONFIG, 0, tmp_path / "replay", builds=builds)
    replayed, report = vector.replay(small, job)
    assert not replayed.failed
    assert report == ""


@breaks(QuantizeUnit)
def wrong_from_the_third_on(unit, m):
    count = Signal(2)
    with m.If(unit.o.valid & unit.o.ready & (count < 2)):
        m.d.sync += count.eq(count + 1)
    with m.If(count == 2):
        m.d.comb += unit.o.payload.codes[0][0].eq(1)


@breaks(QuantizeUnit)
def wrong_under_a_scale(unit, m):
    with m.If(unit.o.payload.scale == 100):
        m.d.comb += unit.o.payload.codes[0].eq(0x55)


def waits_long(unit, m):
    """Whether a result has been waiting for six cycles."""
    waited = Signal(3)
    with m.If(unit.o.valid & ~unit.o.ready):
        m.d.sync += waited.eq(waited + (waited < 6))
    with m.Else():
        m.d.sync += waited.eq(0)
    return waited == 6


@breaks(QuantizeUnit)
def wrong_after_a_long_wait(unit, m):
    with m.If(waits_long(unit, m)):
        m.d.comb += unit.o.payload.codes[0][0].eq(1)


@breaks(QuantizeUnit)
def hangs_after_a_long_wait(unit, m):
    hangs = Signal()
    m.d.sync += hangs.eq(hangs | waits_long(unit, m))
    with m.If(hangs):
        m.d.comb += unit.o.valid.eq(0)


WRONG = [
    *(wrong_from_the_third_on, wrong_under_a_scale),
    *(wrong_after_a_long_wait, hangs_after_a_long_wait),
]
"""All in one unit."""


def test_what_fails_after_others_only_keeps_those(soak_wrong, tmp_path):
    assert not soak_wrong(wrong_from_the_third_on, count=500)
    (path,) = (tmp_path / "failures").glob("*.json")
    small = vector.load(path)
    assert small.state == vector.MINIMISED
    assert len(small.items) == 3
    assert small.wrong == 2
    assert not any(values for item in small.items for values, _ in item["beats"])


def test_a_block_to_quantise_becomes_one_value(soak_wrong, tmp_path):
    assert not soak_wrong(wrong_under_a_scale, count=3000)
    (path,) = (tmp_path / "failures").glob("*.json")
    ((value, random),) = vector.load(path).items[0]["beats"]
    assert vector.load(path).state == vector.MINIMISED
    used = [bits for i in range(4) if (bits := value >> 32 * i & 2**32 - 1)]
    assert len(used) == 1
    assert used[0] >> 23 == 100 + 8  # emax of E4M3 above the scale's own
    assert used[0] & 2**23 - 1 == 0
    assert random == 0


def test_a_later_round_finds_what_long_stalls_bring_out(soak_wrong, tmp_path):
    assert soak_wrong(wrong_after_a_long_wait, count=1000)
    assert not soak_wrong(wrong_after_a_long_wait, count=1000, rounds=6)
    (path,) = (tmp_path / "failures").glob("*.json")
    assert vector.load(path).timing.stall > StallChances().stall


def test_a_deadlock_in_a_later_round_names_its_timing(soak_wrong, capsys):
    assert not soak_wrong(hangs_after_a_long_wait, count=1000, rounds=6)
    timing = r"^gap \d+/256, stall (\d+)/256, seed \d+: .*: deadlock: "
    told = re.search(timing, capsys.readouterr().out, re.M)
    assert told is not None
    assert int(told[1]) > StallChances().stall


@breaks(QuantizeUnit)
def wrong_beside_a_larger_one(unit, m):
    """The scale makes a value alone normal, but for the least of all scales."""
    code = unit.o.payload.codes[0]
    with m.If((code[3:7] == 0) & code[:3].any() & unit.o.payload.scale.any()):
        m.d.comb += code[7].eq(1)


def test_of_a_block_of_dot_products_two_are_left(simulation_dir, tmp_path):
    share_builds(tmp_path, simulation_dir / "soak-wrong")
    config = DotQuantizeConfig(CONFIG, "e4m3", 4)
    verilog = wrong_verilog(wrong_beside_a_larger_one, config, tmp_path)
    assert not soak(tmp_path, config, seed=1, count=3000, verilog=verilog)
    (path,) = (tmp_path / "failures").glob("*.json")
    small = vector.load(path)
    assert small.state == vector.MINIMISED
    (item,) = small.items
    used = [p for p in item["products"] if p["c"] or any(any(b[:2]) for b in p["blocks"])]
    assert len(used) == 2
    assert all(len(product["blocks"]) == 1 for product in item["products"])


SCRIPT = """
import sys
from pathlib import Path
from test_soak import soak_right
if __name__ == "__main__":
    soak_right(Path(sys.argv[1]), hours=1, count=1000, workers=1)
"""


def begun(directory):
    """A soak in a process of its own, that has finished a run at least."""
    script = directory / "main.py"
    script.write_text(SCRIPT)
    here = str(Path(__file__).parent)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([here, *sys.path])}
    process = subprocess.Popen([sys.executable, script, directory], env=environment)
    end = time.monotonic() + 240
    while not (directory / "state.json").exists():
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.2)
    return process


def counted(directory):
    """Runs, and dot products compared."""
    count = State(directory).load()[CONFIG.name]
    return count.runs, count.compared


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_soak_goes_on(number, built, capsys):
    process = begun(built)
    process.send_signal(signal.SIGSTOP)  # it starts no more
    workers = descendants(process.pid)
    for one in (number, signal.SIGCONT):
        process.send_signal(one)
    assert process.wait(30) != 0
    assert ended(workers)  # those of a killed one look after themselves
    runs, compared = counted(built)
    assert runs >= 1
    assert bool(list((built / "runs").iterdir())) == (number == signal.SIGKILL)
    assert soak_right(built, seed=1, count=1000)
    assert counted(built)[0] == runs + 1
    assert counted(built)[1] > compared
    assert list((built / "runs").iterdir()) == []
    assert f"{compared:,} compared so far" in capsys.readouterr().out


def test_rounds_send_operands_again(built, capsys):
    """Which adds nothing to what was drawn anew."""
    assert soak_right(built, seed=1, count=1000, rounds=3)
    (count,) = State(built).load().values()
    assert count.compared == 3 * count.fresh >= 3 * 900
    assert f"{count.fresh:,} of them drawn anew" in capsys.readouterr().out


def test_two_soaks_at_once_lose_no_count(tmp_path):
    state, run = State(tmp_path), Count("v", "dot products", 10, 1)
    threads = [
        threading.Thread(target=lambda: [State(tmp_path).add("unit", run) for _ in range(20)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert state.load() == {"unit": Count("v", "dot products", 800, 80)}


def test_another_verilog_counts_from_zero(tmp_path):
    State(tmp_path).add("unit", Count("v", "dot products", 10, 1))
    assert State(tmp_path).add("unit", Count("w", "dot products", 3, 1)).compared == 3


def test_a_failure_that_was_not_made_small_yet_is_next_time(built):
    """As an interruption leaves it; a right unit does not fail on it."""
    (stored,) = (path for path in STORED if "aligned" in path.name)
    path = built / "failures" / "one.json"
    replace(vector.load(stored), state=vector.FOUND).save(path)
    assert soak_right(built, hours=0)
    assert vector.load(path).state == vector.LOST


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_stored_failures_are_mended(path, tmp_path, simulation_dir):
    kept = vector.load(path)
    builds = simulation_dir / "soak" / kept.config.name
    job = UnitJob("stored", kept.config, 0, tmp_path, builds=builds)
    replayed, report = vector.replay(kept, job)
    assert (report, replayed.failed, len(replayed.got)) == ("", False, len(kept.items))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": "other"}, "schema must be 'mxdot regression vector 1'"),
        ({"kind": "adder"}, "kind must be one of dot, "),
        ({"items": []}, "items must be a list of 1 to 10000"),
        ({"wrong": 1}, "wrong must be from 0 to 0, not 1"),
        ({"timing": {"gap": 256, "stall": 0, "seed": 1}}, "gap must be from 0 to 255, not 256"),
        ({"state": "mended"}, "state must be one of found, minimised, not reproduced"),
        ({"config": {"lanes": 5}}, "lanes must be one of"),
        ({"more": 1}, "unexpected keyword argument 'more'"),
    ],
)
def test_other_files_are_refused(change, message, tmp_path):
    path = tmp_path / "vector.json"
    path.write_text(json.dumps(json.loads(STORED[0].read_text()) | change))
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        vector.load(path)
    assert str(error.value).startswith(f"{path} cannot be read as a regression vector: ")


@pytest.mark.parametrize("item", [{}, 1, {"mode": 9, "c": 0, "blocks": [[1, 1, 1, 1]]},
                                  {"mode": 0, "c": 2**40, "blocks": [[1, 1, 1, 1]]},
                                  {"mode": 0, "c": 0, "blocks": [[2**99, 1, 1, 1]]}])  # fmt: skip
def test_other_items_are_refused(item, tmp_path):
    kept = vector.Vector(CONFIG, [item])
    with pytest.raises(ValueError, match="items must be those of the unit"):
        vector.replay(kept, UnitJob("other", CONFIG, 0, tmp_path))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": "mxdot soak 1", "units": {"a": 1}}'])
def test_another_state_is_refused(text, tmp_path):
    (tmp_path / "state.json").write_text(text)
    with pytest.raises(ValueError, match=r"state\.json cannot be read as a soak's state"):
        soak(tmp_path, hours=0)
