"""Runs a worker in several processes; each of its ranks says at the end that all is well."""

import subprocess
import sys
from pathlib import Path


def run_ranks(worker: str, backend: str, ranks: int) -> None:
    """Fails with the output of all ranks unless `worker`, a file of this folder, ends well."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    path = Path(__file__).parent / worker
    command = [*launcher, "--nproc-per-node", str(ranks), str(path), backend]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    for rank in range(ranks):
        assert f"rank {rank} of {ranks}: all is well" in done.stdout
