"""Bits of a design that matter: the Verilog leaves out bits that no output depends on."""

from collections.abc import Iterable, Mapping

from .netlist import Bit, Bits, Cell, Field, NetlistModule

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
        self.fields = {
            name: {f.name for fs in of.values() for f in fs} for name, of in ports.items()
        }
        self.drivers = {name: _drivers(module) for name, module in modules.items()}
        self.bits: dict[str, set[Bit]] = {}
        while True:
            before = {name: set(names) for name, names in self.fields.items()}
            self.bits = {name: self._live(module) for name, module in modules.items()}
            for name in modules:
                if name != top:
                    self.fields[name] &= self._asked(name) | self._read(name)
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
            if cell.kind in CARRYING:
                needs += bits[: index + 1]
            elif name == "B" and cell.kind == "$pmux":
                needs += bits[index::size]
            else:
                needs.append(bits[min(index, len(bits) - 1)])
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
