"""Netlists as Verilog that every simulator reads: one assignment per output of a cell.

Each assignment is the library's Boolean function, so that no models of cells are needed. There
are no delays. Clear and preset pins, which generated units lack, act at the clock's edge.
"""

import re
from collections.abc import Iterator
from typing import Any

from ..util.yosys import Bit, Cell, Netlist
from . import SYNTHESES
from .errors import SynthesisError
from .flow import Flow, library_of
from .liberty import Library
from .liberty_syntax import Function
from .measure import measure_netlist
from .netlist import in_order, verilog_net


def unit_netlist(config: Any, process: str) -> str:
    """Verilog of a unit of any kind, mapped to the cells of a process.

    process: a name in `processes.NAMES`. The top module keeps name and ports of the generated one.

    Large arrays map only the module of their dot units and keep the rest of the generated text: a
    flat array takes too long to map and to compile.
    """
    from ..hw.verilog import default_top, generate, modules_of
    from ..model.units import MatmulConfig
    from ..sim.matmul.unit import shared_modules

    text = generate(config)
    shared = shared_modules(config, text) if isinstance(config, MatmulConfig) else []
    top = shared[0] if shared else default_top(config)
    mapped = gate_level(*cells_of(text, top, process))
    return text.replace(modules_of(text)[top], mapped) if shared else mapped


def cells_of(text: str, top: str, process: str) -> tuple[Netlist, Library]:
    """Flat netlist of a module in a process's cells, and their library; cached in `SYNTHESES`."""
    flow = Flow.of_process(process, sections=False)
    _, netlist = measure_netlist(text, top, flow, cache_dir=SYNTHESES)
    return netlist, library_of(flow)


def gate_level(netlist: Netlist, library: Library, begins: bool = False) -> str:
    """Verilog of a netlist of cells.

    begins: give flip-flops the state that inputs of 0 lead to, for proofs against registers that
    start at 0. Otherwise their first state is open.

    SynthesisError for latches, and for flip-flops not clocked by the rising edge of a top input.
    """
    ports = netlist.ports.items()
    lines = [f"module {netlist.name} (", ",\n".join(f"  {_port(*port)}" for port in ports), ");"]
    lines += [f"  wire n{net};" for net in sorted(_nets(netlist))]
    for name, place, net in netlist.inputs():
        lines.append(f"  assign n{net} = {_bit(netlist, name, place)};")
    lines += _registers(netlist, library, begins)
    for cell, kind in in_order(netlist, library):
        lines += _outputs(cell, kind.outputs, {})
    for name, place, net in netlist.outputs():
        lines.append(f"  assign {_bit(netlist, name, place)} = {verilog_net(net)};")
    return "\n".join([*lines, "endmodule", ""])


def _registers(netlist: Netlist, library: Library, begins: bool) -> Iterator[str]:
    """Registers of the flip-flops, and their outputs."""
    clocks = {net: _bit(netlist, name, place) for name, place, net in netlist.inputs()}
    edges: dict[str, list[str]] = {}
    for number, cell in enumerate(netlist.cells):
        kind = library.cells[cell.type]
        if kind.clock is None:
            continue
        net = cell.pins[kind.clock.pin][0] if kind.clock.pin is not None else None
        if kind.is_latch or net not in clocks:
            raise SynthesisError(
                f"{cell.name} is no flip-flop that the rising edge of an input clocks"
            )
        own = {variable: f"s{number}_{variable}" for variable in kind.state}
        for variable, function in kind.state.items():
            low = function.evaluate(dict.fromkeys(function.names, 0), 1) & 1
            first = f" = 1'b{low}" if begins else ""
            yield f"  reg {own[variable]}{first};"
            following = f"{own[variable]} <= {_expression(function, cell, own)};"
            edges.setdefault(clocks[net], []).append(following)
        yield from _outputs(cell, kind.outputs, own)
    for clock, statements in edges.items():
        yield f"  always @(posedge {clock}) begin"
        yield from (f"    {statement}" for statement in statements)
        yield "  end"


def _outputs(cell: Cell, outputs: dict[str, Function], own: dict[str, str]) -> Iterator[str]:
    for pin, function in outputs.items():
        for net in cell.pins.get(pin, []):
            yield f"  assign {verilog_net(net)} = {_expression(function, cell, own)};"


def _expression(function: Function, cell: Cell, own: dict[str, str]) -> str:
    pins = {
        name: own[name] if name in own else verilog_net(cell.pins[name][0])
        for name in function.names
    }
    return re.sub(r"\bones\b", "1'b1", function.substitute(pins))


def _nets(netlist: Netlist) -> set[Bit]:
    """All nets except constants."""
    bits = {bit for _, bits in netlist.ports.values() for bit in bits}
    bits.update(bit for cell in netlist.cells for some in cell.pins.values() for bit in some)
    return {bit for bit in bits if isinstance(bit, int)}


def _port(name: str, port: tuple[str, list[Bit]]) -> str:
    direction, bits = port
    return f"{direction} {_range(bits)}{name}"


def _range(bits: list[Bit]) -> str:
    return f"[{len(bits) - 1}:0] " if len(bits) > 1 else ""


def _bit(netlist: Netlist, name: str, place: int) -> str:
    return f"{name}[{place}]" if len(netlist.ports[name][1]) > 1 else name
