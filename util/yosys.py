"""Netlists that Yosys writes as JSON (`write_json`): every room reads them here."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

Bit = int | str
"""A net's number, or a constant: ``0``, ``1``, ``x``."""


@dataclass(frozen=True)
class Cell:
    """A cell of a library, an operator of Yosys, or an instance of a module."""

    name: str
    type: str
    pins: dict[str, list[Bit]]
    """Nets at each pin, lowest bit first."""
    parameters: dict[str, Any] = field(default_factory=dict)
    directions: dict[str, str] = field(default_factory=dict, compare=False, repr=False)
    """`input` or `output` of each pin, where Yosys knows the type."""


@dataclass(frozen=True)
class Netlist:
    """One module."""

    name: str
    ports: dict[str, tuple[str, list[Bit]]]
    """Direction (`input`, `output`, `inout`) and bits, lowest first."""
    cells: list[Cell]
    attributes: dict[str, str] = field(default_factory=dict, compare=False, repr=False)
    nets: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """Entry of each named vector: `bits`, `hide_name` and `attributes`."""
    memories: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """Entry of each memory: `width` and `size` among others."""
    lengths: dict[Bit, float] | None = field(default=None, compare=False, repr=False)
    """Micrometres of each net's wire, where known; a net without an entry has none."""

    @cached_property
    def types(self) -> Counter[str]:
        """Number of cells of each type."""
        return Counter(cell.type for cell in self.cells)

    def inputs(self) -> Iterator[tuple[str, int, Bit]]:
        """Name, place and net of each input bit; an `inout` counts as one."""
        for name, (direction, bits) in self.ports.items():
            if direction != "output":
                yield from ((name, place, bit) for place, bit in enumerate(bits))

    def outputs(self) -> Iterator[tuple[str, int, Bit]]:
        """Name, place and net of each output bit."""
        for name, (direction, bits) in self.ports.items():
            if direction == "output":
                yield from ((name, place, bit) for place, bit in enumerate(bits))


def read_modules(text: str | bytes) -> dict[str, Netlist]:
    """The modules of a text of `write_json` by name; ValueError where the text breaks off."""
    return {name: _module(name, entry) for name, entry in json.loads(text)["modules"].items()}


def _module(name: str, entry: dict[str, Any]) -> Netlist:
    return Netlist(
        name,
        {port: (p["direction"], p["bits"]) for port, p in entry.get("ports", {}).items()},
        [
            Cell(
                key,
                cell["type"],
                cell["connections"],
                cell.get("parameters", {}),
                cell.get("port_directions", {}),
            )
            for key, cell in entry.get("cells", {}).items()
        ],
        entry.get("attributes", {}),
        entry.get("netnames", {}),
        entry.get("memories", {}),
    )
