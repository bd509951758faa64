"""The effort `both`: nearly as small as `balanced` and nearly as fast as `speed`, in one netlist.

1. Adder cells that invert both outputs take inverted inputs where this saves inverters.
2. Logic between adders, flip-flops and ports is cut into groups. ABC maps each in three ways, small
   to fast, and groups take a faster one where the whole gains.
3. Cells take the sizes that serve the whole (`sizing.py`), also smaller ones where paths are short.
4. Adder cells on the longest paths become loose gates where the whole gains, then sizes again.

The whole gains when `area * delay ** SPEED` falls, by the timing of the whole netlist.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path

from ..util.yosys import Bit, Cell, Netlist
from .adders import AdderCell, adder_cell, inverted_adders, inverted_map
from .errors import SynthesisError
from .flow import Flow
from .liberty import Library
from .liberty_syntax import Function
from .netlist import load
from .opensta import RESET
from .scripts import WAYS, Design, after_adders, before_adders, grouped
from .section_energy import flattened
from .sizing import Circuit, merit_of, sized
from .static_timing import Surroundings
from .variants import Choices

LARGE = 0.04
"""Least share of the gates of an island with a group of its own."""
MOST = 6
"""Groups of large islands."""
REST = "rest"
"""Group of all other islands."""
TURNS = 6
"""Times that adder cells are tried as loose gates."""


@dataclass(frozen=True)
class Place:
    """Design, flow, library and folder of one mapping."""

    design: Design
    flow: Flow
    directory: Path
    library: Library
    around: Surroundings
    run: Callable[[str], object]
    """Runs a Yosys script."""


def small_and_fast(place: Place, adders: str, target_ps: float | None = None) -> Netlist:
    """The netlist of a design on cells. adders: modules of adder cells for `techmap`.

    target_ps: the smallest netlist within this delay, if there is one.
    """
    directory, top = place.directory, place.design.top
    inverted = inverted_map(place.library) if adders else ""
    place.run(before_adders(place.design))
    names = inverted_adders(load(directory / "plain.json")[""]) if inverted else set()
    _select(directory / "inverted.txt", top, names)
    (directory / "inverted.v").write_text(inverted)
    place.run(after_adders(place.flow, adders=bool(adders), inverted=bool(names)))
    groups = dict(islands(load(directory / "gates.json")[""]))
    for name, cells in groups.items():
        _select(directory / f"{name}.txt", top, cells)
    place.run(grouped(place.flow, list(groups)))
    mapped, *others = (load(directory / f"{way}.json") for way in WAYS)
    best = Trial(place, target_ps)
    best.take(flattened(mapped))
    for name in groups:
        module = f"{top}_{name}"  # as submod names it
        for mixed in [mapped | {module: other[module]} for other in others]:
            if best.take(flattened(mixed)):
                mapped = mixed
    best.take(best.sized())
    for netlist in loosened(best):
        best.take(netlist)
    best.take(best.sized())
    assert best.netlist is not None
    check_driven(best.netlist, place.library)
    return best.netlist


def check_driven(netlist: Netlist, library: Library) -> None:
    """SynthesisError for a net that is read and has no driver: a group lost it."""
    driven = {bit for _, _, bit in netlist.inputs()}
    reads = [(name, bit) for name, _, bit in netlist.outputs()]
    for cell in netlist.cells:
        kind = library.cells[cell.type]
        if not kind.inputs and not kind.outputs:
            return  # a black box may drive anything
        for pin in kind.outputs:
            driven.update(cell.pins.get(pin, ()))
        reads += [(cell.name, bit) for pin in kind.inputs for bit in cell.pins.get(pin, ())]
    for name, bit in reads:
        if isinstance(bit, int) and bit not in driven:
            raise SynthesisError(f"the effort both has lost the driver of a net at {name}")


class Trial:
    """The best netlist so far."""

    def __init__(self, place: Place, target_ps: float | None) -> None:
        self.place, self.target_ps = place, target_ps
        self.choices = Choices(place.library)
        self.netlist: Netlist | None = None
        self.circuit: Circuit | None = None
        self.delay, self.merit = float("inf"), (float("inf"), float("inf"))

    def take(self, netlist: Netlist) -> bool:
        """Keep a netlist if the whole gains."""
        circuit = Circuit(netlist, self.choices, self.place.around, RESET.fullmatch)
        delay = circuit.time()
        merit = merit_of(circuit.area, delay, self.target_ps)
        if merit >= self.merit:
            return False
        self.netlist, self.circuit, self.delay, self.merit = netlist, circuit, delay, merit
        return True

    def sized(self) -> Netlist:
        """The best netlist with other sizes."""
        assert self.netlist is not None
        around = self.place.around
        return sized(self.netlist, self.choices, around, RESET.fullmatch, target_ps=self.target_ps)


def _select(file: Path, top: str, names: set[str]) -> None:
    """A file for Yosys' `select -read`."""
    file.write_text("".join(f"{top}/{name}\n" for name in sorted(names)))


def islands(netlist: Netlist) -> Iterator[tuple[str, set[str]]]:
    """Groups of generic gates by name: those that nets connect without other cells between."""
    gates = [
        cell for cell in netlist.cells if cell.type.startswith("$_") and "DFF" not in cell.type
    ]
    gates = [cell for cell in gates if "DLATCH" not in cell.type]
    parent = list(range(len(gates)))

    def root(place: int) -> int:
        while parent[place] != place:
            parent[place] = parent[parent[place]]
            place = parent[place]
        return place

    driven = {cell.pins["Y"][0]: place for place, cell in enumerate(gates)}
    for place, cell in enumerate(gates):
        for pin, bits in cell.pins.items():
            if pin != "Y" and bits[0] in driven:
                parent[root(driven[bits[0]])] = root(place)
    found: dict[int, set[str]] = {}
    for place, cell in enumerate(gates):
        found.setdefault(root(place), set()).add(cell.name)
    ordered = sorted(found.values(), key=lambda names: (-len(names), min(names)))
    large = [names for names in ordered if len(names) >= LARGE * len(gates)][:MOST]
    for number, names in enumerate(large):
        yield f"group{number}", names
    rest = set().union(*ordered[len(large) :])
    if rest:
        yield REST, rest


def _bits(netlist: Netlist) -> Iterator[Bit]:
    for _, bits in netlist.ports.values():
        yield from bits
    for cell in netlist.cells:
        for bits in cell.pins.values():
            yield from bits


def loosened(best: Trial) -> Iterator[Netlist]:
    """The best netlist with adder cells of the longest paths as loose gates, again and again."""
    library = best.place.library
    kinds = {cell.name: cell for cell in (adder_cell(library, 3), adder_cell(library, 2)) if cell}
    makers = {name: Loose.of(cell, library) for name, cell in kinds.items()}
    part = 0.5
    for _ in range(TURNS):
        assert best.netlist is not None
        assert best.circuit is not None
        netlist, circuit = best.netlist, best.circuit
        circuit.weigh(0.01 * best.delay)
        weights = {}
        for place, cell in enumerate(netlist.cells):
            if makers.get(cell.type) is not None:
                weights[place] = circuit.through(place)
        heavy = sorted((p for p in weights if weights[p] > 0.001), key=lambda p: -weights[p])
        chosen = set(heavy[: round(part * len(heavy))])
        if not chosen:
            return
        highest = max(bit for bit in _bits(netlist) if isinstance(bit, int))
        cells: list[Cell] = []
        for place, cell in enumerate(netlist.cells):
            maker = makers.get(cell.type)
            if place not in chosen or maker is None:
                cells.append(cell)
                continue
            made, highest = maker.gates(cell, highest, circuit.latest(place))
            cells += made
        before = best.merit
        yield replace(netlist, cells=cells)
        if best.merit >= before:
            part /= 4


@dataclass(frozen=True)
class Loose:
    """Gates of a library that add as an adder cell does."""

    adder: AdderCell
    half: tuple[str, tuple[str, ...]]
    """Exclusive or: cell, then pins, its output last."""
    total: tuple[str, tuple[str, ...]]
    carry: tuple[str, tuple[str, ...]]
    uses_half: bool
    """True when the carry comes from a, b, the exclusive or and c."""

    @classmethod
    def of(cls, adder: AdderCell, library: Library) -> "Loose | None":
        """None where the library lacks a gate."""
        exclusive = gate_of(library, "a^b")
        total = gate_of(library, "!(a^b)") if adder.inverts_sum else exclusive
        if len(adder.inputs) == 2:
            carry = gate_of(library, "!(a&b)" if adder.inverts_carry else "a&b")
            uses_half = False
        else:
            mark = "!" if adder.inverts_carry else ""
            carry = gate_of(library, f"{mark}((a&b)|(a&c)|(b&c))")
            uses_half = carry is None
            carry = carry or gate_of(library, f"{mark}((a&b)|(c&d))")
        if exclusive is None or total is None or carry is None:
            return None
        return cls(adder, exclusive, total, carry, uses_half)

    def gates(self, cell: Cell, highest: int, latest: str) -> tuple[list[Cell], int]:
        """Gates instead of a cell, and the highest net. latest: the pin whose signal comes last."""
        pins = [pin for pin in self.adder.inputs if pin != latest] + [latest]
        inputs = [cell.pins[pin][0] for pin in pins]
        made = []

        def add(gate: tuple[str, tuple[str, ...]], *bits: Bit) -> None:
            name, names = gate
            values = {pin: [bit] for pin, bit in zip(names, bits, strict=True)}
            made.append(Cell(f"{cell.name}.{len(made)}", name, values))

        def output(pin: str) -> Bit:
            nonlocal highest
            bits = cell.pins.get(pin)
            if bits:
                return bits[0]
            highest += 1
            return highest

        total, carry = output(self.adder.sum), output(self.adder.carry)
        if len(inputs) == 2:
            add(self.total, *inputs, total)
            add(self.carry, *inputs, carry)
            return made, highest
        highest += 1
        half = highest
        a, b, c = inputs
        add(self.half, a, b, half)
        add(self.total, half, c, total)
        add(self.carry, *((a, b, half, c) if self.uses_half else inputs), carry)
        return made, highest


def gate_of(library: Library, function: str) -> tuple[str, tuple[str, ...]] | None:
    """The smallest gate of a function of a, b, c, d: its name, then pins, its output last."""
    wanted = Function.parse(function)
    size = len(wanted.names)
    ones = (1 << (1 << size)) - 1
    columns = [sum(1 << k for k in range(1 << size) if k >> i & 1) for i in range(size)]
    table = wanted.evaluate(dict(zip(wanted.names, columns, strict=True)), ones) & ones
    found = []
    for cell in library.cells.values():
        if len(cell.inputs) != size or len(cell.outputs) != 1 or cell.clock is not None:
            continue
        ((pin, own),) = cell.outputs.items()
        if set(own.names) != set(cell.inputs):
            continue
        for order in permutations(cell.inputs):
            if own.evaluate(dict(zip(order, columns, strict=True)), ones) & ones == table:
                found.append((cell.area, cell.name, (*order, pin)))
                break
    return min(found)[1:] if found else None
