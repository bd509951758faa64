"""A Dask cluster on loopback: a scheduler and two workers, each a process of its own."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

SCHEDULER = "--host 127.0.0.1 --port 0 --no-dashboard"
WORKER = "--host 127.0.0.1 --nthreads 1 --no-nanny --no-dashboard"


class Cluster:
    """A scheduler and two workers, each a process of its own."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.address_file = folder / "scheduler.json"
        where = ["--scheduler-file", self.address_file]
        self.scheduler = self._start("dask_scheduler", *SCHEDULER.split(), *where)
        self.workers = [
            self._start("dask_worker", *WORKER.split(), *where, "--local-directory", folder / name)
            for name in ("one", "two")
        ]

    def _start(self, program, *arguments):
        module = f"distributed.cli.{program}"
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        return subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", module, *map(str, arguments)],
            env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.folder,
        )  # fmt: skip

    def address(self) -> str:
        """The scheduler's address, once both workers are there."""
        from distributed import Client

        deadline = time.monotonic() + 60
        while not self.address_file.exists() or not self.address_file.read_text().endswith("}"):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        address = json.loads(self.address_file.read_text())["address"]
        with Client(address, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)
        return address

    def close(self) -> None:
        for process in [*self.workers, self.scheduler]:
            process.kill()
            process.wait()
