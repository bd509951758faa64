"""Operators of our own, on cells of RTLIL: those that Yosys' `mutate` has not."""

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from . import rtlil
from .rtlil import Cell, alternative

_SWAPS = {
    "$add": "$sub", "$sub": "$add", "$and": "$or", "$or": "$and", "$xor": "$or",
    "$logic_and": "$logic_or", "$logic_or": "$logic_and", "$reduce_and": "$reduce_or",
    "$reduce_or": "$reduce_and", "$reduce_bool": "$reduce_and", "$lt": "$le", "$le": "$lt",
    "$gt": "$ge", "$ge": "$gt", "$eq": "$ne", "$ne": "$eq", "$shl": "$shr", "$shr": "$shl",
    "$mul": "$add",
}  # fmt: skip
_CONSTANT = re.compile(r"(\d+)'([01]{2,})")
_HANDSHAKE = re.compile(r"valid|ready|held|waits|room|full|empty|taken|last|first|start|done")
_NEUTRAL = {"$and": "1'1", "$or": "1'0", "$logic_and": "1'1", "$logic_or": "1'0"}


@dataclass(frozen=True)
class Change:
    """One operator at one cell. cells: RTLIL of what takes its place, of the mutant's number."""

    operator: str
    cell: Cell
    what: str
    cells: Callable[[int], str]


def sample(text: str, count: int, seed: str) -> list[Change]:
    """`count` changes, or all: of each operator as many, as far as there are; the same for a seed.

    text: RTLIL of one module.
    """
    by_operator: dict[str, list[Change]] = {}
    for cell in rtlil.cells(text):
        for change in _changes(cell):
            by_operator.setdefault(change.operator, []).append(change)
    for operator, changes in by_operator.items():
        random.Random(f"{seed}/{operator}").shuffle(changes)
    chosen: list[Change] = []
    while len(chosen) < count and any(by_operator.values()):
        chosen += [changes.pop() for changes in by_operator.values() if changes]
    return chosen[:count]


def changes(text: str, name: str) -> Iterator[Change]:
    """Every change of the cell `name`. text: RTLIL of one module."""
    return (change for cell in rtlil.cells(text) if cell.name == name for change in _changes(cell))


def _changes(cell: Cell) -> Iterator[Change]:
    yield from _swapped(cell)
    yield from _off_by_one(cell)
    yield from _dropped(cell)
    yield from _without_term(cell)


def _swapped(cell: Cell) -> Iterator[Change]:
    wrong, ports = cell, dict(cell.ports)
    if cell.type in _SWAPS:
        if cell.type.startswith("$reduce") and cell.parameters["A_WIDTH"] < 2:
            return  # the same
        wrong = replace(cell, type=_SWAPS[cell.type])
        what = f"{cell.type} becomes {wrong.type}"
    elif cell.type == "$mux":
        ports["A"], ports["B"] = ports["B"], ports["A"]
        wrong, what = replace(cell, ports=ports), "the ways of a multiplexer swapped"
    else:
        return
    yield Change("swapped operator", cell, what, lambda number: _copy(wrong, number))


def _off_by_one(cell: Cell) -> Iterator[Change]:
    if cell.type not in {"$add", "$sub", "$eq", "$ne", "$lt", "$le", "$gt", "$ge", "$mux", "$mul"}:
        return
    for port in ("A", "B"):
        constant = _CONSTANT.fullmatch(cell.ports[port])
        if constant is None:
            continue
        bits = int(constant[1])
        for step in (1, -1):
            value = (int(constant[2], 2) + step) % (1 << bits)
            ports = cell.ports | {port: f"{bits}'{value:0{bits}b}"}
            wrong = replace(cell, ports=ports)
            what = f"{port} of {cell.type} is {value}, not {int(constant[2], 2)}"
            yield Change("off by one", cell, what, lambda n, wrong=wrong: _copy(wrong, n))


def _dropped(cell: Cell) -> Iterator[Change]:
    if cell.type in {"$reduce_or", "$reduce_bool"} and cell.parameters["A_WIDTH"] > 1:
        zero = f"{cell.width}'{'0' * cell.width}"
        yield Change(
            "dropped sticky bits", cell, f"{cell.parameters['A_WIDTH']} bits dropped",
            lambda number: f"  connect {alternative(number)} {zero}\n",
        )  # fmt: skip


def _without_term(cell: Cell) -> Iterator[Change]:
    if cell.type not in _NEUTRAL or cell.parameters["A_WIDTH"] != 1:
        return
    for port in ("A", "B"):
        if cell.parameters["B_WIDTH"] == 1 and _HANDSHAKE.search(cell.ports[port].split(".")[-1]):
            wrong = replace(cell, ports=cell.ports | {port: _NEUTRAL[cell.type]})
            what = f"{port} left out of {cell.type}: {cell.ports[port]}"
            yield Change("handshake term", cell, what, lambda n, wrong=wrong: _copy(wrong, n))


def _copy(wrong: Cell, number: int) -> str:
    return wrong.text(name=f"$mutant{number}$copy", Y=alternative(number))
