"""Liberty files: the cells of a library, as far as costs need them.

Timing tables (`delay_tables.py`) are read when a cell is first timed.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil, inf, log2

from .delay_tables import CellTiming, Table, WireLoad, cell_timing, default_wire_load
from .errors import SynthesisError
from .liberty_syntax import Function, Group, number_of, parse_groups
from .power_tables import CellPower, cell_power

_NAME = re.compile(r"[A-Za-z_][\w.$+-]*(\[\d+(:\d+)?\])?", re.ASCII)
"""Names of cells and pins that are safe in files of every tool."""

_UNIT = re.compile(r"((?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*,?\s*([a-z]+)", re.ASCII)

VOLTS = {"mv": 1e-3, "v": 1.0}
POWER_UNITS = {"mw": 1e6, "uw": 1e3, "nw": 1.0, "pw": 1e-3}
FF_OHM_PS = 1e-3
"""Picoseconds per ohm and femtofarad."""


@dataclass(frozen=True)
class LibraryCell:
    """One cell of a library; capacitances in the library's unit."""

    name: str
    area: float
    inputs: dict[str, float]
    """Input pins and their capacitances."""
    outputs: dict[str, Function]
    """Output pins and their functions, in terms of inputs and of `state`."""
    state: dict[str, Function] = field(default_factory=dict)
    """Internal variables of a flip-flop (often IQ and IQN) and their next values."""
    clock: Function | None = None
    """Clock of a flip-flop, or enable of a latch."""
    is_latch: bool = False
    data: Function | None = None
    """Input that an open latch passes on."""
    text: tuple[Group, Mapping[str, Group]] | None = field(default=None, repr=False, compare=False)
    """Its group in the file, and the file's table templates; None for a black box."""

    @cached_property
    def timing(self) -> CellTiming:
        """Delay tables, read at the first use."""
        if self.text is None:
            return CellTiming({}, {}, {}, {})
        return cell_timing(*self.text, self.name)

    power_templates: Mapping[str, Group] = field(default_factory=dict, repr=False, compare=False)
    """The file's templates of power tables."""
    volts: float = 1.0
    """Volts per unit of voltage in the library."""

    @cached_property
    def power(self) -> CellPower:
        """Internal power, in the unit of capacitance times 1 V^2, and leakage, read at the first
        use.
        """
        if self.text is None:
            return CellPower({}, (), 0.0)
        found = cell_power(self.text[0], self.power_templates, self.name)
        return found if self.volts == 1.0 else _in_volts(found, self.volts)

    @property
    def is_flipflop(self) -> bool:
        """True for a cell with state that is not a latch."""
        return self.clock is not None and not self.is_latch

    @cached_property
    def levels(self) -> int:
        """Least number of two-input gates in series; an inverter counts 0."""
        return ceil(log2(max(len(self.inputs), 1)))

    @property
    def is_nand2(self) -> bool:
        """True when the only output is the NAND of two inputs."""
        if len(self.inputs) != 2 or len(self.outputs) != 1 or self.clock is not None:
            return False
        values = dict(zip(self.inputs, (0b1010, 0b1100), strict=True))
        function = next(iter(self.outputs.values()))
        return set(function.names) == set(values) and function.evaluate(values, 0b1111) == 0b0111


@dataclass(frozen=True)
class Library:
    """A cell library."""

    name: str
    cells: dict[str, LibraryCell]
    capacitance_ff: float = 1.0
    """Femtofarads per unit of capacitance in the library."""
    time_ps: float = 1000.0
    """Picoseconds per unit of time in the library."""
    voltage: float | None = None
    """Nominal supply in volts."""
    wire_load: WireLoad | None = None
    """Default wire load of the library."""
    leakage_nw: float = 1.0
    """Nanowatts per unit of leakage in the library."""

    @cached_property
    def latch(self) -> LibraryCell | None:
        """Smallest latch with one data input and a high enable, or None."""
        plain = [
            cell
            for cell in self.cells.values()
            if cell.is_latch and cell.clock and cell.data and len(cell.outputs) == 1
            if {cell.clock.pin, cell.data.pin} == set(cell.inputs)
        ]
        return min(plain, key=lambda cell: (cell.area, cell.name), default=None)

    @cached_property
    def has_timing(self) -> bool:
        """True when any gate has a delay table."""
        return any(
            arc.delays != (None, None)
            for cell in self.cells.values()
            for arcs in cell.timing.arcs.values()
            for arc in arcs
        )

    @cached_property
    def has_power(self) -> bool:
        """True when any cell has internal power."""
        return any(cell.power.internal for cell in self.cells.values())

    @cached_property
    def nand2(self) -> LibraryCell:
        """Smallest two-input NAND: the unit of gate equivalents."""
        cells = [cell for cell in self.cells.values() if cell.is_nand2 and cell.area > 0]
        if not cells:
            raise SynthesisError(
                f"library {self.name} has no two-input NAND cell with an area, which is the unit "
                "of gate equivalents"
            )
        return min(cells, key=lambda cell: (cell.area, cell.name))


def parse(text: str, source: str) -> Library:
    """The library of a Liberty text; SynthesisError names `source`, the cell and the line."""
    root = parse_groups(text, source)
    templates, power_templates = (
        {name: group for group in root.of(kind) for name in group.arguments}
        for kind in ("lu_table_template", "power_lut_template")
    )
    volts = _unit(root, "voltage_unit", "1v", VOLTS, source)
    cells = {}
    for group in root.of("cell"):
        _check_names(group, source)
        if group.arguments and group.attributes.get("dont_use", "").lower() != "true":
            name = group.arguments[0]
            where = f"{source}, cell {name}"
            cells[name] = replace(_cell(group, (templates, power_templates), where), volts=volts)
    if not cells:
        raise SynthesisError(f"library {source} defines no cells")
    capacitance_ff = _unit(root, "capacitive_load_unit", "1,pf", {"ff": 1.0, "pf": 1e3}, source)
    time_ps = _unit(root, "time_unit", "1ns", {"fs": 1e-3, "ps": 1.0, "ns": 1e3}, source)
    return Library(
        root.arguments[0] if root.arguments else source,
        cells,
        capacitance_ff,
        time_ps,
        number_of(root, "nom_voltage", source) * volts or None,
        default_wire_load(root, source, capacitance_ff * FF_OHM_PS / time_ps),
        _unit(root, "leakage_power_unit", "1nw", POWER_UNITS, source),
    )


def merged(libraries: Sequence[Library]) -> Library:
    """Merge several files into one library, named after the first."""
    first, *others = libraries
    cells = dict(first.cells)
    for other in others:
        for name in ("capacitance_ff", "time_ps", "leakage_nw"):
            if getattr(other, name) != getattr(first, name):
                raise SynthesisError(
                    f"libraries {first.name} and {other.name} must have the same {name}, not "
                    f"{getattr(first, name):g} and {getattr(other, name):g}"
                )
        if other.wire_load not in (None, first.wire_load):
            raise SynthesisError(
                f"library {other.name} names the default wire load {other.wire_load.name}, which "
                f"must be that of the first file, {first.name}"
            )
        for name in sorted(cells.keys() & other.cells.keys()):
            raise SynthesisError(f"libraries {first.name} and {other.name} both have a cell {name}")
        cells |= other.cells
    return replace(first, cells=cells)


def _unit(group: Group, name: str, default: str, scales: dict[str, float], source: str) -> float:
    """Value of a unit such as `1,pf` or `10ps`, scaled by `scales`."""
    text = group.attributes.get(name, default)
    found = _UNIT.fullmatch(text.strip().lower())
    value = float(found[1]) * scales.get(found[2], 0.0) if found else 0.0
    if not 0 < value < inf:
        raise SynthesisError(
            f"library {source}: {name} must be a number of {' or '.join(scales)}, not {text!r}"
        )
    return value


def _in_volts(power: CellPower, volts: float) -> CellPower:
    """Internal power stated in units of `volts`, whose square an energy has."""

    def scaled(table: Table | None) -> Table | None:
        if table is None:
            return None
        rows = (tuple(value * volts**2 for value in row) for row in table.values)
        return replace(table, values=tuple(rows))

    internal = {
        pin: tuple(
            replace(entry, energies=(scaled(entry.energies[0]), scaled(entry.energies[1])))
            for entry in entries
        )
        for pin, entries in power.internal.items()
    }
    return replace(power, internal=internal)


def _pins(cell: Group) -> list[Group]:
    return cell.of("pin") + [pin for bus in cell.of("bus", "bundle") for pin in bus.of("pin")]


def _check_names(cell: Group, source: str) -> None:
    """Check all names, also in unused cells: other tools read the file too."""
    for group in (cell, *_pins(cell)):
        for name in group.arguments:
            if not _NAME.fullmatch(name):
                raise SynthesisError(
                    f"library {source}, line {group.line}: the name of a {group.kind} must be a "
                    f"letter or _, then letters, digits and _.$+-, and [n] or [n:m] at the end, "
                    f"not {name!r}"
                )


Templates = Mapping[str, Group]


def _cell(group: Group, templates: tuple[Templates, Templates], source: str) -> LibraryCell:
    """The cell of a group; templates: of timing and of power."""
    inputs, outputs = {}, {}
    for pin in _pins(group):
        for name in pin.arguments:
            direction = pin.attributes.get("direction", "")
            if direction == "input":
                inputs[name] = number_of(pin, "capacitance", source)
            elif direction in ("output", "inout") and "function" in pin.attributes:
                outputs[name] = _function(pin, "function", source)
    state: dict[str, Function] = {}
    clock = through = None
    for kind, latch in (("ff", False), ("ff_bank", False), ("latch", True), ("latch_bank", True)):
        for memory in group.of(kind):
            clock = _function(memory, "enable" if latch else "clocked_on", source)
            if latch:
                through = _function(memory, "data_in", source)
            else:
                state |= _next_state(memory, source)
    return LibraryCell(
        group.arguments[0],
        _area(group, source),
        inputs,
        outputs,
        state,
        clock,
        bool(group.of("latch", "latch_bank")),
        through,
        (group, templates[0]),
        templates[1],
    )


def _next_state(memory: Group, source: str) -> dict[str, Function]:
    """Next values of an ff group's variables, clear and preset included; clear wins."""
    value = f"({memory.attributes.get('next_state', '0')})"
    if "preset" in memory.attributes:
        value = f"({value} | ({memory.attributes['preset']}))"
    if "clear" in memory.attributes:
        value = f"({value} & !({memory.attributes['clear']}))"
    memory.attributes["_next"] = value
    memory.attributes["_inverse"] = f"!{value}"
    names = zip(memory.arguments, ("_next", "_inverse"), strict=False)
    return {name: _function(memory, key, source) for name, key in names}


def _area(cell: Group, source: str) -> float:
    area = number_of(cell, "area", source)
    if area < 0:
        raise SynthesisError(
            f"library {source}, line {cell.line}: area must be at least 0, not {area:g}"
        )
    return area


def _function(group: Group, name: str, source: str) -> Function:
    try:
        return Function.parse(group.attributes.get(name, "0"))
    except ValueError as error:
        raise SynthesisError(f"library {source}, line {group.line}: {error}") from None
