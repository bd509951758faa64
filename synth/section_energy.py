"""Energy of each section of a unit: of a netlist that keeps the instances of the top apart."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from ..util.yosys import Bit, Cell, Netlist

TOP = "(top)"


def flattened(modules: Mapping[str, Netlist]) -> Netlist:
    """One netlist of the top and all instances; a cell's name begins with its section's and a dot.

    modules: as `netlist.load` reads them. A section is an instance in the top; cells of the top
    itself belong to TOP.
    """
    top = modules[""]
    return _Flattener(modules, top).netlist()


def section_of(cell: Cell) -> str:
    """The section of a cell of a flattened netlist."""
    return cell.name.partition(".")[0]


class _Flattener:
    def __init__(self, modules: Mapping[str, Netlist], top: Netlist) -> None:
        self.modules, self.top = modules, top
        used = [bit for _, bits in top.ports.values() for bit in bits]
        used += [bit for cell in top.cells for bits in cell.pins.values() for bit in bits]
        self._next = max((bit for bit in used if isinstance(bit, int)), default=0) + 1
        self._same: dict[Bit, Bit] = {}
        """A net that an instance joins with another one, or with a constant."""

    def netlist(self) -> Netlist:
        """The flat netlist."""
        cells = [*self._cells(self.top, {}, None)]
        for cell in cells:
            for pin, bits in cell.pins.items():
                cell.pins[pin] = [self._one(bit) for bit in bits]
        ports = {
            name: (direction, [self._one(bit) for bit in bits])
            for name, (direction, bits) in self.top.ports.items()
        }
        return Netlist(self.top.name, ports, cells)

    def _one(self, bit: Bit) -> Bit:
        while bit in self._same:
            bit = self._same[bit]
        return bit

    def _cells(self, module: Netlist, nets: dict[Bit, Bit], section: str | None) -> Iterator[Cell]:
        """Cells of an instance; nets: those of its ports, in numbers of the top."""
        for cell in module.cells:
            own = section or (cell.name if cell.type in self.modules else TOP)
            pins = {pin: [self._outer(b, nets, section) for b in p] for pin, p in cell.pins.items()}
            if cell.type in self.modules:
                inner = self.modules[cell.type]
                yield from self._cells(inner, self._joined(inner, pins), own)
            else:
                yield Cell(f"{own}.{cell.name}", cell.type, pins)

    def _outer(self, bit: Bit, nets: dict[Bit, Bit], section: str | None) -> Bit:
        """A net in numbers of the top; a new one inside an instance."""
        if section is None or not isinstance(bit, int):
            return bit
        if bit not in nets:
            nets[bit], self._next = self._next, self._next + 1
        return nets[bit]

    def _joined(self, module: Netlist, pins: Mapping[str, list[Bit]]) -> dict[Bit, Bit]:
        """Nets of an instance's ports, inputs first, so that a net that passes through is one."""
        nets: dict[Bit, Bit] = {}
        for is_output in (False, True):
            for name, (direction, bits) in module.ports.items():
                if (direction == "output") == is_output:
                    for inner, outer in zip(bits, pins.get(name, ()), strict=False):
                        self._join(inner, outer, nets, is_output)
        return nets

    def _join(self, inner: Bit, outer: Bit, nets: dict[Bit, Bit], is_output: bool) -> None:
        if not isinstance(inner, int):  # a constant output
            if is_output and isinstance(outer, int):
                self._same[outer] = inner
        elif inner not in nets:
            nets[inner] = outer
        elif is_output and self._one(outer) != self._one(nets[inner]):
            self._same[self._one(outer)] = self._one(nets[inner])


def by_section(cells: list[Cell], values: list[float]) -> dict[str, float]:
    """Sum of each section."""
    found: dict[str, float] = defaultdict(float)
    for cell, value in zip(cells, values, strict=True):
        found[section_of(cell)] += value
    return dict(found)
