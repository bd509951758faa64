"""The Python examples of the documentation, by the part of the package that they need."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = {
    str(path.relative_to(folder)): path.read_text(encoding="utf-8")
    for folder, paths in ((ROOT, [ROOT / "README.md"]), (DOCS, sorted(DOCS.rglob("*.md"))))
    for path in paths
}
"""Texts by their names: README.md, and pages by their place in docs."""
PARTS = {"gpu": ("nn", "gpu"), "compare": ("compare", "synth", "verify"), "model": ("model",)}
"""Rooms per environment; an example belongs to the first environment whose room it names."""


FILE = re.compile(r"```python\n# (\w+\.py)\n(.*?)```", re.S)
"""A block that is a file of the reader's, which its first line names."""
SHOWN = re.compile(r"```(\w+)\n(?!# \w+\.py\n)([^`]*)```\n\n```\n([^`]*)```")
"""A block of Python or of commands, and a block with what it prints."""


def files(page: str) -> dict[str, str]:
    """Files of the reader's on a page, by their names."""
    return dict(FILE.findall(PAGES[page]))


def shown(part: str) -> list[tuple[str, str, str]]:
    """(page, example, output) of the examples of a part whose output the page shows."""
    blocks = ((page, *block) for page, text in PAGES.items() for block in SHOWN.findall(text))
    return [(p, x, out) for p, kind, x, out in blocks if kind == "python" and part_of(x) == part]


def shown_commands() -> list[tuple[str, str, str]]:
    """(page, commands, output) of commands whose output the page shows."""
    blocks = ((page, *block) for page, text in PAGES.items() for block in SHOWN.findall(text))
    return [(page, text, output) for page, kind, text, output in blocks if kind == "sh"]


def examples(part: str) -> dict[str, list[str]]:
    """The examples of a part, by the names of their pages."""
    pages = {
        name: re.findall(r"```python\n(?!# \w+\.py\n)(.*?)```", text, re.S)
        for name, text in PAGES.items()
    }
    chosen = {
        page: [example for example in all_of_them if part_of(example) == part]
        for page, all_of_them in pages.items()
    }
    return {page: blocks for page, blocks in chosen.items() if blocks}


def part_of(example: str) -> str:
    """The part of the package that an example needs; `model` where it names none."""
    for part, rooms in PARTS.items():
        if any(f"mxdot.{room}" in example for room in rooms):
            return part
    return "model"


def run(page: str, blocks: list[str]) -> None:
    """Run the examples of a page one after another, each with the names of those before."""
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
