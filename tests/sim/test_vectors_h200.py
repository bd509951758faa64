"""Results of an H200 (tests/vectors/h200), by the golden model and by the RTL.

The model computes all of it; the RTL, by its netlist, every 37th dot product of each matrix
product, and with FULL=1, as Verilog in Verilator, all.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from compare import FULL, generator
from hw_bench import assert_same
from mxdot.hw.verilog import generate
from mxdot.model import DotConfig, MXArray, matmul
from mxdot.sim.bench import bulk
from mxdot.sim.dot.unit import DotStream, write_records
from mxdot.sim.engine.job import UnitJob
from unit_bench import Run, Work, drive, evaluate

DIRECTORY = Path(__file__).parents[1] / "vectors" / "h200"
FP8 = ("e4m3xe4m3", "e4m3xe5m2", "e5m2xe4m3", "e5m2xe5m2")
# Elements of a dot product, and format pairs.
PRESETS = {
    "hopper": (64, FP8),
    "hopper-promoted": (256, FP8),
    "hopper-mx": (128, FP8),
    "hopper-fp16": (96, ("e5m2xe5m2", "fp16xfp16", "fp16xe5m2")),
    "hopper-bf16": (96, ("bf16xbf16",)),
    "hopper-tf32": (64, ("tf32xtf32",)),
}
CUBLAS = ("hopper", "hopper-promoted")
SAME_RULE = ("hopper-bf16", "hopper-tf32")  # as hopper-fp16
CLASSES = ("normal", "wide", "subnormal", "sparse", "special", "cancelling")
WIDER = ("fp16xfp16", "fp16xe5m2", "bf16xbf16", "tf32xtf32")  # with products about 2^-149 too
LIMIT = 2**22
BLOCK = 32
ROWS = 48
NAN = 0x7FFFFFFF
STRIDE = 37  # meets every row and every column of a product


@dataclass(frozen=True)
class Case:
    """One matrix product: operands, c (None for +0) and the bits of the result."""

    name: str
    a: MXArray
    b: MXArray
    c: NDArray[np.float32] | None
    result: NDArray[np.uint32]


@cache
def cases(preset: str) -> dict[str, Case]:
    with np.load(DIRECTORY / f"{preset}.npz", allow_pickle=False) as file:
        arrays = dict(file)
    names = dict.fromkeys(key.split(".")[0] for key in arrays)
    return {
        name: case(name, {k: v for k, v in arrays.items() if k.split(".")[0] == name})
        for name in names
    }


def case(name: str, arrays: dict[str, NDArray]) -> Case:
    formats = name.removeprefix("cublas-").split("-")[0].split("x")
    operands = []
    for side, fmt in zip("ab", formats, strict=True):
        codes = arrays[f"{name}.{side}"]
        unit = np.full((len(codes), codes.shape[1] // BLOCK), 127, np.uint8)
        operands.append(MXArray(codes, arrays.get(f"{name}.scale_{side}", unit), fmt, BLOCK))
    c = arrays.get(f"{name}.c")
    start = None if c is None else c.view(np.float32)
    a, b = operands
    return Case(name, a, b, start, arrays[f"{name}.result"])


def classes(pair: str) -> tuple[str, ...]:
    return (*CLASSES, "tiny") if pair in WIDER else CLASSES


def test_files_hold_what_their_description_says():
    assert {path.stem for path in DIRECTORY.glob("*.npz")} == set(PRESETS)
    assert sum(path.stat().st_size for path in DIRECTORY.iterdir()) <= LIMIT
    for preset, (length, pairs) in PRESETS.items():
        names = {f"{pair}-{kind}-{length}" for pair in pairs for kind in classes(pair)}
        if preset in CUBLAS:
            names |= {f"cublas-{name}" for name in names if "e5m2xe5m2" not in name}
        assert set(cases(preset)) == names
        for one in cases(preset).values():
            assert one.result.shape == (ROWS, ROWS)
            assert one.a.shape == one.b.shape == (ROWS, length)


@pytest.mark.parametrize("preset", PRESETS)
def test_the_captures_are_worth_comparing(preset):
    """Specials, both signs, c and scales in play, and results of many exponents."""
    every = cases(preset).values()
    results = np.concatenate([one.result.ravel() for one in every])
    values = results.view(np.float32)
    assert (results == NAN).any()
    assert np.isposinf(values).any()
    assert np.isneginf(values).any()
    assert (values == 0).any()
    assert len(np.unique(results >> 23 & 0xFF)) > 40
    assert sum(one.c is not None for one in every) == sum(
        len(classes(pair)) - 1 for pair in PRESETS[preset][1]
    )
    scales = np.unique(np.concatenate([one.a.scales.ravel() for one in every]))
    assert (len(scales) > 60) == (preset == "hopper-mx")


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.contract("M2", "M4", "M5")
def test_model_computes_what_the_silicon_did(preset):
    for one in cases(preset).values():
        got = matmul(one.a, one.b, preset, one.c).view(np.uint32)
        wrong = np.argwhere(got != one.result)
        assert not len(wrong), (one.name, wrong[0], len(wrong))


@pytest.mark.parametrize("other", ["aligned:13", "fused:13", "hopper", "ada", "exact"])
@pytest.mark.contract("M4")
def test_other_rules_are_refuted(other):
    """The comparison tells rules apart: none of these computed the products of hopper-mx."""
    one = cases("hopper-mx")["e4m3xe4m3-wide-128"]
    got = matmul(one.a, one.b, other, one.c).view(np.uint32)
    assert (got != one.result).mean() > 0.05


def unit(preset: str) -> DotConfig:
    """One unit with the format pairs of a file as modes."""
    return DotConfig(",".join(PRESETS[preset][1]), lanes=BLOCK, accumulator=preset)


def by_netlist(preset: str, config: DotConfig, directory: Path) -> None:
    """Some dot products in many streams, under gaps and stalls."""
    chosen = np.arange(0, ROWS**2, STRIDE)
    assert set(chosen // ROWS) == set(chosen % ROWS) == set(range(ROWS))
    every = list(cases(preset).values())
    names = ("a", "b", "scale_a", "scale_b", "c", "first", "last", "mode")
    parts = [records(config, one, chosen) for one in every]
    columns = map(np.concatenate, zip(*parts, strict=True))
    blocks = {name: column.astype(np.int64) for name, column in zip(names, columns, strict=True)}
    start = np.append(np.flatnonzero(blocks["first"]), len(blocks["first"]))
    want = np.concatenate([one.result.ravel()[chosen] for one in every]).astype(np.int64)
    work = Work(config, blocks, start, {"result": want})
    rng = generator("h200", preset)
    run: Run = evaluate(config, drive(work, rng, streams=len(work) // 5, gap=0.1, stall=0.1))
    assert_same(run.got["result"], work.want["result"], product=np.arange(len(work)))


def by_verilator(preset: str, config: DotConfig, directory: Path) -> None:
    """All dot products in one stream."""
    verilog = directory / "mxdot_dot.v"
    verilog.write_text(generate(config))
    build = DotStream(UnitJob("h200", config, 0, directory)).build(verilog)
    every = list(cases(preset).values())
    parts = [records(config, one) for one in every]
    columns = map(np.concatenate, zip(*parts, strict=True))
    given, results = directory / "records", directory / "results"
    write_records(given, *columns, a_bits=config.bits_a, b_bits=config.bits_b)
    bulk.run(build, given, results, gap=8, stall=16)
    got = bulk.read_results(results)[:, 0]
    want = np.concatenate([one.result.ravel() for one in every])
    assert got.shape == want.shape
    wrong = np.flatnonzero(got != want)
    assert not len(wrong), (every[wrong[0] // ROWS**2].name, wrong[0] % ROWS**2, len(wrong))


@pytest.mark.parametrize("simulated", [by_netlist, *[by_verilator] * FULL])
@pytest.mark.parametrize("preset", [name for name in PRESETS if FULL or name not in SAME_RULE])
@pytest.mark.contract("M2")
def test_rtl_computes_what_the_silicon_did(preset, simulated, tmp_path):
    """Dot products of a file through one unit with its format pairs as modes; by default of FP8 and
    FP16, whose rule BF16 and TF32 have."""
    pairs = ",".join(PRESETS[preset][1])
    simulated(preset, DotConfig(pairs, lanes=BLOCK, accumulator=preset), tmp_path)


def records(config: DotConfig, one: Case, chosen: NDArray | None = None) -> tuple[NDArray, ...]:
    """The arguments of write_records, a block a row, of all dot products in the order of the
    result or of chosen by their places in it."""
    places = np.arange(ROWS**2) if chosen is None else chosen
    i, j = np.divmod(places, ROWS)
    columns = []
    for operand, rows in ((one.a, i), (one.b, j)):
        codes, scales = operand.blocks_last()
        columns += [codes[rows].reshape(-1, BLOCK), scales[rows].reshape(-1)]
    count = one.a.scales.shape[1]
    place = np.tile(np.arange(count), len(places))
    c = np.zeros(ROWS**2, np.uint32) if one.c is None else one.c.view(np.uint32).ravel()
    c = c[places]
    mode = config.formats.index((one.a.format, one.b.format))
    a, scale_a, b, scale_b = columns
    c, modes = np.repeat(c, count), np.full(len(a), mode)
    return a, b, scale_a, scale_b, c, place == 0, place == count - 1, modes
