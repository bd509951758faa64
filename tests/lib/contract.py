"""The statements of docs/numerics.md, and the rows of docs/contract-coverage.md that hold them."""

import ast
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from mxdot.model import DotConfig, QuantizeConfig
from mxdot.sim.dot.features import goals as dot_goals
from mxdot.sim.engine.regression_units import smoke_matrix
from mxdot.sim.quantize.features import goals as quantize_goals

ROOT = Path(__file__).parents[2]
CONTRACT = ROOT / "docs" / "numerics.md"
COVERAGE = ROOT / "docs" / "contract-coverage.md"
LEADING = 6  # words of a statement by which people find it
OPEN = "open: "
"""How the test cell of a statement without a test begins; docs/evidence.md counts them."""
REFERENCE = "reference"
"""The test cell of a statement that only leads to others: a title, a source, a name."""
_SENTENCE = re.compile(r"(?<=[.])\s+(?=[A-Z*`\[(])")


@dataclass(frozen=True)
class Statement:
    """A sentence, a row of a table, a block of formulas, or a whole generated table."""

    section: str
    text: str
    before: int = 0
    """Equal statements before it in its section."""

    @property
    def key(self) -> str:
        """Changes with any word."""
        whole = f"{self.section}\n{self.before}\n{self.text}"
        return hashlib.sha256(whole.encode()).hexdigest()[:8]

    @property
    def words(self) -> str:
        """How it begins, without what a table of Markdown would read as its own."""
        return " ".join(re.sub(r"[|`*\[\]<>\\]", "", self.text).split()[:LEADING])


def statements(text: str) -> list[Statement]:
    """All of a page, in its order; the rows of a generated table are held by `test_docs.py`."""
    generated = re.compile(r"<!-- table: (\w+) -->\n.*?<!-- end -->", re.S)
    text = generated.sub(r"Generated table \1.", text)
    section, made = "", []
    for block in re.split(r"\n\s*\n", text):
        lines = block.strip("\n").splitlines()
        while lines and (heading := re.match(r"#+ (.*)", lines[0])):
            section = heading[1]
            lines = lines[1:]
        for part in _parts(lines):
            made.append(Statement(section, part, _equal(made, section, part)))
    return made


def _equal(made: list[Statement], section: str, text: str) -> int:
    """How many of these statements are the same."""
    return sum((other.section, other.text) == (section, text) for other in made)


def _parts(lines: list[str]) -> Iterator[str]:
    """The statements of one block of lines."""
    if not lines:
        return
    if all(line.startswith("    ") for line in lines):
        yield _plain(lines)
        return
    if lines[0].startswith("|"):
        yield from (_plain([line]) for line in lines[2:])
        return
    items: list[list[str]] = []
    for line in lines:
        if not items or re.match(r"\s*(?:-|\d+\.) ", line):
            items.append([])
        items[-1].append(line)
    for item in items:
        yield from _SENTENCE.split(re.sub(r"^(?:-|\d+\.) ", "", _plain(item)))


def _plain(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())


@dataclass(frozen=True)
class Row:
    """A row of the page: what holds one statement. tests, bins: names; says: words of the cell."""

    key: str
    words: str
    says: str
    tests: tuple[str, ...]
    bins: tuple[str, ...]

    @property
    def is_open(self) -> bool:
        """True without a test, for a reason."""
        return self.says.startswith(OPEN)


def rows(text: str) -> list[Row]:
    """Rows of all tables of a page."""
    cells = re.findall(r"^\| `([0-9a-f]{8})` \| (.*?) \| (.*?) \| (.*?) \|$", text, re.M)
    return [Row(key, words, says, _names(says), _names(bins)) for key, words, says, bins in cells]


def _names(cell: str) -> tuple[str, ...]:
    return tuple(re.findall(r"`([^`]+)`", cell))


@cache
def _functions(path: Path) -> frozenset[str]:
    """The functions at the top of a file of tests."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def has_test(name: str) -> bool:
    """Whether `file::function` below tests/ exists; `.py` and the folder are left out."""
    file, _, function = name.partition("::")
    paths = list((ROOT / "tests").rglob(f"{file}.py"))
    return any(function in _functions(path) for path in paths)


@cache
def _points() -> dict[str, frozenset[str]]:
    """The bins of every cover point, `kind.point`, over the smoke matrix."""
    features = {DotConfig: ("dot", dot_goals), QuantizeConfig: ("quantize", quantize_goals)}
    bins_of: dict[str, set[str]] = {}
    for unit in smoke_matrix():
        kind, goals = features.get(type(unit.config), ("", lambda config: {}))
        for point, bins in goals(unit.config).items():
            bins_of.setdefault(f"{kind}.{point}", set()).update(map(str, bins))
    return {name: frozenset(bins) for name, bins in bins_of.items()}


def has_bin(name: str) -> bool:
    """Whether a cover point `kind.point` exists, and has a bin with `text` in `=text` behind it."""
    point, _, text = name.partition("=")
    return any(text in known for known in _points().get(point, ()))
