"""Codes in inference mode, in memory that processes share, and sent between ranks."""

import copy

import numpy as np
import pytest
import torch
import torch.multiprocessing
from torch import nn
from torch.distributed import checkpoint

from containers import assert_same, contained, emptied, every_container
from devices import on_devices
from mxdot.gpu import quantize
from mxdot.gpu.tensors import sharding
from mxdot.nn import RECIPES, convert, freeze, quantized_init


def network(recipe):
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(128, 128), nn.GELU(), nn.Linear(128, 128))
    return convert(layers, recipe)


# Inference mode ---------------------------------------------------------------------------------


@on_devices
@pytest.mark.parametrize("name", RECIPES)
def test_frozen_codes_in_inference_mode(name, device):
    layers = network(RECIPES[name]).to(device)
    x = torch.randn(4, 128, device=device)
    layers(x)
    freeze(layers, keep_weight=False)
    with torch.no_grad():
        want = layers(x)
    with torch.inference_mode():
        assert torch.equal(layers(x), want)
        assert torch.equal(copy.deepcopy(layers)(x), want)
        layers.load_state_dict(layers.state_dict())
        layers.to(device)
    assert torch.equal(layers(x), want)


@on_devices
@pytest.mark.parametrize("name", RECIPES)
def test_a_network_made_of_codes_in_inference_mode(name, device):
    """Made, quantised, loaded or moved in inference mode, or outside it."""
    x = torch.randn(4, 128, device=device)
    with quantized_init(RECIPES[name]):
        layers = nn.Sequential(nn.Linear(128, 128), nn.GELU(), nn.Linear(128, 128)).to(device)
        with torch.inference_mode():
            other = nn.Sequential(nn.Linear(128, 128), nn.GELU(), nn.Linear(128, 128)).to(device)
    with torch.no_grad():
        want = layers(x)
    with torch.inference_mode():
        assert torch.equal(layers(x), want)
        other.load_state_dict(layers.state_dict())
        assert torch.equal(other(x), want)
        assert torch.equal(other.to("cpu").to(device)(x), want)
        assert freeze(network(RECIPES[name]).to(device), keep_weight=False)(x).isfinite().all()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own
def test_compiled_in_inference_mode():
    layers = freeze(network(RECIPES["mxfp8"]), keep_weight=False)
    x = torch.randn(4, 128)
    want, compiled = layers(x), torch.compile(layers, backend="aot_eager")
    for context in (torch.inference_mode, torch.no_grad, torch.inference_mode):
        with context():
            assert torch.equal(compiled(x), want)


VIEWS = {
    "detach": lambda x: x.detach(),
    "rows": lambda x: x[:32],
    "split": lambda x: x.split(32)[1],
    "transpose": lambda x: x.t(),
    "view": lambda x: x.view(64, 64),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_views_are_inference_tensors_where_their_base_is(view):
    x = quantize(torch.ones(64, 64), "e4m3")
    want = view(x).dequantize()
    with torch.inference_mode():
        own = quantize(torch.ones(64, 64), "e4m3")
        result, of_own = view(x), view(own)
        assert torch.equal(result.dequantize(), want)
    assert not result.is_inference()
    assert not any(part.is_inference() for part in result.named_parts().values())
    assert of_own.is_inference()
    result.copy_(result.clone())  # as no inference tensor can be written


@every_container
def test_what_is_made_of_other_operators(make):
    """Inference mode hands these on whole."""
    x = contained(make)
    with torch.inference_mode():
        for moved in (x.to("cpu", copy=True), x.cpu(), x.reshape(x.shape), x.contiguous()):
            assert_same(moved, x)
        with pytest.raises(NotImplementedError, match=r"has no operator aten\.add\.Tensor"):
            torch.add(x, 1)


# Shared memory ----------------------------------------------------------------------------------


@every_container
def test_processes_share_the_parts(make):
    x = contained(make)
    assert not x.is_shared()
    assert x.share_memory_() is x
    assert x.is_shared()
    context = torch.multiprocessing.get_context("spawn")
    done = context.SimpleQueue()
    process = context.Process(target=emptied, args=(x, done))
    process.start()
    process.join(120)
    assert process.exitcode == 0
    assert done.get()
    assert not any(part.any() for part in x.named_parts().values())


@pytest.mark.parametrize("name", ["mxfp8", "nvfp4", "int4_weights"])
def test_a_network_shares_its_codes(name):
    layers = freeze(network(RECIPES[name]), keep_weight=False)
    x = torch.randn(4, 128)
    want = layers(x)
    layers.share_memory()
    assert all(p.is_shared() for p in layers.parameters())
    assert torch.equal(layers(x), want)


@pytest.mark.parametrize("read", [np.from_dlpack, torch.from_dlpack], ids=["numpy", "torch"])
def test_no_dlpack(read):
    """A capsule of it would hold no memory."""
    for x in (
        quantize(torch.ones(32), "e4m3"),
        nn.Parameter(quantize(torch.ones(32), "e4m3"), False),
    ):
        with pytest.raises(TypeError, match=r"MXTensor has no DLPack: it holds codes"):
            read(x)


@pytest.mark.cuda
@every_container
def test_pinned_memory(make):
    x = contained(make)
    assert not x.is_pinned()
    pinned = x.pin_memory()
    assert pinned.is_pinned()
    assert all(part.is_pinned() for part in pinned.named_parts().values())
    assert_same(pinned, x)
    assert_same(pinned.to("cuda", non_blocking=True).cpu(), x)


# Distributed checkpoints ------------------------------------------------------------------------


@on_devices
@every_container
def test_room_for_another(make, device):
    x = contained(make, device)
    for other in (torch.zeros_like(x), x.new_empty(x.shape), torch.empty_like(x, device="cpu")):
        assert type(other) is type(x)
        assert (other.shape, other.facts()) == (x.shape, x.facts())
        assert_same(other.to(device).copy_(x), x)
    zeros = torch.zeros_like(x).named_parts().values()
    assert not any(part.cpu().any() for part in zeros)  # CUDA has no `any` of FP8
    assert x.new_empty((128, 256)).shape == (128, 256)


@on_devices
@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
@pytest.mark.parametrize("save", [checkpoint.save, checkpoint.async_save], ids=["save", "async"])
@pytest.mark.parametrize("name", ["mxfp8", "w8a8", "nvfp4", "int4_weights"])
def test_a_checkpoint_of_codes(name, save, device, tmp_path):
    layers = freeze(network(RECIPES[name]).to(device), keep_weight=False)
    x = torch.randn(4, 128, device=device)
    want = layers(x)
    saving = save(layers.state_dict(), checkpoint_id=tmp_path, no_dist=True)
    if save is checkpoint.async_save:
        for p in layers.parameters():  # which later changes must not reach
            p.data = torch.zeros_like(p)
        saving.result()
    other = freeze(network(RECIPES[name]).to(device), keep_weight=False)
    state = {key: torch.zeros_like(value) for key, value in other.state_dict().items()}
    checkpoint.load(state, checkpoint_id=tmp_path, no_dist=True)
    other.load_state_dict(state)
    assert torch.equal(other(x), want)


# Ranks ------------------------------------------------------------------------------------------


class Sent:
    """The work of a collective, as Python sees it."""

    def __init__(self):
        self.waited = 0

    def wait(self):
        self.waited += 1


@every_container
@pytest.mark.parametrize("async_op", [False, True])
def test_collectives_of_a_backend_without_work(monkeypatch, make, async_op):
    """NCCL gives none of a collective that is not asynchronous: Work.unbox makes None of it."""
    sent, works = [], []

    def collective(buffers, *how):
        *_, is_async, timeout = how
        assert timeout == 5
        works.append(Sent() if is_async else None)
        sent.append(buffers[0].dtype)
        if isinstance(how[0], list):
            buffers[0].copy_(how[0][0][1])
        else:
            buffers[0].zero_()
        return buffers, works[-1]

    for name in ("scatter_", "broadcast_"):
        monkeypatch.setattr(getattr(torch.ops.c10d, name), "default", collective)
    monkeypatch.setattr(torch.distributed.Work, "unbox", staticmethod(lambda work: work))
    x, other = contained(make), contained(make)
    outputs, work = sharding.broadcast([x], "group", 0, 0, async_op, 5)
    assert outputs == [x]
    assert not any(part.any() for part in x.named_parts().values())
    _, work = sharding.scatter([x], [[contained(make), other]], "group", 0, async_op, 5)
    for name, part in other.named_parts().items():
        assert torch.equal(x.named_parts()[name], part)
    assert work is works[-1]
    assert [each.waited for each in works] == [1] * len(works)
    assert set(sent) == {torch.uint8}
