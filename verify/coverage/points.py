"""Points of coverage as Verilator writes them, added up over runs and instances."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

KINDS = ("line", "branch", "toggle")
_LINE = re.compile(r"C '(.*)' (\d+)")


@dataclass(frozen=True)
class Point:
    """One thing to reach. kind: of `KINDS`; line, column: in the unit's Verilog; what: the bit and
    its direction, or which branch."""

    module: str
    kind: str
    line: int
    column: int
    what: str

    @property
    def bit(self) -> str:
        """Net's bit of a toggle, without its direction."""
        return re.sub(r":[01]->[01]$", "", self.what)


@dataclass
class Count:
    """Hits of a point in all instances, and paths of the instances."""

    hits: int = 0
    instances: set[str] = field(default_factory=set)


Counts = dict[Point, Count]


def read(files: Iterable[Path], verilog: Path) -> Counts:
    """The points in `verilog` of all files; ValueError for a file that Verilator did not write."""
    counts: Counts = {}
    for file in files:
        for text in file.read_text(encoding="utf-8").splitlines():
            if text.startswith("#") or not text:
                continue
            match = _LINE.fullmatch(text)
            if match is None:
                raise ValueError(f"{file} must hold coverage of Verilator, not {text[:60]!r}")
            point, source, instance = _point(match[1])
            if source == verilog.name:
                count = counts.setdefault(point, Count())
                count.hits += int(match[2])
                count.instances.add(instance)
    return counts


def _point(text: str) -> tuple[Point, str, str]:
    """A point, the name of its file, and the path of its instance."""
    pairs = (part.partition("\x02") for part in text.split("\x01") if part)
    keys = {name: value for name, _, value in pairs}
    page, _, module = keys["page"].partition("/")
    module = module.partition("__")[0]
    kind = page.removeprefix("v_").partition("_")[0]
    point = Point(module, kind, int(keys.get("l", 0)), int(keys.get("n", 0)), keys.get("o", ""))
    return point, Path(keys["f"]).name, keys.get("h", "")


def reached(counts: Counts, kind: str) -> tuple[int, int]:
    """Points of a kind that were reached, and all."""
    all_of = [count for point, count in counts.items() if point.kind == kind]
    return sum(count.hits > 0 for count in all_of), len(all_of)
