"""Power of a netlist, from counts of its transitions and the power tables of its cells.

- Switching: C V^2 / 2 for each transition of a net that a cell drives, C being pins and wire.
- Internal: the library's energy of each transition of a pin, by slew, load and the state it is in.
- Leakage: by the states at the ends of cycles; a flip-flop's, over both halves of the clock.
- Clock: the pins of flip-flops, and a tree of buffers in front of them (`clock_tree`).

Nets that inputs of the design drive belong to whoever drives them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .errors import SynthesisError
from .glitches import Counts, Floats, Group, Ints, Kind, TimedNetlist, slews_at
from .liberty import Library, LibraryCell
from .power_tables import InternalPower

TREE_FANOUT = 16
"""Flip-flops or buffers that each buffer of the clock tree drives."""


@dataclass(frozen=True)
class Power:
    """Power of each cell of `TimedNetlist.cells`; energies in femtojoules per cycle."""

    switching: Floats
    """Of the nets at its outputs."""
    internal: Floats
    """Of its pins, without the clock's."""
    clock_internal: Floats
    """Internal power of its clock pin."""
    clock_switching: Floats
    """Of the capacitance of its clock pin."""
    glitches: Floats
    """Part of `switching` and `internal` in transitions that a later one of the cycle undoes."""
    leakage_nw: Floats
    """Leakage in nanowatts."""


def power(timed: TimedNetlist, counts: Counts) -> Power:
    """The power of a simulated netlist."""
    cells = len(timed.cells)
    switching, internal, clock, clock_net, glitches, leakage = np.zeros((6, cells))
    library = timed.library
    volts = library.voltage or 1.0
    half = library.capacitance_ff * volts**2 / 2 * timed.loads.mean(axis=1)
    changes = counts.changes[: len(half)], counts.settled[: len(half)]
    charged, useful = (half * n for n in changes)
    share = 1 - counts.settled / np.maximum(counts.changes, 1)
    for index, group in enumerate(timed.groups):
        at, kind = group.cells, group.kind
        known = np.minimum(group.outs, len(half) - 1)
        driven = np.where(group.outs < len(half), 1.0, 0.0)
        switching[at] = (charged[known] * driven).sum(axis=1)
        glitches[at] = ((charged - useful)[known] * driven).sum(axis=1)
        for pin, name in enumerate(kind.pins):
            energy = _input_energy(timed, group, pin, counts.pins[index][:, pin])
            if pin == kind.clock:
                capacitance = kind.cell.inputs[name] * library.capacitance_ff * volts**2
                clock[at] += energy
                clock_net[at] += capacitance * counts.cycles
            else:
                internal[at] += energy
                glitches[at] += energy * np.where(
                    group.ins[:, pin] >= 0, share[group.ins[:, pin]], 0
                )
        for output in range(group.outs.shape[1]):
            energy = _output_energy(timed, group, output, counts.outputs[index][:, output])
            internal[at] += energy
            glitches[at] += energy * share[group.outs[:, output]]
        leakage[at] = counts.states[index] @ leakage_of(kind, library) / counts.states[index].sum(1)
    for values in (switching, internal, clock, clock_net, glitches):
        values /= counts.cycles
    return Power(switching, internal, clock, clock_net, glitches, leakage)


def _input_energy(timed: TimedNetlist, group: Group, pin: int, counts: Ints) -> Floats:
    """Energy of the transitions (cells, states) of an input pin."""
    kind = group.kind
    entries = kind.cell.power.internal.get(kind.pins[pin], ())
    slews = slews_at(timed, group, pin)
    rises = np.arange(kind.states) >> pin & 1
    return _energy(timed, kind, entries, counts, rises, [slews] * 2, np.zeros_like(slews), rises)


def _output_energy(timed: TimedNetlist, group: Group, output: int, counts: Ints) -> Floats:
    """Energy of the transitions (cells, pins, states) of an output."""
    kind = group.kind
    name = list(kind.outputs)[output]
    rises = kind.outputs[name].astype(np.int64)
    loads = timed.loads[np.minimum(group.outs[:, output], len(timed.loads) - 1)]
    loads = np.where(group.outs[:, output, None] < len(timed.loads), loads, 0.0)
    energy = np.zeros(len(group.cells))
    for pin, source in enumerate(kind.pins):
        entries = [
            entry
            for entry in kind.cell.power.internal.get(name, ())
            if entry.source in (None, source)
        ]
        slews = slews_at(timed, group, pin)
        came = np.arange(kind.states) >> pin & 1
        energy += _energy(timed, kind, entries, counts[:, pin], rises, [slews] * 2, loads, came)
    return energy


def _energy(
    timed: TimedNetlist,
    kind: Kind,
    entries: Sequence[InternalPower],
    counts: Ints,
    rises: Ints,
    slews: Sequence[Floats],
    loads: Floats,
    came: Ints,
) -> Floats:
    """Femtojoules of transitions (cells, states); `rises` and `came` say which edge a state is.

    slews, loads (cells, 2): of the pin that causes the transition, and of the pin that makes it.
    """
    chosen = _choices(kind, entries)
    energy = np.zeros(len(counts))
    for number, entry in enumerate(entries):
        for rise, table in zip((1, 0), entry.energies, strict=True):
            for before in (0, 1):
                states = (chosen == number) & (rises == rise) & (came == before)
                if table is None or not states.any():
                    continue
                times = counts[:, states].sum(axis=1)
                if times.any():
                    per = table.at(slews[0][:, 1 - before], loads[:, 1 - rise])
                    energy += times * per
    return energy * timed.library.capacitance_ff


def _choices(kind: Kind, entries: Sequence[InternalPower]) -> Ints:
    """Entry that counts in each state; -1 where none does."""
    chosen = np.full(kind.states, -1)
    for number, entry in reversed(list(enumerate(entries))):
        if entry.when is None:
            chosen[chosen < 0] = number
    for number, entry in reversed(list(enumerate(entries))):
        if entry.when is not None:
            chosen[kind.table(entry.when) == 1] = number
    return chosen


def leakage_of(kind: Kind, library: Library) -> NDArray[np.float64]:
    """Nanowatts in each state; of a flip-flop, the mean of both levels of its clock."""
    found = np.full(kind.states, kind.cell.power.other_leakage)
    for when, leakage in reversed(kind.cell.power.leakage):
        found[kind.table(when) == 1] = leakage
    if kind.clock >= 0:
        found = (found + found[np.arange(kind.states) ^ 1 << kind.clock]) / 2
    return found * library.leakage_nw


@dataclass(frozen=True)
class ClockTree:
    """An estimate of the buffers between a clock and its flip-flops."""

    cell: str
    """Buffer of the library."""
    buffers: int
    energy_fj: float
    """Per cycle, without the pins of flip-flops."""
    leakage_nw: float


def clock_tree(timed: TimedNetlist, buffer: str | None = None) -> ClockTree:
    """A tree in which each buffer drives TREE_FANOUT flip-flops or buffers, up to one at the root.

    buffer: a cell of the library; its smallest buffer by default. A level's slew comes from the
    level before; wires are left out, as everywhere.
    """
    library = timed.library
    cell = _buffer(library, buffer)
    kind, (name,) = Kind(cell), cell.outputs
    (pin,) = cell.inputs
    sinks = sum(
        cell.inputs[str(cell.clock.pin)]
        for cell in (library.cells[c.type] for c in timed.cells[: timed.flipflops])
        if cell.clock is not None
    )
    levels = []  # buffers and load of each, leaves first
    number = timed.flipflops
    while number > 1:
        drivers = -(-number // TREE_FANOUT)
        levels.append((drivers, sinks / drivers))
        number, sinks = drivers, drivers * cell.inputs[pin]
    energy, slews = 0.0, (0.0, 0.0)
    volts = library.voltage or 1.0
    for drivers, load in reversed(levels):
        internal = 0.0
        for source, edges in ((pin, (0.0, 0.0)), (name, (load, load))):
            for entry in cell.power.internal.get(source, ())[:1]:
                for table, slew, at in zip(entry.energies, slews, edges, strict=True):
                    internal += table(slew, at) if table is not None else 0.0
        charged = cell.inputs[pin] * volts**2
        energy += drivers * (internal + charged) * library.capacitance_ff
        slews = _slews(cell, name, slews, load)
    buffers = sum(drivers for drivers, _ in levels)
    leakage = buffers * float(leakage_of(kind, library).mean())
    return ClockTree(cell.name, buffers, energy, leakage)


def _buffer(library: Library, name: str | None) -> LibraryCell:
    buffers = [
        cell
        for cell in library.cells.values()
        if len(cell.inputs) == 1 and [f.pin for f in cell.outputs.values()] == list(cell.inputs)
    ]
    if name is None and not buffers:
        raise SynthesisError(f"library {library.name} has no buffer, which a clock tree needs")
    if name is not None:
        return library.cells[name]
    return min(buffers, key=lambda cell: (cell.area, cell.name))


def _slews(
    cell: LibraryCell, output: str, slews: tuple[float, float], load: float
) -> tuple[float, float]:
    """Slews of rise and fall at the output of a buffer."""
    (arc, *_) = cell.timing.arcs[output]
    rise, fall = arc.slews
    return (
        rise(slews[0], load) if rise is not None else 0.0,
        fall(slews[1], load) if fall is not None else 0.0,
    )
