"""Ends of processes: programs end with their caller, and SIGTERM ends it as Ctrl-C does."""

import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_PIPES = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
_FAULTS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE)
_SIGNS = (*map(os.strerror, _FAULTS), "signal 9", "Killed")
GUARD = str(Path(__file__).with_name("guard.py"))


@contextmanager
def guarded(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen]:
    """A program that ends, with all that it has started, at the end of the block or with this
    process, were it by kill -9. options: of `subprocess.Popen`.

    A death by signal n is the status 128 + n, and standard input is empty.
    """
    with subprocess.Popen(
        [sys.executable, "-IS", GUARD, *command],
        stdin=subprocess.PIPE,  # closes with this process
        start_new_session=True,
        **options,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def run(
    command: Sequence[str], *, timeout: float | None = None, **options: Any
) -> subprocess.CompletedProcess:
    """`subprocess.run` of a `guarded` program: output is captured unless `options` say where to.

    subprocess.TimeoutExpired after `timeout` seconds.
    """
    with guarded(command, **{**_PIPES, **options}) as process:
        assert process.stdin is not None
        stdin, process.stdin = process.stdin, None  # `communicate` would close it
        try:
            out, err = process.communicate(timeout=timeout)
        finally:
            stdin.close()
    status = process.returncode
    return subprocess.CompletedProcess(command, 128 - status if status > 128 else status, out, err)


def blames_machine(text: str) -> bool:
    """True for an output that tells of a full or read-only disk, too many open files, or a program
    that was killed: what ran says nothing of what it ran on."""
    return any(sign in text for sign in _SIGNS)


@contextmanager
def terminate_as_interrupt() -> Iterator[None]:
    """SIGTERM raises KeyboardInterrupt: it ends what runs in the same way."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():  # which alone takes signals
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
