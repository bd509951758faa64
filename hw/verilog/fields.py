"""Structures taken apart: which bits of a port or net are which field.

A structure becomes one vector for each field; an array of structures one vector for each field, in
which the elements' fields follow each other. So ``lanes[3].product`` is a part of
``lanes_product``.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from amaranth.hdl import Shape, ShapeLike
from amaranth.lib import data

from .netlist import Bits, Net


@dataclass(frozen=True)
class Field:
    """A vector cut from a structure: `positions` of its bits in it, `count` elements in a row."""

    name: str
    positions: tuple[int, ...]
    count: int = 1

    @property
    def note(self) -> str:
        """What the bits are, where that is not one number."""
        return f"{self.count} x {len(self.positions) // self.count}" if self.count > 1 else ""


def fields(name: str, shape: ShapeLike) -> list[Field]:
    """The vectors that a port `name` of this shape consists of; those of width 0 left out."""
    return [field for field in _fields(name, shape) if field.positions]


def _fields(name: str, shape: ShapeLike) -> Iterator[Field]:
    if isinstance(shape, data.ArrayLayout):
        stride, length = Shape.cast(shape.elem_shape).width, shape.length
        for inner in _fields(name, shape.elem_shape):
            starts = [i * stride for i in range(length)]
            positions = tuple(start + place for start in starts for place in inner.positions)
            yield Field(inner.name, positions, inner.count * length)
    elif isinstance(shape, data.Layout):
        for key, member in shape:
            for inner in _fields(f"{name}_{key}", member.shape):
                places = tuple(member.offset + place for place in inner.positions)
                yield Field(inner.name, places, inner.count)
    else:
        yield Field(name, tuple(range(Shape.cast(shape).width)))


def split_nets(nets: Iterable[Net]) -> list[Net]:
    """`nets` without those whose bits are all in fields of their own, fields of arrays joined.

    Amaranth names the fields of a signal ``block.scale`` and ``lanes[3].product``.
    """
    nets = list(nets)
    inner: dict[str, set] = {}
    for net in nets:
        for end in re.finditer(r"[.\[]", net.name):
            inner.setdefault(net.name[: end.start()], set()).update(net.bits)
    parts: dict[str, list[tuple[tuple[int, ...], Net]]] = {}
    for net in nets:
        if not set(net.bits) <= inner.get(net.name, set()):
            index = tuple(map(int, re.findall(r"\[(\d+)\]", net.name)))
            name = re.sub(r"\[\d+\]", "", net.name)
            parts.setdefault(name, []).append((index, net))
    return [_joined(name, found) for name, found in parts.items()]


def _joined(name: str, parts: list[tuple[tuple[int, ...], Net]]) -> Net:
    parts = sorted(parts, key=lambda part: part[0])
    bits: Bits = tuple(bit for _, net in parts for bit in net.bits)
    return Net(name.replace(".", "_"), bits, parts[0][1].is_register)
