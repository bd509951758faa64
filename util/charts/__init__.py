"""mxdot.util.charts: one Vega-Lite description per chart, for files and for the report.

A chart makes pictures (`picture.py`) from layers (`layers.py`) in the colours of `palette.py`.
`save` writes a picture as SVG and PNG; the report embeds the same description.
"""

from .picture import Entry, Picture, save

__all__ = ["Entry", "Picture", "save"]
