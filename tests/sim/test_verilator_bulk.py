"""Bulk mode, on a stand-in unit whose answers are easy to predict."""

from pathlib import Path

import numpy as np
import pytest

from failing_disk import fails_from
from mxdot.sim.bench import bulk
from mxdot.sim.dot.unit import write_records
from mxdot.sim.engine.verilator import Build, SimulationError
from standin.build import STANDIN, Blocks, build_standin
from wrong_units import CHOICE, choose


@pytest.fixture(scope="module")
def standin(simulation_dir: Path) -> Build:
    return build_standin(simulation_dir / "standin")


@pytest.mark.parametrize(("gap", "stall"), [(0, 0), (80, 0), (0, 80), (128, 128), (255, 0)])
def test_bulk_results_in_order_under_gaps_and_stalls(standin, tmp_path, gap, stall):
    blocks = Blocks(3000, seed=gap + stall)
    records = blocks.write(tmp_path / "records")
    report = bulk.run(standin, records, tmp_path / "results", gap=gap, stall=stall, seed=3)
    got = bulk.read_results(tmp_path / "results")
    result, flags = blocks.expected()
    np.testing.assert_array_equal(got, np.stack([result, flags], axis=1))
    assert (report.blocks, report.results) == (3000, len(result))
    if gap == stall == 0:
        assert report.cycles <= 3000 + 4  # one block per cycle, and the pipeline's latency
    else:
        assert report.cycles > 3000 * 1.1


def test_bulk_outruns_a_python_loop(standin, tmp_path):
    records = Blocks(100_000, seed=1).write(tmp_path / "records")
    reports = [bulk.run(standin, records, tmp_path / "results") for _ in range(3)]
    rate = tmp_path / "rate"
    standin.run(
        "standin.bench",
        results_xml=tmp_path / "results.xml",
        test_filter="speed",
        env={"STANDIN_REPORT": str(rate)},
        plusargs={"cycles": 5000},
    )
    # The best of three: another program may have held the processor.
    assert max(report.blocks / report.seconds for report in reports) > 8 * float(rate.read_text())


CHANGES = {
    "in_ready = stage_ready": "in_ready = stage_ready && !broken[0]",
    "<= stage_valid && stage_last": "<= stage_valid && (stage_last || broken[3]) && !broken[1]",
    "stage_ready = ": "stage_ready = broken[2] || ",
    "out_result <= next;": "out_result <= broken[7] ? next ^ stale : next;",
    "endmodule": """
  initial #40 if (broken[4]) $finish;
  initial #40 if (broken[5]) $fatal(1);
  initial #40 while (broken[6]);
  reg [31:0] stale;
  always @(posedge clk) if (in_valid && in_a == 0) stale <= 0;
  wire [7:0] broken;
  choice choice (.wrong(broken));
endmodule
""",
}


@pytest.fixture(scope="module")
def broken(simulation_dir, tmp_path_factory) -> Build:
    """The stand-in with all that can be wrong with it; each run chooses."""
    text = STANDIN.read_text()
    for right, wrong in CHANGES.items():
        assert text.count(right) == 1
        text = text.replace(right, wrong)
    source = tmp_path_factory.mktemp("broken") / "broken.v"
    source.write_text(text + CHOICE.format(name="choice", last=7))
    return build_standin(simulation_dir / "broken", source)


@pytest.mark.parametrize(
    ("bit", "message"),
    [
        pytest.param(0, "no transfer for 500 cycles", id="never ready"),
        pytest.param(1, "no transfer for 500 cycles", id="no result"),
        pytest.param(2, "no transfer", id="lost under backpressure"),
        pytest.param(3, "more results than dot products", id="spurious results"),
        pytest.param(4, "broke off without a report", id="ends early"),
        pytest.param(5, "the simulator ended with", id="gives up"),
        pytest.param(6, "the time limit of 2 s", id="never ends"),
    ],
)
def test_bulk_notices_a_broken_unit(broken, tmp_path, bit, message):
    blocks = Blocks(2000, seed=5)
    records, results = blocks.write(tmp_path / "records"), tmp_path / "results"
    bulk.run(broken, records, results, stall=100, timeout=500)
    choose(1 << bit, tmp_path)
    with pytest.raises(SimulationError, match=message):
        bulk.run(broken, records, results, stall=100, timeout=500, time_limit=2 if bit == 6 else 60)


def test_a_run_without_a_choice_takes_none_of_another(broken, tmp_path):
    """Not of the folder three above, where a soak would say what is wrong in its runs."""
    blocks = Blocks(50, seed=5)
    choose(1 << 3, tmp_path)
    folder = tmp_path / "a" / "b" / "c"
    for directory in (folder, *folder.parents[:2]):
        directory.mkdir(parents=True, exist_ok=True)
        bulk.run(broken, blocks.write(directory / "records"), directory / "results")
    with pytest.raises(SimulationError, match="more results than dot products"):
        bulk.run(broken, tmp_path / "a" / "records", tmp_path / "results")


def test_registers_without_a_reset_start_with_any_value(broken, tmp_path):
    blocks = Blocks(50, seed=5)
    records, results = blocks.write(tmp_path / "records"), tmp_path / "results"
    choose(1 << 7, tmp_path)
    want, _ = blocks.expected()
    found = []
    for seed in (1, 1, 2):
        bulk.run(broken, records, results, seed=seed)
        (value,) = set(bulk.read_results(results)[:, 0] ^ want)
        found.append(value)
    assert found[0] == found[1]  # repeated by the seed
    assert len({0, *found}) == 3


def test_bulk_refuses_a_truncated_file(standin, tmp_path):
    records = Blocks(10, seed=1).write(tmp_path / "records")
    records.write_bytes(records.read_bytes()[:-5])
    with pytest.raises(SimulationError, match="/records ends inside a record after 9 bl"):
        bulk.run(standin, records, tmp_path / "results")


def test_bulk_refuses_a_missing_file(standin, tmp_path):
    with pytest.raises(SimulationError, match="cannot be opened"):
        bulk.run(standin, tmp_path / "nothing", tmp_path / "results")


def test_bulk_takes_no_error_for_the_end_of_a_file(standin, tmp_path):
    """A folder can be opened, and no byte of it can be read."""
    with pytest.raises(SimulationError, match=f"{tmp_path} cannot be read after 0 blocks"):
        bulk.run(standin, tmp_path, tmp_path / "results")


def test_bulk_takes_no_error_for_the_end_of_a_record(standin, tmp_path, monkeypatch):
    records = Blocks(10, seed=1).write(tmp_path / "records")
    fails_from(monkeypatch, records.stat().st_size - 5, records, tmp_path)
    with pytest.raises(SimulationError, match=f"{records} cannot be read after 9 blocks"):
        bulk.run(standin, records, tmp_path / "results")


@pytest.mark.parametrize("chances", [{"gap": 256}, {"stall": 256}])
def test_bulk_refuses_a_bad_chance(standin, tmp_path, chances):
    with pytest.raises(ValueError, match=r"(gap|stall) must be from 0 to 255, not 256"):
        bulk.run(standin, tmp_path / "records", tmp_path / "results", **chances)


@pytest.mark.parametrize(("a_bits", "b_bits"), [(8, 8), (6, 4), (4, 6)])
@pytest.mark.parametrize("lanes", [4, 32])
def test_record_layout(tmp_path, a_bits, b_bits, lanes):
    rng = np.random.default_rng(lanes)
    a = rng.integers(0, 1 << a_bits, (3, lanes), dtype=np.uint8)
    b = rng.integers(0, 1 << b_bits, (3, lanes), dtype=np.uint8)
    path = tmp_path / "records"
    first, last, mode = [1, 0, 0], [0, 0, 1], [5, 6, 7]
    write_records(
        path, a, b, [1, 2, 3], 254, 0xDEADBEEF, first, last, mode, a_bits=a_bits, b_bits=b_bits
    )

    def vector(codes, width):
        value = sum(int(code) << i * width for i, code in enumerate(codes))
        return value.to_bytes(lanes * width // 8, "little")

    want = b""
    for i in range(3):
        little = vector(a[i], a_bits) + vector(b[i], b_bits) + bytes([i + 1, 254])
        little += bytes.fromhex("efbeadde") + bytes([mode[i] << 2 | last[i] << 1 | first[i]])
        want += little[::-1]
    assert path.read_bytes() == want


def test_records_refuse_bad_shapes_and_modes(tmp_path):
    a = np.zeros((3, 32), np.uint8)
    with pytest.raises(ValueError, match=r"not \(3, 32\) and \(3, 16\)"):
        write_records(tmp_path / "records", a, a[:, :16], 0, 0, 0, 1, 1)
    with pytest.raises(ValueError, match="mode must be from 0 to 63, not 64"):
        write_records(tmp_path / "records", a, a, 0, 0, 0, 1, 1, 64)
    assert not (tmp_path / "records").exists()


def test_results_refuse_a_truncated_file(tmp_path):
    path = tmp_path / "results"
    for size in (9, 12):  # within a word and after one
        path.write_bytes(bytes(size))
        with pytest.raises(SimulationError, match=f"^{path}: ends inside a result$"):
            bulk.read_results(path)
