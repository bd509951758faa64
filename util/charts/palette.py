"""Colours, symbols, order and themes of charts, the same in files and in the report.

Colours follow Okabe and Ito (Color Universal Design, 2008), which people of any colour
vision can distinguish. A grey replaces their black, and the blue is lighter, so that each shows on
white and on a dark page. Symbols repeat the meaning.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

SLATE, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILION, PURPLE = (
    "#6E7781", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#1A80BB", "#D55E00", "#CC79A7",
)  # fmt: skip
GREY = "#A8B0B8"

FORMATS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, SLATE)

CIRCLE = "M0-.9A.9.9 0 1 1 0 .9A.9.9 0 1 1 0-.9Z"
SQUARE = "M-.8-.8H.8V.8H-.8Z"
TRIANGLE = "M0-1L1 .8H-1Z"
WEDGE = "M0 1L1-.8H-1Z"
DIAMOND = "M0-1.1L1.1 0L0 1.1L-1.1 0Z"
PLUS = "M-.35-1H.35V-.35H1V.35H.35V1H-.35V.35H-1V-.35H-.35Z"
STAR = "M0-1.2L.3-.37L1.1-.37L.45.15L.7.95L0 .48L-.7.95L-.45.15L-1.1-.37L-.3-.37Z"
CROSS = "M-.85-.5L-.5-.85L0-.35L.5-.85L.85-.5L.35 0L.85.5L.5.85L0 .35L-.5.85L-.85.5L-.35 0Z"
LINE = "M-1.2-.15H1.2V.15H-1.2Z"
MANY = (
    *(BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, YELLOW, "#A2447A", "#44AA99", "#999933"),
    *("#332288", "#117733", "#661100", "#888888"),
)
"""Colours of more lines than `FORMATS` has, with those of Tol's muted scheme."""
SHAPES = (CIRCLE, SQUARE, TRIANGLE, DIAMOND, STAR, PLUS, CROSS, WEDGE)

SYMBOLS = {  # by family, as SVG paths around 0 that reach from -1 to 1
    "exact": DIAMOND,
    "int32": PLUS,
    "aligned": CIRCLE,
    "fused": SQUARE,
    "fixed": TRIANGLE,
    "float32": WEDGE,
    "preset": STAR,
    "other": CROSS,
}

SECTIONS = {  # task: its colour, and its sections of `model/pipeline/sections.py`
    "multiply": (BLUE, ("decode", "multiply")),
    "largest exponent": (SKY, ("largest",)),
    "align": (ORANGE, ("offset", "align", "place", "join")),
    "sum": (GREEN, ("compress", "sum", "tree")),
    "normalize": (YELLOW, ("cut", "count", "normalize", "pack")),
    "scale": (PURPLE, ("scale",)),
    "accumulate": (VERMILION, ("distance", "approach", "add", "carry", "accumulate", "promote")),
    "round": (SLATE, ("round", "convert", "narrow")),
    "registers and control": (GREY, ()),
}
SECTIONS_CAPTION = (
    "Sections are synthesised apart, with nothing shared across their borders: bars are as a rule "
    "longer than the unit's area, printed next to them. Shares are what to read from them."
)
OTHER = "registers and control"


def format_colours(formats: Iterable[str | None]) -> dict[str, str]:
    """A colour for each format, in the order in which they come; extra units are black."""
    names = [name for name in dict.fromkeys(formats) if name]
    return {name: FORMATS[i % len(FORMATS)] for i, name in enumerate(names)}


def family(accumulator: str | None) -> str:
    """The family of an accumulator's text, as `SYMBOLS` has it."""
    if accumulator is None:
        return "other"
    keyword = accumulator.partition(":")[0]
    return keyword if keyword in SYMBOLS else "preset"


def grouped(sections: Mapping[str, float]) -> dict[str, float]:
    """Areas by what the sections do, in the order of `SECTIONS`."""
    areas = dict.fromkeys(SECTIONS, 0.0)
    for name, area in sections.items():
        stem = name.rstrip("0123456789")
        areas[next((g for g, (_, stems) in SECTIONS.items() if stem in stems), OTHER)] += area
    return {name: area for name, area in areas.items() if area}


FONT = "Arial, sans-serif"


class Theme(NamedTuple):
    """Colours of text, axes and paper."""

    ink: str
    soft: str
    grid: str
    paper: str


LIGHT = Theme("#1b1f24", "#57606a", "#e4e8ec", "#ffffff")
DARK = Theme("#e6edf3", "#9aa4af", "#2b323b", "#12171d")


def config(theme: Theme = LIGHT, names: int = 0) -> dict[str, Any]:
    """Vega-Lite configuration of a theme, for any data.

    names: greatest width of names at an axis; 0 for any width.
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
