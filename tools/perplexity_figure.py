"""Networks and the area of a unit at 1 GHz against fraction bits: the picture of docs.

    python tools/perplexity_figure.py FOLDER

Rows of networks are docs/perplexity-lm.json and docs/perplexity-encoder.json, which `make figures`
measures. Areas are those of examples/fraction_area.toml. FOLDER gets perplexity.svg, and
perplexity.csv with a line for each accumulator; synthesis that was cut off goes on there.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from mxdot.compare.studies import Row, compare, load_study, processes
from mxdot.compare.studies.clocks import MHZ
from mxdot.compare.studies.rows import MISSED
from mxdot.synth import SYNTHESES
from mxdot.util.charts import Picture, save
from mxdot.util.charts.layers import axis, bands, level, lines, panel, points
from mxdot.util.charts.palette import BLUE, CIRCLE
from mxdot.util.progress import display
from mxdot.util.tables import lines as table_of
from mxdot.util.tables import write_csv

ROOT = Path(__file__).parent.parent
STUDY = ROOT / "examples" / "fraction_area.toml"
LM, ENCODER = (ROOT / "docs" / f"perplexity-{name}.json" for name in ("lm", "encoder"))
COLUMNS = ("name", "fraction_bits", "perplexity", "sqnr_db", "area", "area_error", "reached_mhz")
PANELS = {
    "perplexity": ("a language model", "perplexity per byte"),
    "sqnr_db": ("a sentence encoder", "SQNR to float32, dB"),
    "area": ("the unit at 1 GHz", "area (um2)"),
}
NAMES = {"bf16": "bfloat16"}
CAPTION = (
    "Marks: aligned:F with MXFP8 blocks (E4M3). Dotted: other accumulators with these blocks, and "
    "networks without blocks. Unit: 32 lanes, the smallest that reaches the clock in ASAP7; its "
    "band is the spread of the search."
)
ROOM = 0.15  # of what is shown, at both ends of an axis
CLOSE = 0.03  # of an axis: levels that share a line
Line = dict[str, Any]


def networks(path: Path, column: str) -> dict[str, float]:
    """A column of a network's rows, by accumulator, or by name without MX blocks."""
    rows = json.loads(path.read_text(encoding="utf-8"))["networks"]
    wrong = [row["name"] for row in rows if row["error"] is not None]
    if wrong:
        raise ValueError(f"{path} must hold cases that ended well, not {', '.join(wrong)}")
    return {_name(row): row[column] for row in rows if isinstance(row[column], float)}


def _name(row: Mapping[str, Any]) -> str:
    recipe, _, rule = str(row["name"]).partition(" ")
    return rule or NAMES.get(recipe, recipe)


def content(
    perplexities: Mapping[str, float], dbs: Mapping[str, float], units: Iterable[Row]
) -> list[Line]:
    """A line for each name, with what is known of it, aligned sums first, by fraction bits."""
    by_name = {str(unit.accumulator): unit for unit in units}
    found = [_line(name, perplexities, dbs, by_name) for name in {**perplexities, **dbs, **by_name}]
    last = max(line["fraction_bits"] or 0 for line in found) + 1
    return sorted(found, key=lambda line: line["fraction_bits"] or last)


def _line(
    name: str,
    perplexities: Mapping[str, float],
    dbs: Mapping[str, float],
    units: Mapping[str, Row],
) -> Line:
    family, _, bits = name.partition(":")
    unit = units.get(name)
    line: Line = {"name": name, "perplexity": perplexities.get(name), "sqnr_db": dbs.get(name)}
    line["fraction_bits"] = int(bits) if family == "aligned" else None
    if unit is not None:
        line |= {"area": unit.area, "area_error": unit.area_error}
        if unit.status == MISSED and unit.delay_ps:
            line["reached_mhz"] = int(MHZ / unit.delay_ps)
    return dict.fromkeys(COLUMNS) | line


def picture(found: Sequence[Line]) -> Picture:
    """A panel for each measure; names without fraction bits are levels."""
    bits = [line["fraction_bits"] for line in found if line["fraction_bits"] is not None]
    across = axis("fraction bits", domain=[min(bits) - 0.5, max(bits) + 0.5])
    panels = [
        panel(title, across, axis(says, domain=_range(found, column)), *_layers(found, column))
        for column, (title, says) in PANELS.items()
    ]
    title = "What fraction bits buy in networks, and cost at a clock"
    return Picture("perplexity", title, panels, caption=CAPTION)


def _range(found: Sequence[Line], column: str) -> list[float]:
    """Ends of an axis, with room for marks and words."""
    ys = [line[column] for line in found if line[column] is not None]
    room = ROOM * (max(ys) - min(ys))
    return [min(ys) - room, max(ys) + room]


def _layers(found: Sequence[Line], column: str) -> list[dict[str, Any]]:
    look = {"colour": BLUE, "shape": CIRCLE, "line": "aligned"}
    known = [line for line in found if line[column] is not None]
    marks = [
        {"x": line["fraction_bits"], "y": line[column], **look}
        for line in known
        if line["fraction_bits"] is not None
    ]
    layers = [part for text, y in _levels(known, column) for part in level(y, text)]
    if column == "area":
        errors = {line["fraction_bits"]: line["area_error"] or 0.0 for line in known}
        ranges = [m | {"y": m["y"] - errors[m["x"]], "y2": m["y"] + errors[m["x"]]} for m in marks]
        layers.append(bands(ranges))
    return [*layers, lines(marks), points(marks)]


def _levels(known: Sequence[Line], column: str) -> list[tuple[str, float]]:
    """Names and heights of levels; one line for those that the picture would not tell apart."""
    ys = [line[column] for line in known]
    room = CLOSE * (max(ys) - min(ys))
    groups: list[list[Line]] = []
    others = [line for line in known if line["fraction_bits"] is None]
    for line in sorted(others, key=lambda line: line[column]):
        if groups and line[column] - groups[-1][0][column] < room:
            groups[-1].append(line)
        else:
            groups.append([line])
    return [
        (", ".join(_said(line, column) for line in group), group[0][column]) for group in groups
    ]


def _said(line: Line, column: str) -> str:
    """A name; of an area with the clock that the unit reaches where it misses the others' clock."""
    missed = line["reached_mhz"] if column == "area" else None
    return line["name"] if missed is None else f"{line['name']}, at {missed} MHz"


def main(arguments: Sequence[str] | None = None) -> int:
    """Synthesise what is missing, and write both files; 1 where a synthesis failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="of the files")
    folder = parser.parse_args(arguments).folder
    perplexities, dbs = networks(LM, "perplexity"), networks(ENCODER, "sqnr_db")
    with display(Console()) as observer:
        compared = compare(
            load_study(STUDY), folder / "area", processes(), observer, cache_dir=SYNTHESES
        )
    failed = [row for row in compared.rows if row.area is None]
    for row in failed:
        print(f"{row.accumulator}: {row.error}", file=sys.stderr)
    if failed:
        return 1
    found = content(perplexities, dbs, compared.rows)
    write_csv(folder / "perplexity.csv", table_of(COLUMNS, found))
    save(picture(found), folder / "perplexity", ["svg"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
