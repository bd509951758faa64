"""The matrix unit's Verilog: its ports and header."""

import re

import pytest

from mxdot.model import DotConfig
from mxdot.model.units.matmul.config import MatmulConfig
from mxdot.model.units.matmul.registers import REGISTERS
from mxdot.sim.matmul.unit import LARGE, shared_modules
from verilog_text import QUICK, generated, header_ports, modules, ports

UNIT = MatmulConfig(QUICK, rows=2, columns=3, depth=4, b_bytes=7, initial_c=True)
NO_D = MatmulConfig(DotConfig("e3m2", 4, "exact", 1, status=False), 2, 1, 4, 1, 1, 1)


@pytest.fixture(scope="module")
def text() -> str:
    return generated(UNIT)


def stream(name, width, mine):
    """The ports of an AXI4-Stream; `mine` when the unit sends."""
    out, back = ("output", "input") if mine else ("input", "output")
    bits = {"tdata": 8 * width, "tkeep": width, "tlast": 1, "tvalid": 1}
    return {f"{name}_{port}": (out, size) for port, size in bits.items()} | {
        f"{name}_tready": (back, 1)
    }


LITE = {
    "awaddr": ("input", 8), "awprot": ("input", 3), "awvalid": ("input", 1),
    "awready": ("output", 1), "wdata": ("input", 32), "wstrb": ("input", 4),
    "wvalid": ("input", 1), "wready": ("output", 1), "bresp": ("output", 2),
    "bvalid": ("output", 1), "bready": ("input", 1), "araddr": ("input", 8),
    "arprot": ("input", 3), "arvalid": ("input", 1), "arready": ("output", 1),
    "rdata": ("output", 32), "rresp": ("output", 2), "rvalid": ("output", 1),
    "rready": ("input", 1),
}  # fmt: skip


def test_the_ports(text):
    want = {"aclk": ("input", 1), "aresetn": ("input", 1), "irq": ("output", 1)}
    want |= {f"s_axil_{name}": port for name, port in LITE.items()}
    want |= stream("s_axis_a", 2 * 3, mine=False)
    want |= stream("s_axis_b", 7, mine=False)
    want |= stream("s_axis_d", 12, mine=False)
    want |= stream("m_axis_c", 12, mine=True)
    assert ports(modules(text)["mxdot_matmul"]) == want


def test_no_stream_d_without_initial_values():
    unit_ports = ports(modules(generated(NO_D))["mxdot_matmul"])
    assert not [name for name in unit_ports if name.startswith("s_axis_d")]


def test_the_header(text):
    lines = text.split("\n\n", 1)[0].splitlines()
    assert all(line.startswith("//") and len(line) < 130 for line in lines)
    assert "// array        2 rows x 3 columns of dot units" in lines
    assert "// streams      A 6, B 7, D 12, C 12 bytes a beat" in lines
    for register in REGISTERS.values():
        if not register.name.endswith("_HIGH"):
            assert f"0x{register.offset:02X} {register.name}: " in text
    unit_ports = ports(modules(text)["mxdot_matmul"])
    assert list(header_ports(text).items()) == list(unit_ports.items())


def test_one_module_serves_all_dot_units(text):
    array = modules(text)["mxdot_matmul_dot_array"]
    assert len(re.findall(r"^  mxdot_matmul_dot_unit unit_\d_\d \(\.", array, re.M)) == 6
    assert text.count("module mxdot_matmul_dot_unit (") == 1


def test_the_dot_units_module_of_a_large_array_is_built_by_itself(text):
    dot = DotConfig("e2m1", 4, "exact", 2, load_c=False)
    for rows, expected in ((LARGE // 2 - 1, []), (LARGE // 2, ["mxdot_matmul_dot_unit"])):
        assert shared_modules(MatmulConfig(dot, rows, 2), text) == expected


def test_memories_have_no_initial_words(text):
    for width in (48, 72):
        memory = modules(text)[f"mxdot_matmul_step_memory_{width}_8"]
        assert f"  reg [{width - 1}:0] words [0:7];\n" in memory
        assert "initial" not in memory
