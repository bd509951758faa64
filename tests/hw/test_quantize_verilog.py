"""The quantiser's Verilog: its ports and header."""

import pytest

from mxdot.model import QuantizeConfig
from verilog_text import generated, header_ports, modules, ports

PLAIN = QuantizeConfig("e2m1", 8)
WIDE = QuantizeConfig(
    "e4m3,int8", 8, "bfloat16", "floor,ceil,even", "stochastic", "element", beats=2
)
INSIDE = QuantizeConfig("e5m2", 4, "float16", "ceil", "stochastic", random="lfsr", stages=6)
SCALED = QuantizeConfig("e2m1,int8", 4, "bfloat16", scales="e4m3", stages=14)
MICRO = QuantizeConfig("sm5", 8, beats=2, micro=True)
CHOICE = QuantizeConfig("e3m2,e2m3,sm6", 4, "bfloat16", nonfinite="element", select=8, stages=6)
STREAMS = {
    "clk": ("input", 1),
    "rst": ("input", 1),
    "in_valid": ("input", 1),
    "in_ready": ("output", 1),
    "out_valid": ("output", 1),
    "out_ready": ("input", 1),
    "out_scale": ("output", 8),
}


@pytest.mark.parametrize(
    ("config", "others"),
    [
        (PLAIN, {"in_values": ("input", 256), "out_codes": ("output", 32)}),
        (
            WIDE,
            {
                "in_values": ("input", 64),
                "in_random": ("input", 128),
                "in_mode": ("input", 1),
                "in_rule": ("input", 2),
                "out_codes": ("output", 32),
                "out_last": ("output", 1),
            },
        ),
        (INSIDE, {"in_values": ("input", 64), "out_codes": ("output", 32)}),
        (
            SCALED,
            {
                "in_values": ("input", 64),
                "in_mode": ("input", 1),
                "in_outer": ("input", 32),
                "out_codes": ("output", 32),
                "out_scale": ("output", 7),
            },
        ),
        (
            MICRO,
            {
                "in_values": ("input", 128),
                "out_codes": ("output", 20),
                "out_micro": ("output", 2),
                "out_last": ("output", 1),
            },
        ),
        (
            CHOICE,
            {"in_values": ("input", 64), "out_codes": ("output", 24), "out_mode": ("output", 2)},
        ),
    ],
    ids=str,
)
def test_ports(config, others):
    text = generated(config)
    unit_ports = ports(modules(text)["mxdot_quantize"])
    assert unit_ports == STREAMS | others
    assert list(header_ports(text)) == list(unit_ports)


def test_the_header():
    lines = generated(WIDE).split("\n\n", 1)[0].splitlines()
    for line in (
        "// formats      e4m3,int8",
        "// block        8 bfloat16 values, 2 beats of 4",
        "// scale        floor,ceil,even",
        "// rounding     stochastic",
        "// non-finite   element",
        "// in           in_mode        element format: 0 e4m3, 1 int8",
        "// in  [1:0]    in_rule        scale rule: 0 floor, 1 ceil, 2 even",
    ):
        assert " ".join(line.split()) in [" ".join(have.split()) for have in lines]
    assert "seed 0x9e3779b9" in generated(INSIDE)
    assert "// scale        amax of E4M3 under a float32\n" in generated(SCALED)
    assert "// choice       errors of 8 digits\n" in generated(CHOICE)
    assert "// micro        an exponent of one bit for every two elements\n" in generated(MICRO)
