"""Colours, symbols and order of plots, the same in files and in the report.

The colours are those of Okabe and Ito (Color Universal Design, 2008), which people of any colour
vision can tell apart; symbols say the same again.
"""

from collections.abc import Iterable, Mapping
from typing import Any

BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILION, PURPLE = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7",
)  # fmt: skip
GREY = "#999999"

STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#dddddd",
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "svg.fonttype": "none",
    "svg.hashsalt": "mxdot",
}

FORMATS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK)

SYMBOLS = {  # family: matplotlib's marker, and the report's shape
    "exact": "D",
    "int32": "P",
    "aligned": "o",
    "fused": "s",
    "fixed": "^",
    "float32": "v",
    "preset": "*",
    "other": "X",
}

SECTIONS = {  # what a section does: its colour, and the sections of `model/datapath.py` that do it
    "multiply": (BLUE, ("decode", "multiply", "compress")),
    "largest exponent": (SKY, ("largest",)),
    "align": (ORANGE, ("align", "place", "join")),
    "sum": (GREEN, ("sum", "tree")),
    "normalize": (YELLOW, ("cut", "normalize")),
    "scale": (PURPLE, ("scale",)),
    "accumulate": (VERMILION, ("approach", "add", "accumulate", "promote")),
    "round": (BLACK, ("round", "convert")),
    "registers and control": (GREY, ()),
}
SECTIONS_CAPTION = (
    "Sections are synthesised apart, with nothing shared across their borders: bars are as a rule "
    "longer than the unit's area, printed beside them. Shares are what to read from them."
)
OTHER = "registers and control"


def literal(text: str) -> str:
    """`text` as matplotlib prints it as it is: a dollar sign would begin a formula."""
    return text.replace("$", r"\$")


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
