"""The documentation says what the code does."""

import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import tables

from doc_examples import (
    ELSEWHERE,
    PAGES,
    PARTS,
    RUN,
    blocks,
    check_commands,
    examples,
    files,
    run,
    tree,
)
from mxdot.cli.command import build_parser
from mxdot.hw import generate
from mxdot.model import DotConfig
from registries import registries as registries

ROOT = Path(__file__).parents[2]
EXAMPLES = examples("model")
DOCS = sorted([ROOT / "README.md", *ROOT.glob("docs/*.md")])


@pytest.mark.parametrize("name", tables.FILES)
@pytest.mark.contract("F1", "M1", "W1", "S44")
def test_tables_are_current(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    assert tables.render(text) == text, "run python tools/tables.py"


def test_a_stale_table_is_noticed():
    stale = "<!-- table: formats -->\nnothing\n<!-- end -->"
    assert "57344" in tables.render(stale)


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


WITH_FILES = ("compute.md",)
"""Pages whose examples write files; tests/cli/test_compute.py runs them."""


@pytest.mark.parametrize("page", sorted(set(EXAMPLES) - {*WITH_FILES}))
def test_examples_run(page):
    """Examples of other parts run in tests/compare and tests/gpu."""
    run(EXAMPLES[page])


def test_no_example_is_left_out():
    parts = sum(len(blocks) for part in PARTS for blocks in examples(part).values())
    parts += sum(len(files(page)) for page in PAGES)
    assert parts == sum(text.count("```python") for text in PAGES.values()) > 20
    assert set(EXAMPLES) >= {"README.md", "choose.md", "weights.md", "model.md", "machines.md"}


@pytest.mark.parametrize("page", RUN)
def test_what_is_printed_is_shown(page):
    examples = [e for e in blocks(PAGES[page]) if e.is_run]
    assert not [e.code for e in examples if e.output is None and "print(" in e.code]
    assert not [e.code for e in examples if e.output is None and re.search("^mxdot", e.code, re.M)]


def test_a_wrong_output_is_noticed():
    (example,) = blocks('```python\nprint("a", 1)\n```\n\n```text\na ...\n```\n')
    run([example])
    with pytest.raises(AssertionError, match=r"prints\nb 1\n"):
        run([replace(example, code=example.code.replace("a", "b"))])


@pytest.mark.parametrize("page", [page for page in RUN if page in examples("model", "sh")])
def test_commands_print_what_is_shown(page):
    """Commands that need synthesis run in tests/compare."""
    check_commands(page, "model")


def test_commands_that_are_not_run_are_there():
    text = "\n".join(PAGES[page] for page in RUN)
    assert not [reason for reason in ELSEWHERE if not re.search(reason, text, re.M)]


def test_pages_include_files_that_exist():
    included = {
        page: re.findall(r"^```\{literalinclude\} (\S+)$", text, re.M)
        for page, text in PAGES.items()
    }
    assert included["vectors.md"] == ["../examples/dot_bench.py"]
    files = [ROOT / "docs" / name for names in included.values() for name in names]
    assert not [file for file in files if not file.is_file()]


def test_the_bench_notices_a_wrong_unit():
    """Of which the lowest bit of results is inverted."""
    directory = tree("wrong-dot")
    unit = directory / "build" / "dot.v"
    text = generate(DotConfig("e4m3", accumulator="aligned:8"))
    wrong = re.sub(r"(assign out_result = )(.*);", r"\1\2 ^ 32'd1;", text)
    assert wrong != text
    unit.write_text(wrong)
    bench = directory / "examples" / "dot_bench.py"
    done = subprocess.run(
        [sys.executable, bench], cwd=directory, capture_output=True, text=True, check=False
    )
    assert done.returncode
    assert "AssertionError" in done.stderr
    assert "PASS" not in done.stdout


def commands(text: str) -> list[list[str]]:
    """The words after `mxdot` in each line of a block that calls it."""
    text = re.sub(r"^```text\n.*?^```$", "", text.replace("\\\n", " "), flags=re.M | re.S)
    blocks = [*re.split(r"^```.*$", text, flags=re.M)[1::2], *re.findall(r"^ {4}.*$", text, re.M)]
    lines = re.findall(r"^ *(?:\.venv/bin/)?mxdot (.*)$", "\n".join(blocks), flags=re.M)
    return [shlex.split(line, comments=True) for line in lines]


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_commands_are_spelled_right(path):
    for words in commands(path.read_text(encoding="utf-8")):
        if words == ["--version"]:  # ends the program
            continue
        assert build_parser().parse_args(words).run, words


def test_commands_are_found():
    text = "```sh\n.venv/bin/mxdot sim dot --lanes 8  # small\n```\nmxdot is a word\n\n"
    text += "    mxdot verilog \\\n      --micro\n"
    assert commands(text) == [["sim", "dot", "--lanes", "8"], ["verilog", "--micro"]]
    assert sum(len(commands(path.read_text(encoding="utf-8"))) for path in DOCS) > 30


def test_every_page_is_on_one_shelf():
    """A shelf is a list of the home page, and the same part of the site's tree."""
    docs = ROOT / "docs"
    index = (docs / "index.md").read_text(encoding="utf-8")
    pages = sorted(str(path.relative_to(docs).with_suffix("")) for path in docs.rglob("*.md"))
    pages = [page for page in pages if page != "index" and not page.startswith("_generated/")]
    lists = {
        part.split("\n", 1)[0]: re.findall(r"\]\((\w[^)]*)\.md\)", part.split("```")[0])
        for part in index.split("\n## ")[1:]
    }
    trees = re.findall(
        r"```\{toctree\}\n:hidden:\n:caption: ([^\n]*)\n\n(.*?)```", index, flags=re.S
    )
    assert {caption: names.split() for caption, names in trees} == lists
    assert sorted(page for listed in lists.values() for page in listed) == pages


def test_named_tests_exist():
    text = (ROOT / "docs" / "evidence.md").read_text(encoding="utf-8")
    names = set(re.findall(r"`((?:\w+/)?test_\w*\*?\.py)`", text))
    assert names
    assert not [name for name in names if not list((ROOT / "tests").rglob(name))]
