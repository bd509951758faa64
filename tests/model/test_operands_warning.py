"""A machine warns once of operands that its row has not; comparisons meet them on purpose."""

import warnings

import numpy as np
import pytest

from mxdot.cli import main
from mxdot.compare.accuracy.evaluation import evaluate
from mxdot.model import (
    MACHINES,
    DotConfig,
    OperandsWarning,
    Preset,
    dot,
    matmul,
    quantize,
    schemes,
    unscaled,
)
from mxdot.model.accumulators import any_operands, machine
from mxdot.model.formats import MX_FORMATS
from mxdot.verify.probe.black_boxes import ModelUnit
from operand_warnings import FP8, line, recorded

X = np.ones((2, 32), np.float32)
OWN = Preset(name="own", terms=4, fraction_bits=9, nan=0x7FC00000, source="")


@pytest.fixture(autouse=True)
def as_in_a_new_process():
    machine._warn.cache_clear()


def caught(call):
    """The lines of OperandsWarning that `call` gives, with the file that each names."""
    warned = recorded(call)
    assert all(each.category is OperandsWarning for each in warned)
    assert all(each.filename == __file__ for each in warned)
    return [str(each.message) for each in warned]


@pytest.mark.parametrize("product", [matmul, dot, schemes.matmul])
def test_once_for_each_machine_and_pair(product):
    bf16, e4m3 = unscaled(X, "bf16"), quantize(X, "e4m3")
    assert caught(lambda: product(bf16, bf16, "hopper")) == [line("hopper", FP8, "bf16 x bf16")]
    assert caught(lambda: product(bf16, bf16, "hopper")) == []
    fnuz = "e4m3fnuz, e5m2fnuz, e4m3fnuzxe5m2fnuz, e5m2fnuzxe4m3fnuz"
    (text,) = caught(lambda: product(e4m3, e4m3, "cdna3-fp8"))
    assert text == line("cdna3-fp8", fnuz, "e4m3 x e4m3")
    assert caught(lambda: product(e4m3, bf16, MACHINES["hopper"])) == [
        line("hopper", FP8, "e4m3 x bf16")
    ]


def test_schemes_and_floats():
    array = schemes.quantize(X, "nvfp4")
    assert caught(lambda: matmul(array, array, "ampere")) == [line("ampere", "fp16", "e2m1 x e2m1")]
    floats = X.astype(np.float16)
    assert caught(lambda: matmul(floats, array, "ampere")) == []
    assert caught(lambda: matmul(X, array, "ampere")) == [
        line("ampere", "fp16", "float32 x float32")
    ]


@pytest.mark.parametrize("name", MACHINES)
def test_a_machine_has_its_own_operands(name):
    for a, b in MACHINES[name].pairs:
        x, y = (unscaled(X, fmt) for fmt in (a, b))
        assert caught(lambda x=x, y=y: matmul(x, y, name)) == []


def test_block_scaled_operands_are_mixed():
    pairs = MACHINES["blackwell"].pairs
    assert pairs == {(MX_FORMATS[a], MX_FORMATS[b]) for a in MX for b in MX}
    assert (MX_FORMATS["e4m3"], MX_FORMATS["e2m1"]) not in MACHINES["blackwell-mma"].pairs


MX = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")


def test_no_word_of_rules_and_of_machines_without_operands():
    bf16 = unscaled(X, "bf16")
    for rule in ("exact", "fused:13", OWN):
        assert caught(lambda rule=rule: matmul(bf16, bf16, rule)) == []


def test_no_word_of_comparisons():
    x = unscaled(X, "bf16")

    def compared():
        evaluate("hopper", "bf16", "normal", (32,), count=4)
        ModelUnit("hopper", "bf16")(np.ones((1, 32), np.uint16), np.ones((1, 32), np.uint16), None)
        DotConfig("bf16", lanes=32, accumulator="hopper").dot(x, x)
        with any_operands():
            matmul(x, x, "hopper")

    assert caught(compared) == []
    assert len(caught(lambda: matmul(x, x, "hopper"))) == 1


@pytest.mark.parametrize(
    "command",
    [
        "verilog dot -o {}/x.v",
        "verilog matmul --rows 1 --columns 1 -o {}/x.v",
        "vectors --count 2 --blocks 1 --out {}/x.npz",
    ],
)
def test_one_line_of_a_command(capsys, tmp_path, command):
    warnings.simplefilter("default")  # as Python has it
    unit = ["--format", "int8", "--accumulator", "hopper", "--lanes", "32"]
    assert main([*command.format(tmp_path).split(), *unit]) == 0
    text = line("hopper", FP8, "int8 x int8")
    assert capsys.readouterr().err == f"mxdot: warning: {text}\n"


def test_no_line_of_a_command_with_the_machines_operands(capsys, tmp_path):
    warnings.simplefilter("default")
    command = f"verilog dot --format e4m3,e5m2 --accumulator hopper --lanes 32 -o {tmp_path}/x.v"
    assert main(command.split()) == 0
    assert capsys.readouterr().err == ""
