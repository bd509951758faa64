"""Examples of the documentation, and what they print.

    python tests/lib/doc_examples.py docs/choose.md    write what its examples print into a page

A block of Python or of commands is an example; a block of text after it holds its output. `...` in
an output stands for anything.
"""

import contextlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
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
SYNTHESES = re.compile(r"^mxdot (compare|synth|array)\b|SIM=|NETLIST=", re.M)
"""Commands that need the extra `compare`."""
RUN = (
    "README.md", "index.md", "choose.md", "weights.md", "model.md", "simulate.md", "vectors.md",
    "dot-unit.md", "matrix-unit.md", "matmul.md", "quantizer.md", "architecture.md", "probe.md",
    "export.md", "checkpoints.md",
)  # fmt: skip
"""Pages whose commands are run, and whose examples show all that they print."""
ELSEWHERE = {
    r"^make |^pip |^git |^\. ": "sets up an environment, or is a target of the Makefile",
    r"verilator ": "test_verilog_lint.py and test_matmul_docs.py",
    r"^iverilog ": "test_vectors_verilog.py",
    r"^mxdot sim soak": "hours; test_soak.py has soaks of seconds",
    r"^mxdot run-layer$": "needs the extra `real`",
    r"^mxdot probe --unit cuda|^python -m mxdot.gpu": "needs a GPU; test_silicon.py has one",
    r"--shape 1024": "test_matmul_bulk.py, with FULL=1",
    r"--accumulator nearest:": "tests/project/test_added.py",
    r"^mxdot probe --unit cuda": "needs a GPU",
    r"^mxdot array$": "many minutes; test_arrays.py has small arrays",
}
"""Commands that the tests of pages do not run, by patterns, and why."""
FILE = re.compile(r"```python\n# (\w+\.py)\n(.*?)```", re.S)
"""A block that is a file of the reader's, which its first line names."""
_BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```\n(?:\n```(?:text)?\n(.*?)^```\n)?", re.M | re.S)


@dataclass(frozen=True)
class Example:
    """A block of a page."""

    language: str
    code: str
    output: str | None
    place: slice
    """Output in the text of the page."""

    @property
    def part(self) -> str:
        """The part of the package that it needs; `model` where it names none."""
        if self.language == "sh":
            return "compare" if SYNTHESES.search(self.code) else "model"
        for part, rooms in PARTS.items():
            if any(f"mxdot.{room}" in self.code for room in rooms):
                return part
        return "model"

    @property
    def is_run(self) -> bool:
        """Whether the tests of pages run it."""
        return self.language == "python" or not re.search("|".join(ELSEWHERE), self.code, re.M)

    def check(self, printed: str) -> None:
        """AssertionError where `printed` is not the output that the page shows."""
        if self.output is not None:
            assert re.fullmatch(pattern(self.output), tidy(printed)), (
                f"{self.code}prints\n{printed}\nand not\n{self.output}"
            )


def tidy(printed: str) -> str:
    """Output without spaces at the ends of lines."""
    return re.sub(r" +$", "", printed, flags=re.M)


def pattern(output: str) -> str:
    """Regular expression of an output in which `...` stands for anything."""
    lines = [
        "(?:.*\n)*?" if line == "...\n" else re.escape(line).replace(r"\.\.\.", ".*")
        for line in output.splitlines(keepends=True)
    ]
    return "".join(lines)


def files(page: str) -> dict[str, str]:
    """Files of the reader's on a page, by their names."""
    return dict(FILE.findall(PAGES[page]))


def blocks(text: str) -> list[Example]:
    """The examples of a page, without its files."""
    return [
        Example(match[1], match[2], match[3], slice(*match.span(3)))
        for match in _BLOCK.finditer(text)
        if not re.match(r"# \w+\.py\n", match[2])
    ]


def examples(part: str, language: str = "python") -> dict[str, list[Example]]:
    """The examples of a part, by the names of their pages."""
    pages = {
        name: [e for e in blocks(text) if (e.part, e.language) == (part, language)]
        for name, text in PAGES.items()
    }
    return {name: chosen for name, chosen in pages.items() if chosen}


def run(chosen: list[Example]) -> None:
    """Run and check a page's Python, each example with the names of those before."""
    names: dict[str, object] = {}
    for example in chosen:
        example.check(run_python(example, names))


def run_python(example: Example, names: dict[str, object]) -> str:
    """Run an example among `names`; what it prints."""
    with contextlib.redirect_stdout(io.StringIO()) as output:
        exec(compile(example.code, "example", "exec"), names)
    return output.getvalue()


def tree(page: str) -> Path:
    """A place where a reader of the page runs commands, with the files that pages name.

    Simulations are kept between runs, so that unchanged ones are not built again.
    """
    directory = ROOT / "build" / "pages" / page.removesuffix(".md")
    build = directory / "build"
    build.mkdir(parents=True, exist_ok=True)
    for path in (*directory.iterdir(), *build.iterdir()):
        if path.is_symlink() or path.is_file():
            path.unlink()
    (ROOT / "build" / "verilator-runtime").mkdir(exist_ok=True)
    for name in ("examples", "tests", "build/verilator-runtime"):
        (directory / name).symlink_to(ROOT / name)
    for name, code in files(page).items() if page in PAGES else ():
        (directory / name).write_text(code)
    return directory


def check_commands(page: str, part: str) -> None:
    """Run and check the commands of a page that belong to a part."""
    directory = tree(page)
    for example in examples(part, "sh")[page]:
        if example.is_run:
            example.check(run_commands(example, directory))


def run_commands(example: Example, directory: Path) -> str:
    """Run commands in `directory`; what they print on standard output."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    settings = {"PATH": path, "COLUMNS": "100", "NO_COLOR": "1"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", example.code], cwd=directory, env=os.environ | settings,
        capture_output=True, stdin=subprocess.DEVNULL, text=True, check=False, timeout=800,
    )  # fmt: skip
    assert done.returncode == 0, f"{example.code}\n{done.stdout}{done.stderr}"
    return done.stdout


def rewritten(text: str, printed: Mapping[str, str]) -> str:
    """The text of a page with what its examples print, by their code."""
    for example in reversed(blocks(text)):
        if example.output is not None and example.code in printed:
            output = tidy(printed[example.code])
            if not re.fullmatch(pattern(example.output), output):
                text = text[: example.place.start] + output + text[example.place.stop :]
    return text


def main() -> None:
    """Rewrite the pages of the command line, without examples of PyTorch."""
    for path in map(Path, sys.argv[1:]):
        text = path.read_text(encoding="utf-8")
        directory = tree(path.name)
        names: dict[str, object] = {}
        printed = {}
        for example in blocks(text):
            if example.language == "python" and example.part != "gpu":
                printed[example.code] = run_python(example, names)
            elif example.language == "sh" and example.is_run:
                printed[example.code] = run_commands(example, directory)
        path.write_text(rewritten(text, printed), "utf-8")


if __name__ == "__main__":
    main()
