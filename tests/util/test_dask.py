"""A real Dask cluster on loopback: two workers, one of which is killed in the middle."""

import contextlib
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from compare_fakes import Job
from dask_cluster import Cluster
from mxdot.compare.studies import dask
from mxdot.util.jobs import run
from mxdot.util.store import Store

pytestmark = pytest.mark.filterwarnings("default")  # those of distributed are not ours
JOBS = 24


class KillAfter:
    """An observer that kills a process when so many tasks have ended, and two have run some.

    Before, it waits until the scheduler has forgotten what has ended, and keeps that in `before`:
    a result whose worker dies while the scheduler still thinks it wanted is made again.
    """

    def __init__(self, count, process: Any = None, address="", log: Path | None = None):
        self.count, self.process, self.address, self.log = count, process, address, log
        self.started, self.ended, self.before = 0, [], []

    def begin(self, tasks, kept):
        pass

    def start(self, task):
        self.started += 1

    def end(self, task, outcome):
        self.ended.append(task.name)
        if self.log is None or self.before or len(self.ended) < self.count:
            return
        if len({line.split()[1] for line in self.log.read_text().splitlines()}) == 2:
            self.before = list(self.ended)
            self.wait()
            self.process.kill()

    def wait(self):
        from distributed import Client

        deadline = time.monotonic() + 30
        with Client(self.address, set_as_default=False) as client:
            while known_to(client) > self.started - len(self.ended):
                assert time.monotonic() < deadline
                time.sleep(0.01)


def known_to(client) -> int:
    """How many tasks the scheduler knows."""
    return client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))


@pytest.fixture
def cluster(tmp_path):
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.close()


@pytest.mark.slow
def test_a_killed_worker_loses_nothing_and_doubles_nothing(tmp_path, cluster):
    address = cluster.address()
    backend = dask(address)
    log, store = tmp_path / "log", Store(tmp_path / "results")
    jobs = [Job(f"n{i}", log, 0.1) for i in range(JOBS)]
    observer = KillAfter(6, cluster.workers[0], address, log)
    outcomes = run(jobs, store, backend, observer)

    assert cluster.workers[0].wait(timeout=10) != 0
    names = [job.name for job in jobs]
    assert sorted(observer.ended) == sorted(names)
    assert {key: outcome.value for key, outcome in outcomes.items()} == {
        job.key: {"name": job.name} for job in jobs
    }
    assert len(list(store.directory.glob("*.json"))) == JOBS
    runs = Counter(line.split()[0] for line in log.read_text().splitlines())
    workers = {line.split()[1] for line in log.read_text().splitlines()}
    assert len(workers) == 2
    # What had ended is not run again; only what the killed worker held is.
    assert len(observer.before) >= 6
    assert all(runs[name] == 1 for name in observer.before)
    assert sum(runs.values()) <= JOBS + 2 * 2


def test_failures_and_deadly_tasks_on_a_cluster(tmp_path, cluster):
    backend = dask(cluster.address())
    log = tmp_path / "log"
    jobs = [Job("bad", log, fault="raise"), Job("good", log)]
    outcomes = run(jobs, Store(tmp_path / "results"), backend, KillAfter(9))
    assert outcomes["job-bad"].error == "this point\\x1b[2J"
    assert outcomes["job-good"].ok


def test_a_scheduler_that_is_not_there_is_one_clear_line():
    with pytest.raises(ValueError, match=r"scheduler tcp://127.0.0.1:9 does not answer: ") as error:
        dask("tcp://127.0.0.1:9", patience=0.5)
    assert "\n" not in str(error.value)


def hold(connection):
    while connection.recv(1024):
        pass


def drip(connection):
    while True:
        connection.sendall(b"\1")
        time.sleep(1)


def says(data):
    return lambda connection: connection.sendall(data)


STRANGERS = {
    "silent": (hold, "no answer of a scheduler within 2 s"),
    "a byte now and then": (drip, "no answer of a scheduler within 2 s"),
    "HTTP": (says(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"), "it speaks no Dask"),
    "a huge frame": (says((2**62).to_bytes(8, "little") * 20), "it speaks no Dask"),
    "an empty frame": (says(bytes(8)), ""),
    "a frame that is none": (says((64).to_bytes(8, "little") + b"\xff" * 64), ""),
    "closed": (lambda connection: None, ""),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", STRANGERS)
def test_a_port_of_something_else_is_one_clear_line_in_time(name):
    """In a process of its own, for what a client that failed prints when it goes away."""
    behave, reason = STRANGERS[name]
    with socket.create_server(("127.0.0.1", 0)) as server:
        stranger = Stranger(server, behave)
        stranger.start()
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        done = asked(address)
    assert done.stdout.startswith(f"scheduler {address} does not answer: {reason}")
    assert done.stdout.count("\n") == 1
    assert (done.stderr, done.returncode) == ("", 0)


class Stranger(threading.Thread):
    """Something that listens on a port, and does the same to whoever comes."""

    def __init__(self, server, behave):
        super().__init__(daemon=True)
        self.server, self.behave = server, behave

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.server.accept()
                threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection, contextlib.suppress(OSError):
            self.behave(connection)


ASK = """
import sys, time
from distributed import Client
from mxdot.compare.studies import dask
start = time.monotonic()
try:
    dask(sys.argv[1], patience=2)
except ValueError as error:
    print(error)
assert time.monotonic() - start < 4.5
"""


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("file:///etc/passwd", "unknown address scheme 'file'"),
        ("tcp://[::1", "invalid address"),
        ("", "missing port number"),
        ("inproc://x", "not enough values"),
        ("tls://127.0.0.1:9", "TLS expects"),
    ],
)
def test_an_address_of_another_kind(address, reason):
    done = asked(address)
    assert done.stdout.startswith(f"scheduler {address} does not answer: {reason}")
    assert done.stdout.count("\n") == 1
    assert (done.stderr, done.returncode) == ("", 0)


def asked(address):
    """What a process prints that asks for the scheduler at an address, and no longer than so."""
    command = [sys.executable, "-W", "ignore", "-c", ASK, address]
    return subprocess.run(command, capture_output=True, text=True, timeout=50)


def test_a_worker_is_no_scheduler(cluster):
    from distributed import Client

    with Client(cluster.address(), set_as_default=False) as client:
        workers: Any = client.nthreads()
        worker = next(iter(workers))
    with pytest.raises(ValueError, match="does not answer: it is no scheduler"):
        dask(worker)


def test_an_address_that_is_none():
    with pytest.raises(ValueError, match="scheduler nonsense://x does not answer: "):
        dask("nonsense://x")
