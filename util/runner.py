"""Runs tasks through a standard executor and keeps each result as it comes."""

import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ..model.errors import one_line
from .store import Outcome, Store


class Task(Protocol):
    """A piece of work that can be sent to another process or machine."""

    @property
    def key(self) -> str:
        """Equal for tasks of equal result, and only for those."""
        ...

    @property
    def label(self) -> str:
        """A few words for a display."""
        ...

    @property
    def weight(self) -> float:
        """A rough guess of the seconds that it takes."""
        ...

    def run(self) -> Any:
        """The result, of plain JSON types."""
        ...


class Observer(Protocol):
    """What a display is told."""

    def begin(self, tasks: Sequence[Task], kept: int) -> None:
        """The tasks that will run, and how many others have results already."""
        ...

    def start(self, task: Task) -> None:
        """A task was handed to the executor."""
        ...

    def end(self, task: Task, outcome: Outcome) -> None:
        """A task has ended and its outcome is kept."""
        ...


@dataclass(frozen=True)
class Backend:
    """Where tasks run: `open(n)` gives an executor of up to n at a time."""

    open: Callable[[int], AbstractContextManager[Executor]]
    width: int
    """Tasks that are handed over at a time."""


def execute(task: Task) -> Outcome:
    """Run one task; whatever it raises becomes an outcome in one line."""
    if os.environ.get("MXDOT_TRACEBACK"):  # for a report of a defect
        return _outcome(task, time.time(), value=task.run())
    begun = time.time()
    try:
        return _outcome(task, begun, value=task.run())
    except Exception as error:
        return _outcome(task, begun, error=reason(error))


def reason(error: Exception) -> str:
    """What went wrong, in one line."""
    name = type(error).__name__
    if isinstance(error, ValueError | TypeError | OSError):
        return _line(str(error) or name)
    return _line(f"{name}: {error}")


def _outcome(task: Task, begun: float, value: Any = None, error: str | None = None) -> Outcome:
    now = time.time()
    return Outcome(task.key, task.label, value, error, round(now - begun, 3), round(now, 3))


def _line(text: str) -> str:
    """The first line with something in it, shortened."""
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["unknown error"]
    line = one_line(lines[0])
    return line if len(line) <= 300 else f"{line[:297]}..."


def run(
    tasks: Iterable[Task], store: Store, backend: Backend, observer: Observer
) -> dict[str, Outcome]:
    """The outcome of every task by key: kept ones from the store, the others run now.

    A failed outcome is kept for the record and tried again by the next run. However this is left
    (KeyboardInterrupt, an error, kill -9), everything that the observer saw end is in the store.
    """
    outcomes: dict[str, Outcome] = {}
    todo: dict[str, Task] = {}
    for task in tasks:
        kept = store.get(task.key)
        if kept is not None and kept.ok:
            outcomes[task.key] = kept
        else:
            todo[task.key] = task
    # The longest first: the others then fill the gaps, and the estimate errs on the safe side.
    ordered = sorted(todo.values(), key=lambda task: -task.weight)
    observer.begin(ordered, len(outcomes))
    for task, outcome in _outcomes(ordered, backend, observer):
        store.put(outcome)
        outcomes[task.key] = outcome
        observer.end(task, outcome)
    return outcomes


def run_rows(
    needs: Sequence[Sequence[Task | None]],
    directory: Path,
    backend: Backend,
    observer: Observer,
    order: Callable[[Task], str] = lambda task: "",
) -> list[list[Outcome | None]]:
    """The outcomes of the tasks that each row needs, in their places; equal tasks run once.

    They are kept in `directory / "results"`. order: tasks of equal weight run in its order.
    """
    tasks = {task.key: task for some in needs for task in some if task is not None}
    ordered = sorted(tasks.values(), key=order)
    outcomes = run(ordered, Store(directory / "results"), backend, observer)
    return [[outcomes[task.key] if task is not None else None for task in some] for some in needs]


def _outcomes(
    tasks: Sequence[Task], backend: Backend, observer: Observer
) -> Iterator[tuple[Task, Outcome]]:
    """Outcomes as they come. A task whose process dies is tried once more, alone."""
    waiting = deque(tasks)
    while waiting:
        with backend.open(backend.width) as executor:
            suspects = yield from _drain(executor, waiting, backend.width, observer)
        for task in suspects:  # a dying process takes its neighbours along: which one was it?
            begun = time.time()
            with backend.open(1) as executor:
                died = yield from _drain(executor, deque([task]), 1, observer)
            if died:
                yield task, _outcome(task, begun, error="its process ended: killed, or no memory")


def _drain(
    executor: Executor, waiting: deque[Task], width: int, observer: Observer
) -> Generator[tuple[Task, Outcome], None, list[Task]]:
    """Run all that wait; the tasks that were under way when the executor broke, if it did."""
    running: dict[Future[Outcome], Task] = {}
    suspects: list[Task] = []
    while running or (waiting and not suspects):
        while waiting and len(running) < width and not suspects:
            task = waiting.popleft()
            try:
                running[executor.submit(execute, task)] = task
            except BrokenExecutor:
                waiting.appendleft(task)
                break
            observer.start(task)
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        ended: list[tuple[Task, Outcome]] = []
        while done:
            future = done.pop()
            task = running.pop(future)
            error = future.exception()
            if isinstance(error, BrokenExecutor):
                suspects.append(task)
            elif error is not None:  # Dask: its worker died again and again
                ended.append((task, _outcome(task, time.time(), error=_line(f"{error}"))))
            else:
                ended.append((task, future.result()))
            del future  # Dask makes a result again that is held here, where its worker dies
        yield from ended
    return suspects
