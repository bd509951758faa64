"""A unit bit-sliced: hundreds of runs at a time, a bit of each in every machine word.

Yosys makes the Verilog look-up tables of three inputs and flip-flops. Each table becomes one
operation on vectors of 512 bits, bit i of which belongs to run i (with AVX-512 one instruction, for
that is what it has). The records are dealt to the runs, each of which begins with a reset, its
registers in a random state, and has gaps and stalls of its own: so a cycle of the program is one of
512 units (Biham, A Fast New DES Implementation in Software, FSE 1997, has the technique).
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path

from ...model.errors import identifier
from ...sim.bench.bulk import Field, Layout
from ...sim.engine.toolchain import find_tools
from ...synth.errors import SynthesisError
from ...synth.netlist import load
from ...util.yosys import Bit, Cell, Netlist
from .program import Program, built

DRIVER = Path(__file__).with_name("bitsliced.cc")
_FLAGS = ("-std=c++17", "-O1", "-march=native", "-Wno-psabi", "-w")
_SCRIPT = (
    "proc",
    "flatten",
    "opt -full",
    "memory_map",
    "opt_clean",
    "techmap",
    "opt",
    "dfflegalize -cell $_DFF_P_ x",
    "abc -lut 3",
    "opt_clean",
    "write_json design.json",
)
_PART = 1000
"""Tables in a function: the compiler takes more than linear time for one."""
_CONSTANTS = {"0": "zero", "1": "ones", "x": "zero"}


def build(
    top: str, verilog: Path, directory: Path, layout: Layout, *, executable: Path | None = None
) -> Program:
    """The simulation of module `top`; errors as `program.built`'s.

    ValueError for a unit whose results depend on what it has done before, for its records cannot be
    dealt to many runs.
    """
    if not layout.restarts:
        raise ValueError(f"{top} cannot be bit-sliced: its items share state")
    script = ["read_verilog design.v", f"hierarchy -check -top {identifier('top', top)}", *_SCRIPT]
    own = (top, layout, Path(__file__).read_text(), _processor())

    def write(directory: Path) -> None:
        text = "\n".join([*source(load(directory / "design.json")[""], layout), ""])
        (directory / "design.h").write_text(text)

    return built(verilog, directory, DRIVER, _FLAGS, script, own, write, executable)


def _processor() -> str:
    """Compiler's description of this machine's processor, for which alone a program is."""
    command = ["g++", *_FLAGS, "-E", "-dM", "-x", "c++", "/dev/null"]
    env = find_tools().env
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    return done.stdout


def source(netlist: Netlist, layout: Layout) -> Iterator[str]:
    """The unit as C++: constants, then `step`, one clock cycle of all runs.

    SynthesisError for a cell that is neither table nor flip-flop, another clock than clk or a loop;
    ValueError for a port whose width is not the layout's.
    """
    tables, flops = _sorted(netlist)
    names = _inputs(netlist, layout) | {
        flop.pins["Q"][0]: f"s.state[{index}]" for index, flop in enumerate(flops)
    }
    ends = next((field for field in layout.inputs if field.port == layout.ends), None)
    end = -1 if ends is None else _in_record(layout, ends.place)
    yield f"constexpr size_t RECORD_BYTES = {layout.record_bytes}, RESULT_WORDS = {layout.words};"
    yield f"constexpr size_t FLIPFLOPS = {len(flops)};"
    yield f"constexpr long ENDS = {end};  // the bit of a record that asks for a result, or -1"
    nexts = [(flop.pins["D"][0], f"s.next[{index}]") for index, flop in enumerate(flops)]
    outputs = [*nexts, *_outputs(netlist, layout)]
    order = _depth_first(tables, [net for net, _ in outputs])
    parts = [order[start : start + _PART] for start in range(0, len(order), _PART)]
    place = {cell.pins["Y"][0]: index for index, part in enumerate(parts) for cell in part}
    shared = {net for net, _ in outputs if net in place}
    for index, part in enumerate(parts):
        shared |= {net for cell in part for net in _read(cell) if place.get(net, index) != index}
    slots = {net: f"s.shared[{index}]" for index, net in enumerate(sorted(shared))}
    yield f"constexpr size_t SHARED = {len(slots)};"
    yield from _STATE
    for index, part in enumerate(parts):
        own = {net: f"n{net}" for net, where in place.items() if where == index}
        known = names | slots | own
        yield f"static void part{index}(Slices &s) {{"
        for cell in part:
            net = cell.pins["Y"][0]
            arguments = ", ".join(_name(known, bit) for bit in reversed(_read(cell)))
            yield f"  const V n{net} = lut<0x{int(cell.parameters['LUT'], 2):x}>({arguments});"
            if net in slots:
                yield f"  {slots[net]} = n{net};"
        yield "}"
    yield "static void step(Slices &s) {"
    yield from (f"  part{index}(s);" for index in range(len(parts)))
    yield from (f"  {target} = {_name(names | slots, net)};" for net, target in outputs)
    yield "}"


# One bit of every run in each: of records, results, registers, and what functions hand on.
_STATE = (
    "struct Slices {",
    "  V rst, in_valid, out_ready, in_ready, out_valid;",
    "  V record[(RECORD_BYTES + 7) / 8 * 64], result[(RESULT_WORDS + 1) / 2 * 64];",
    "  V state[FLIPFLOPS + 1], next[FLIPFLOPS + 1], shared[SHARED + 1];",
    "};",
)
_HANDSHAKE_IN = ("rst", "in_valid", "out_ready")
_HANDSHAKE_OUT = ("in_ready", "out_valid")


def _sorted(netlist: Netlist) -> tuple[list[Cell], list[Cell]]:
    """Tables, and flip-flops that clk clocks."""
    clock = netlist.ports["clk"][1] if "clk" in netlist.ports else []
    tables = [cell for cell in netlist.cells if cell.type == "$lut"]
    flops = [cell for cell in netlist.cells if cell.type == "$_DFF_P_"]
    if len(tables) + len(flops) < len(netlist.cells):
        known = {"$lut", "$_DFF_P_"}
        other = next(cell for cell in netlist.cells if cell.type not in known)
        raise SynthesisError(f"{other.name} is a {other.type}, no flip-flop and no gate")
    for flop in flops:
        if flop.pins["C"] != clock:
            raise SynthesisError(f"{flop.name} is not clocked by the input clk")
    return tables, flops


def _read(cell: Cell) -> list[Bit]:
    """The nets that a table reads, that of the lowest bit of its index first."""
    return cell.pins["A"]


def _name(names: dict[Bit, str], bit: Bit) -> str:
    if isinstance(bit, str):
        return _CONSTANTS[bit]
    if bit not in names:
        raise SynthesisError(f"net {bit} is driven by no table, flip-flop or input of the layout")
    return names[bit]


def _depth_first(tables: list[Cell], roots: list[Bit]) -> list[Cell]:
    """The tables that the roots depend on, each soon after those that it reads."""
    drivers = {cell.pins["Y"][0]: cell for cell in tables}
    order, began, done = [], set(), set()
    for root in roots:
        stack = [root]
        while stack:
            net = stack[-1]
            if net in done or net not in drivers:
                stack.pop()
            elif net in began:  # what it reads is done
                order.append(drivers[net])
                done.add(net)
                stack.pop()
            else:
                began.add(net)
                waiting = [bit for bit in _read(drivers[net]) if bit in drivers and bit not in done]
                if any(bit in began for bit in waiting):
                    raise SynthesisError(f"the design has a combinational loop near net {net}")
                stack += waiting
    return order


def _inputs(netlist: Netlist, layout: Layout) -> dict[Bit, str]:
    """Names of the inputs' nets in C++."""
    names: dict[Bit, str] = {}
    for port in _HANDSHAKE_IN:
        if port in netlist.ports:
            names[netlist.ports[port][1][0]] = f"s.{port}"
    for field in layout.inputs:
        for place, bit in enumerate(_bits(netlist, field)):
            names[bit] = f"s.record[{_in_record(layout, field.place + place)}]"
    return names


def _outputs(netlist: Netlist, layout: Layout) -> Iterator[tuple[Bit, str]]:
    """Nets of the outputs, and where they go."""
    for port in _HANDSHAKE_OUT:
        yield netlist.ports[port][1][0], f"s.{port}"
    for field in layout.outputs:
        for place, bit in enumerate(_bits(netlist, field), field.place):
            yield bit, f"s.result[{place}]"
    for place in layout.ones:
        yield "1", f"s.result[{place}]"


def _bits(netlist: Netlist, field: Field) -> list[Bit]:
    """The nets of a port, none where the unit has it not."""
    if field.port not in netlist.ports:
        return []
    bits = netlist.ports[field.port][1]
    if len(bits) != field.bits:
        raise ValueError(f"{field.port} must have {len(bits)} bits, not {field.bits}")
    return bits


def _in_record(layout: Layout, place: int) -> int:
    """Place of a record's bit after its bytes are reversed."""
    return 8 * (layout.record_bytes - 1 - place // 8) + place % 8
