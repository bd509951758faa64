"""One rank of the checks of networks whose parameters FSDP2 spreads over the ranks: fully_shard.

    torchrun --standalone --nproc-per-node 2 tests/gpu/fsdp_worker.py gloo

As parallel_worker.py. Every rank gets the same input, and has each result to the bit.
"""

import copy
import sys

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard

from dtensor_worker import results
from mxdot.gpu import MXLinear, Recipe, freeze
from parallel_worker import join, leave, problem

RECIPES = (
    Recipe(),
    Recipe(accumulator="hopper"),
    Recipe("int8_channel", "int8_channel"),
    Recipe("int4_g32", None),
    Recipe(None, "e4m3"),
)


def main(backend: str) -> None:
    device = join(backend)
    mesh = init_device_mesh(device.partition(":")[0], (dist.get_world_size(),))
    for recipe in RECIPES:
        check_training(recipe, mesh, device)
        check_frozen(recipe, mesh, device)
        check_frozen_before(recipe, mesh, device)
    leave()


def sharded(network: nn.Module, mesh: DeviceMesh) -> nn.Module:
    """A copy, each of whose layers is gathered for its own passes."""
    copied = copy.deepcopy(network)
    for layer in copied.modules():
        if isinstance(layer, MXLinear):
            fully_shard(layer, mesh=mesh)
    return fully_shard(copied, mesh=mesh)


def assert_same(network: nn.Module, whole: nn.Module, x: Tensor, g: Tensor) -> None:
    """Two steps of both, output and every gradient."""
    for _ in range(2):
        steps = []
        for each in (network, whole):
            each.zero_grad()
            steps.append(results(each, x, g))
        for got, want in zip(*steps, strict=True):
            assert (got is None) == (want is None)
            assert got is None or torch.equal(got, want)


def check_training(recipe: Recipe, mesh: DeviceMesh, device: str) -> None:
    """Gradients are averaged over the ranks, which all have the same."""
    whole, x, g = problem(recipe, device, torch.float32)
    assert_same(sharded(whole, mesh), whole, x, g)


def check_frozen(recipe: Recipe, mesh: DeviceMesh, device: str) -> None:
    """Before the first forward pass and after others; other weights loaded; and not any more."""
    whole, x, g = problem(recipe, device, torch.float32)
    other = copy.deepcopy(whole)
    for p in other.parameters():
        torch.nn.init.normal_(p)
    first, later = sharded(whole, mesh), sharded(whole, mesh)
    assert_same(later, whole, x, g)
    freeze(whole)
    for network in (first, later):
        assert freeze(network) is network
        assert_same(network, whole, x, g)
    later.load_state_dict(sharded(other, mesh).state_dict())
    assert_same(later, freeze(other), x, g)
    for network in (later, other):
        for layer in network.modules():
            if isinstance(layer, MXLinear):
                layer.unfreeze()
    assert_same(later, other, x, g)


def check_frozen_before(recipe: Recipe, mesh: DeviceMesh, device: str) -> None:
    whole, x, g = problem(recipe, device, torch.float32)
    freeze(whole)
    assert_same(sharded(whole, mesh), whole, x, g)


if __name__ == "__main__":
    main(sys.argv[1])
