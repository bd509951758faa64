"""Executors: processes of this machine, or an existing Dask cluster."""

import asyncio
import multiprocessing
import os
import signal
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from typing import Any

from ..model.errors import one_line
from .runner import Backend
from .scratch import scratch

DASK_DEPTH = 2
"""Tasks per thread of a cluster that are handed over at a time: one runs, one is there."""


def processes(workers: int | None = None) -> Backend:
    """Processes of this machine: one per core when None."""
    count = workers or len(os.sched_getaffinity(0))
    return Backend(_pool, count)


@contextmanager
def _pool(workers: int) -> Iterator[Executor]:
    """A process pool that leaves no process behind, whichever way it or this process ends."""
    spawn = multiprocessing.get_context("spawn")
    theirs, ours = spawn.Pipe(duplex=False)
    # Workers are killed and leave their temporary files behind: these are in one place.
    with scratch("workers") as directory:
        executor = ProcessPoolExecutor(workers, spawn, _follow, (theirs, str(directory)))
        try:
            yield executor
        finally:
            ours.close()
            executor.shutdown(wait=True, cancel_futures=True)
            theirs.close()


def _follow(lifeline: Connection, directory: str) -> None:
    """Make this worker and all that it starts end with the parent, temporary files in `directory`.

    The parent alone holds the other end of `lifeline`, which closes when the parent lets go of it
    or dies, were it by kill -9. In a session of its own the worker does not see Ctrl-C.
    """
    os.setsid()
    tempfile.tempdir = directory

    def end() -> None:
        wait([lifeline])
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=end, daemon=True).start()


def dask(address: str, patience: float = 10.0) -> Backend:
    """The workers of the Dask scheduler at `address` (`tcp://HOST:PORT` or `HOST:PORT`).

    Workers need mxdot installed and see the same files. A task whose worker dies runs on another.
    ValueError when nothing answers there within `patience` seconds.
    """
    from distributed import Client

    @contextmanager
    def cluster(_: int) -> Iterator[Executor]:
        client = _connect(Client, address, patience)
        try:
            with client.get_executor(pure=False) as executor:
                try:
                    yield executor
                except BaseException:
                    executor.shutdown(wait=False)  # cancels what is under way
                    raise
        finally:
            client.close()

    client = _connect(Client, address, patience)
    try:
        threads = sum(client.nthreads().values())
    finally:
        client.close()
    if not threads:
        raise ValueError(f"scheduler {address} has no workers: start some (dask worker {address})")
    return Backend(cluster, max(threads * DASK_DEPTH, 1))


def _connect(client: Any, address: str, patience: float) -> Any:
    """A client of a scheduler that has said that it is one.

    A client that fails to connect waits again when it is closed, and prints what went wrong then.
    """
    try:
        # In a thread, for the caller may be in an event loop of its own.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, _ask(address, patience)).result()
        return client(address, timeout=patience, set_as_default=False)
    except Exception as error:  # whatever the bytes of a stranger lead to
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise ValueError(f"scheduler {address} does not answer: {one_line(reason)}") from None


async def _ask(address: str, patience: float) -> None:
    """Ask who is there; an error, TimeoutError in time, unless it is a scheduler."""
    from distributed.comm.core import connect
    from distributed.security import Security

    secrets = Security().get_connection_args("client")
    try:
        async with asyncio.timeout(patience):  # the handshake of `connect` has no end by itself
            comm = await connect(address, patience, **secrets)
            try:
                await comm.write({"op": "identity", "reply": True})
                answer = await comm.read()
            finally:
                comm.abort()
    except TimeoutError:
        raise TimeoutError(f"no answer of a scheduler within {patience:g} s") from None
    except MemoryError:  # the first bytes are a length
        raise ValueError("it speaks no Dask") from None
    if not isinstance(answer, dict) or answer.get("type") != "Scheduler":
        raise ValueError("it is no scheduler")
