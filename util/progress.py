"""Display of a run: a bar with the remaining time on a terminal, a line per task elsewhere."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Column

from .jobs import DryRun, Observer, Task
from .store import Outcome

SILENCE = 10.0
"""Seconds without a line after which a line names what runs, without a terminal."""


class Remaining:
    """Estimate of the remaining time, from the weights of the tasks that are done."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.total = sum(task.weight for task in tasks)
        self.done = 0.0
        self.begun = time.monotonic()

    def end(self, task: Task) -> None:
        """Count `task` as done."""
        self.done += task.weight

    def text(self) -> str:
        """The remaining time in words; empty while nothing is known of it."""
        if not 0 < self.done < self.total:
            return ""
        elapsed = time.monotonic() - self.begun
        return f"about {duration(elapsed * (self.total - self.done) / self.done)} left"


def duration(seconds: float) -> str:
    """`40 s`, `3 min`, `1 h 20 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


@contextmanager
def display(console: Console, doing: str = "measuring") -> Iterator[Observer]:
    """An observer that shows what happens; `doing` is the work in a word."""
    if not console.is_terminal:
        lines = _Lines(console, doing)
        ended = threading.Event()
        threading.Thread(target=lines.remind, args=(ended,), daemon=True).start()
        try:
            yield lines
        finally:
            ended.set()
        return
    rest = Column(ratio=1, no_wrap=True, overflow="ellipsis")
    columns = (
        TextColumn(doing),
        BarColumn(bar_width=24, table_column=Column(min_width=24)),
        MofNCompleteColumn(table_column=Column(min_width=7)),
        TextColumn("{task.fields[left]}", table_column=Column(min_width=18)),
        TextColumn("{task.fields[running]}", style="dim", markup=False, table_column=rest),
    )
    with Progress(*columns, console=console, transient=True, expand=True) as progress:
        yield _Live(progress)


def show_plan(console: Console, plan: DryRun) -> None:
    """Print a line per task with its estimated time, the time of all, and what follows."""
    tasks, kept, width = plan.tasks, plan.kept, plan.width
    total = sum(task.weight for task in tasks)
    longest = max((task.weight for task in tasks), default=0.0)
    lines = [f"about {duration(task.weight):>12}  {task.label}" for task in tasks]
    done = f"{kept} of {kept + len(tasks)} done, " * bool(kept)
    about = duration(max(total / width, longest))
    lines.append(f"{done}{len(tasks)} to do, {width} at a time: about {about}")
    lines += [f"then {plan.then}"] * bool(plan.then)
    console.print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)


def _line(outcome: Outcome) -> str:
    if outcome.error is not None:
        return f"FAILED {outcome.label}: {outcome.error}"
    return f"done   {outcome.label}, {outcome.seconds:.1f} s"


def _kept(kept: int, todo: int) -> str | None:
    if not kept:
        return None
    return f"{kept} of {kept + todo} results are there already"


class _Lines:
    def __init__(self, console: Console, doing: str) -> None:
        self.console, self.doing = console, doing
        self.count = self.total = 0
        self.remaining = Remaining([])
        self.running: dict[int, str] = {}
        self.printed = time.monotonic()

    def begin(self, tasks: Sequence[Task], kept: int) -> None:
        self.count, self.total, self.remaining = 0, len(tasks), Remaining(tasks)
        self._print(_kept(kept, len(tasks)))
        if tasks:
            self._print(f"{self._place} {self.doing}")

    def start(self, task: Task) -> None:
        self.running[id(task)] = task.label

    def end(self, task: Task, outcome: Outcome) -> None:
        self.running.pop(id(task), None)
        self.count += 1
        self.remaining.end(task)
        left = self.remaining.text()
        self._print(f"{self._place} {_line(outcome)}{left and f'; {left}'}")

    def remind(self, ended: threading.Event) -> None:
        """Say what runs, as often as `SILENCE` passes without a line, until `ended`."""
        while not ended.wait(max(self.printed + SILENCE - time.monotonic(), 0.1)):
            labels = list(self.running.values())
            if labels and time.monotonic() >= self.printed + SILENCE:
                self._print(f"{self._place} still at {', '.join(labels[:4])}")

    @property
    def _place(self) -> str:
        return f"[{self.count:{len(str(self.total))}}/{self.total}]"

    def _print(self, text: str | None) -> None:
        if text is not None:
            self.printed = time.monotonic()
            self.console.print(text, markup=False, highlight=False, soft_wrap=True)
            self.console.file.flush()


class _Live:
    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.running: dict[int, str] = {}
        self.remaining = Remaining([])
        self.task = progress.add_task("", total=None, running="", left="")

    def begin(self, tasks: Sequence[Task], kept: int) -> None:
        self.remaining = Remaining(tasks)
        text = _kept(kept, len(tasks))
        if text is not None:
            self.progress.console.print(text, markup=False, highlight=False)
        self.progress.update(self.task, total=len(tasks))

    def start(self, task: Task) -> None:
        self.running[id(task)] = task.label
        self._update()

    def end(self, task: Task, outcome: Outcome) -> None:
        self.running.pop(id(task), None)
        self.remaining.end(task)
        if outcome.error is not None:
            self.progress.console.print(_line(outcome), markup=False, highlight=False)
        self.progress.advance(self.task)
        self._update()

    def _update(self) -> None:
        labels = "  ".join(list(self.running.values())[:4])
        self.progress.update(self.task, running=labels, left=self.remaining.text())
