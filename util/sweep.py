"""Sweep texts: `exact,aligned:6..25,fixed:32..48/8:-12` names many accumulators in few words.

A comma separates items; at any integer position of an item `a..b` stands for every integer from a
to b, and `a..b/step` for every step-th of them, a included.
"""

import re
from collections.abc import Callable
from itertools import product
from typing import TypeVar

RANGE = re.compile(r"(-?[0-9]+)\.\.(-?[0-9]+)(?:/([0-9]+))?")
DIGITS = 18
"""Most digits of an integer: enough for every parameter, and few enough to count with."""
LIMIT = 10_000
"""Most values that a text may stand for."""
T = TypeVar("T")


def items(text: str, name: str) -> list[str]:
    """The items of a sweep text; `name` is the parameter, for messages."""
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise ValueError(f"{name} must be items separated by commas, not {text!r}")
    return parts


def expand(item: str, name: str) -> list[str]:
    """Every text that one item stands for, in ascending order, the last range fastest.

    ValueError, naming `name` and the range, when one runs downwards or cannot be read.
    """
    ranges = [_numbers(match, name) for match in RANGE.finditer(item)]
    fixed = RANGE.split(item)[:: RANGE.groups + 1]
    if any(".." in text or "/" in text for text in fixed):
        raise ValueError(f"{name} must hold ranges as a..b or a..b/step, not {item!r}")
    count = 1
    for numbers in ranges:
        count *= len(numbers)
    if count > LIMIT:
        raise ValueError(f"{name} must stand for at most {LIMIT} values, not {item!r} ({count})")
    return [
        "".join(text + str(number) for text, number in zip(fixed, numbers, strict=False))
        + fixed[-1]
        for numbers in product(*ranges)
    ]


def _numbers(match: re.Match[str], name: str) -> range:
    if any(len(text.lstrip("-")) > DIGITS for text in match.groups("")):
        raise ValueError(f"{name}: a range must be of at most {DIGITS} digits, not {match[0]!r}")
    first, last, step = int(match[1]), int(match[2]), int(match[3] or 1)
    if first > last:
        raise ValueError(f"{name}: a range must run upwards, not {match[0]!r}")
    if step < 1:
        raise ValueError(f"{name}: the step of a range must be at least 1, not {match[0]!r}")
    return range(first, last + 1, step)


def integers(item: str, name: str) -> list[int]:
    """The integers that one item stands for: `8`, `8..64`, `0..24/8`."""
    try:
        return [_integer(text) for text in expand(item, name)]
    except ValueError as error:
        if name in str(error):
            raise
        raise ValueError(f"{name} must be integers or ranges a..b, not {item!r}") from None


def _integer(text: str) -> int:
    if not re.fullmatch(rf"[+-]?[0-9]{{1,{DIGITS}}}", text):
        raise ValueError
    return int(text)


def number_list(text: str, name: str) -> tuple[int, ...]:
    """The integers of a sweep text."""
    return tuple(values(text, name, integers))


def values(text: str, name: str, read: Callable[[str, str], list[T]]) -> list[T]:
    """Values that `read` makes of the items of a sweep text."""
    numbers: list[T] = []
    for item in items(text, name):
        numbers += read(item, name)
        if len(numbers) > LIMIT:
            raise ValueError(f"{name} must stand for at most {LIMIT} values, not {len(numbers)}")
    return numbers
