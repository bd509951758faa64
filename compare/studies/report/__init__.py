"""The HTML report: template, style, scripts, Vega and data in one file, which makes no requests."""

import html
import json
from functools import cache
from pathlib import Path
from string import Template
from typing import Any

from ....synth.processes import PROCESSES
from ....util.charts.palette import (
    DARK,
    LIGHT,
    SLATE,
    SYMBOLS,
    config,
    family,
    format_colours,
    grouped,
)
from ....util.charts.picture import VEGALITE
from ....util.files import write_file
from ....util.tables import strict
from ..answers import WISHES, Answer, answers
from ..charts import pictures
from ..session import Comparison

HERE = Path(__file__).parent
NAMES = 150  # of units, in a bar chart: a narrow page has room for its bars
SCRIPTS = ("elements.js", "details.js", "pictures.js", "table.js", "answers.js", "page.js")


def report(comparison: Comparison, path: Path) -> Path:
    """Write the report to `path`."""
    write_file(path, render(comparison))
    return path


def render(comparison: Comparison) -> str:
    """The text of the report."""
    return Template(_part("report.html")).substitute(
        title=html.escape(comparison.title),
        style=_part("report.css"),
        data=_embedded(_data(comparison)),
        library=library(),
        script="\n".join(_part(name) for name in SCRIPTS),
    )


@cache
def library() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script of 0.9 MB, which asks no network."""
    import vl_convert

    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", VEGALITE)


def _part(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def _data(comparison: Comparison) -> dict[str, Any]:
    data = comparison.to_dict()
    for row, values in zip(comparison.rows, data["rows"], strict=True):
        values |= {"family": family(row.accumulator), "areas": grouped(row.sections)}
        values |= {"name": row.short_name, "identity": row.identity}
    return data | {
        "formats": format_colours(row.format for row in comparison.rows),
        "symbols": SYMBOLS,
        "other": SLATE,
        "processes": {p.name: f"{p.node}: {p.title}" for p in PROCESSES.values()},
        "answers": [_answer(answer) for answer in answers(comparison.rows)],
        "wishes": [[name, wish.meaning] for name, wish in WISHES.items()],
        "themes": {"light": config(LIGHT, NAMES), "dark": config(DARK, NAMES)},
        "pictures": [picture.parts() for picture in pictures(comparison.rows)],
    }


def _answer(answer: Answer) -> dict[str, Any]:
    names = {wish: row.identity for wish, row in answer.units.items()}
    return answer.to_dict() | {"identities": names}


def _embedded(data: dict[str, Any]) -> str:
    """JSON inside a script element, which no text in it can end."""
    text = json.dumps(strict(data), allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c")
