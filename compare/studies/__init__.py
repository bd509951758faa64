"""mxdot.compare.studies: units side by side, by cost and accuracy.

    study = load_study(Path("study.toml"))
    comparison = compare(study, Path("build/compare"), processes(), observer)
    write(comparison, Path("build/compare"))

A study names points (`points.py`: a unit, a flow, data). Tasks (`tasks.py`) measure them; `util/`
runs the tasks and keeps each result. Rows (`rows.py`) hold the results of a point. They are shown
as tables, files, plots and a report.
"""

from ...util.workers import dask, processes
from .extra import load_extra
from .narrowest import Target, search
from .outputs import write
from .points import Sampling, Sweep, points_of, units_of
from .rows import Row
from .session import Comparison, compare
from .study import DEFAULT, WIDTHS, Study, load_study
from .units import Foreign, Generated

__all__ = [
    "DEFAULT",
    "WIDTHS",
    "Comparison",
    "Foreign",
    "Generated",
    "Row",
    "Sampling",
    "Study",
    "Sweep",
    "Target",
    "compare",
    "dask",
    "load_extra",
    "load_study",
    "points_of",
    "processes",
    "search",
    "units_of",
    "write",
]
