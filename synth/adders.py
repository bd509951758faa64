"""Full- and half-adder cells: rows of adders in a design, mapped onto a library's own cells.

ABC does not find adder cells in loose gates. A generated design holds its adders as modules
`*_full_adder_W` and `*_half_adder_W`, rows of W adders (`hw/arithmetic/columns.py`). Before
synthesis each row becomes W instances. After flattening, each instance becomes a cell, or loose
gates where an input is constant. Outputs that a cell inverts get inverters; ABC absorbs them.
"""

import re
from dataclasses import dataclass, replace

from ..util.yosys import Bit, Netlist
from .liberty import Library, LibraryCell
from .scripts import INVERTED, escaped

FULL, HALF = "mxdot_adder_full", "mxdot_adder_half"
"""Modules of one bit, between the rows and the cells."""
_ROW = re.compile(
    r"^module (?P<name>\w+_(?P<kind>full|half)_adder_\d+) \((?P<ports>[^)]*)\);(?P<body>.*?)"
    r"^endmodule",
    re.MULTILINE | re.DOTALL,
)
_BODIES = {
    "full": "wire half = a ^ b; assign sum = half ^ c; assign carry = (a & b) | (half & c);",
    "half": "assign sum = a ^ b; assign carry = a & b;",
}
_SUMS = {2: 0b0110, 3: 0b10010110}
_CARRIES = {2: 0b1000, 3: 0b11101000}


@dataclass(frozen=True)
class AdderCell:
    """A cell that adds its two or three inputs."""

    name: str
    inputs: tuple[str, ...]
    """Input pins by capacitance, the greatest first: the last one takes the latest bit."""
    sum: str
    carry: str
    inverts_sum: bool
    inverts_carry: bool


def adder_cell(library: Library, bits: int) -> AdderCell | None:
    """The smallest cell that adds `bits` (2 or 3) inputs and inverts none of them, or None."""
    found = [(cell, _adder(cell, bits)) for cell in library.cells.values()]
    adders = [(cell.area, adder.name, adder) for cell, adder in found if adder is not None]
    return min(adders, key=lambda item: item[:2])[2] if adders else None


def _adder(cell: LibraryCell, bits: int) -> AdderCell | None:
    if len(cell.inputs) != bits or len(cell.outputs) != 2 or cell.clock is not None:
        return None
    ones = (1 << (1 << bits)) - 1
    columns = {2: (0b1010, 0b1100), 3: (0b10101010, 0b11001100, 0b11110000)}[bits]
    values = dict(zip(cell.inputs, columns, strict=True))
    tables = {}
    for pin, function in cell.outputs.items():
        if not set(function.names) <= values.keys():
            return None
        tables[function.evaluate(values, ones) & ones] = pin
    for sum_inverts in (False, True):
        for carry_inverts in (False, True):
            total = tables.get(_SUMS[bits] ^ ones * sum_inverts)
            carry = tables.get(_CARRIES[bits] ^ ones * carry_inverts)
            if total and carry:
                order = sorted(cell.inputs, key=lambda pin: -cell.inputs[pin])
                return AdderCell(cell.name, tuple(order), total, carry, sum_inverts, carry_inverts)
    return None


def with_cells(verilog: str, library: Library) -> tuple[str, str]:
    """Replace rows of adders by instances; return the text and the cells' modules for `techmap`.

    Without rows of adders, or without adder cells, the text stays and the modules are empty.
    A row is recognised by its name and its whole text, so that no other module is touched.
    """
    cells = {"full": adder_cell(library, 3), "half": adder_cell(library, 2)}
    used = set()

    def instances(row: re.Match[str]) -> str:
        kind = row["kind"]
        plain = re.sub(r"\[\d+:0\] ", "", " ".join(row["body"].split()))
        if cells[kind] is None or plain != _BODIES[kind]:
            return row[0]
        width = re.search(r"\[(\d+):0\]", row["ports"])
        module, count = (FULL, HALF)[kind == "half"], int(width[1]) if width else 0
        used.add(kind)
        pins = ", ".join(f".{pin}({pin})" for pin in _pins(kind))
        return (
            f"module {row['name']} ({row['ports']});\n"
            f"  {module} bits [{count}:0] ({pins});\nendmodule"
        )

    text = _ROW.sub(instances, verilog)
    found = [(kind, cell) for kind, cell in cells.items() if kind in used and cell is not None]
    stubs = "".join(_module(kind, "(* blackbox *)\n", "") for kind, _ in found)
    return (text + stubs, "".join(_map(kind, cell) for kind, cell in found)) if used else (text, "")


def _pins(kind: str) -> list[str]:
    return ["a", "b", *(["c"] if kind == "full" else []), "sum", "carry"]


def _module(kind: str, before: str, body: str) -> str:
    ports = ", ".join(
        f"{'output' if pin in ('sum', 'carry') else 'input'} {pin}" for pin in _pins(kind)
    )
    return f"{before}module {FULL if kind == 'full' else HALF} ({ports});\n{body}endmodule\n"


def _map(kind: str, cell: AdderCell) -> str:
    """One bit's module for `techmap`: the cell, or loose gates where an input is constant."""
    inputs = _pins(kind)[:-2]
    wires = "".join(f"  parameter _TECHMAP_CONSTMSK_{pin}_ = 0;\n" for pin in inputs)
    known = " | ".join(f"_TECHMAP_CONSTMSK_{pin}_" for pin in inputs)
    pairs = [f".{escaped(own)}({pin})" for own, pin in zip(cell.inputs, inputs, strict=True)]
    pairs += [f".{escaped(cell.sum)}(s)", f".{escaped(cell.carry)}(k)"]
    total, carry = " ^ ".join(inputs), "a & b" if kind == "half" else "(a & b) | ((a ^ b) & c)"
    return _module(
        kind,
        "",
        f"{wires}  generate if ({known}) begin\n"
        f"    assign sum = {total};\n    assign carry = {carry};\n"
        f"  end else begin\n    wire s, k;\n"
        f"    {escaped(cell.name)}adder ({', '.join(pairs)});\n"
        f"    assign sum = {'~' * cell.inverts_sum}s;\n"
        f"    assign carry = {'~' * cell.inverts_carry}k;\n"
        f"  end endgenerate\n",
    )


def inverted_map(library: Library) -> str:
    """The module `INVERTED` for `techmap`; empty unless the library's cell inverts both outputs.

    Inverted inputs of an adder invert its sum and its carry, so that no output needs an inverter.
    """
    cell = adder_cell(library, 3)
    if cell is None or not (cell.inverts_sum and cell.inverts_carry):
        return ""
    plain = _map("full", replace(cell, inverts_sum=False, inverts_carry=False))
    for own, pin in zip(cell.inputs, _pins("full"), strict=False):
        plain = plain.replace(f".{escaped(own)}({pin})", f".{escaped(own)}(~{pin})")
    return plain.replace(f"module {FULL} ", f"module {INVERTED} ")


ABSORBED = 0.4
"""Cost of an inverter that a gate beside it may absorb."""
PASSES = 20
"""Times that all adders are tried in the other kind."""


def inverted_adders(netlist: Netlist) -> set[str]:
    """Names of the full adders to make `INVERTED`, for few inverters between adders.

    Kinds alternate from adder to adder, by the parity of their depth, and then change one by one
    where this saves an inverter.
    """
    return _Kinds(netlist).inverted()


class _Kinds:
    """Kinds of full adders; True: inverted inputs."""

    def __init__(self, netlist: Netlist) -> None:
        self.adders = [cell for cell in netlist.cells if cell.type == FULL]
        self.drivers: dict[Bit, int] = {}
        self.readers: dict[Bit, list[int]] = {}
        for place, cell in enumerate(self.adders):
            self.drivers |= {cell.pins[pin][0]: place for pin in ("sum", "carry")}
            for pin in ("a", "b", "c"):
                if isinstance(bit := cell.pins[pin][0], int):
                    self.readers.setdefault(bit, []).append(place)
        others = [cell for cell in netlist.cells if cell.type != FULL]
        self.elsewhere = {bit for cell in others for bits in cell.pins.values() for bit in bits}
        self.elsewhere |= {bit for _, _, bit in netlist.outputs()}
        self.nets = [[bits[0] for bits in cell.pins.values()] for cell in self.adders]
        self.kinds = [depth % 2 == 1 for depth in self._depths()]

    def _depths(self) -> list[int]:
        """Adders in series before each one; a loop ends after as many rounds as adders."""
        depths = [0] * len(self.adders)
        sources = [
            [self.drivers[bit] for pin in "abc" for bit in cell.pins[pin] if bit in self.drivers]
            for cell in self.adders
        ]
        for _ in self.adders:
            new = [1 + max((depths[place] for place in row), default=-1) for row in sources]
            if new == depths:
                break
            depths = new
        return depths

    def inverted(self) -> set[str]:
        for _ in range(PASSES):
            if not sum(map(self._flip, range(len(self.adders)))):
                break
        return {cell.name for cell, kind in zip(self.adders, self.kinds, strict=True) if kind}

    def _flip(self, place: int) -> bool:
        """Give an adder the other kind where this costs less."""
        before = sum(map(self._cost, self.nets[place]))
        self.kinds[place] = not self.kinds[place]
        if sum(map(self._cost, self.nets[place])) < before - 1e-9:
            return True
        self.kinds[place] = not self.kinds[place]
        return False

    def _cost(self, bit: Bit) -> float:
        """Inverters at a net: a plain adder drives it inverted, an inverted one reads it so."""
        wishes = {self.kinds[place] for place in self.readers.get(bit, ())}
        if bit not in self.drivers:
            return len(wishes) - 1 + ABSORBED if True in wishes else 0.0
        driver = self.kinds[self.drivers[bit]]
        if driver in wishes:
            return 1.0
        return ABSORBED if bit in self.elsewhere and not driver else 0.0


def sample() -> str:
    """Modules for `techmap` with placeholder cells: a part of the cache's keys."""
    full = AdderCell("full", ("a", "b", "c"), "s", "k", True, False)
    return _map("full", full) + _map("half", AdderCell("half", ("a", "b"), "s", "k", False, True))
