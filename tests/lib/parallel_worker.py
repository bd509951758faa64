"""One rank of the checks of data parallelism, and what workers share; every rank compares itself
with one that works alone.

    torchrun --standalone --nproc-per-node 2 tests/lib/parallel_worker.py gloo

Any number of ranks that divides 8; `nccl` takes one GPU a rank. Prints "rank r of n: all is well"
in the end.
"""

import copy
import os
import sys

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from mxdot.nn import Recipe, convert

WIDTH, HIDDEN, TOKENS = 64, 256, 256
RECIPES = (Recipe(), Recipe("e2m1", "e3m2", "e5m2", scale_rule="floor"))


def main(backend: str) -> None:
    device = join(backend)
    for recipe in RECIPES:
        check_data_parallel(recipe, device)
    leave()


def join(backend: str) -> str:
    """The device of this rank of a new process group."""
    # Checkpoints that are saved in the background gather on the CPU.
    dist.init_process_group("cpu:gloo,cuda:nccl" if backend == "nccl" else backend)
    if backend != "nccl":
        return "cpu"
    device = f"cuda:{os.environ['LOCAL_RANK']}"
    torch.cuda.set_device(device)
    return device


def leave() -> None:
    """End the process group, say so, and end the process.

    At once: threads of gloo can hold tensors while the interpreter is taken down, which then
    aborts ("terminate called without an active exception"; PyTorch's pull request 179291).
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    dist.barrier()
    dist.destroy_process_group()
    print(f"rank {rank} of {ranks}: all is well", flush=True)
    os._exit(0)


def check_data_parallel(recipe: Recipe, device: str) -> None:
    """Gradients over tokens that are cut into whole blocks are those of all tokens at once."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    whole, x, g = problem(recipe, device, torch.float32)
    replica = DistributedDataParallel(copy.deepcopy(whole))
    run(whole, x, g)
    part = slice(rank * TOKENS // ranks, (rank + 1) * TOKENS // ranks)
    replica(x[part]).backward(g[part] * ranks)  # gradients are averaged
    for got, want in zip(replica.parameters(), whole.parameters(), strict=True):
        assert got.grad is not None
        close(got.grad, want.grad, 2.0**-18)


def problem(recipe: Recipe, device: str, dtype: torch.dtype) -> tuple[nn.Module, Tensor, Tensor]:
    """The same network, input and output gradient on every rank."""
    torch.manual_seed(1)
    network = nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, WIDTH))
    x, g = torch.randn(TOKENS, WIDTH), torch.randn(TOKENS, WIDTH)
    return convert(network.to(device, dtype), recipe), x.to(device, dtype), g.to(device, dtype)


def run(network: nn.Module, x: Tensor, g: Tensor) -> tuple[Tensor, Tensor | None]:
    x = x.clone().requires_grad_()
    y = network(x)
    y.backward(g)
    return y.detach(), x.grad


def close(got: Tensor | None, want: Tensor | None, relative: float) -> None:
    """The error is a small part of the norm: a value at a rounding boundary may go either way."""
    assert got is not None
    assert want is not None
    error = (got.double() - want.double()).norm() / want.double().norm()
    assert error <= relative, (float(error), relative)


if __name__ == "__main__":
    main(sys.argv[1])
