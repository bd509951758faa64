"""Charts of a comparison, listed in `CHARTS`.

A chart is a function from rows to pictures: one, or one per flow or data set. It makes none where
the rows lack a column that it needs. Failed rows do not reach it.
"""

from collections.abc import Callable, Iterable, Sequence

from ....util.charts import Picture
from ..rows import Row
from .clock_curves import area_at_clock, energy_at_clock
from .cost import area_sqnr, clock_area, rooflines, sections
from .error import error_fraction_bits, error_length

CHARTS: tuple[Callable[[Sequence[Row]], Iterable[Picture]], ...] = (
    area_sqnr,
    clock_area,
    area_at_clock,
    energy_at_clock,
    error_fraction_bits,
    error_length,
    sections,
    rooflines,
)
"""Charts in the order of the report."""


def pictures(rows: Sequence[Row]) -> list[Picture]:
    """Every picture that the rows have data for."""
    good = [row for row in rows if row.status != "failed"]
    return [picture for chart in CHARTS for picture in chart(good)]
