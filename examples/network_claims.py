"""Try what is published of training with few bits, where a minute of a CPU can.

    python examples/network_claims.py                # every claim
    python examples/network_claims.py octav          # one

It needs PyTorch (`mxdot[gpu]`). docs/claims.md says where each claim comes from and what came out;
examples/claims.py has those that need no network.
"""

import argparse
import copy
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from tiny_network import Task, held_out, network, train
from torch import Tensor, nn

from mxdot.nn import RECIPES, MXLinear, Recipe, convert

STEPS, MORE_STEPS = 600, 100  # in float32, and of training again
LEAST = 5e-4  # the learning rate of those
PRODUCTS = {"rows": 256, "out_features": 32, "in_features": 64}  # of gradients that are compared


def octav() -> Iterator[str]:
    """A network of INT4 weights and activations, without and with training again."""
    task, trained = Task(), network()
    train(trained, task, STEPS)
    yield f"float32: {_quality(trained, task)}"
    octav = RECIPES["int4_octav"]
    recipes = {
        "largest magnitudes": Recipe("int4_channel", "int4_tensor"),
        "OCTAV, straight-through": replace(octav, clipped_gradient="straight_through"),
        "OCTAV, magnitude-aware": replace(octav, clipped_gradient="magnitude_aware"),
        "OCTAV, hybrid": octav,
        "learned": RECIPES["int4_learned"],
    }
    for name, recipe in recipes.items():
        net = convert(copy.deepcopy(trained), recipe)
        before = _quality(net, task)
        train(net, task, MORE_STEPS, LEAST, seed=1)
        yield f"{name}: {before} as it is, {_quality(net, task)} after {MORE_STEPS} steps"


def _quality(net: nn.Module, task: Task) -> str:
    loss, right = held_out(net, task)
    return f"loss {loss:.3f}, {right:.1%} right"


def hadamard() -> Iterator[str]:
    """The error of a weight's gradient with and without the random Hadamard transform of 16."""
    data = {"normal": _normal, "Student's t": _student}
    for name, draw in data.items():
        for fmt in ("nvfp4", "e2m1", "int4_g32"):
            recipe = Recipe(fmt, fmt, fmt, groups="sums")
            errors = [_gradient_error(replace(recipe, hadamard=size), draw) for size in (0, 16)]
            yield f"{name}, {fmt}: {errors[0]:.3f} without, {errors[1]:.3f} with it"


def _gradient_error(recipe: Recipe, draw: Callable[..., Tensor]) -> float:
    """|dW - exact| / |exact| over eight pairs of x and g."""
    rows, out_features, in_features = PRODUCTS.values()
    generator = torch.Generator().manual_seed(1)
    layer = MXLinear(in_features, out_features, False, recipe=recipe)
    wrong = whole = 0.0
    for _ in range(8):
        x, g = (draw(rows, n, generator) for n in (in_features, out_features))
        layer.zero_grad()
        layer(x).backward(g)
        exact = g.double().T @ x.double()
        assert layer.weight.grad is not None
        wrong += (layer.weight.grad - exact).square().sum().item()
        whole += exact.square().sum().item()
    return (wrong / whole) ** 0.5


def _normal(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    return torch.randn(rows, columns, generator=generator)


def _student(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """Of three degrees of freedom."""
    x = torch.randn(4, rows, columns, generator=generator)
    return x[0] / x[1:].square().mean(dim=0).sqrt()


CLAIMS: dict[str, Callable[[], Iterator[str]]] = {"octav": octav, "hadamard": hadamard}


def main(arguments: list[str] | None = None) -> int:
    """Print what came out."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("claims", nargs="*", metavar="CLAIM", help=f"of {', '.join(CLAIMS)}")
    names = parser.parse_args(arguments).claims or list(CLAIMS)
    for name in names:
        if name not in CLAIMS:
            parser.error(f"claims must be of {', '.join(CLAIMS)}, not {name!r}")
    torch.set_num_threads(1)  # the matrices are small
    for name in names:
        print(f"{name}: {(CLAIMS[name].__doc__ or '').splitlines()[0]}")
        for line in CLAIMS[name]():
            print(f"  {line}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
