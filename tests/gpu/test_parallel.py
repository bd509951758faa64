"""Tensor and data parallelism over several processes: gloo on CPUs, NCCL on GPUs."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

WORKER = Path(__file__).parent / "parallel_worker.py"


def run_ranks(backend: str, ranks: int) -> None:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command = [*launcher, "--nproc-per-node", str(ranks), str(WORKER), backend]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    for rank in range(ranks):
        assert f"rank {rank} of {ranks}: parallel layers agree" in done.stdout


def test_gloo_on_two_processes():
    run_ranks("gloo", 2)


@pytest.mark.cuda
@pytest.mark.two_gpus
def test_nccl_on_every_gpu():
    run_ranks("nccl", min(torch.cuda.device_count(), 8))
