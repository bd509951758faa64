"""Executors: processes of this machine, an existing Dask cluster, or Slurm."""

import asyncio
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from ..model.errors import one_line
from .jobs import Backend
from .runs import own_directory, scratch, temporary_files_in

DASK_DEPTH = 2
"""Tasks per thread of a cluster that are handed over at a time: one runs, one is there."""
SLURM_FOLDER = Path("build/slurm")
SLURM_JOBS = 100
"""Jobs in the queue at a time."""
SLURM_MINUTES = 240
"""Time limit of a job unless the options have `timeout_min`."""
SLURM_POLL = 0.5
"""Seconds between two looks for results."""
_SHARED = ("mem_gb", "timeout_min", "cpus_per_task", "gpus_per_node", "nodes", "name")
"""Options that submitit has for every cluster."""
GRACE = 5.0
"""Seconds in which a worker that lets go of its connection ends with a status of its own."""


class WorkerDiedError(RuntimeError):
    """The process of a task ended without a result."""


def processes(
    workers: int | None = None, preload: Sequence[str] = (), fresh: bool = False
) -> Backend:
    """Processes of this machine: one per core when `workers` is None.

    preload: modules that a parent of the workers imports once, so that workers start at once. Only
    the first call in this process may choose them. fresh: a new worker for each task.
    """
    count = workers or len(os.sched_getaffinity(0))
    return Backend(lambda limit: _pool(limit, preload, fresh), count)


@contextmanager
def _pool(workers: int, preload: Sequence[str], fresh: bool) -> Iterator[Executor]:
    """A process pool whose processes end with it, whichever way it or this process ends."""
    # Killed workers leave temporary files: one directory holds them all.
    with scratch("workers") as directory:
        executor = _Processes(workers, directory, preload, fresh)
        try:
            yield executor
        finally:
            executor.shutdown()


class _Processes(Executor):
    """Worker processes, each served by a thread: one that dies fails its own task alone."""

    def __init__(self, workers: int, directory: Path, preload: Sequence[str], fresh: bool) -> None:
        if preload:
            self.context = multiprocessing.get_context("forkserver")
            self.context.set_forkserver_preload(list(preload))
        else:
            self.context = multiprocessing.get_context("spawn")
        self.threads = ThreadPoolExecutor(workers)
        self.directory, self.fresh = str(directory), fresh
        self.lock = threading.Lock()
        self.workers: dict[Connection, BaseProcess] = {}
        self.idle: list[Connection] = []
        self.is_closed = False

    def submit(self, fn: Callable, /, *args: Any, **kwargs: Any) -> Future:
        """Run `fn` in a worker."""
        return self.threads.submit(self._run, fn, args, kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End all workers and what they have started."""
        with self.lock:
            self.is_closed = True
            for process in self.workers.values():
                _kill(process)
        self.threads.shutdown(wait=True, cancel_futures=True)
        for connection in self.workers:
            connection.close()

    def _run(self, *work: Any) -> Any:
        connection = self._take()
        try:
            connection.send(work)
            value, error = connection.recv()
        except (EOFError, OSError):
            status = self._end(connection, GRACE)
            raise WorkerDiedError(f"its process ended with status {status}") from None
        except BaseException:  # the work cannot be sent
            self._end(connection)
            raise
        if self.fresh:
            self._end(connection)
        else:
            self.idle.append(connection)
        if error is not None:
            raise error
        return value

    def _take(self) -> Connection:
        """An idle worker, or a new one."""
        with self.lock:
            if self.is_closed:
                raise WorkerDiedError("the run has ended")
            while self.idle:
                if self.workers[connection := self.idle.pop()].is_alive():
                    return connection
            ours, theirs = self.context.Pipe()
            work = theirs, self.directory, dict(os.environ)
            process = self.context.Process(target=_serve, args=work)
            _hold_interrupts()
            process.start()
            theirs.close()
            self.workers[ours] = process
            return ours

    def _end(self, connection: Connection, grace: float = 0.0) -> int | None:
        """End a worker and what it has started, after `grace` seconds; its exit status."""
        with self.lock:
            if self.is_closed:
                return None
            process = self.workers.pop(connection)
            connection.close()
            process.join(grace)
            _kill(process)
            return process.exitcode


def _hold_interrupts() -> None:
    """Block SIGINT in this thread and in the processes it starts: only the parent handles Ctrl-C.

    Otherwise they print tracebacks when it comes during their imports.
    """
    resource_tracker.ensure_running()  # first: its start unblocks SIGINT
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])


def _serve(connection: Connection, directory: str, environment: dict[str, str]) -> None:
    """Do the work that comes, with temporary files in `directory`.

    In a session of its own a worker does not see Ctrl-C: the parent alone does, and then ends the
    worker and all that it has started together.
    """
    os.setsid()
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)  # drops a Ctrl-C that came before setsid
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    signal.signal(signal.SIGINT, handler)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ.clear()
    os.environ.update(environment)
    with temporary_files_in(directory):
        while True:
            try:
                function, args, kwargs = connection.recv()
            except EOFError:
                return
            try:
                answer = function(*args, **kwargs), None
            except Exception as error:
                answer = None, error
            connection.send(answer)


def _end_with_parent() -> None:
    """End this worker and all that it has started when the parent dies, were it by kill -9."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os.killpg(0, signal.SIGKILL)


def _kill(process: BaseProcess) -> None:
    assert process.pid is not None
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:  # gone, or without a session yet
        process.kill()
    process.join()


def dask(address: str, patience: float = 10.0) -> Backend:
    """The workers of the Dask scheduler at `address` (`tcp://HOST:PORT` or `HOST:PORT`).

    Workers need the same mxdot installed. A task whose worker dies runs on another.
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
    return Backend(cluster, max(threads * DASK_DEPTH, 1), is_remote=True)


def slurm(options: str, jobs: int | None = None, cluster: str = "slurm") -> Backend:
    """Slurm jobs with `options` such as `partition=NAME,timeout_min=60`, one per task.

    Options are those of submitit's executor, without `slurm_`. Workers see this directory, where
    tasks and results pass through `build/slurm`, and need the same mxdot installed. jobs: in the
    queue at a time. cluster: of submitit, for tests. ValueError for options that cannot be read.
    """
    pairs = [item.partition("=") for item in options.split(",")]
    if not all(name and value for name, _, value in pairs):
        form = "partition=NAME[,KEY=VALUE...]"
        raise ValueError(f"slurm must be {form}, not {options!r}")
    import submitit

    values = {name: int(value) if value.isdecimal() else value for name, _, value in pairs}
    shared = {name: values.pop(name) for name in _SHARED if name in values}
    special = {f"slurm_{name}": value for name, value in values.items()}

    @contextmanager
    def queue(_: int) -> Iterator[Executor]:
        with own_directory(SLURM_FOLDER, kept=0) as folder:
            queue = submitit.AutoExecutor(folder.resolve(), cluster=cluster)
            try:
                queue.update_parameters(**{"timeout_min": SLURM_MINUTES, **shared, **special})
            except (NameError, TypeError) as error:
                reason = one_line(str(error).partition("\n")[0])
                raise ValueError(f"slurm must have options of submitit: {reason}") from None
            with _Queue(queue) as executor:
                yield executor

    return Backend(queue, jobs or SLURM_JOBS, is_remote=True)


class _Queue(Executor):
    """submitit's executor with standard futures; jobs that have not ended are cancelled at exit."""

    def __init__(self, queue: Any) -> None:
        self.queue = queue
        self.jobs: dict[Future, Any] = {}
        self.lock, self.ended = threading.Lock(), threading.Event()
        self.poller = threading.Thread(target=self._poll, daemon=True)
        self.poller.start()

    def submit(self, fn: Callable, /, *args: Any, **kwargs: Any) -> Future:
        """Put a job into the queue."""
        future: Future = Future()
        future.set_running_or_notify_cancel()
        job = self.queue.submit(fn, *args, **kwargs)
        with self.lock:
            self.jobs[future] = job
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Cancel jobs that have not ended."""
        self.ended.set()
        self.poller.join()
        for job in self.jobs.values():
            job.cancel()

    def _poll(self) -> None:
        while not self.ended.wait(SLURM_POLL):
            with self.lock:
                jobs = list(self.jobs.items())
            for future, job in jobs:
                if not job.done():
                    continue
                with self.lock:
                    del self.jobs[future]
                try:
                    future.set_result(job.result())
                except Exception as error:  # the job died
                    future.set_exception(error)


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
    """Check that a scheduler answers; TimeoutError after `patience` seconds, or another error."""
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
