"""Make the published figures, pictures and tables of results in docs, or name those to be made.

    make figures                          those whose inputs have changed; goes on where it stopped
    make figures ARGS='--only clock'      some, also those that need a GPU, PyTorch or hours
    make figures ARGS=--list              their names, pages, times and commands
    make figures ARGS=--check             name those whose inputs have changed; 1 if there are any

`figure_rows.py` has a row for each. A row's command writes to build/figures/NAME. Its pictures are
copied to docs, its tables stand in a page between `<!-- figure: NAME -->` and `<!-- end -->`.
`docs/figures.toml` keeps version, date and digests of inputs and outputs.
"""

import argparse
import re
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tables
from figure_inputs import BUILD, Inputs, shortened
from figure_rows import FIGURES, Figure

from mxdot.util.files import write_file
from mxdot.util.jobs import Backend, Observer, Task, run
from mxdot.util.keys import task_key, version_of
from mxdot.util.progress import duration
from mxdot.util.store import Outcome, Store

DOCS = Path("docs")
RECORDS = DOCS / "figures.toml"
Record = dict[str, Any]
"""How a figure was made: version, date, inputs, quick digests of inputs, outputs."""


def load_records() -> dict[str, Record]:
    """How each figure was made, by its name."""
    try:
        return tomllib.loads(RECORDS.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}


def save_records(records: dict[str, Record], order: Sequence[str]) -> None:
    """Write the records of the figures that exist, in the order of the registry."""
    lines = ["# Written by `make figures`: how each figure of the documentation was made."]
    for name in order:
        if name not in records:
            continue
        record = records[name]
        lines += ["", f"[{name}]", f'version = "{record["version"]}"', f'date = "{record["date"]}"']
        for part in ("inputs", "quick", "outputs"):
            pairs = ", ".join(f'"{key}" = "{value}"' for key, value in record[part].items())
            lines.append(f"{part} = {{ {pairs} }}")
    write_file(RECORDS, "\n".join(lines) + "\n")


def changed(figure: Figure, record: Record | None) -> list[str]:
    """What of a figure is other than it was when it was made; empty for a current one."""
    if record is None:
        return ["never made by this command"]
    inputs, outputs = figure.inputs(), _outputs(figure)
    names = dict.fromkeys((*record["inputs"], *inputs))
    told = [name for name in names if _differs(inputs, name, record)]
    return told + [name for name in outputs if record["outputs"].get(name) != outputs[name]]


def _differs(inputs: Inputs, name: str, record: Record) -> bool:
    if name not in inputs or name not in record["inputs"]:
        return True
    quick = inputs[name].quick
    if quick is not None and quick() == record["quick"].get(name):
        return False
    return inputs[name].digest() != record["inputs"][name]


def _outputs(figure: Figure) -> dict[str, str]:
    """Digests of what stands in docs; empty text for what is missing."""
    found = {}
    for name in figure.pictures:
        path = DOCS / name
        found[name] = shortened(path.read_text(encoding="utf-8")) if path.is_file() else ""
    text = (DOCS / figure.page).read_text(encoding="utf-8") if figure.tables else ""
    for name in figure.tables:
        block = block_of(name).search(text)
        found[name] = shortened(block[1].strip()) if block else ""
    return found


def block_of(name: str) -> re.Pattern[str]:
    """The place of a table in a page; group 1 is the table."""
    return re.compile(rf"<!-- figure: {re.escape(name)} -->\n(.*?)<!-- end -->", re.S)


@dataclass(frozen=True)
class FigureTask:
    """One figure made by its command; the value is true."""

    figure: Figure
    digests: dict[str, str]

    @property
    def key(self) -> str:
        return task_key("figure", self.figure.name, self.figure.command, self.digests)

    @property
    def label(self) -> str:
        return self.figure.name

    @property
    def weight(self) -> float:
        return self.figure.seconds

    @property
    def mark(self) -> Path:
        """A file with the key of the task that wrote the folder."""
        return self.figure.out / "key"

    @property
    def is_there(self) -> bool:
        """Whether the folder has what this task writes."""
        return self.mark.is_file() and self.mark.read_text(encoding="utf-8") == self.key

    def run(self) -> bool:
        self.figure.out.mkdir(parents=True, exist_ok=True)
        self.mark.unlink(missing_ok=True)
        words = shlex.split(self.figure.command.format(out=self.figure.out))
        program = Path(sys.executable).with_name(words[0])
        command = [str(program) if program.exists() else words[0], *words[1:]]
        with (self.figure.out / "log").open("w", encoding="utf-8") as log:
            done = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False)
        if done.returncode:
            raise RuntimeError(
                f"{shlex.join(words)}: status {done.returncode}, {log.name} says why"
            )
        write_file(self.mark, self.key)
        return True


def place(figure: Figure, digests: dict[str, str], now: float) -> Record:
    """Put what a command made into docs; its record."""
    day = time.strftime("%Y-%m-%d", time.gmtime(now))
    version = version_of("mxdot")
    stamp = f"mxdot {version}, {day}, inputs {shortened(*digests.values())}"
    for name, made in figure.pictures.items():
        source = figure.out / made
        if made.endswith(".svg"):
            text = source.read_text(encoding="utf-8").rstrip()
            write_file(DOCS / name, f"{text}\n<!-- {stamp} -->\n")
        else:
            shutil.copyfile(source, DOCS / name)
    if any(name.endswith(".csv") for name in figure.pictures):
        tables.main()  # which has tables of such files
    page = DOCS / figure.page
    for name, table in figure.tables.items():
        text = page.read_text(encoding="utf-8")
        if not block_of(name).search(text):
            raise ValueError(f"{page} must have a line <!-- figure: {name} -->")
        body = (
            f"<!-- figure: {name} -->\n{table(figure.out).strip()}\n<!-- {stamp} -->\n<!-- end -->"
        )
        write_file(page, block_of(name).sub(lambda match, body=body: body, text))
    quick = {name: part.quick() for name, part in figure.inputs().items() if part.quick}
    outputs = _outputs(figure)
    return {
        "version": version, "date": day, "inputs": digests, "quick": quick, "outputs": outputs,
    }  # fmt: skip


class Placing(Observer):
    """Shows each figure's beginning and end, and places what it made at its end."""

    def __init__(self, registry: Sequence[Figure], digests: dict[str, dict[str, str]]) -> None:
        self.registry, self.digests = registry, digests

    def begin(self, tasks: Sequence[Task], kept: int) -> None:
        pass

    def start(self, task: Task) -> None:
        print(f"{task.label}: about {duration(task.weight)}", flush=True)

    def end(self, task: Task, outcome: Outcome) -> None:
        print(f"{task.label}: {outcome.error or 'made'}", flush=True)
        if outcome.ok:
            self._place(next(f for f in self.registry if f.name == task.label), outcome.finished)

    def _place(self, figure: Figure, finished: float) -> None:
        records = load_records()
        records[figure.name] = place(figure, self.digests[figure.name], finished)
        save_records(records, [figure.name for figure in self.registry])


def make(registry: Sequence[Figure], chosen: Sequence[Figure]) -> int:
    """Make figures; 1 when a command has failed."""
    digests = {f.name: {n: i.digest() for n, i in f.inputs().items()} for f in chosen}
    tasks = [FigureTask(figure, digests[figure.name]) for figure in chosen]
    store, placing = Store(BUILD / "results"), Placing(registry, digests)
    for task in tasks:
        kept = store.get(task.key)
        if kept is not None and kept.ok and task.is_there:  # by a run that was interrupted
            placing.end(task, kept)
        else:
            store.path(task.key).unlink(missing_ok=True)
    backend = Backend(lambda width: ThreadPoolExecutor(width), 1)  # commands use all cores
    outcomes = run(tasks, store, backend, placing)
    return int(not all(outcome.ok for outcome in outcomes.values()))


def check(registry: Sequence[Figure]) -> int:
    """Name figures that are not current; 1 when there are any."""
    records, stale = load_records(), 0
    for figure in registry:
        told = changed(figure, records.get(figure.name))
        if told:
            stale += 1
            needs = f" (needs {figure.needs})" if figure.needs else ""
            print(f"{figure.name} in docs/{figure.page}{needs}: {', '.join(told)}", flush=True)
    if stale:
        print(f"figures: {stale} of {len(registry)} are not current: make figures", file=sys.stderr)
    return int(bool(stale))


def show(registry: Iterable[Figure]) -> None:
    """Print a line or two for each figure."""
    for figure in registry:
        needs = f", needs {figure.needs}" if figure.needs else ""
        print(f"{figure.name:22} docs/{figure.page}, about {duration(figure.seconds)}{needs}")
        print(f"{'':22} {figure.command.format(out=figure.out)}")


def main(arguments: Sequence[str] | None = None, registry: Sequence[Figure] = FIGURES) -> int:
    """The command line."""
    parser = argparse.ArgumentParser("figures", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", metavar="TEXT", help="figures with it in their names")
    parser.add_argument("--list", action="store_true", help="print them and exit")
    parser.add_argument("--check", action="store_true", help="name those that are not current")
    parser.add_argument("--fresh", action="store_true", help="make current ones again, too")
    options = parser.parse_args(arguments)
    chosen = [f for f in registry if options.only == f.name]
    chosen = chosen or [f for f in registry if options.only in f.name]
    if not chosen:
        parser.error(f"only must be part of a figure's name (see --list), not {options.only!r}")
    if options.list:
        show(chosen)
        return 0
    if options.check:
        return check(chosen)
    chosen = [f for f in chosen if not f.needs or f.name == options.only]
    if not options.fresh:
        records = load_records()
        chosen = [f for f in chosen if changed(f, records.get(f.name))]
    try:
        return make(registry, chosen)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
