"""Runs of tests: tasks at once in this process, where monkeypatches reach them; shared builds."""

from collections.abc import Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from pathlib import Path

from mxdot.util.jobs import Backend


class Here(Executor):
    def submit(self, fn, /, *args, **kwargs):
        future: Future = Future()
        future.set_result(fn(*args, **kwargs))
        return future


@contextmanager
def _here(_: int) -> Iterator[Executor]:
    yield Here()


HERE = Backend(_here, 1)


def share_builds(directory: Path, builds: Path) -> None:
    """Units of runs in `directory` are built in `builds`, where other tests find them."""
    builds.mkdir(parents=True, exist_ok=True)
    directory.mkdir(exist_ok=True)
    (directory / "builds").symlink_to(builds.resolve())
