"""Where the pins of a unit are in the records and results of bulk mode, for any driver of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Field(NamedTuple):
    """Bits of a record or a result, and the port that they are of."""

    port: str
    place: int
    bits: int


@dataclass(frozen=True)
class Layout:
    """Records of so many bytes, results of so many 32-bit words; bit 0 is the lowest of a number.

    inputs, outputs: which bits are which port's; a unit need not have them all. ends: the input
    that asks for a result, "" where every record does. ones: bits of a result that are always set.
    restarts: a record behind one that asks for a result may as well be the first after a reset.
    """

    record_bytes: int
    inputs: tuple[Field, ...]
    words: int
    outputs: tuple[Field, ...]
    ends: str = ""
    ones: tuple[int, ...] = ()
    restarts: bool = False


def placed(ports: Sequence[tuple[str, int]], first: int = 0) -> tuple[Field, ...]:
    """Ports of so many bits one behind the other from bit `first` on."""
    fields = []
    for port, bits in ports:
        if bits:
            fields.append(Field(port, first, bits))
        first += bits
    return tuple(fields)


def in_bytes(ports: Sequence[tuple[str, int]], first: int = 0) -> tuple[tuple[Field, ...], int]:
    """The same, each from a new byte on; and the bytes until behind the last."""
    fields = []
    for port, bits in ports:
        if bits:
            fields.append(Field(port, 8 * first, bits))
        first += (bits + 7) // 8
    return tuple(fields), first
