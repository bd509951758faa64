"""Variants of a scheme: another rule for its scales, groups of another size, errors of digits."""

import re
from collections.abc import Iterable
from dataclasses import replace

from ..blocks import LARGEST_BLOCK
from ..errors import choice, integer
from ..formats import PowerFormat
from ..scale_rules import SCALE_RULES
from .grouping import block
from .scheme import Level, Scheme, is_shift

BLOCK, DIGITS = re.compile(r"b([0-9]{1,9})"), re.compile(r"e([0-9]{1,9})")


def varied(scheme: Scheme, changes: Iterable[str]) -> Scheme:
    """`scheme` with a rule of scales (``ceil``), elements in a block (``b64``) or digits of errors
    (``e8``), each once.

    It is called NAME:RULE:bN:eG, of what differs. ValueError for anything else, and for what the
    scheme has not.
    """
    rule = size = digits = None
    for change in changes:
        if rule is None and change in SCALE_RULES:
            rule = change
        elif size is None and (found := BLOCK.fullmatch(change)):
            size = int(found[1])
        elif digits is None and (found := DIGITS.fullmatch(change)):
            digits = int(found[1])
        else:
            known = f"{', '.join(SCALE_RULES)}, b and a number, or e and a number"
            raise ValueError(f"what follows a scheme must be {known}, each once, not {change!r}")
    return variant(scheme, rule, size, digits)


def variant(
    scheme: Scheme,
    rule: str | None = None,
    block_size: int | None = None,
    error_digits: int | None = None,
) -> Scheme:
    """`scheme` with its outermost scales by another rule, its finest blocks of another size, and
    its code book's errors of so many digits."""
    levels, kept = list(scheme.levels), scheme.error_digits
    name = scheme.name.removesuffix(f":e{kept}")  # comes last, whatever is asked for first
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
    if error_digits is None:
        error_digits = kept
    if error_digits is not None:
        name = f"{name}:e{error_digits}"
    if name == scheme.name:
        return scheme
    source = f"after {scheme.source.removeprefix('after ')}"
    changed = {"name": name, "levels": tuple(levels), "source": source}
    return replace(scheme, **changed, error_digits=error_digits)


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
