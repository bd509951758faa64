"""Tensor and data parallelism over several processes: gloo on CPUs, NCCL on GPUs."""

import ast
from pathlib import Path

import pytest
import torch

from mxdot import gpu
from ranks import run_ranks

every_worker = pytest.mark.parametrize(
    "worker", ["parallel_worker.py", "dtensor_worker.py", "fsdp_worker.py"]
)


@every_worker
@pytest.mark.slow_except(3)
def test_gloo_on_two_processes(worker):
    run_ranks(worker, "gloo", 2)


@every_worker
@pytest.mark.cuda
@pytest.mark.two_gpus
def test_nccl_on_every_gpu(worker):
    run_ranks(worker, "nccl", min(torch.cuda.device_count(), 8))


def test_tensors_are_shifted_by_functions():
    """DTensor ignores `x << n` and `x >> n`, in silence; a literal on the left is no tensor."""
    root = Path(gpu.__file__).parent
    shifts = []
    for path in (p for p in root.rglob("*.py") if p.parent != root / "kernels"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(
                node.op, ast.LShift | ast.RShift
            ):
                left = node.left if isinstance(node, ast.BinOp) else node.target
                number = left.operand if isinstance(left, ast.UnaryOp) else left
                if not isinstance(number, ast.Constant):
                    shifts.append(f"{path.name}:{node.lineno}: {ast.unparse(node)}")
    assert not shifts
