"""Power in Liberty files: internal power of transitions, and leakage, by conditions.

Internal power is an energy per transition, in the library's unit of capacitance times 1 V^2. It
depends on input slew and, at outputs, on load. Tables of ground pins are left out: a library that
states each transition for supply and ground would count it twice.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from .delay_tables import Table, read_table
from .errors import SynthesisError
from .liberty_syntax import Function, Group, number_of

GROUNDS = ("primary_ground", "backup_ground", "internal_ground")


@dataclass(frozen=True)
class InternalPower:
    """Energy of a pin's transitions."""

    source: str | None
    """Input that causes the transition of an output; None at inputs."""
    when: Function | None
    """Condition, in terms of pins; None holds where no other condition does."""
    energies: tuple[Table | None, Table | None]
    """Tables for the pin's rise and fall; None is no energy."""


@dataclass(frozen=True)
class CellPower:
    """Power data of one cell."""

    internal: dict[str, tuple[InternalPower, ...]]
    """Internal power of each pin that has any."""
    leakage: tuple[tuple[Function, float], ...]
    """Conditions and leakage in the library's unit; the first that holds counts."""
    other_leakage: float
    """Leakage where no condition holds."""


def cell_power(cell: Group, templates: Mapping[str, Group], source: str) -> CellPower:
    """Read the power of a group `cell`; SynthesisError, naming `source`, for malformed entries."""
    grounds = {
        name
        for pin in cell.of("pg_pin")
        if pin.attributes.get("pg_type") in GROUNDS
        for name in pin.arguments
    }

    def supplied(group: Group, kind: str) -> list[Group]:
        return [g for g in group.of(kind) if g.attributes.get("related_pg_pin") not in grounds]

    internal = {
        name: tuple(
            entry
            for power in supplied(pin, "internal_power")
            for entry in _entries(power, templates, source)
        )
        for pin in cell.of("pin")
        for name in pin.arguments
    }
    other = number_of(cell, "cell_leakage_power", source)
    conditions = []
    for state in supplied(cell, "leakage_power"):
        when, leakage = _when(state, source), number_of(state, "value", source)
        if when is None:
            other = leakage
        else:
            conditions.append((when, leakage))
    return CellPower(
        {name: entries for name, entries in internal.items() if entries}, tuple(conditions), other
    )


def _entries(power: Group, templates: Mapping[str, Group], source: str) -> Iterator[InternalPower]:
    """One entry per related pin."""
    tables = {table.kind: read_table(table, templates, source) for table in power.groups}
    both = tables.get("power")
    energies = tables.get("rise_power", both), tables.get("fall_power", both)
    when = _when(power, source)
    for pin in power.attributes.get("related_pin", "").split() or [None]:
        yield InternalPower(pin, when, energies)


def _when(group: Group, source: str) -> Function | None:
    text = group.attributes.get("when")
    if not text:
        return None
    try:
        return Function.parse(text)
    except ValueError as error:
        raise SynthesisError(f"library {source}, line {group.line}: {error}") from None
