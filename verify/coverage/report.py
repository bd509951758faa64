"""The report of coverage: one HTML file without scripts or other files, and a line of text."""

import html
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import astuple

from .judge import Judged
from .points import KINDS, Point

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em; color: #222; background: #fff; }
table { border-collapse: collapse; } td, th { padding: 2px 12px; text-align: right; }
td:first-child, th:first-child, ul { text-align: left; }
pre { overflow-x: auto; line-height: 1.3; } .hit { background: #e3f4e3; }
.part { background: #fdf3d0; } .hole { background: #f9d6d5; }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #181818; }
.hit { background: #1d3a1d; } .part { background: #4a3d10; } .hole { background: #552020; } }
"""
_COLUMNS = ("all", "reached", "constant", "with a reason", "holes")


def summary(units: Sequence[Judged], functional: float | None, unused: int, wide: int) -> str:
    """One line for CI. functional: percent of the bins of functional coverage; unused, wide:
    reasons that no hole needs, and that hold of what was reached."""
    parts = []
    for kind in KINDS:
        rows = [unit.row(kind) for unit in units]
        every, reached, still, reason, _ = (sum(column) for column in zip(*rows, strict=True))
        closed = 100 * (reached + still + reason) / every if every else 100.0
        parts.append(f"{kind} {reached:,} of {every:,}, {closed:.1f}% with constants and reasons")
    holes = sum(len(unit.holes) for unit in units)
    if functional is not None:
        parts.append(f"functional {functional:.1f}%")
    parts += [f"{holes:,} holes", f"{unused} unused reasons", f"{wide} too wide"]
    return f"coverage of {len(units)} units: {'; '.join(parts)}"


def told(unit: Judged) -> str:
    """One line of a unit: points reached of those that are not constant."""
    parts, reasons = [], 0
    for kind, things in zip(KINDS, ("lines", "branches", "toggles"), strict=True):
        every, reached, constant, reason, _ = unit.row(kind)
        parts.append(f"{things} {reached:,} of {every - constant:,}")
        reasons += reason
    return f"{unit.name}: {', '.join(parts)}; {reasons:,} with a reason"


def page(units: Sequence[Judged], line: str) -> str:
    """The report as HTML; names and source are shown as text, whatever is in them."""
    body = "".join(_unit(unit) for unit in units)
    return (
        '<!doctype html>\n<html lang="en"><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>Coverage</title><style>{_STYLE}</style>\n"
        f"<h1>Coverage</h1><p>{html.escape(line)}</p>\n{body}</html>\n"
    )


def _unit(unit: Judged) -> str:
    head = "".join(f"<th>{column}</th>" for column in _COLUMNS)
    rows = "".join(
        f"<tr><td>{kind}</td>{''.join(f'<td>{n:,}</td>' for n in unit.row(kind))}</tr>\n"
        for kind in KINDS
    )
    name = html.escape(unit.name)
    return (
        f"<h2>{name}</h2><table><tr><th>points</th>{head}</tr>\n{rows}</table>\n"
        f"{_holes(unit)}<details><summary>{name}: source</summary>"
        f"<pre>{_source(unit)}</pre></details>\n"
    )


def _holes(unit: Judged) -> str:
    """Holes that need a test or a reason, then those with a reason, then constant nets."""
    told = [(point, "no reason") for point in unit.holes]
    told += [(point, reason.why) for point, reason in unit.reasons.items()]
    told += [(point, "proved constant") for point in sorted(unit.constants, key=astuple)]
    items = "".join(
        f"<li>{html.escape(f'{p.module}, line {p.line}: {p.kind} {p.what}: {why}')}</li>\n"
        for p, why in told
    )
    return f"<details><summary>{len(told):,} not reached</summary><ul>{items}</ul></details>\n"


def _source(unit: Judged) -> str:
    lines: dict[int, list[Point]] = defaultdict(list)
    for point in unit.counts:
        lines[point.line].append(point)
    holes = set(unit.holes)
    shown = []
    for number, text in enumerate(unit.source.splitlines(), 1):
        missed = sum(point in holes for point in lines[number])
        mark = "" if number not in lines or not lines[number] else "hit"
        if missed:
            mark = "hole" if missed == len(lines[number]) else "part"
        shown.append(f'<span class="{mark}">{number:5} {html.escape(text)}</span>')
    return "\n".join(shown)
