"""Timing and power of a mapped netlist by OpenSTA, and what ABC printed of it."""

import re
from collections.abc import Sequence
from pathlib import Path

from ..util.yosys import Bit, Netlist
from .errors import SynthesisError
from .liberty import Library
from .netlist import clocks, named_inputs, verilog_net
from .scripts import escaped
from .static_timing import Surroundings
from .tools import run_sta

RESET = re.compile(r"(\w*_)?[ans]?(rst|reset)(_?[nlb])?(_?i)?", re.IGNORECASE)
"""Names of inputs that timing ignores: a reset has more than one cycle."""


def abc_delay(log: str) -> float:
    """Picoseconds of the last `stime` in a log of Yosys; 0 when ABC had nothing to do."""
    found = re.findall(r"^ABC:.*\bDelay = *([\d.]+) ps", log, re.MULTILINE)
    return float(found[-1]) if found else 0.0


def sta_delay(
    netlist: Netlist,
    library: Library,
    directory: Path,
    *,
    libraries: Sequence[str],
    around: Surroundings,
    guess_ps: float,
    source: str,
    limit: float,
) -> float:
    """Picoseconds of the longest path between ports and flip-flops, flip-flops included.

    `directory` holds the files `libraries`. Inputs arrive with the clock edge and outputs are
    wanted at one; without flip-flops the clock is imaginary. `guess_ps` is about what will come
    out: OpenSTA has single precision, and a period of that order keeps the digits of the slack.
    The script, which is Tcl, knows nets by their numbers, and none of the design's names.
    """
    period = max(4 * guess_ps, 1000.0)
    script = [
        *_linked(netlist, library, directory, libraries, around, period),
        "report_worst_slack -digits 6",
        "",
    ]
    log = run_sta("\n".join(script), directory, source, limit)
    slack = re.search(r"^worst slack (?:max )?(\S+)$", log, re.MULTILINE)
    if slack is None or slack[1].upper().lstrip("-") == "INF":
        return 0.0  # no path at all
    return max(0.0, period / library.time_ps - float(slack[1])) * library.time_ps


POWER = ("internal", "switching", "leakage")


def sta_power(
    netlist: Netlist,
    library: Library,
    directory: Path,
    *,
    libraries: Sequence[str],
    around: Surroundings,
    period_ps: float,
    vcd: str,
    source: str,
    limit: float,
) -> dict[str, float]:
    """Milliwatts by POWER at a clock, from the transitions of a VCD file in `directory`."""
    script = [
        *_linked(netlist, library, directory, libraries, around, period_ps),
        f"read_vcd -scope mapped {vcd}",
        "report_power -digits 9",
        "",
    ]
    log = run_sta("\n".join(script), directory, source, limit)
    total = re.search(r"^Total +(\S+) +(\S+) +(\S+)", log, re.MULTILINE)
    if total is None:
        last = log.strip().splitlines()[-1:] or ["no output"]
        raise SynthesisError(f"OpenSTA on {source} reports no power: {last[0].strip()}")
    return {name: float(text) * 1e3 for name, text in zip(POWER, total.groups(), strict=True)}


def _linked(
    netlist: Netlist,
    library: Library,
    directory: Path,
    libraries: Sequence[str],
    around: Surroundings,
    period_ps: float,
) -> list[str]:
    """Commands that read a netlist, which is written to `directory`, and its surroundings."""
    period = period_ps / library.time_ps
    names = {name: verilog_net(bit) for name, bit in named_inputs(netlist).items()}
    clocked = sorted(clocks(netlist, library))
    clock = f"-clock {names[clocked[0]] if clocked else 'none'}"
    script = [f"read_liberty {name}" for name in libraries]
    script += ["read_verilog mapped.v", "link_design mapped"]
    script += [
        f"create_clock -name {names[name]} -period {period:.9g} [get_ports {names[name]}]"
        for name in clocked
    ] or [f"create_clock -name none -period {period:.9g}"]
    script += [
        f"set_input_delay 0 {clock} [get_ports {net}]"
        for name, net in names.items()
        if name not in clocked
    ]
    script += [f"set_output_delay 0 {clock} [get_ports o{i}]" for i, _ in _ends(netlist)]
    script += [
        f"set_false_path -from [get_ports {net}]"
        for name, net in names.items()
        if name not in clocked and RESET.fullmatch(name)
    ]
    if around.driver is not None:
        load = around.load_ff / library.capacitance_ff
        driven = " ".join(net for name, net in names.items() if name not in clocked)
        script += [
            f"set_driving_cell -lib_cell {around.driver} [get_ports {{{driven}}}]",
            f"set_load {load:.9g} [all_outputs]",
        ]
    if library.wire_load is not None:  # OpenSTA ignores the default from version 2.3.2 on
        script.append(f"set_wire_load_model -name {library.wire_load.name}")
    (directory / "mapped.v").write_text(structural(netlist))
    return script


def structural(netlist: Netlist) -> str:
    """The netlist as Verilog of single-bit wires, which any reader of Verilog understands.

    Inputs are called after their nets, outputs o0, o1, ...
    """
    inputs = sorted({verilog_net(bit) for _, _, bit in netlist.inputs()})
    outputs = _ends(netlist)
    ports = inputs + [f"o{index}" for index, _ in outputs]
    lines = [f"module mapped ({', '.join(ports)});"]
    lines += [f"  input {name};" for name in inputs]
    lines += [f"  output o{index};" for index, _ in outputs]
    lines += [f"  assign o{index} = {verilog_net(bit)};" for index, bit in outputs]
    for index, cell in enumerate(netlist.cells):
        connected = [(pin, bits[0]) for pin, bits in cell.pins.items() if bits]
        pins = ", ".join(f".{escaped(pin)}({verilog_net(bit)})" for pin, bit in connected)
        lines.append(f"  {escaped(cell.type)}c{index} ({pins});")
    return "\n".join([*lines, "endmodule", ""])


def _ends(netlist: Netlist) -> list[tuple[int, Bit]]:
    """Outputs that are not constant, numbered."""
    bits = [bit for _, _, bit in netlist.outputs() if isinstance(bit, int)]
    return list(enumerate(dict.fromkeys(bits)))
