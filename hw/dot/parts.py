"""Sections that may be cut in parts (model.pipeline.cut_finer)."""

from collections.abc import Callable

from ...model.pipeline.widths import Widths
from ..pipeline import Section

Maker = Callable[[Widths], Section]


def whole_or_parts(whole: Maker, *parts: Maker) -> Callable[..., Section]:
    """What makes a section: whole, or of a number from 1 on the part of it."""

    def make(widths: Widths, number: int | None = None) -> Section:
        return (whole if number is None else parts[number - 1])(widths)

    return make
