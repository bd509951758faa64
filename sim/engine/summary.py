"""Results of a regression: a table and the failures for people, JUnit XML and JSON for programs.

Also the functional coverage of all units. They differ in the bins that they can reach, so that
their files are added up bin by bin. Files have the schema of cocotb-coverage's own.
"""

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import yaml
from rich.console import Console
from rich.table import Table

from ...util.files import write_file
from ...util.tables import write_json
from .unit import UnitResult

HITS = "bins:_hits"
Bins = dict[str, dict[str, int]]


def summary(results: list[UnitResult], seconds: float, coverage: float | None) -> bool:
    """Print the table, the failures, and one line of totals; True when all passed.

    coverage: of functional coverage, percent; None where none was sampled.
    """
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
    console.print(_table(results))
    for result in results:
        if not result.passed:
            _failure(console, result)
    failed = [result.name for result in results if not result.passed]
    totals: dict[str, int] = {}
    for result in results:
        totals[result.items] = totals.get(result.items, 0) + result.compared
    compared = " and ".join(f"{count:,} {items}" for items, count in totals.items())
    mismatches = sum(result.mismatches for result in results)
    verdict = f"FAILED: {', '.join(failed)}" if failed else "all passed"
    covered = "no coverage sampled" if coverage is None else f"coverage {coverage:.1f}%"
    console.print(
        f"{len(results)} units, {compared} compared with the model, "
        f"{mismatches:,} mismatches, {covered}, {seconds:.0f} s: {verdict}",
        markup=False,
        soft_wrap=True,
    )
    return bool(results) and not failed


def _table(results: list[UnitResult]) -> Table:
    table = Table(title_justify="left", box=None, pad_edge=False)
    table.add_column("unit", no_wrap=True)
    for column in ("compared", "wrong", "coverage", "bulk/s", "per cycle/s", "ratio", "time"):
        table.add_column(column, justify="right", no_wrap=True)
    shared = any(result.unit_share is not None for result in results)
    if shared:
        table.add_column("of it the unit", justify="right", no_wrap=True)
    table.add_column("")
    for result in results:
        ratio = result.bulk_rate / result.cycle_rate if result.cycle_rate else 0.0
        table.add_row(
            result.name,
            f"{result.compared:,}",
            f"{result.mismatches:,}",
            f"{result.coverage:.1f}%",
            f"{result.bulk_rate:,.0f}",
            f"{result.cycle_rate:,.0f}",
            f"{ratio:.0f}x",
            f"{result.seconds:.1f} s",
            *([f"{result.unit_share or 0:.0%}"] if shared else []),
            "ok" if result.passed else "FAILED",
        )
    return table


def _failure(console: Console, result: UnitResult) -> None:
    lines = [f"FAILED {result.name}: {result.config}", *(f"  {e}" for e in result.errors)]
    if not result.compared and not result.errors:
        lines.append("  nothing was compared")
    if result.report:
        lines += ["", *(f"  {line}" for line in result.report.splitlines())]
    console.print("\n".join(["", *lines, ""]), markup=False, soft_wrap=True)


def write_results(
    results: Sequence[UnitResult], seed: int, seconds: float, coverage: float | None, path: Path
) -> None:
    """JSON: an entry for each unit; coverage in percent, as of `summary`."""
    units = [asdict(result) | {"passed": result.passed} for result in results]
    passed = bool(units) and all(unit["passed"] for unit in units)
    about = {"passed": passed, "seed": seed, "seconds": seconds, "coverage": coverage}
    write_json(path, about | {"units": units})


def write_junit(results: Sequence[UnitResult], seed: int, seconds: float, path: Path) -> None:
    """JUnit XML: a test case for each unit."""
    failed = sum(not result.passed for result in results)
    counts = {"tests": str(len(results)), "failures": str(failed), "time": f"{seconds:.3f}"}
    suites = ET.Element("testsuites", counts)
    suite = ET.SubElement(suites, "testsuite", {"name": "mxdot sim", **counts})
    properties = ET.SubElement(suite, "properties")
    ET.SubElement(properties, "property", name="seed", value=str(seed))
    for result in results:
        case = ET.SubElement(
            suite,
            "testcase",
            {"classname": "mxdot.sim", "name": result.name, "time": f"{result.seconds:.3f}"},
        )
        if not result.passed:
            message = (result.errors or ["nothing was compared"])[0]
            failure = ET.SubElement(case, "failure", message=_printable(message))
            failure.text = _printable("\n".join([result.config, *result.errors, result.report]))
    ET.indent(suites)
    write_file(path, ET.tostring(suites, encoding="unicode") + "\n")


def _printable(text: str) -> str:
    """`text` without the control characters that XML cannot hold."""
    return re.sub(r"[^\t\n\x20-\ud7ff\ue000-\ufffd]", "?", text)


def merge_coverage(files: Iterable[Path], yaml_file: Path, xml_file: Path) -> float:
    """Write the sum of the units' coverage.yml files; returns the percentage of bins hit."""
    points: Bins = {}
    for file in files:
        for name, item in yaml.safe_load(file.read_text()).items():
            for wanted, count in item.get(HITS, {}).items():
                bins = points.setdefault(name, {})
                bins[str(wanted)] = bins.get(str(wanted), 0) + count
    items = _items(points)
    write_file(yaml_file, yaml.safe_dump(items, sort_keys=True))
    root = _xml(items)
    ET.indent(root)
    write_file(xml_file, ET.tostring(root, encoding="unicode") + "\n")
    total = sum(map(len, points.values()))
    return 100 * _covered(points) / total if total else 0.0


def _covered(points: Bins) -> int:
    return sum(count > 0 for bins in points.values() for count in bins.values())


def _items(points: Bins) -> dict[str, dict[str, Any]]:
    """Cover points and the groups above them, by full name."""
    items: dict[str, dict[str, Any]] = {}
    names = {
        ".".join(name.split(".")[:i]) for name in points for i in range(1, name.count(".") + 2)
    }
    for name in sorted(names):
        below = {n: bins for n, bins in points.items() if n == name or n.startswith(name + ".")}
        size, covered = sum(map(len, below.values())), _covered(below)
        items[name] = {
            "size": size,
            "coverage": covered,
            "cover_percentage": round(100 * covered / size, 2),
        }
        if name in points:
            items[name] |= {"weight": 1, "at_least": 1, HITS: points[name]}
    return items


def _xml(items: dict[str, dict[str, Any]]) -> ET.Element:
    root = ET.Element("top", {"abs_name": "top"})
    elements = {"": root}
    for name, item in items.items():
        parent, _, last = name.rpartition(".")
        attributes = {key: str(value) for key, value in item.items() if key != HITS}
        attributes["abs_name"] = f"top.{name}"
        elements[name] = ET.SubElement(elements[parent], last, attributes)
        for i, (wanted, count) in enumerate(item.get(HITS, {}).items()):
            ET.SubElement(
                elements[name],
                f"bin{i}",
                {"bin": wanted, "hits": str(count), "abs_name": f"top.{name}.bin{i}"},
            )
    return root
