"""RTLIL as text: the cells of a flattened module, and alternatives to them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_CELL = re.compile(
    r"^(?P<attributes>(?:  attribute .*\n)*)  cell (?P<type>\S+) (?P<name>\S+)\n"
    r"(?P<body>(?:    .*\n)*)  end\n",
    re.M,
)
_CONNECT = re.compile(r"^    connect \\(\S+) (.*)$", re.M)
_PARAMETER = re.compile(r"^    parameter (?:signed )?\\(\S+) (\d+)$", re.M)


@dataclass(frozen=True)
class Cell:
    """A cell: type and name as RTLIL writes them, signals by port, its line in the Verilog."""

    type: str
    name: str
    ports: dict[str, str]
    parameters: dict[str, int]
    source: str

    @property
    def width(self) -> int:
        return self.parameters.get("Y_WIDTH", self.parameters.get("WIDTH", 1))

    def text(self, **changed: str) -> str:
        """Its RTLIL, with another `type` or `name`, or other signals at ports."""
        values = "".join(f"    parameter \\{k} {v}\n" for k, v in self.parameters.items())
        ports = self.ports | {k: v for k, v in changed.items() if k in self.ports}
        values += "".join(f"    connect \\{k} {v}\n" for k, v in ports.items())
        kind, name = changed.get("type", self.type), changed.get("name", self.name)
        return f"  cell {kind} {name}\n{values}  end\n"


def cells(text: str) -> Iterator[Cell]:
    """All cells in which every parameter is a plain number."""
    for match in _CELL.finditer(text):
        yield _cell(match)


def _cell(match: re.Match[str]) -> Cell:
    source = re.search(r'attribute \\src "([^"]*)"', match["attributes"])
    return Cell(
        match["type"],
        match["name"],
        dict(_CONNECT.findall(match["body"])),
        {name: int(value) for name, value in _PARAMETER.findall(match["body"])},
        source[1] if source else "",
    )


def with_alternative(text: str, name: str, number: int, select: str, bits: int, other: str) -> str:
    """Let the output of the cell `name` come from another cell while `select` is `number`.

    other: RTLIL of cells that drive the wire `alternative(number)`, as wide as the output.
    """
    for match in _CELL.finditer(text):
        if match["name"] == name:
            break
    else:
        raise ValueError(f"cell must be one of the module's, not {name!r}")
    cell, own, chosen = _cell(match), f"$mutant{number}$right", f"$mutant{number}$chosen"
    wires = [(own, cell.width), (alternative(number), cell.width), (chosen, 1)]
    compare = {"A_SIGNED": 0, "B_SIGNED": 0, "A_WIDTH": bits, "B_WIDTH": bits, "Y_WIDTH": 1}
    ports = {"A": select, "B": f"{bits}'{number:0{bits}b}", "Y": chosen}
    pick = {"A": own, "B": alternative(number), "S": chosen, "Y": cell.ports["Y"]}
    parts = [
        *(f"  wire width {width} {wire}\n" for wire, width in wires),
        match["attributes"] + cell.text(Y=own),
        other,
        Cell("$eq", f"$mutant{number}$is", ports, compare, "").text(),
        Cell("$mux", f"$mutant{number}$pick", pick, {"WIDTH": cell.width}, "").text(),
    ]
    return text[: match.start()] + "".join(parts) + text[match.end() :]


def alternative(number: int) -> str:
    """The wire by which a mutant's cell replaces the output of the right one."""
    return f"$mutant{number}$wrong"
