"""One rank of the checks of layers whose parameters are DTensors: parallelize_module.

    torchrun --standalone --nproc-per-node 2 tests/lib/dtensor_worker.py gloo

As parallel_worker.py, whose network it takes.
"""

import copy
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_module, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    RowwiseParallel,
    parallelize_module,
)

from linear_cases import expected, in_float64
from mxdot.gpu import quantize, schemes
from mxdot.nn import RECIPES as NAMED
from mxdot.nn import MXLinear, Recipe, convert, freeze
from parallel_worker import HIDDEN, RECIPES, TOKENS, WIDTH, close, join, leave, problem, run

COLUMNS = ColwiseParallel(output_layouts=Replicate())  # of a layer alone
EXACT = Recipe(accumulator="exact")
ROWS = RowwiseParallel(input_layouts=Replicate())
SCHEMES = (
    (NAMED["fp8_blocks"], (COLUMNS, ROWS)),
    (NAMED["int4_weights"], (COLUMNS, ROWS)),
    (Recipe("mxfp4", "mxfp8_e4m3"), (COLUMNS, ROWS)),
    (NAMED["w8a8"], (COLUMNS,)),
    (NAMED["int4_octav"], (COLUMNS,)),
)


def main(backend: str) -> None:
    device = join(backend)
    mesh = init_device_mesh(device.partition(":")[0], (dist.get_world_size(),))
    for recipe in RECIPES:
        check_every_bit(recipe, mesh, device)
        for dtype in (torch.float32, torch.bfloat16):
            check_random_values(recipe, mesh, device, dtype)
        for style in (COLUMNS, ROWS):
            check_against_the_model(recipe, style, mesh, device)
    check_every_bit(EXACT, mesh, device)
    check_random_values(EXACT, mesh, device, torch.float32)
    check_schemes(mesh, device)
    check_tokens_in_parts(mesh, device)
    check_stochastic_gradients(mesh, device)
    check_no_tokens(mesh, device)
    check_containers(mesh, device)
    check_refusals(mesh, device)
    leave()


def parallel(network: nn.Module, mesh: DeviceMesh) -> nn.Module:
    """A copy whose hidden features are cut over the ranks."""
    plan: dict[str, ParallelStyle] = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    return parallelize_module(copy.deepcopy(network), mesh, plan)


def results(network: nn.Module, x: Tensor, g: Tensor) -> list[Any]:
    """Output, input gradient and the gradients of all parameters (None where frozen), whole."""
    every = [*run(network, x, g), *(p.grad for p in network.parameters())]
    return [part.full_tensor() if isinstance(part, DTensor) else part for part in every]


def check_every_bit(recipe: Recipe, mesh: DeviceMesh, device: str) -> None:
    """Integers so small that sums are exact in any order, but not so small that none is rounded."""
    whole, _, _ = problem(recipe, device, torch.float32)
    with torch.no_grad():
        for p in whole.parameters():
            p.copy_(torch.randint(-3, 4, p.shape))
    x, g = (torch.randint(-20, 21, (TOKENS, WIDTH)).to(device, torch.float32) for _ in "xg")
    want, cut = results(whole, x, g), parallel(whole, mesh)
    for got, one in zip(results(cut, x, g), want, strict=True):
        assert torch.equal(got, one)
    codes = freeze(copy.deepcopy(whole), keep_weight=False)
    for frozen in (
        *(freeze(cut), parallel(freeze(copy.deepcopy(whole)), mesh)),
        *(parallel(codes, mesh),),
    ):
        for context in (torch.no_grad, torch.no_grad, torch.inference_mode):
            with context():
                assert torch.equal(frozen(x), want[0])
    for layer in whole[::2]:
        layer.recipe = Recipe(None, None, None)
    assert not torch.equal(whole(x), want[0])


def check_schemes(mesh: DeviceMesh, device: str) -> None:
    """Schemes whose scales end with the parts: every operand is a part of the whole one."""
    width = 128 * mesh.size()
    for recipe, styles in SCHEMES:
        for style in styles:
            torch.manual_seed(2)
            layer = MXLinear(width, width, recipe=recipe, device=device)
            with torch.no_grad():
                for p in layer.parameters():
                    p.copy_(torch.randint(-3, 4, p.shape))
            x, g = (torch.randint(-20, 21, (TOKENS, width)).to(device, torch.float32) for _ in "xg")
            whole = nn.Sequential(layer)
            want = results(whole, x, g)
            cut = parallelize_module(copy.deepcopy(whole), mesh, {"0": style})
            for got, one in zip(results(cut, x, g), want, strict=True):
                close(got, one, 2.0**-18)
            frozen = freeze(copy.deepcopy(whole))
            codes = freeze(copy.deepcopy(whole), keep_weight=False)
            with torch.inference_mode():
                want = frozen(x)
                others = [parallelize_module(n, mesh, {"0": style}) for n in (frozen, codes)]
                for one in (freeze(cut), *others):
                    close(one(x), want, 2.0**-18)


def check_tokens_in_parts(mesh: DeviceMesh, device: str) -> None:
    """A scale of all tokens stays one where ranks have some of them, and all of the weight."""
    whole, x, _ = problem(NAMED["w8a8"], device, torch.float32)
    want = whole(x)
    spread = distribute_module(whole, mesh)
    y = spread(distribute_tensor(x, mesh, [Shard(0)]))
    assert torch.equal(y.full_tensor(), want)


def check_random_values(recipe: Recipe, mesh: DeviceMesh, device: str, dtype: torch.dtype) -> None:
    """Only the order of sums differs; a rounded result can move a step of its dtype."""
    whole, x, g = problem(recipe, device, dtype)
    want = results(whole, x, g)
    for got, one in zip(results(parallel(whole, mesh), x, g), want, strict=True):
        close(got, one, 2.0**-18 if dtype == torch.float32 else 2.0**-5)


def check_against_the_model(
    recipe: Recipe, style: ParallelStyle, mesh: DeviceMesh, device: str
) -> None:
    """The three products of one layer, whichever way it is cut."""
    torch.manual_seed(3)
    layer = MXLinear(HIDDEN, HIDDEN, bias=False, recipe=recipe, device=device)
    x, g = (torch.randn(TOKENS, HIDDEN).to(device) for _ in "xg")
    want = expected(x, layer.weight, g, recipe, in_float64)
    network = parallelize_module(nn.Sequential(layer), mesh, {"0": style})
    for got, product in zip(results(network, x, g), want, strict=True):
        close(got.cpu(), torch.tensor(product), 2.0**-18)


def check_stochastic_gradients(mesh: DeviceMesh, device: str) -> None:
    """A seed repeats a step, another changes it, and none changes gradients of few digits."""
    recipe = Recipe(gradient_rounding="stochastic")
    whole, x, g = problem(recipe, device, torch.float32)
    cut = parallel(whole, mesh)
    steps = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        cut.zero_grad()
        steps.append(results(cut, x, g))
    for i, (first, again, other) in enumerate(zip(*steps, strict=True)):
        assert torch.equal(first, again)
        # The output is not random, nor is the gradient of the last bias, which is g's sum.
        assert torch.equal(first, other) == (i in (0, len(steps[0]) - 1))
    torch.manual_seed(3)
    last = nn.Sequential(MXLinear(HIDDEN, HIDDEN, recipe=recipe, device=device))
    x, g = (torch.randint(-14, 15, (TOKENS, HIDDEN)).to(device, torch.float32) for _ in "xg")
    want = results(last, x, g)
    last.zero_grad()
    for got, one in zip(
        results(parallelize_module(last, mesh, {"0": COLUMNS}), x, g), want, strict=True
    ):
        close(got, one, 2.0**-18)


def check_no_tokens(mesh: DeviceMesh, device: str) -> None:
    """A mixture of experts has these where no token chooses an expert."""
    whole, x, g = problem(Recipe(), device, torch.float32)
    y, dx, *gradients = results(parallel(whole, mesh), x[:0], g[:0])
    assert y.shape == dx.shape == (0, WIDTH)
    assert not any(gradient.any() for gradient in gradients)


def check_containers(mesh: DeviceMesh, device: str) -> None:
    """Rank 0's are cut and sent to the others."""
    x = torch.randn(128 * mesh.size(), 128 * mesh.size(), device=device)
    torch.distributed.broadcast(x, 0)
    own = x + mesh.get_rank()
    for make in (
        lambda x: quantize(x, "e4m3"),
        lambda x: quantize(x, "bf16"),
        lambda x: schemes.quantize(x, "nvfp4"),
        lambda x: schemes.quantize(x, "fp8_e4m3_128x128"),
    ):
        values = make(x).dequantize()
        for place in (Shard(0), Shard(1), Replicate()):
            got = distribute_tensor(make(own), mesh, [place]).to_local()
            want = distribute_tensor(values, mesh, [place]).to_local()
            assert torch.equal(got.dequantize(), want)


def check_refusals(mesh: DeviceMesh, device: str) -> None:
    """Before any work: what DTensor would not do, or not say."""
    whole = mesh.size() * 32
    x = torch.randn(4, 48, device=device)
    for linear, style, name in (
        (nn.Linear(32, 48), COLUMNS, "out_features"),
        (nn.Linear(48, 32), ROWS, "in_features"),
    ):
        network = parallelize_module(convert(nn.Sequential(linear.to(device))), mesh, {"0": style})
        want = f"{name} must be a multiple of {whole} ({mesh.size()} ranks, blocks of 32), not 48"
        assert refusal(lambda: network(x[:, : linear.in_features])) == want  # noqa: B023
    layer = MXLinear(100, 32, device=device).freeze(keep_weight=False)  # codes of 128
    network = parallelize_module(nn.Sequential(layer), mesh, {"0": ROWS})
    want = f"in_features must be a multiple of {whole} ({mesh.size()} ranks, blocks of 32), not 100"
    assert refusal(lambda: network(torch.ones(4, 100, device=device))) == want
    parts = f", which are cut into {mesh.size()} parts, not"
    lead = "weight must have a scheme without a scale for all of"
    tiles = "schemes of tiles or of blocks of a row would do"
    sizes = f"{64 * mesh.size()} ({mesh.size()} ranks, groups of 64 of weight)"
    learned = "limits of a layer in parts must not be learned: rows of weights have them"
    for recipe, want in (
        (
            Recipe("int8_channel", None),
            f"{lead} in_features{parts} int8_channel; ColwiseParallel would do",
        ),
        (Recipe("fp8_e4m3_tensor", None), f"{lead} out_features{parts} fp8_e4m3_tensor; {tiles}"),
        (NAMED["int4_learned"], learned),
        (
            Recipe("int4_g64", None),
            f"in_features must be a multiple of {sizes}, not {32 * mesh.size()}",
        ),
    ):
        layers = nn.Linear(64, 32 * mesh.size()), nn.ReLU(), nn.Linear(32 * mesh.size(), 64)
        network = convert(nn.Sequential(*layers).to(device), recipe)
        assert refusal(lambda: parallel(network, mesh)(torch.ones(4, 64, device=device))) == want  # noqa: B023
    _, x, _ = problem(Recipe(), device, torch.float32)
    spread = distribute_tensor(x, mesh, [Shard(0)])
    want = "x must be a tensor of one process, not a DTensor"
    assert refusal(lambda: quantize(spread, "e4m3")) == want


def refusal(function: Callable[[], object]) -> str:
    """The message of the error; empty where there is none."""
    try:
        function()
    except (TypeError, ValueError) as error:
        return str(error)
    return ""


if __name__ == "__main__":
    main(sys.argv[1])
