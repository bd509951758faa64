"""The charts of a comparison: a file each, and a row in `CHARTS`.

A chart is a function from all rows (but failed ones) to its pictures: one, or one for each flow or
data set; none where the rows lack what it needs.
"""

from collections.abc import Callable, Iterable, Sequence

from ....util.charts import Picture
from ..rows import Row
from . import area_sqnr, clock_area, error_f, error_length, roofline, sections

CHARTS: tuple[Callable[[Sequence[Row]], Iterable[Picture]], ...] = (
    area_sqnr.pictures,
    clock_area.pictures,
    error_f.pictures,
    error_length.pictures,
    sections.pictures,
    roofline.pictures,
)
"""In the order of the report."""


def pictures(rows: Sequence[Row]) -> list[Picture]:
    """Every picture that the rows have data for."""
    good = [row for row in rows if row.status != "failed"]
    return [picture for chart in CHARTS for picture in chart(good)]
