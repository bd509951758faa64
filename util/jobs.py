"""The job engine: tasks run through a standard executor, and each result is kept as it comes."""

import os
import shutil
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeVar

from ..model.errors import one_line
from .store import Outcome, Store


class Task(Protocol):
    """A piece of work that can be sent to another process or machine."""

    @property
    def key(self) -> str:
        """A name that tasks share when their results are equal, and only then."""
        ...

    @property
    def label(self) -> str:
        """A few words for a display."""
        ...

    @property
    def weight(self) -> float:
        """Rough guess of the seconds that the task takes."""
        ...

    def run(self) -> Any:
        """Do the work; the result has plain JSON types."""
        ...


T = TypeVar("T", bound=Task)


class Observer(Protocol):
    """A display of a run."""

    def begin(self, tasks: Sequence[Task], kept: int) -> None:
        """Tell the tasks that will run, and how many others have results already."""
        ...

    def start(self, task: Task) -> None:
        """Tell that a task was handed to the executor."""
        ...

    def end(self, task: Task, outcome: Outcome) -> None:
        """Tell that a task has ended and its outcome is kept."""
        ...


@dataclass(frozen=True)
class Backend:
    """A place for tasks to run. `open(n)` gives an executor of up to `n` tasks at a time."""

    open: Callable[[int], AbstractContextManager[Executor]]
    width: int
    """Tasks that are handed over at a time."""
    is_remote: bool = False
    """True when workers may not see the files of this machine."""
    only_lists: bool = False
    """True for a dry run, which raises `DryRun`."""


class DryRun(Exception):  # noqa: N818
    """Tasks that would run, in place of running them; `then` names what depends on them."""

    def __init__(self, tasks: Sequence[Task], kept: int, width: int, then: str = "") -> None:
        super().__init__("dry run")
        self.tasks, self.kept, self.width, self.then = tasks, kept, width, then


def execute(task: Task, key: str | None = None) -> Outcome:
    """Run one task; whatever it raises becomes an outcome in one line.

    key: the task's key at the start of the run. An outcome with a value belongs to this key: a task
    whose key differs here, or after the work, fails.
    """
    begun, before = time.time(), key
    try:
        before = task.key
        if key not in (None, before):
            raise ValueError("code, tools or files differ from those at the start of the run")
        value = task.run()
        if task.key != before:
            raise ValueError("inputs changed during the run")
    except Exception as error:
        if os.environ.get("MXDOT_TRACEBACK"):  # for a report of a defect
            raise
        return _outcome(task, key or before or "", begun, error=reason(error))
    return _outcome(task, before, begun, value=value)


def reason(error: Exception) -> str:
    """The error in one line."""
    name = type(error).__name__
    if isinstance(error, ValueError | TypeError | OSError):
        return _line(str(error) or name)
    return _line(f"{name}: {error}")


def _outcome(
    task: Task, key: str, begun: float, value: Any = None, error: str | None = None
) -> Outcome:
    now = time.time()
    return Outcome(key, task.label, value, error, round(now - begun, 3), round(now, 3))


def _line(text: str) -> str:
    """The first line with something in it, shortened."""
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["unknown error"]
    line = one_line(lines[0])
    return line if len(line) <= 300 else f"{line[:297]}..."


def longest_first(tasks: Iterable[T]) -> list[T]:
    """`tasks` by weight: short ones fill the gaps, and estimates err on the safe side."""
    return sorted(tasks, key=lambda task: -task.weight)


def run(
    tasks: Iterable[Task],
    store: Store,
    backend: Backend,
    observer: Observer,
    order: Callable[[Iterable[Task]], list[Task]] = longest_first,
    then: str = "",
) -> dict[str, Outcome]:
    """The outcome of every task by key: kept ones from the store, the others run now, in `order`.

    A failed outcome is kept for the record and tried again by the next run. However this is left
    (KeyboardInterrupt, an error, kill -9), everything that the observer saw end is in the store.
    Raises DryRun for a backend that only lists, unless all is kept and other tasks follow, which
    `then` names.
    """
    return _run({task.key: task for task in tasks}, store, backend, observer, order, then)


def _run(
    tasks: Mapping[str, Task],
    store: Store,
    backend: Backend,
    observer: Observer,
    order: Callable[[Iterable[Task]], list[Task]],
    then: str,
) -> dict[str, Outcome]:
    """`run` with tasks by key."""
    kept = {key: outcome for key in tasks if (outcome := store.get(key)) and outcome.ok}
    keys = {id(task): key for key, task in tasks.items() if key not in kept}
    ordered = order([task for key, task in tasks.items() if key not in kept])
    if backend.only_lists and (ordered or not then):
        raise DryRun(ordered, len(kept), backend.width, then)
    observer.begin(ordered, len(kept))
    outcomes = dict(kept)
    with closing(results(ordered, backend, observer.start, lambda t: keys[id(t)])) as ended:
        for task, outcome in ended:
            store.put(outcome)
            outcomes[outcome.key] = outcome
            observer.end(task, outcome)
    return outcomes


def results_of(directory: Path, backend: Backend, fresh: bool) -> Store:
    """The results that a command keeps in `directory`, forgotten when it begins anew.

    A dry run that would begin anew forgets nothing, and finds nothing.
    """
    store = Store(directory / "results")
    if fresh and backend.only_lists:
        return Store(directory / "none")
    if fresh:
        shutil.rmtree(store.directory, ignore_errors=True)
    return store


def run_rows(
    needs: Sequence[Sequence[Task | None]],
    directory: Path,
    backend: Backend,
    observer: Observer,
    order: Callable[[Task], str] = lambda task: "",
    then: str = "",
) -> list[list[Outcome | None]]:
    """The outcomes of the tasks that each row needs, in their places; equal tasks run once.

    They are kept in `directory / "results"`. order: tasks of equal weight run in its order; then:
    as for `run`.
    """
    keyed = [[(task.key, task) if task is not None else None for task in row] for row in needs]
    tasks = dict(pair for row in keyed for pair in row if pair is not None)
    ordered = dict(sorted(tasks.items(), key=lambda pair: order(pair[1])))
    store = Store(directory / "results")
    outcomes = _run(ordered, store, backend, observer, longest_first, then)
    return [[outcomes[pair[0]] if pair is not None else None for pair in row] for row in keyed]


def results(
    tasks: Iterable[T],
    backend: Backend,
    start: Callable[[T], None] = lambda task: None,
    key: Callable[[T], str] = lambda task: task.key,
) -> Generator[tuple[T, Outcome], None, None]:
    """Tasks and their outcomes in the order in which they end. key: of a task, for `execute`.

    A task is taken from `tasks` when there is a worker for it, after the outcomes before it were
    used: `tasks` may be endless, and may depend on outcomes. Close the iterator to end all workers.
    """
    waiting = iter(tasks)
    running: dict[Future[Outcome], tuple[T, str]] = {}
    with backend.open(backend.width) as executor:
        while True:
            for task in islice(waiting, backend.width - len(running)):
                known = key(task)
                running[executor.submit(execute, task, known)] = task, known
                start(task)
            if not running:
                return
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            ended: list[tuple[T, Outcome]] = []
            while done:
                future = done.pop()
                task, known = running.pop(future)
                error = future.exception()
                if error is None:
                    ended.append((task, future.result()))
                else:  # the worker died; on a cluster, again and again
                    died = _outcome(task, known, time.time(), error=_line(f"{error}"))
                    ended.append((task, died))
                del future  # Dask makes a result again that is held here, where its worker dies
            yield from ended
