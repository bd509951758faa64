"""One rank of the checks of networks whose parameters FSDP2 spreads over the ranks: fully_shard.

    torchrun --standalone --nproc-per-node 2 tests/lib/fsdp_worker.py gloo

As parallel_worker.py. Every rank gets the same input, and has each result to the bit.
"""

import copy
import io
import sys
import tempfile
from concurrent.futures import Future
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import checkpoint
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard

from dtensor_worker import refusal, results
from mxdot.nn import MXExperts, MXLinear, Recipe, convert, freeze
from parallel_worker import join, leave, problem
from stacked_experts import Block, routed

RECIPES = (
    Recipe(),
    Recipe(accumulator="hopper"),
    Recipe("int8_channel", "int8_channel"),
    Recipe("int4_g32", None),
    Recipe(None, "e4m3"),
)
RECIPES_OF_CODES = (*RECIPES[:-1], Recipe("nvfp4", "nvfp4"))


def main(backend: str) -> None:
    device = join(backend)
    mesh = init_device_mesh(device.partition(":")[0], (dist.get_world_size(),))
    for recipe in RECIPES:
        check_training(recipe, mesh, device)
        check_frozen(recipe, mesh, device)
        check_frozen_before(recipe, mesh, device)
    for recipe in RECIPES_OF_CODES:
        check_codes(recipe, mesh, device)
    for recipe in (Recipe(), Recipe("int8_channel", "int8_affine")):
        check_experts(recipe, mesh, device)
    check_refusals(mesh, device)
    leave()


def sharded(network: nn.Module, mesh: DeviceMesh) -> nn.Module:
    """A copy, each of whose layers is gathered for its own passes."""
    copied = copy.deepcopy(network)
    for layer in copied.modules():
        if isinstance(layer, MXLinear):
            fully_shard(layer, mesh=mesh)
    return fully_shard(copied, mesh=mesh)


def check_codes(recipe: Recipe, mesh: DeviceMesh, device: str) -> None:
    """Weights that are codes: each rank has its rows, gathers all, and loads its rows of others."""
    whole, x, _ = problem(recipe, device, torch.float32)
    other = copy.deepcopy(whole)
    for p in other.parameters():
        torch.nn.init.normal_(p)
    freeze(whole, keep_weight=False)
    freeze(other, keep_weight=False)
    network = sharded(whole, mesh)
    assert len(network[0].weight.to_local()) * mesh.size() == len(whole[0].weight)
    with torch.no_grad():
        for _ in range(2):
            assert torch.equal(network(x), whole(x))
        assert not torch.equal(other(x), whole(x))
        network.load_state_dict(saved(sharded(other, mesh).state_dict()))
        assert torch.equal(network(x), other(x))
        check_checkpoint(sharded(whole, mesh), sharded(other, mesh), x)


def check_checkpoint(network: nn.Module, other: nn.Module, x: Tensor) -> None:
    """`other` loads the checkpoints of `network`, to which every rank writes its rows."""
    want = network(x)
    for save in (checkpoint.save, checkpoint.async_save):
        with tempfile.TemporaryDirectory() as own:
            paths = [own]
            dist.broadcast_object_list(paths, 0)  # rank 0's, for all
            saving = save(network.state_dict(), checkpoint_id=paths[0])
            if isinstance(saving, Future):
                saving.result()
            dist.barrier()
            state = {key: torch.zeros_like(value) for key, value in other.state_dict().items()}
            checkpoint.load(state, checkpoint_id=paths[0])
            other.load_state_dict(state)
            assert torch.equal(other(x), want)
            dist.barrier()


def saved(state: Any) -> Any:
    """The state read back from this rank's file."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def check_refusals(mesh: DeviceMesh, device: str) -> None:
    """On every rank, before any of them waits for another."""
    ranks = mesh.size()
    for recipe, rows, axis, message in (
        (Recipe("int4_g128", None), 32 * ranks, 0, "must be of whole groups of 128, not 0 to "),
        (Recipe(), 33 * ranks - 1, 0, "must be cut into equal parts of its rows, not "),
        (Recipe(), 32 * ranks, 1, "must be cut into equal parts of its rows, not "),
    ):
        layer = MXLinear(64 * ranks, rows, False, recipe=recipe).to(device)
        layer.freeze(keep_weight=False)
        cut = partial(fully_shard, mesh=mesh, shard_placement_fn=lambda _, axis=axis: Shard(axis))
        assert message in refusal(partial(cut, layer))


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
    """Codes of frozen weights that are cut later are made once, and anew of loaded ones."""
    whole, x, g = problem(recipe, device, torch.float32)
    other = copy.deepcopy(whole)
    for p in other.parameters():
        torch.nn.init.normal_(p)
    freeze(whole)
    network = sharded(whole, mesh)
    with Quantised() as made:
        assert_same(network, whole, x, g)
    assert made.count == sum(isinstance(layer, MXLinear) for layer in network.modules())
    network.load_state_dict(sharded(other, mesh).state_dict())
    assert_same(network, freeze(other), x, g)


@torch.no_grad()
def check_experts(recipe: Recipe, mesh: DeviceMesh, device: str) -> None:
    """Stacked experts, frozen before and after they are cut."""
    torch.manual_seed(0)
    block = convert(Block().to(device), recipe)
    given = [x.to(device) for x in routed()]
    whole = freeze(copy.deepcopy(block))
    want = whole(*given)
    with Quantised(MXExperts, "_frozen") as made:
        for network in (
            fully_shard(copy.deepcopy(whole), mesh=mesh),
            freeze(fully_shard(copy.deepcopy(block), mesh=mesh)),
        ):
            for _ in range(2):
                torch.testing.assert_close(network(*given), want)
    assert made.count == 2 * 2
    cut = fully_shard(copy.deepcopy(block), mesh=mesh)
    assert "weight that is a DTensor" in refusal(partial(freeze, cut, keep_weight=False))


class Quantised:
    """Counts weights of frozen layers that are quantised, by a method of their class."""

    def __init__(self, owner: type = MXLinear, name: str = "_frozen_weight") -> None:
        self.count, self.owner, self.name = 0, owner, name
        self.make = getattr(owner, name)

    def __enter__(self) -> "Quantised":
        def counted(layer: Any, weight: Tensor) -> Any:
            self.count += 1
            return self.make(layer, weight)

        setattr(self.owner, self.name, counted)
        return self

    def __exit__(self, *error: object) -> None:
        setattr(self.owner, self.name, self.make)


if __name__ == "__main__":
    main(sys.argv[1])
