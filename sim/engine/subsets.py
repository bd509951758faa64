"""Parts of a set to try when something smaller that still fails is looked for."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import TypeVar

T = TypeVar("T")

MOST_PAIRS = 40  # members of which every pair is tried


def parts(members: Sequence[T]) -> Iterator[tuple[T, ...]]:
    """Proper parts: none, each one, each pair of not too many, halves to eighths, all but one."""
    yield ()
    if len(members) > 1:
        yield from ((member,) for member in members)
    if 2 < len(members) <= MOST_PAIRS:
        yield from combinations(members, 2)
    for count in (8, 4, 2):
        if len(members) >= 2 * count:
            size = -(-len(members) // count)
            yield from (tuple(members[i : i + size]) for i in range(0, len(members), size))
    if len(members) > 3:
        yield from (
            tuple(other for j, other in enumerate(members) if j != i) for i in range(len(members))
        )


def fewer_ones(bits: int) -> Iterator[int]:
    """Positive numbers with fewer of the ones of `bits`: without the lowest, without a half."""
    lowest = bits & -bits
    if bits != lowest:
        yield bits ^ lowest
    places = [i for i in range(bits.bit_length()) if bits >> i & 1]
    if len(places) > 3:
        kept = places[len(places) // 2 :]
        yield sum(1 << i for i in kept)
