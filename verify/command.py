"""Checks as tasks of the job engine: what the commands of proofs, mutants and coverage share."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from rich.console import Console

from ..util.jobs import Backend, results_of, run
from ..util.keys import fingerprint, task_key
from ..util.progress import display
from ..util.store import Outcome


class _Named(Protocol):
    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=_Named)


@dataclass(frozen=True)
class Check(ABC):
    """A task whose result depends on its `parts` and on the code of `sources` alone."""

    kind: ClassVar[str]
    """First part of its key."""
    sources: ClassVar[tuple[str, ...]]
    """Packages that its result depends on."""

    @property
    @abstractmethod
    def parts(self) -> Sequence[Any]:
        """Values that decide the result."""

    @property
    @abstractmethod
    def label(self) -> str: ...

    @property
    @abstractmethod
    def weight(self) -> float: ...

    @abstractmethod
    def result(self) -> Any:
        """Do the work; the result has plain JSON types."""

    @property
    def key(self) -> str:
        return task_key(self.kind, self.parts, fingerprint(self.sources))

    def run(self) -> Any:
        return self.result()


@dataclass
class Session:
    """Backend of checks, and the directory whose `results` keep what they have shown.

    fresh: forget kept results before the first task.
    """

    directory: Path
    backend: Backend
    fresh: bool = False
    seen: list[Outcome] = field(default_factory=list)
    """All outcomes so far."""

    def outcomes(self, tasks: Sequence[Check], doing: str) -> list[Outcome]:
        """Outcomes of `tasks` in their order; progress goes to standard error."""
        store = results_of(self.directory, self.backend, self.fresh)
        self.fresh = self.fresh and self.backend.only_lists
        with display(Console(stderr=True, highlight=False), doing) as observer:
            outcomes = run(tasks, store, self.backend, observer)
        ordered = [outcomes[task.key] for task in tasks]
        self.seen += ordered
        return ordered


def chosen(things: Iterable[T], only: str, what: str) -> list[T]:
    """The thing named `only`, or all with it in their names; ValueError for none."""
    things = list(things)
    named = [thing for thing in things if thing.name == only]
    named = named or [thing for thing in things if only in thing.name]
    if not named:
        raise ValueError(f"only must be part of a {what}'s name (see --list), not {only!r}")
    return named


def limit_above_0(limit: float) -> None:
    """ValueError unless `limit`, in seconds, is positive."""
    if not limit > 0:
        raise ValueError(f"limit must be above 0, not {limit:g}")
