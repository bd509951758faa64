"""Machines by the names of GPUs and CPUs, and of their operands."""

from typing import Any

import pytest

from mxdot.model.accumulators.hardware import (
    hint,
    machine_named,
    machine_on,
    names_with_operands,
    operand_format,
    operands_of,
)


@pytest.mark.parametrize(
    ("text", "machine", "fmt"),
    [
        ("h100-fp8", "hopper", "e4m3"),
        (" H200 FP8", "hopper", "e4m3"),
        ("hopper-fp8", "hopper", "e4m3"),
        ("hopper_promoted", "hopper-promoted", "e4m3"),
        ("h100-xf32", "hopper-tf32", "tf32"),
        ("rtx4090-e5m2", "ada", "e5m2"),
        ("b200-nvfp4", "blackwell-mxf4nvf4", "e2m1"),
        ("b200-mxfp8", "blackwell", "e4m3"),
        ("b200-mxfp6", "blackwell", "e3m2"),
        ("b200-mxfp4", "blackwell", "e2m1"),
        ("blackwell-e2m3", "blackwell", "e2m3"),
        ("RTX 5090-fp4", "rtx50", "e2m1"),
        ("mi300x-fp8", "cdna3-fp8", "e4m3fnuz"),
        ("mi300x-bf16", "cdna3-fp16", "bf16"),
        ("mi300x-xf32", "cdna3-xf32", "tf32"),
        ("a2-fp16", "ampere", "fp16"),
        ("Cooper Lake-bf16", "avx512-bf16", "bf16"),
        ("CDNA3-FP8", "cdna3-fp8", "e4m3fnuz"),
        ("Hopper", "hopper", "e4m3"),
    ],
)
def test_names_of_hardware_with_operands(text, machine, fmt):
    assert machine_named(text).name == machine
    assert operand_format(text) == fmt


def test_texts_that_name_no_machine():
    assert machine_on("h100") is machine_on("zzz") is machine_on("v100-fp8") is None
    assert operands_of("h100") == operands_of("zzz") == ()
    assert hint("zzz") == ""
    assert hint("v100-bf16") == "; V100 has v100-fp16, and by their names volta, volta-float16"


def test_every_short_name_stands_for_its_machine():
    names = names_with_operands()
    for name, machine in names.items():
        assert machine_named(name) is machine
    assert {"h100-tf32", "gb200-nvfp4", "b200-fp6", "graniterapids-bf16"} < {*names}


def test_refusals():
    number: Any = 5
    with pytest.raises(TypeError, match="machine must be the name of a machine, not 5"):
        machine_named(number)
    with pytest.raises(ValueError, match="not 'v100-fp8'; V100 has v100-fp16, and by their names"):
        machine_named("v100-fp8")
    with pytest.raises(ValueError, match="not 'hoper'; nearest: hopper"):
        machine_named("hoper")
