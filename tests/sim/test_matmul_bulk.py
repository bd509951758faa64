"""The matrix unit in bulk: results depend on no array, width or stall; a layer, and its report."""

import json
import os
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
import pytest

from command_line import refusal
from compare import FULL, some
from failing_disk import fails_from
from mxdot.cli import main
from mxdot.cli.run_layer import layer_directory
from mxdot.model import DotConfig, matmul
from mxdot.model.units.matmul.config import MatmulConfig
from mxdot.model.units.matmul.layout import Golden, pack_c, unpack_c
from mxdot.sim.bench.bulk import simulate
from mxdot.sim.engine.verilator import SimulationError
from mxdot.sim.matmul import layer as layers
from mxdot.sim.matmul import unit as matmul_unit
from mxdot.sim.matmul.item import Product, compare, predict
from mxdot.sim.matmul.layer import build_for, run_layer
from mxdot.sim.matmul.stimulus import block_counts, products, random_product
from mxdot.sim.matmul.unit import run_bulk
from mxdot.util.data.tensors import REAL_FILE

DOT = DotConfig("e2m3,e2m1", 4, "hopper", 2)
SHAPES = ((2, 3), (3, 2)) if FULL else ((1, 2), (2, 1))
UNITS = {
    "one": MatmulConfig(DOT, 1, 1, depth=16),
    "bytes": MatmulConfig(DOT, *SHAPES[0], depth=4, a_bytes=1, b_bytes=7, c_bytes=5),
    "wide": MatmulConfig(
        DOT, *SHAPES[1], depth=8, a_bytes=30, b_bytes=25, c_bytes=64, initial_c=True
    ),
}

built = cache(build_for)  # which generates the Verilog, to see whether it was built before


@pytest.fixture(scope="module")
def build(simulation_dir):
    """Simulations of UNITS, where `mxdot run-layer` looks for them, too."""
    return lambda name: built(UNITS[name], simulation_dir / "layer" / UNITS[name].name)


@pytest.mark.parametrize(
    ("mode", "gap", "stall"),
    [(mode, *chances) for mode, chances in some(product([0, 1], [(0, 0), (60, 120)]), 3)],
)
def test_the_same_bits_on_every_array_and_width_and_under_stalls(build, tmp_path, mode, gap, stall):
    operands = random_product(UNITS["one"], np.random.default_rng(mode), mode, 7, 5, 10)
    want = matmul(operands.a, operands.b, "hopper").view(np.uint32)
    for name, config in UNITS.items():
        run = run_bulk(build(name), config, operands, tmp_path / name, gap=gap, stall=stall)
        got = unpack_c(run.packet, config, 7, 5)
        np.testing.assert_array_equal(got.view(np.uint32), want)
        assert run.flags == predict(config, operands).flags
        assert run.counters["STEPS"] == operands.tiles(config).steps
        assert run.counters["CYCLES"] > run.counters["STEPS"]
    assert list(tmp_path.glob("*.a")) == []


def test_a_stream_that_does_not_come_is_an_error(build, tmp_path):
    @dataclass(frozen=True, eq=False)
    class HalfProduct(Product):
        def packets(self, config):
            packets = super().packets(config)
            return packets | {"b": packets["b"][: len(packets["b"]) // 2]}

    whole = random_product(UNITS["one"], np.random.default_rng(1), 0, 2, 2, 2)
    half = HalfProduct("half", 0, whole.a, whole.b)
    with pytest.raises(SimulationError, match=r"STATUS is .*'b_early_last': 1"):
        run_bulk(build("one"), UNITS["one"], half, tmp_path / "half")


def test_no_start_is_a_deadlock(build, tmp_path):
    @dataclass(frozen=True, eq=False)
    class NoFormat(Product):
        def words(self, config):
            return super().words(config) | {"FORMAT": {"mode": 2}}

    whole = random_product(UNITS["one"], np.random.default_rng(1), 0, 2, 2, 2)
    wrong = NoFormat("wrong", 0, whole.a, whole.b)
    with pytest.raises(SimulationError, match="no transfer for 300 cycles after"):
        run_bulk(build("one"), UNITS["one"], wrong, tmp_path / "wrong", timeout=300)


CUT = [
    ("c", 60, "ends inside a result"),  # of beats of 4 bytes and their count
    ("c", 64, "32 bytes of C, wanted 64"),
    ("registers", 0, "ends before the value of STATUS"),
    ("registers", 30, "ends before the value of FLAGS"),  # of lines of 18
    ("registers", 36, "ends before the value of CYCLES"),
]


def test_results_that_end_early(build, tmp_path, monkeypatch):
    made = build("one")
    operands = random_product(UNITS["one"], np.random.default_rng(1), 0, 4, 4, 2)
    for name, size, message in CUT:

        def cut(*arguments, name=name, size=size, **options):
            counts = simulate(*arguments, **options)
            os.truncate(tmp_path / f"cut.{name}", size)
            return counts

        monkeypatch.setattr(matmul_unit, "simulate", cut)
        with pytest.raises(SimulationError) as caught:
            run_bulk(made, UNITS["one"], operands, tmp_path / "cut")
        assert str(caught.value) == f"{tmp_path}/cut.{name}: {message}"


def test_operands_that_cannot_be_had(build, tmp_path, monkeypatch):
    """They end early, are missing, or cannot be read after their second byte."""
    operands = random_product(UNITS["one"], np.random.default_rng(1), 0, 4, 4, 2)
    path = tmp_path / "operands"
    file = tmp_path / "operands.b"

    def fail():
        fails_from(monkeypatch, 2, file, tmp_path)

    for change, message in (
        (lambda: os.truncate(file, 2), "an operand file is too short after "),
        (file.unlink, "a file cannot be opened after "),
        (fail, "an operand file cannot be read after "),
    ):

        def changed(*arguments, change=change, **options):
            change()
            return simulate(*arguments, **options)

        monkeypatch.setattr(matmul_unit, "simulate", changed)
        with pytest.raises(SimulationError, match=f"bulk run of {path}: {message}"):
            run_bulk(build("one"), UNITS["one"], operands, path)


def test_bad_chances(build, tmp_path):
    product = random_product(UNITS["one"], np.random.default_rng(1), 0, 1, 1, 1)
    with pytest.raises(ValueError, match="gap must be from 0 to 255, not 256"):
        run_bulk(build("one"), UNITS["one"], product, tmp_path / "x", gap=256)


def test_every_shape_and_mode_is_drawn():
    config = UNITS["wide"]
    drawn = list(products(config, np.random.default_rng(0), 100))
    assert sum(p.a.shape[0] * p.b.shape[0] for p in drawn) >= 100
    tiles = {p.tiles(config) for p in drawn}
    assert {t.k_blocks for t in tiles} == set(block_counts(config)) == {1, 2, 7, 8, 9, 16, 17}
    assert {(t.m_tiles, t.n_tiles) for t in tiles} == {(1, 1), (1, 3), (3, 1), (2, 2)}
    assert {p.mode for p in drawn} == {0, 1}
    assert any(p.d is not None for p in drawn)


def test_one_wrong_bit_is_found():
    config = UNITS["bytes"]
    product = random_product(config, np.random.default_rng(0), 0, 3, 4, 2)
    want = predict(config, product)
    got = want.result.view(np.uint32).copy()
    got[2, 3] ^= 1
    assert compare(config, product, pack_c(want.result, config), want) is None
    wrong = compare(config, product, pack_c(got.view(np.float32), config), want)
    assert wrong is not None
    assert (wrong.row, wrong.column, wrong.count) == (2, 3, 1)
    assert wrong.got == wrong.want ^ 1
    with pytest.raises(ValueError, match=r"data must be \d+ bytes long"):
        compare(config, product, b"short", want)


# A layer ------------------------------------------------------------------------------------------

# Of the unit "one", which takes a step of a sum in every other cycle.
OPTIONS = ["--rows", "1", "--columns", "1", "--lanes", "4", "--accumulator", "hopper"]
OPTIONS += ["--stages", "2", "--format", "e2m3,e2m1", "--depth", "16"]
# Format, lanes, sides of the array, shape and cycles; a small array of few lanes is built in a
# fraction of the time.
WHOLE = [("e4m3", 32, 8, 79, 384, 384, 5_777), ("e4m3", 32, 8, 79, 1536, 384, 23_057)]
SLICE = [("e2m1", 4, 2, 7, 20, 48, 4 * 10 * 12 + 11)]
REAL = str(REAL_FILE)


@pytest.fixture
def small(simulation_dir, monkeypatch, tmp_path):
    """The tensors' first rows, and builds where tests keep them."""
    with np.load(REAL) as arrays:
        x, y = arrays["query.input"][:5], arrays["query.weight"][:6]
    np.savez(tmp_path / "slice.npz", x=x, y=y)
    monkeypatch.setattr("mxdot.cli.run_layer.BUILD", simulation_dir / "layer")
    monkeypatch.setattr(layers, "build_for", built)
    return tmp_path / "slice.npz"


def test_a_layer_of_real_tensors(small, tmp_path, capsys):
    out = tmp_path / "figures.json"
    arguments = ["run-layer", *OPTIONS, "--tensors", str(small), "--json", str(out)]
    arguments += ["--clock", "250", "--mode", "1", "--scale-rule", "ceil"]
    assert main(arguments) == 0
    text = capsys.readouterr().out
    assert "slice: 5 x 384 by 384 x 6, 30 results: every bit is the model's" in text
    (figures,) = json.loads(out.read_text())
    steps = 5 * 6 * 96
    assert figures["counters"]["STEPS"] == steps
    assert figures["wrong"] == 0
    assert figures["utilisation"] == steps / figures["counters"]["CYCLES"] > 0.49
    # 96 blocks are more than the depth of 16: both operands are sent for every result.
    assert figures["bytes_moved"] == {"a": steps * 4, "b": steps * 4, "c": 30 * 4}
    assert figures["seconds_at_clock"] == figures["counters"]["CYCLES"] / 250e6


def test_random_operands(small, capsys):
    assert main(["run-layer", *OPTIONS, "--shape", "3,2,10", "--seed", "4"]) == 0
    assert "random: 3 x 10 by 10 x 2, 6 results: every bit" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("result_error", "flags_error", "message"),
    [
        (1, 0, "30 results: 1 are WRONG"),
        (0, 1, "every bit is the model's, FLAGS are 0"),
    ],
)
def test_a_layer_that_is_wrong_fails(
    result_error, flags_error, message, small, monkeypatch, capsys
):
    def wrong(config, product):
        result, flags = predict(config, product)
        result = result.copy()
        result[0, 0] += result_error
        return Golden(result, flags ^ flags_error)

    monkeypatch.setattr(layers, "predict", wrong)
    assert main(["run-layer", *OPTIONS, "--tensors", str(small)]) == 1
    assert message in capsys.readouterr().out


def leave(error, parent):
    with layer_directory(parent) as directory:
        (directory / "layer.log").write_text("")
        if error is not None:
            raise error


@pytest.mark.parametrize("error", [None, KeyboardInterrupt])
def test_files_of_a_layer_go_away(error, tmp_path):
    with nullcontext() if error is None else pytest.raises(error):
        leave(error, tmp_path / "runs")
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_simulation_that_fails_leaves_its_files(tmp_path):
    message = rf"^it ended with -6 \(files: {tmp_path}/runs/[\w-]+\)\nlog$"
    with pytest.raises(SimulationError, match=message):
        leave(SimulationError("it ended with -6\nlog"), tmp_path / "runs")
    assert [path.name for path in tmp_path.glob("runs/*/layer.log")] == ["layer.log"]


@pytest.mark.parametrize(
    ("fmt", "lanes", "side", "m", "n", "k", "cycles"), WHOLE if FULL else SLICE
)
def test_cycles_of_layers(simulation_dir, tmp_path, fmt, lanes, side, m, n, k, cycles):
    """The layers of docs/matmul.md by their shapes, in full mode; normal random numbers, for
    cycles are the same for all."""
    config = MatmulConfig(DotConfig(fmt, lanes, "aligned:13"), side, side)
    rng = np.random.default_rng(1)
    x, y = (rng.standard_normal((rows, k), np.float32) for rows in (m, n))
    run = run_layer(config, build_for(config, simulation_dir / config.name), "x", x, y, tmp_path)
    assert run.results == m * n
    assert run.right
    assert run.cycles == cycles


def test_progress_comes_while_c_grows(build, tmp_path):
    seen = []
    x = np.ones((4, 16), np.float32)
    run = run_layer(
        UNITS["one"],
        build("one"),
        "ones",
        x,
        x,
        tmp_path,
        progress=lambda done, of: seen.append((done, of)),
    )
    assert run.wrong == 0
    assert seen[-1] == (64, 64)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--clock 0", "clock must be above 0 and below 1000000 MHz, not 0"),
        ("--mode 1", "mode must be from 0 to 0, not 1"),
        ("--scale-rule up", "scale_rule must be one of floor, ceil, even, twice, not 'up'"),
        ("--gap 256", "gap must be from 0 to 255, not 256"),
        ("--rows 65", "rows must be from 1 to 64, not 65"),
        ("--sentences 0", "sentences must be from 1 to"),
        ("--name a b", "name needs a file of tensors: --tensors FILE"),
        (f"--tensors {REAL} --layer x", "layer and tensors are two things to multiply: give one"),
        ("--shape 1,2", "shape must be M,N,K, each from 1 to 65536, not '1,2'"),
        ("--shape 0,1,1", "shape must be M,N,K, each from 1 to 65536, not '0,1,1'"),
    ],
)
def test_run_layer_refuses_in_one_line(capsys, arguments, message):
    assert refusal(capsys, "run-layer", *arguments.split()).startswith(message)


def test_arrays_that_do_not_fit(build, tmp_path):
    x, y = np.ones((2, 8), np.float32), np.ones((2, 4), np.float32)
    with pytest.raises(ValueError, match=r"must be \(M, K\) and \(N, K\), not \(2, 8\) and \(2, 4"):
        run_layer(UNITS["one"], build("one"), "x", x, y, tmp_path)
