"""Wires of a mapped netlist: the length of each net, by a model or by a placement.

    netlist = with_lengths(netlist, library, "model", PROCESSES["asap7"])

`placed` has Coriolis place the cells in a square core, rows UTILISATION full, ports anywhere. A net
is as long as the shortest tree of straight wires between the centres of its cells. `model` has the
mean of placements, by the net's cells and the netlist's. Both are for a process, which states
capacitance and resistance of a micrometre. Clocks are ideal and have no wires.
"""

import hashlib
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..util.runs import scratch
from ..util.yosys import Bit, Netlist
from .delay_tables import WireLoad
from .errors import SynthesisError, naming
from .liberty import FF_OHM_PS, Library
from .netlist import clocks, named_inputs
from .processes import Process
from .tools import placer_version, run_placer

WIRES = ("model", "placed")
UTILISATION = 0.7
"""Area of the cells as a share of the core's."""
REACH, GROWTH, SPREAD = 0.34, 0.3, 0.63
"""Length = REACH x pitch x cells ** GROWTH x (cells of the net - 1) ** SPREAD, where the pitch is
the side of the core over the square root of its cells. `tools/wire_lengths.py` fits them."""
CODE = ("wires.py", "place_cells.py")
"""Files that decide lengths."""


def inputs(wires: str, process: Process) -> list[Any]:
    """Everything that the wires of a netlist depend on, as plain JSON types."""
    code = b"".join(Path(__file__).with_name(name).read_bytes() for name in CODE)
    placer = placer_version() if wires == "placed" else None
    facts = [process.wire_ff, process.wire_ohm, process.row_um]
    return [hashlib.sha256(code).hexdigest(), placer, *facts]


def wire_load(process: Process, library: Library) -> WireLoad:
    """Capacitance and resistance of a micrometre of wire, in units of the library."""
    ohm = library.capacitance_ff * FF_OHM_PS / library.time_ps
    capacitance = process.wire_ff / library.capacitance_ff
    return WireLoad(f"{process.name}_wires", capacitance, process.wire_ohm * ohm, 0.0, ())


def with_lengths(
    netlist: Netlist, library: Library, wires: str, process: Process, limit: float
) -> Netlist:
    """The netlist with the length of each net; `wires` is one of WIRES.

    limit: seconds for a placement. SynthesisError where it fails.
    """
    nets = nets_of(netlist, library)
    side = core_side(netlist, library)
    if wires == "placed":
        centres = placed(netlist, library, process, side, limit)
        lengths = {net: tree_length(centres[cells]) for net, cells in nets.items()}
    else:
        number = len(netlist.cells)
        lengths = {net: modelled(len(cells), number, side) for net, cells in nets.items()}
    return Netlist(netlist.name, netlist.ports, netlist.cells, lengths=lengths)


def core_side(netlist: Netlist, library: Library) -> float:
    """Micrometres of the side of a square core."""
    area = sum(library.cells[cell.type].area for cell in netlist.cells)
    return (area / UTILISATION) ** 0.5


def modelled(cells: int, number: int, side: float) -> float:
    """Mean micrometres of a net of `cells`, among `number` cells in a square core."""
    pitch = side / number**0.5
    return REACH * pitch * number**GROWTH * (cells - 1) ** SPREAD


def tree_length(points: NDArray[np.float64]) -> float:
    """Length of the shortest tree whose edges join two points by horizontal and vertical wires."""
    distances = np.abs(points - points[0]).sum(axis=1)
    joined = np.zeros(len(points), bool)
    joined[0] = True
    total = 0.0
    for _ in range(len(points) - 1):
        nearest = int(np.argmin(np.where(joined, np.inf, distances)))
        total += float(distances[nearest])
        joined[nearest] = True
        distances = np.minimum(distances, np.abs(points - points[nearest]).sum(axis=1))
    return total


def placed(
    netlist: Netlist, library: Library, process: Process, side: float, limit: float
) -> NDArray[np.float64]:
    """Centre (cells, 2) of each cell in micrometres, by Coriolis."""
    types = list(netlist.types)
    pins = {name: [*library.cells[name].inputs, *library.cells[name].outputs] for name in types}
    ideal = _ideal(netlist, library)

    def number(bits: list[Bit]) -> int:
        return bits[0] if bits and isinstance(bits[0], int) and bits[0] not in ideal else -1

    job = {
        "row": process.row_um,
        "side": side,
        "kinds": [(library.cells[name].area / process.row_um, len(pins[name])) for name in types],
        "cells": [
            (types.index(cell.type), [number(cell.pins.get(pin, [])) for pin in pins[cell.type]])
            for cell in netlist.cells
        ],
    }
    with scratch("placement") as directory, naming(directory):
        (directory / "job.json").write_text(json.dumps(job))
        run_placer("job.json", "centres.json", directory, netlist.name, limit)
        centres = json.loads((directory / "centres.json").read_text())
    if len(centres) != len(netlist.cells):
        raise SynthesisError(
            f"Coriolis on {netlist.name} placed {len(centres)} of {len(netlist.cells)} cells"
        )
    return np.array(centres, np.float64)


def _ideal(netlist: Netlist, library: Library) -> set[Bit]:
    """Nets of clocks."""
    names = clocks(netlist, library)
    return {net for name, net in named_inputs(netlist).items() if name in names}


def nets_of(netlist: Netlist, library: Library) -> dict[Bit, list[int]]:
    """Numbers of the cells on each net that joins two or more; without clocks."""
    members: dict[Bit, dict[int, None]] = defaultdict(dict)
    for index, cell in enumerate(netlist.cells):
        for bits in cell.pins.values():
            for bit in bits:
                if isinstance(bit, int):
                    members[bit][index] = None
    ideal = _ideal(netlist, library)
    return {net: list(own) for net, own in members.items() if len(own) > 1 and net not in ideal}
