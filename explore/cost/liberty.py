"""Liberty files: the cells of a library as far as costs need them.

A group is `name (arguments) { ... }`, an attribute `name : value ;` or `name (arguments);`. Timing
tables are left to ABC and OpenSTA, which read the file themselves.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil, log2

from .errors import SynthesisError
from .function import Function

_NAME = re.compile(r"[A-Za-z_][\w.$+-]*(\[\d+(:\d+)?\])?", re.ASCII)
"""Of cells and pins: what every tool takes, and no tool takes for anything else."""
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}();:,\n]|[^\s{}();:,"]+', re.DOTALL)


@dataclass
class Group:
    """One group with its attributes (the last one of a name counts) and subgroups."""

    kind: str
    arguments: list[str]
    line: int
    attributes: dict[str, str] = field(default_factory=dict)
    groups: list["Group"] = field(default_factory=list)

    def of(self, *kinds: str) -> list["Group"]:
        """Subgroups of these kinds."""
        return [group for group in self.groups if group.kind in kinds]


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
    """A flip-flop's internal variables (often IQ and IQN) and what they become."""
    clock: Function | None = None
    """What clocks a flip-flop, or opens a latch."""
    is_latch: bool = False
    data: Function | None = None
    """What an open latch passes on."""

    @property
    def is_flipflop(self) -> bool:
        """True when the cell holds state and is no latch."""
        return self.clock is not None and not self.is_latch

    @cached_property
    def levels(self) -> int:
        """The least number of two-input gates in series; an inverter is none."""
        return ceil(log2(max(len(self.inputs), 1)))

    @property
    def is_nand2(self) -> bool:
        """True when the one output is NAND of the two inputs."""
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
    """Femtofarads in the library's unit of capacitance."""
    time_ps: float = 1000.0
    """Picoseconds in the library's unit of time."""
    voltage: float | None = None
    """Nominal supply."""

    @cached_property
    def latch(self) -> LibraryCell | None:
        """The smallest latch of one data input that a high enable opens."""
        plain = [
            cell
            for cell in self.cells.values()
            if cell.is_latch and cell.clock and cell.data and len(cell.outputs) == 1
            if {cell.clock.pin, cell.data.pin} == set(cell.inputs)
        ]
        return min(plain, key=lambda cell: (cell.area, cell.name), default=None)

    @cached_property
    def nand2(self) -> LibraryCell:
        """The smallest two-input NAND, the unit of gate equivalents."""
        cells = [cell for cell in self.cells.values() if cell.is_nand2 and cell.area > 0]
        if not cells:
            raise SynthesisError(
                f"library {self.name} has no two-input NAND cell with an area, which is the unit "
                "of gate equivalents"
            )
        return min(cells, key=lambda cell: (cell.area, cell.name))


def parse(text: str, source: str) -> Library:
    """The library of a Liberty text; SynthesisError names `source`, the cell and the line."""
    root = _parse_groups(text, source)
    cells = {}
    for group in root.of("cell"):
        _check_names(group, source)
        if group.arguments and group.attributes.get("dont_use", "").lower() != "true":
            name = group.arguments[0]
            cells[name] = _cell(group, f"{source}, cell {name}")
    if not cells:
        raise SynthesisError(f"library {source} defines no cells")
    return Library(
        root.arguments[0] if root.arguments else source,
        cells,
        _unit(root, "capacitive_load_unit", "1,pf", {"ff": 1.0, "pf": 1e3}, source),
        _unit(root, "time_unit", "1ns", {"fs": 1e-3, "ps": 1.0, "ns": 1e3}, source),
        _number(root, "nom_voltage", source) or None,
    )


def _unit(group: Group, name: str, default: str, scales: dict[str, float], source: str) -> float:
    """A unit such as `1,pf` or `10ps`, in those of `scales` that are 1."""
    text = group.attributes.get(name, default)
    found = re.fullmatch(r"([\d.]+)\s*,?\s*([a-z]+)", text.strip().lower())
    if found is None or found[2] not in scales:
        raise SynthesisError(
            f"library {source}: {name} must be a number of {' or '.join(scales)}, not {text!r}"
        )
    return float(found[1]) * scales[found[2]]


def _pins(cell: Group) -> list[Group]:
    return cell.of("pin") + [pin for bus in cell.of("bus", "bundle") for pin in bus.of("pin")]


def _check_names(cell: Group, source: str) -> None:
    """Also of cells that are not used: other tools read the file too."""
    for group in (cell, *_pins(cell)):
        for name in group.arguments:
            if not _NAME.fullmatch(name):
                raise SynthesisError(
                    f"library {source}, line {group.line}: the name of a {group.kind} must be a "
                    f"letter or _, then letters, digits and _.$+-, and [n] or [n:m] at the end, "
                    f"not {name!r}"
                )


def _cell(group: Group, source: str) -> LibraryCell:
    inputs, outputs = {}, {}
    for pin in _pins(group):
        for name in pin.arguments:
            direction = pin.attributes.get("direction", "")
            if direction == "input":
                inputs[name] = _number(pin, "capacitance", source)
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
        _number(group, "area", source),
        inputs,
        outputs,
        state,
        clock,
        bool(group.of("latch", "latch_bank")),
        through,
    )


def _next_state(memory: Group, source: str) -> dict[str, Function]:
    """The variables of an ff group, with clear and preset joined in; clear wins over preset."""
    value = f"({memory.attributes.get('next_state', '0')})"
    if "preset" in memory.attributes:
        value = f"({value} | ({memory.attributes['preset']}))"
    if "clear" in memory.attributes:
        value = f"({value} & !({memory.attributes['clear']}))"
    memory.attributes["_next"] = value
    memory.attributes["_inverse"] = f"!{value}"
    names = zip(memory.arguments, ("_next", "_inverse"), strict=False)
    return {name: _function(memory, key, source) for name, key in names}


def _number(group: Group, name: str, source: str) -> float:
    text = group.attributes.get(name, "0")
    try:
        return float(text)
    except ValueError:
        raise SynthesisError(
            f"library {source}, line {group.line}: {name} must be a number, not {text!r}"
        ) from None


def _function(group: Group, name: str, source: str) -> Function:
    try:
        return Function.parse(group.attributes.get(name, "0"))
    except ValueError as error:
        raise SynthesisError(f"library {source}, line {group.line}: {error}") from None


def _parse_groups(text: str, source: str) -> Group:
    """The outermost group of `text`."""

    def keep_lines(found: re.Match) -> str:
        return "\n" * found[0].count("\n")

    text = re.sub(r"/\*.*?\*/|\\\r?\n", keep_lines, text, flags=re.DOTALL)
    tokens = _Tokens(re.sub(r"//[^\n]*", "", text))
    top = Group("", [], 1)
    try:
        _statements(tokens, top, closing=False)
    except ValueError as error:
        raise SynthesisError(f"library {source}, line {tokens.line}: {error}") from None
    libraries = top.of("library")
    if not libraries:
        raise SynthesisError(f"library {source} has no library group: this is not a Liberty file")
    return libraries[0]


class _Tokens:
    """The tokens of a text one after the other, newlines only where they are asked for."""

    def __init__(self, text: str) -> None:
        self._tokens: Iterator[re.Match] = _TOKEN.finditer(text)
        self._back = ""
        self.line = 1

    def back(self, token: str) -> None:
        """Make `token` the next one."""
        self._back = token

    def next(self, newlines: bool = False) -> str:
        """The next token, empty at the end."""
        if self._back:
            token, self._back = self._back, ""
            return token
        for found in self._tokens:
            token = found[0]
            self.line += token.count("\n")
            if token != "\n" or newlines:
                return token
        return ""


def _statements(tokens: _Tokens, group: Group, closing: bool) -> None:
    """Read statements into `group`, up to its closing brace."""
    while True:
        token = tokens.next()
        if token == "}" and closing:
            return
        if not token:
            if closing:
                raise ValueError(f"the group {group.kind} of line {group.line} is not closed")
            return
        if token == ";":
            continue
        if token in "{}():,":
            raise ValueError(f"a statement cannot begin with {token!r}")
        _statement(tokens, group, token)


def _statement(tokens: _Tokens, group: Group, name: str) -> None:
    line = tokens.line
    after = tokens.next()
    if after == ":":
        words = []
        while (token := tokens.next(newlines=True)) not in (";", "\n", ""):
            if token == "}":
                raise ValueError(f"the value of {name} has no end")
            words.append(token.strip('"'))
        group.attributes[name] = " ".join(words)
        return
    if after != "(":
        raise ValueError(f"{name[:40]!r} must be followed by ':' or '('")
    arguments = []
    while (token := tokens.next()) != ")":
        if token in ("", "{", "}", ";"):
            raise ValueError(f"the parenthesis after {name} is not closed")
        if token != ",":
            arguments.append(token.strip('"'))
    following = tokens.next()
    if following == "{":
        child = Group(name, arguments, line)
        _statements(tokens, child, closing=True)
        group.groups.append(child)
        return
    group.attributes[name] = ",".join(arguments)
    if following != ";":  # some libraries leave it out
        tokens.back(following)
