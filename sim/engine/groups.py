"""Items in groups that the model takes at once."""

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

T = TypeVar("T")


def in_groups(items: Sequence[T], key: Callable[[T], Hashable]) -> tuple[list[list[T]], list[int]]:
    """Groups of one key each, and the place of each item, counted through the groups."""
    groups: dict[Hashable, list[int]] = {}
    for i, item in enumerate(items):
        groups.setdefault(key(item), []).append(i)
    order = [i for rows in groups.values() for i in rows]
    places = sorted(range(len(order)), key=order.__getitem__)
    return [[items[i] for i in rows] for rows in groups.values()], places
