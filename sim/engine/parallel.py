"""Jobs side by side, each in a process of its own, with progress and a clean way out."""

import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from .job import UnitJob
from .unit import UnitResult, run_unit

_PRELOAD = ["mxdot.sim.engine.unit", "mxdot.hw.verilog"]
"""What every job imports: once, in a process of which those of the jobs are copies."""

Report = Callable[[str, str], None]
"""Called with a job's name and the phase it has entered."""


def run_jobs(jobs: Iterable[UnitJob], workers: int, report: Report) -> Iterator[UnitResult]:
    """Results in the order in which the jobs end, at most `workers` at a time.

    A job is taken from `jobs` when there is a worker for it, after the results before it were used.

    Jobs are copies of a process that is started once, by the first call of this process: what is in
    `os.environ` then is their environment, and what is put there later does not reach them.

    However the caller leaves (KeyboardInterrupt, SIGTERM, SIGKILL, an error), no process stays
    behind.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOAD)
    waiting = iter(jobs)
    running: dict[Connection, tuple[UnitJob, BaseProcess]] = {}
    try:
        with terminate_as_interrupt():
            while True:
                for job in islice(waiting, workers - len(running)):
                    ours, theirs = context.Pipe(duplex=False)
                    process = context.Process(target=_work, args=(job.write(), theirs))
                    process.start()
                    theirs.close()
                    running[ours] = (job, process)
                if not running:
                    return
                for connection in wait(list(running)):
                    assert isinstance(connection, Connection)
                    job, process = running[connection]
                    result = _receive(connection, job, process, report)
                    if result is not None:
                        del running[connection]
                        connection.close()
                        process.join()
                        yield result
    finally:
        for _, process in running.values():
            _kill(process)


def _receive(
    connection: Connection,
    job: UnitJob,
    process: BaseProcess,
    report: Report,
) -> UnitResult | None:
    """The job's result, once it is there; a process that died without one has failed."""
    try:
        message = connection.recv()
    except EOFError:
        process.join()
        result = UnitResult(job.name, str(job.config), seed=job.seed)
        result.errors.append(f"the job's process ended with status {process.exitcode}")
        return result
    if isinstance(message, UnitResult):
        return message
    report(job.name, message)
    return None


def _work(job_file: Path, connection: Connection) -> None:
    job = UnitJob.load(job_file)
    # A session of its own: a Ctrl-C at the terminal reaches the parent alone, which then ends this
    # process and all of its compilers and simulators together.
    os.setsid()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        result = run_unit(job, connection.send)
    except Exception as error:
        result = UnitResult(job.name, str(job.config), seed=job.seed)
        result.errors.append(f"{type(error).__name__}: {error}")
        result.report = traceback.format_exc()
    connection.send(result)


def _end_with_parent() -> None:
    """A parent that was killed has ended nothing, and its next run takes the files away."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os.killpg(0, signal.SIGKILL)


def _kill(process: BaseProcess) -> None:
    if process.pid is not None and process.is_alive():
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:  # killed before it had its own session
            process.kill()
    process.join()


@contextmanager
def terminate_as_interrupt() -> Iterator[None]:
    """SIGTERM raises KeyboardInterrupt: it ends what runs in the same way."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
