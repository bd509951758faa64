"""One rank of the checks of parallel layers; every rank compares itself with one that works alone.

    torchrun --standalone --nproc-per-node 2 tests/gpu/parallel_worker.py gloo

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

from mxdot.gpu import Recipe, convert
from mxdot.gpu.parallel import ColumnParallelMXLinear, RowParallelMXLinear

WIDTH, HIDDEN, TOKENS = 64, 256, 256
RECIPES = (Recipe(), Recipe("e2m1", "e3m2", "e5m2", scale_rule="floor"))


def main(backend: str) -> None:
    device = join(backend)
    for recipe in RECIPES:
        for dtype in (torch.float32, torch.bfloat16):
            check_tensor_parallel(recipe, device, dtype)
        check_data_parallel(recipe, device)
    check_refusal()
    leave()


def join(backend: str) -> str:
    """The device of this rank of a new process group."""
    dist.init_process_group(backend)
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


def check_tensor_parallel(recipe: Recipe, device: str, dtype: torch.dtype) -> None:
    """Outputs and gradients of a feed-forward pair whose hidden features are cut over the ranks."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    whole, x, g = problem(recipe, device, dtype)
    up = ColumnParallelMXLinear.from_linear(whole[0], recipe)
    down = RowParallelMXLinear.from_linear(whole[2], recipe)
    want = run(whole, x, g)
    got = run(nn.Sequential(up, nn.ReLU(), down), x, g)
    # Only the order of sums differs; a rounded result can move a step of its dtype.
    relative = 2.0**-18 if dtype == torch.float32 else 2.0**-5
    part = slice(rank * HIDDEN // ranks, (rank + 1) * HIDDEN // ranks)
    close(got[0], want[0], relative)
    close(got[1], want[1], relative)
    close(up.weight.grad, whole[0].weight.grad[part], relative)
    close(up.bias.grad, whole[0].bias.grad[part], relative)
    close(down.weight.grad, whole[2].weight.grad[:, part], relative)
    close(down.bias.grad, whole[2].bias.grad, relative)


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


def check_refusal() -> None:
    """A part that is no whole number of blocks, or whose scales would be others."""
    whole = dist.get_world_size() * 32
    for parallel, linear, name in (
        (ColumnParallelMXLinear, nn.Linear(32, 48), "out_features"),
        (RowParallelMXLinear, nn.Linear(48, 32), "in_features"),
    ):
        assert refusal(parallel, linear).startswith(f"{name} must be a multiple of {whole} ")
        message = refusal(parallel, nn.Linear(64, 64), Recipe("int8_channel", None))
        assert message.startswith("recipe of a layer in parts must have no schemes")


def refusal(parallel: type, linear: nn.Linear, recipe: Recipe | None = None) -> str:
    """The message of the ValueError; empty where there is none."""
    try:
        parallel.from_linear(linear, recipe)
    except ValueError as error:
        return str(error)
    return ""


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
