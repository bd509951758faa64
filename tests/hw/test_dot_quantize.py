"""A dot unit followed by a quantiser, in RTL, against the model's dot and then quantize."""

import re

import numpy as np
import pytest

from hw_bench import Evaluator, assert_same
from mxdot.cli import main
from mxdot.hw.quantize.dot_quantize import DotQuantizeUnit
from mxdot.model import DotConfig, DotQuantizeConfig, quantize
from unit_bench import Work, random_work
from verilog_text import header_ports, modules, ports

CONFIGS = [
    DotQuantizeConfig(DotConfig("e4m3", 4, "aligned:13", 3), "e4m3", 8),
    DotQuantizeConfig(
        DotConfig("e5m2xe4m3", 4, "hopper", 2, out="bfloat16"), "e2m1", 4, "even", "stochastic",
        "element", seed=5, quantizer_stages=2,
    ),
    DotQuantizeConfig(
        DotConfig("int8", 8, "int32", 1, out="float16", load_c=False), "int8", 16, "ceil",
        quantizer_stages=4,
    ),
]  # fmt: skip


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_results_leave_as_blocks(config):
    rng = np.random.default_rng(1)
    streams, block = 20, config.quantizer.block
    each = 3 * block
    work = random_work(config.dot, rng, rng.integers(1, 4, streams * each))
    bits = work.want["result"].reshape(streams, each)
    out = config.dot.out
    values = bits.astype(np.uint16 if out.bits == 16 else np.uint32).view(out.dtype)
    with np.errstate(invalid="ignore"):
        made = [config.quantizer.quantize(row) for row in values]
    want = {
        "codes": np.stack([array.codes for array in made]).astype(int),
        "scale": np.repeat(np.stack([array.scales for array in made]), block, axis=1).astype(int),
        "last": np.tile(np.arange(each) % block == block - 1, (streams, 1)),
    }
    unit = Evaluator(DotQuantizeUnit(config))
    for gap, stall in ((0.0, 0.0), (0.3, 0.4)):
        unit.registers = None
        check_stream(unit, work, want, rng, gap, stall)


def check_stream(
    unit: Evaluator,
    work: Work,
    want: dict[str, np.ndarray],
    rng: np.random.Generator,
    gap: float,
    stall: float,
) -> None:
    """want: what leaves in each stream, in order."""
    streams, each = want["codes"].shape
    position, end = work.start[:-1:each].copy(), work.start[each::each]
    came, offered = np.zeros(streams, int), np.zeros(streams, bool)
    for _ in range(4000):
        offered = (offered | (rng.random(streams) >= gap)) & (position < end)
        ready = rng.random(streams) >= stall
        at = np.minimum(position, len(work.blocks["first"]) - 1)
        payload = {name: column[at] for name, column in work.blocks.items()}
        got = unit(**{"i.payload": payload, "i.valid": offered, "o.ready": ready})
        gives = (got["o.valid"] == 1) & ready
        rows = np.flatnonzero(gives)
        if len(rows):
            place = came[rows]
            beat = {name: field[rows] for name, field in got["o.payload"].items()}
            beat["codes"] = beat["codes"][:, 0]
            assert_same(beat, {k: v[rows, place] for k, v in want.items()}, row=rows, place=place)
        takes = offered & (got["i.ready"] == 1)
        position, came, offered = position + takes, came + gives, offered & ~takes
        if (came == each).all():
            return
    raise AssertionError(f"{each - came} codes have not come")


def test_compute_is_dot_and_then_quantize():
    config = CONFIGS[0]
    rng = np.random.default_rng(2)
    x, y = rng.standard_normal((2, 16, 4), np.float32)
    a, b = (quantize(operand, "e4m3", block_size=4) for operand in (x, y))
    want = quantize(config.dot.dot(a, b).result, "e4m3", block_size=8)
    got = config.compute(a, b)
    assert (got.codes == want.codes).all()
    assert (got.scales == want.scales).all()
    assert got.codes.shape == (16,)


def test_latency_and_arguments():
    config = CONFIGS[1]
    assert config.latency == 4
    assert DotQuantizeConfig.of(**config.arguments) == config
    assert config.quantizer.beats == config.quantizer.block == 4
    assert config.quantizer.random == "lfsr"
    assert not config.dot.status


@pytest.mark.parametrize(
    ("dot", "arguments", "message"),
    [
        ({"formats": "int8", "accumulator": "int32", "out": "int32"}, {},
         "out of dot must be a float to be quantised, not int32"),
        ({}, {"format": "e4m3,e5m2"}, "format after a dot unit must be one, not 2"),
        ({}, {"scale_rule": "floor,even"}, "scale_rule after a dot unit must be one, not 2"),
        ({}, {"block": 5}, "block must be one of 4, 8, 16, 32, 64, 128, not 5"),
    ],
)  # fmt: skip
def test_refusals(dot, arguments, message):
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        DotQuantizeConfig(DotConfig(**dot), **arguments)


def test_verilog(tmp_path, capsys):
    path = tmp_path / "unit.v"
    options = "--lanes 4 --accumulator hopper --result bfloat16 --to e2m1 --block 8"
    status = main(["verilog", "dot-quantize", *options.split(), "-o", str(path)])
    assert status == 0
    output = capsys.readouterr().out
    assert "mxdot_dot_quantize, e4m3 hopper x4 stages 4 bfloat16 no-status" in output
    text = path.read_text()
    unit_ports = ports(modules(text)["mxdot_dot_quantize"])
    assert list(header_ports(text)) == list(unit_ports)
    assert unit_ports["out_code"] == ("output", 4)
    assert unit_ports["out_scale"] == ("output", 8)
    assert unit_ports["in_a"] == ("input", 32)
    assert not {"out_result", "out_invalid"} & set(unit_ports)
