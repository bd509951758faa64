"""How charts look, on white and on a dark page: Vega-Lite configurations."""

from typing import Any, NamedTuple

FONT = "Arial, sans-serif"


class Theme(NamedTuple):
    """Colours of what is no data."""

    ink: str
    soft: str
    grid: str
    paper: str


LIGHT = Theme("#1b1f24", "#57606a", "#e4e8ec", "#ffffff")
DARK = Theme("#e6edf3", "#9aa4af", "#2b323b", "#12171d")


def config(theme: Theme = LIGHT, names: int = 0) -> dict[str, Any]:
    """The configuration of a description; it says nothing of data.

    names: how wide those at an axis may be; 0 for any width.
    """
    return {
        "background": theme.paper,
        "font": FONT,
        "view": {"stroke": None},
        "title": {
            "color": theme.ink, "subtitleColor": theme.soft, "anchor": "start", "fontSize": 13,
            "subtitleFontSize": 11, "offset": 8,
        },
        "axis": {
            "gridColor": theme.grid, "domainColor": theme.soft, "tickColor": theme.soft,
            "labelColor": theme.soft, "titleColor": theme.ink, "titleFontWeight": "normal",
            "labelFontSize": 11, "titleFontSize": 12, "tickSize": 4, "labelOverlap": True,
            "labelSeparation": 6, "labelLimit": names,
        },
        "text": {"color": theme.ink, "fontSize": 10},
        "rule": {"color": theme.soft},
    }  # fmt: skip
