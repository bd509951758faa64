"""Train, save, load and serve a small network by every named recipe: five minutes of a CPU.

    python examples/recipes.py                    # all of mxdot.nn.RECIPES
    python examples/recipes.py mxfp8 nvfp4        # some

A network of three linear layers is trained from the same start on the same batches by each recipe
(and in float32), its state is saved and loaded into another network, which goes on with equal
results; then it is frozen to codes and scales, saved as OUT/RECIPE.pt, and served by another
process, which never has weights of floats. docs/recipes.md says what each recipe does.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from tiny_network import Task, held_out, network, train
from torch import Tensor, nn

from mxdot.nn import RECIPES, advance_scales, convert, freeze, quantized_init

FLOAT = "float32"


def main(arguments: Sequence[str] | None = None) -> int:
    """Train each, then serve all of them in one process."""
    options = _parser().parse_args(arguments)
    out = Path(options.out)
    if options.serve:
        return serve(options.recipes, out)
    names = options.recipes or list(RECIPES)
    out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)  # the matrices are small
    task = Task()
    print(f"{'recipe':14}{'loss':>8}{'right':>8}{'bytes':>9}")
    for name in (FLOAT, *names):
        loss, right, size = make(name, task, options.steps, out)
        print(f"{name:14}{loss:8.4f}{right:8.1%}{size:9,}", flush=True)
    command = [sys.executable, __file__, "--serve", "--out", str(out), *names]
    return subprocess.run(command, check=False).returncode


def make(name: str, task: Task, steps: int, out: Path) -> tuple[float, float, int]:
    """Held-out loss and the part of right answers after training, and the bytes of what is served.

    What must be equal to the last bit is checked: a network that was loaded, and one of codes.
    """
    net = trained(name, task, steps)
    loss, right = held_out(net, task)
    if name == FLOAT:
        return loss, right, size(net)
    x = task.held_out[0]
    torch.save(net.state_dict(), out / f"{name}-training.pt")
    other = convert(network(seed=1), RECIPES[name])
    other.load_state_dict(torch.load(out / f"{name}-training.pt", weights_only=True))
    check(f"{name}, loaded", answers(other, x), answers(net, x))
    answer = answers(freeze(net), x)
    check(f"{name}, of codes alone", answers(freeze(net, keep_weight=False), x), answer)
    torch.save(net.state_dict(), out / f"{name}.pt")
    torch.save(answer, out / f"{name}-answers.pt")
    return loss, right, size(net)


def trained(name: str, task: Task, steps: int) -> nn.Module:
    """A network of a recipe after so many steps."""
    net = network()
    if name == FLOAT:
        train(net, task, steps)
        return net
    recipe = RECIPES[name]
    convert(net, recipe)
    # Delayed scales are told where a step ends.
    after_step = advance_scales if recipe.limits == "delayed" else lambda _: None
    train(net, task, steps, after_step=after_step)
    return net


def serve(names: Sequence[str], out: Path) -> int:
    """Answer as the networks did that were trained, by what they have left in files."""
    x = Task().held_out[0]
    torch.set_num_threads(1)
    for name in names:
        with quantized_init(RECIPES[name]):
            net = network(seed=2)
        net.load_state_dict(torch.load(out / f"{name}.pt", weights_only=True))
        check(f"{name}, served", answers(net, x), torch.load(out / f"{name}-answers.pt"))
    print(f"another process serves {len(names)} of {len(names)} with the same bits, from {out}")
    return 0


def answers(net: nn.Module, x: Tensor) -> Tensor:
    """What a network says in evaluation."""
    with torch.no_grad():
        return net.eval()(x)


def check(what: str, got: Tensor, want: Tensor) -> None:
    """SystemExit unless every bit is equal."""
    if not torch.equal(got, want):
        sys.exit(f"{what}: results differ by up to {(got - want).abs().max():g}")


def size(net: nn.Module) -> int:
    """Bytes of all tensors in the state of a network."""
    return sum(_bytes(x) for x in net.state_dict().values())


def _bytes(x: Tensor) -> int:
    parts = getattr(x, "named_parts", None)
    return x.nbytes if parts is None else sum(part.nbytes for part in parts().values())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "recipes", nargs="*", metavar="RECIPE", help=f"of {', '.join(RECIPES)}", type=_recipe
    )
    parser.add_argument("--steps", type=int, default=60, help="of training (60)")
    parser.add_argument("--out", default="build/recipes", help="folder of files (build/recipes)")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    return parser


def _recipe(name: str) -> str:
    if name not in RECIPES:
        known = ", ".join(RECIPES)
        raise argparse.ArgumentTypeError(f"recipes must be of {known}, not {name!r}")
    return name


if __name__ == "__main__":
    sys.exit(main())
