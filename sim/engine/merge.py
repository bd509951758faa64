"""Coverage of a whole regression: the units' coverage files added up, bin by bin.

Units differ in the bins that they can reach, so that the merge is a union. The files have the
schema of cocotb-coverage's own.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import yaml

from ...util.files import write_file

HITS = "bins:_hits"
Bins = dict[str, dict[str, int]]


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
