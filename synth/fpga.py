"""The flows `xilinx` and `ecp5`: LUTs, carry, DSPs, and a placed and routed clock frequency."""

import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from ..util.yosys import Netlist
from .errors import SynthesisError, TargetMissedError
from .flow import Cost, Flow
from .netlist import IGNORED, count, load, sections
from .scripts import Design, fpga
from .tools import nextpnr_version, run_nextpnr, run_yosys, yosys_version

# For each cell, by the start of its name: LUTs that it takes, and what it is.
RESOURCES = {
    "xilinx": {
        "LUT": (1, "lut"),
        "INV": (1, "lut"),
        "SRL": (1, "shift_register"),
        "RAM": (1, "lut_ram"),
        "CARRY": (0, "carry"),
        "MUXF": (0, "mux"),
        "DSP48": (0, "dsp"),
        "FD": (0, "flipflop"),
        "LD": (0, "latch"),
        "BUF": (0, "buffer"),
    },
    "ecp5": {
        "LUT4": (1, "lut"),
        "CCU2C": (2, "carry"),
        "TRELLIS_DPR16X4": (2, "lut_ram"),
        "PFUMX": (0, "mux"),
        "L6MUX21": (0, "mux"),
        "MULT18X18D": (0, "dsp"),
        "ALU54B": (0, "alu"),
        "DP16KD": (0, "block_ram"),
        "PDPW16KD": (0, "block_ram"),
        "TRELLIS_FF": (0, "flipflop"),
    },
}


class Device(NamedTuple):
    """An ECP5: LUTs, multiplier blocks, and nextpnr's router for it.

    router1 is nextpnr's own choice; in an 85k that is nearly full it does not end within hours.
    """

    luts: int
    multipliers: int
    router: str


DEVICES = {
    "25k": Device(24288, 28, "router1"),
    "45k": Device(43848, 72, "router1"),
    "85k": Device(83640, 156, "router2"),
}
"""Devices by nextpnr's names."""
FILL = 0.85
"""Largest share of a device to fill: fuller ones take long to route, or fail."""
FREQUENCY_MHZ = 100.0
"""Clock that nextpnr aims at without a target."""


def cost(design: Design, flow: Flow, directory: Path, limit: float) -> Cost:
    """Cost of a design on an FPGA, by a synthesis in `directory`."""
    placed = flow.kind == "ecp5" and flow.place
    if placed and design.black_boxes:
        raise ValueError(f"place must be False for {design.top} with black boxes")
    router = nextpnr_version() if placed else None  # its absence, before work starts
    (directory / "design.v").write_text(design.verilog)
    run_yosys(fpga(design, flow), directory, design.source, limit)
    modules = load(directory / "netlist.json")

    def resource(cell: str) -> tuple[int, str]:
        return (0, "black_box") if cell in design.black_boxes else _resource(flow.kind, cell)

    def measure(cell: str) -> tuple[float, str]:
        luts, what = resource(cell)
        return luts, what if what in ("flipflop", "latch") else "gate"

    total = count(modules, "", measure)
    resources: Counter[str] = Counter()
    for cell, number in modules[""].types.items():
        resources[resource(cell)[1]] += number
    fmax = None
    if router:
        device = device_for(total.area, resources["dsp"], design.top)
        fmax = place(directory, modules[""], flow, design, device, limit)
    parts = {}
    if flow.keeps_sections:
        run_yosys(fpga(design, flow, keep=True), directory, design.source, limit)
        parts = sections(load(directory / "netlist.json"), measure)
    return Cost(
        area=total.area,
        unit="LUT4" if flow.kind == "ecp5" else "LUT6",
        nand2=None,
        flipflops=total.flipflops,
        depth=None,
        delay_ps=1e6 / fmax if fmax else None,
        fmax_mhz=fmax if total.flipflops else None,
        stages={name: part.area for name, part in parts.items()},
        extra={
            **dict(sorted(resources.items())),
            "cells": dict(sorted(modules[""].types.items())),
            "stages_total": sum(part.area for part in parts.values()),
            "stage_flipflops": {name: part.flipflops for name, part in parts.items()},
        },
        tool="; ".join(filter(None, [yosys_version(), router])),
    )


def _resource(kind: str, cell: str) -> tuple[int, str]:
    for start, resource in RESOURCES[kind].items():
        if cell.startswith(start):
            return (0, "block_ram") if cell.startswith("RAMB") else resource
    raise SynthesisError(f"the flow {kind} has no figure for the cell {cell}")


def device_for(luts: float, multipliers: int, top: str) -> str:
    """The smallest ECP5 with room, by nextpnr's name; SynthesisError when none is large enough."""
    for name, device in DEVICES.items():
        if luts <= FILL * device.luts and multipliers <= device.multipliers:
            return name
    largest = max(DEVICES.values())
    raise SynthesisError(
        f"{top} with {luts:.0f} LUTs and {multipliers} multipliers does not fit the largest ECP5, "
        f"{FILL:.0%} of {largest.luts} LUTs and {largest.multipliers} multipliers"
    )


def place(
    directory: Path, netlist: Netlist, flow: Flow, design: Design, device: str, limit: float
) -> float:
    """Place and route netlist.json of `directory`; return MHz of the longest path.

    Registers around all inputs and outputs make every path one between registers; the cost leaves
    them out. SynthesisError when the target is missed.
    """
    content = json.loads((directory / "netlist.json").read_bytes())
    module = surround(content["modules"][netlist.name], _clock(netlist))
    content["modules"] = {netlist.name: module}
    (directory / "harness.json").write_text(json.dumps(content))
    wanted = 1e6 / flow.target_ps if flow.target_ps else FREQUENCY_MHZ
    arguments = ["--json", "harness.json", f"--{device}", "--package", "CABGA381"]
    arguments += [
        "--out-of-context",
        "--seed",
        "1",
        "--freq",
        f"{wanted:.3f}",
        "--router",
        DEVICES[device].router,
        "--timing-allow-fail",
        "--report",
        "report.json",
    ]
    run_nextpnr([*arguments, "--quiet"], directory, design.source, limit)
    clocks = json.loads((directory / "report.json").read_bytes())["fmax"]
    if not clocks:
        raise SynthesisError(f"nextpnr found no path in {design.top} to time")
    fmax = min(clock["achieved"] for clock in clocks.values())
    if flow.target_ps and fmax < wanted:
        raise TargetMissedError("target_ps", flow.target_ps, design.top, 1e6 / fmax)
    return fmax


def _clock(netlist: Netlist) -> int | None:
    """Net of the one clock; None without flip-flops."""
    pins = ("CLK", "CLK0", "CLKA", "CLKB", "WCK")
    nets = {bit for c in netlist.cells for pin in pins for bit in c.pins.get(pin, [])}
    nets = {bit for bit in nets if isinstance(bit, int)}
    inputs = {bit: name for name, _, bit in netlist.inputs()}
    if any(bit not in inputs for bit in nets):
        raise SynthesisError(f"the flow ecp5 needs a clock that is an input of {netlist.name}")
    if len(nets) > 1:
        names = ", ".join(sorted(inputs[bit] for bit in nets))
        raise SynthesisError(f"the flow ecp5 needs one clock, and {netlist.name} has {names}")
    return next(iter(nets), None)


def surround(module: dict[str, Any], clock: int | None) -> dict[str, Any]:
    """A module of Yosys's JSON with its inputs fed by a shift register, its outputs registered."""
    ports, cells = module["ports"], dict(module["cells"])
    used = [bit for port in ports.values() for bit in port["bits"]]
    used += [
        bit for cell in cells.values() for bits in cell["connections"].values() for bit in bits
    ]
    new = max((bit for bit in used if isinstance(bit, int)), default=1) + 1
    if clock is None:
        clock, new = new, new + 1
    shifted, new = new, new + 1
    ends = [bit for port in ports.values() if port["direction"] == "output" for bit in port["bits"]]
    starts = {
        bit for port in ports.values() if port["direction"] != "output" for bit in port["bits"]
    }
    module = module | {
        "ports": {
            "clk": {"direction": "input", "bits": [clock]},
            "in": {"direction": "input", "bits": [shifted]},
        },
        "cells": {
            name: cell for name, cell in cells.items() if not cell["type"].startswith(IGNORED)
        },
        "netnames": {"clk": {"hide_name": 0, "bits": [clock], "attributes": {}}},
    }
    for bit in sorted(starts - {clock}):
        module["cells"][f"harness_{bit}"] = _register(clock, shifted, bit)
        shifted = bit
    for bit in dict.fromkeys(bit for bit in ends if isinstance(bit, int)):
        module["cells"][f"harness_out_{bit}"] = _register(clock, bit, new)
        new += 1
    return module


def _register(clock: int, source: int, target: int) -> dict[str, Any]:
    return {
        "hide_name": 0,
        "type": "TRELLIS_FF",
        "parameters": {
            "GSR": "DISABLED",
            "CEMUX": "1 ",  # the space tells Yosys and nextpnr that it is text
            "CLKMUX": "CLK",
            "LSRMUX": "LSR",
            "REGSET": "RESET",
            "SRMODE": "LSR_OVER_CE",
        },
        "attributes": {},
        "port_directions": {"CLK": "input", "DI": "input", "LSR": "input", "Q": "output"},
        "connections": {"CLK": [clock], "DI": [source], "LSR": ["0"], "Q": [target]},
    }
