"""Variants of a scheme: another rule for its scales, groups of another size."""

import re
from collections.abc import Iterable
from dataclasses import replace

from ..blocks import LARGEST_BLOCK
from ..errors import choice, integer
from ..formats import PowerFormat
from ..scale_rules import SCALE_RULES
from .grouping import block
from .scheme import Level, Scheme, is_shift

BLOCK = re.compile(r"b([0-9]{1,9})")


def varied(scheme: Scheme, changes: Iterable[str]) -> Scheme:
    """`scheme` with a rule of scales (``ceil``) or elements in a block (``b64``), each once.

    It is called NAME:RULE:bN, of what differs. ValueError for anything else, and for what the
    scheme has not.
    """
    rule = size = None
    for change in changes:
        if rule is None and change in SCALE_RULES:
            rule = change
        elif size is None and (found := BLOCK.fullmatch(change)):
            size = int(found[1])
        else:
            known = f"{', '.join(SCALE_RULES)} or b and a number"
            raise ValueError(f"what follows a scheme must be {known}, each once, not {change!r}")
    return variant(scheme, rule, size)


def variant(scheme: Scheme, rule: str | None = None, block_size: int | None = None) -> Scheme:
    """`scheme` with its outermost scales by another rule, and its finest blocks of another size."""
    levels, name = list(scheme.levels), scheme.name
    if rule is not None:
        choice("scale rule", rule, SCALE_RULES)
        if not has_rule(scheme):
            raise ValueError(f"scale rule of {scheme} must be left out: its scales are by amax")
        if rule != levels[0].rule:
            levels[0], name = replace(levels[0], rule=rule), f"{name}:{rule}"
    if block_size is not None:
        integer("block", block_size, 1, LARGEST_BLOCK)
        finest = _blocks(levels)
        if finest is None:
            raise ValueError(f"block of {scheme} must be left out: no scale of it is of a block")
        if block_size != levels[finest].granularity.columns:
            levels[finest] = replace(levels[finest], granularity=block(block_size))
            name = f"{name}:b{block_size}"
    if name == scheme.name:
        return scheme
    source = f"after {scheme.source.removeprefix('after ')}"
    return replace(scheme, name=name, levels=tuple(levels), source=source)


def has_rule(scheme: Scheme) -> bool:
    """Whether its outermost scales are powers of two, for which there are rules to choose from."""
    return isinstance(scheme.levels[0].format, PowerFormat)


def has_blocks(scheme: Scheme) -> bool:
    """Whether it has scales of a number of elements of a row."""
    return _blocks(scheme.levels) is not None


def _blocks(levels: Iterable[Level]) -> int | None:
    """The finest level of such scales, micro-exponents left out."""
    found = None
    for i, level in enumerate(levels):
        group = level.granularity
        if group.rows == 1 and group.columns is not None and not is_shift(level, i):
            found = i
    return found
