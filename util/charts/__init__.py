"""mxdot.util.charts: one Vega-Lite description per chart, for files and for the report.

A chart makes pictures (`picture.py`) of layers (`layers.py`); `theme.py` and `palette.py` say how
they look, `files.py` writes them as SVG and PNG, and the report embeds the same descriptions.
"""

from .files import save
from .picture import Entry, Picture

__all__ = ["Entry", "Picture", "save"]
