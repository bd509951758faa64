"""A backend that runs tasks at once in this process, where monkeypatches reach them."""

from collections.abc import Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager

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
