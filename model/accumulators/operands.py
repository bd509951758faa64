"""The warning that a machine has no products of some operands: its rule has results, no machine."""

import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from itertools import takewhile

from ..formats import ElementFormat
from .base import Accumulator
from .machine import Machine

_ON_PURPOSE = ContextVar("on_purpose", default=False)
_BELOW = ("mxdot", "torch")
"""Packages whose frames are not the caller's."""


class OperandsWarning(UserWarning):
    """A machine is asked for products of operands that its row has not."""


@contextmanager
def any_operands() -> Iterator[None]:
    """No OperandsWarning inside: a machine meets other formats on purpose."""
    token = _ON_PURPOSE.set(True)
    try:
        yield
    finally:
        _ON_PURPOSE.reset(token)


def warn_of_operands(
    rule: Accumulator, pairs: Iterable[tuple[ElementFormat, ElementFormat]]
) -> None:
    """Warn once for each machine and pair of formats that its row has not."""
    if isinstance(rule, Machine) and not _ON_PURPOSE.get():
        for a, b in pairs:
            if is_foreign(rule, a, b):
                _warn(rule, f"{a} x {b}")


def is_foreign(rule: Accumulator, a: ElementFormat, b: ElementFormat) -> bool:
    """Whether `rule` is a machine that has no products of these formats."""
    return isinstance(rule, Machine) and bool(rule.operands) and (a, b) not in rule.pairs


@cache
def _warn(rule: Machine, pair: str) -> None:
    warnings.warn(
        f"accumulator {rule} is a machine that multiplies {rule.operands_text}, not {pair}: "
        "results are those of its rule, of no machine",
        OperandsWarning,
        stacklevel=2 + sum(1 for _ in takewhile(_is_below, _frames())),
    )


def _frames() -> Iterator[str]:
    """The modules of the frames that called `_warn`, the innermost first."""
    frame = sys._getframe(3)
    while frame is not None:
        yield frame.f_globals.get("__name__", "")
        frame = frame.f_back


def _is_below(module: str) -> bool:
    return module.split(".")[0] in _BELOW
