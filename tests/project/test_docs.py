"""The documentation says what the code does."""

import importlib.util
import re
import shlex
from pathlib import Path

import pytest

from doc_examples import PAGES, PARTS, examples, run
from mxdot.cli import build_parser

ROOT = Path(__file__).parents[2]
EXAMPLES = examples("model")
DOCS = sorted([ROOT / "README.md", *ROOT.glob("docs/*.md")])


def load_tables():
    spec = importlib.util.spec_from_file_location("tables", ROOT / "tools" / "tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", load_tables().FILES)
def test_tables_are_current(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    assert load_tables().render(text) == text, "run python tools/tables.py"


def test_a_stale_table_is_noticed():
    stale = "<!-- table: widths -->\nnothing\n<!-- end -->"
    assert "41 + sign" in load_tables().render(stale)


def anchors(text: str) -> set[str]:
    """The headings that a link can lead to, three levels of them, as GitHub and MyST name them."""
    prose = "".join(re.split(r"^```.*$", text, flags=re.M)[::2])
    headings = re.findall(r"^#{1,3} (.+)$", prose, flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead_links(path: Path, text: str) -> list[str]:
    """Links in the text of a page that lead to no file, or to no heading of one."""
    dead = []
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if target.startswith("https://"):
            continue
        name, _, anchor = target.partition("#")
        file = path.parent / name if name else path
        there = text if file == path else file.read_text(encoding="utf-8") if anchor else ""
        if not file.exists() or (anchor and anchor not in anchors(there)):
            dead.append(target)
    return dead


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    assert dead_links(path, path.read_text(encoding="utf-8")) == []


def test_a_dead_link_is_noticed():
    links = "[a](#one-place) [b](#two) [c](numerics.md) [d](numerics.md#nowhere) [e](x.md)"
    dead = dead_links(ROOT / "docs" / "model.md", f"## One `place`\n{links}")
    assert dead == ["#two", "numerics.md#nowhere", "x.md"]


TUTORIALS = ("choose.md", "weights.md")
WITH_FILES = ("compute.md",)
"""Pages whose examples write files; tests/cli/test_compute.py runs them."""
PRINTED = {
    "README.md": ("5 3", "[-6.465332 15.283203]", "[-6.4651833 15.280552 ]"),
    "model.md": ("5 3", "9217/2048"),  # 4.5 bits and one float32 for 64 x 1024 elements
}


@pytest.mark.parametrize("page", sorted(set(EXAMPLES) - {*TUTORIALS, *WITH_FILES}))
def test_examples_run(page, capsys):
    """Examples of other parts run in tests/compare and tests/gpu."""
    run(page, EXAMPLES[page])
    output = capsys.readouterr().out
    assert [text for text in PRINTED.get(page, ()) if text not in output] == []


def test_no_example_is_left_out():
    parts = sum(len(blocks) for part in PARTS for blocks in examples(part).values())
    assert parts == sum(text.count("```python") for text in PAGES.values()) > 20
    assert set(EXAMPLES) >= {*TUTORIALS, *PRINTED, "machines.md"}


@pytest.mark.parametrize("name", TUTORIALS)
def test_a_tutorial_prints_what_it_says(name, capsys):
    names: dict[str, object] = {}
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    steps = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", text, flags=re.S)
    assert len(steps) == text.count("```python") > 0, "each block with what it prints behind it"
    for example, output in steps:
        exec(compile(example, name, "exec"), names)
        assert capsys.readouterr().out == output


def commands(text: str) -> list[list[str]]:
    """The words after `mxdot` in each line of a block that calls it."""
    text = text.replace("\\\n", " ")
    blocks = [*re.split(r"^```.*$", text, flags=re.M)[1::2], *re.findall(r"^ {4}.*$", text, re.M)]
    found = re.findall(r"^ *(?:\.venv/bin/)?mxdot (.*)$", "\n".join(blocks), flags=re.M)
    return [shlex.split(line, comments=True) for line in found]


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_commands_are_spelled_right(path):
    for words in commands(path.read_text(encoding="utf-8")):
        assert build_parser().parse_args(words).run, words


def test_commands_are_found():
    text = "```sh\n.venv/bin/mxdot sim dot --lanes 8  # small\n```\nmxdot is a word\n\n"
    text += "    mxdot verilog \\\n      --micro\n"
    assert commands(text) == [["sim", "dot", "--lanes", "8"], ["verilog", "--micro"]]
    assert sum(len(commands(path.read_text(encoding="utf-8"))) for path in DOCS) > 30


def test_every_page_is_on_a_shelf():
    """Once in its list, and once in the site's own tree of pages."""
    docs = ROOT / "docs"
    index = (docs / "index.md").read_text(encoding="utf-8")
    pages = sorted(str(path.relative_to(docs).with_suffix("")) for path in docs.rglob("*.md"))
    pages.remove("index")
    assert sorted(re.findall(r"\]\((\w[^)]*)\.md\)", index)) == pages
    trees = re.findall(r"```\{toctree\}\n(?::[^\n]*\n)*\n(.*?)```", index, flags=re.S)
    assert sorted("".join(trees).split()) == pages


def test_named_tests_exist():
    text = (ROOT / "docs" / "testplan.md").read_text(encoding="utf-8")
    names = set(re.findall(r"`((?:\w+/)?test_\w*\*?\.py)`", text))
    assert names
    assert not [name for name in names if not list((ROOT / "tests").rglob(name))]
