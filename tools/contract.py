"""The rules of the numeric contract with the tests that hold them, as a page of the site.

    python tools/contract.py          write docs/_generated/contract.md, which `make docs` does too

A rule is a paragraph, an item or a row of docs/numerics*.md that begins with its id, `**A3**`. A
test names its rules, `@pytest.mark.contract("A3")`; tests/project/contract_bins.toml names the bins
of functional coverage.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = tuple(f"numerics{part}.md" for part in ("", "-schemes", "-integers"))
BINS = ROOT / "tests" / "project" / "contract_bins.toml"
WRITTEN = ROOT / "docs" / "_generated" / "contract.md"
LEADING = 8
"""Words of a rule by which people find it."""
OPEN = {"M3": "no test: the published results are not in the repository"}
"""Reasons of rules without a test."""
_ID = re.compile(r"\*\*([A-Z]\d+)\*\*")


@dataclass(frozen=True)
class Rule:
    """A rule; `page` is the file in docs that holds it."""

    id: str
    page: str
    section: str
    text: str

    @property
    def words(self) -> str:
        """Its beginning, without marks of Markdown."""
        return " ".join(re.sub(r"[|`*\[\]<>\\]", "", self.text).split()[:LEADING])


def rules(page: str, text: str) -> list[Rule]:
    """Rules of a page, in its order."""
    section, found = "", []
    for part in re.split(r"^(#+ .*)$", text, flags=re.M):
        if part.startswith("#"):
            section = part.lstrip("# ")
            continue
        _, *pieces = _ID.split(part)
        found += [
            Rule(name, page, section, rest.strip())
            for name, rest in zip(pieces[::2], pieces[1::2], strict=True)
        ]
    return found


def all_rules() -> list[Rule]:
    """Rules of the contract's pages."""
    docs = ROOT / "docs"
    return [rule for page in PAGES for rule in rules(page, (docs / page).read_text("utf-8"))]


def marks(source: str) -> Iterator[tuple[str, str]]:
    """(test, id) of each mark in the text of a file of tests."""
    for node in ast.parse(source).body:
        if not isinstance(node, ast.FunctionDef):
            continue
        for mark in node.decorator_list:
            if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.contract":
                yield from ((node.name, ast.literal_eval(name)) for name in mark.args)


def tests_of_rules() -> dict[str, list[str]]:
    """Names `file::test` below tests/, by the id of a rule."""
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("*.py")):
        file = path.relative_to(ROOT / "tests").with_suffix("").as_posix()
        for test, name in marks(path.read_text("utf-8")):
            found.setdefault(name, []).append(f"{file}::{test}")
    return found


def bins_of_rules() -> dict[str, list[str]]:
    """Bins of functional coverage, by the id of a rule."""
    return tomllib.loads(BINS.read_text("utf-8"))


def table() -> str:
    """A row per rule: what it says, its tests and bins; a heading per section."""
    tests, bins, section, lines = tests_of_rules(), bins_of_rules(), "", []
    for rule in all_rules():
        if rule.section != section:
            section = rule.section
            lines += [
                "",
                f"### {section}",
                "",
                "| rule | says | tests | bins |",
                "|---|---|---|---|",
            ]
        held = ", ".join(f"`{test}`" for test in tests.get(rule.id, ()))
        reached = ", ".join(f"`{name}`" for name in bins.get(rule.id, ())) or "-"
        link = f"[{rule.id}]({rule.page})"
        lines.append(f"| {link} | {rule.words} | {held or OPEN[rule.id]} | {reached} |")
    return "\n".join(lines).strip() + "\n"


def write() -> None:
    """Write the table where a page includes it."""
    WRITTEN.parent.mkdir(exist_ok=True)
    new = table()
    if not WRITTEN.exists() or WRITTEN.read_text("utf-8") != new:
        WRITTEN.write_text(new, "utf-8")


if __name__ == "__main__":
    write()
