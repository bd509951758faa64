"""Puts template, style, scripts and data into one HTML file."""

import html
import json
from pathlib import Path
from string import Template
from typing import Any

from ....sim.engine.files import write_file
from ...cost.processes import PROCESSES
from ...palette import BLACK, SECTIONS, SECTIONS_CAPTION, family, format_colours, grouped
from ...run.tables import strict
from ..answers import WISHES, answers
from ..arrays import CAPTION, TITLE, roofline_data
from ..export import content
from ..session import Comparison

HERE = Path(__file__).parent
SCRIPTS = ("scale.js", "marks.js", "charts.js", "table.js", "page.js")


def report(comparison: Comparison, path: Path) -> Path:
    """Write the report to `path`."""
    write_file(path, render(comparison))
    return path


def render(comparison: Comparison) -> str:
    """The text of the report."""
    return Template(_part("report.html")).substitute(
        title=html.escape(comparison.title),
        sections=html.escape(SECTIONS_CAPTION),
        roofline=html.escape(CAPTION),
        arrays=html.escape(TITLE),
        style=_part("report.css"),
        data=_embedded(_data(comparison)),
        script="\n".join(_part(name) for name in SCRIPTS),
    )


def _part(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def _data(comparison: Comparison) -> dict[str, Any]:
    data = content(comparison)
    for row, values in zip(comparison.rows, data["rows"], strict=True):
        values |= {"family": family(row.accumulator), "areas": grouped(row.sections)}
        values["name"] = row.short_name
    return data | {
        "formats": format_colours(row.format for row in comparison.rows),
        "other": BLACK,
        "processes": {p.name: f"{p.node}: {p.title}" for p in PROCESSES.values()},
        "roofline": roofline_data([row for row in comparison.rows if row.status != "failed"]),
        "answers": [answer.to_dict() for answer in answers(comparison.rows)],
        "wishes": [[name, wish.meaning] for name, wish in WISHES.items()],
        "sections": {name: colour for name, (colour, _) in SECTIONS.items()},
    }


def _embedded(data: dict[str, Any]) -> str:
    """JSON inside a script element, which no text in it can end."""
    text = json.dumps(strict(data), allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c")
