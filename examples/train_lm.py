r"""Train a small language model in bfloat16 and in MX formats, and compare the losses.

    python examples/train_lm.py --out build/train              # all of it; minutes on one GPU
    python examples/train_lm.py --out build/train --report     # table and picture again
    python examples/train_lm.py --out build/sizes --sizes small medium large \
        --variants bfloat16 mxfp8 fp8-tensor fp8-blocks        # a few formats at three sizes
    python examples/train_lm.py --out build/try --device cpu --steps 20 --variants bfloat16 mxfp8

Every variant trains the same network from the same start on the same batches; a seed decides both,
so variants are compared seed by seed. Each is a process of its own, and on a GPU they share it.
The weights that bfloat16 ends with serve to compare single steps of all variants (lm_fidelity.py).
Embedding, output layer, norms and attention's own products stay in bfloat16 or float32, and so do
optimiser and parameters (float32), as in the published MXFP8 recipe; the linear layers of the
blocks are converted. Results are appended to OUT/losses.jsonl as each run ends.
"""

import argparse
import json
import math
import multiprocessing
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from lm_fidelity import step_errors
from lm_network import SIZES, Size, Transformer
from lm_report import BASE, RESULTS, report
from lm_text import Text, read_text, windows
from torch import Tensor, nn

from mxdot.nn import Recipe, convert

VARIANTS: dict[str, Recipe | None] = {
    "bfloat16": None,
    "mxfp8": Recipe(),  # E4M3 everywhere, scales rounded up
    "mxfp8-floor": Recipe(scale_rule="floor"),
    "mxfp8-even": Recipe(scale_rule="even"),
    "mxfp8-e5m2-gradients": Recipe(gradient="e5m2"),
    "mxfp8-e5m2": Recipe("e5m2", "e5m2", "e5m2"),
    "mxfp6-e2m3": Recipe("e2m3", "e2m3", "e2m3"),
    "mxfp6-e3m2": Recipe("e3m2", "e3m2", "e3m2"),
    "mxint8": Recipe("int8", "int8", "int8"),
    "mxfp4": Recipe("e2m1", "e2m1", "e2m1"),
    "mxfp4-stochastic": Recipe("e2m1", "e2m1", "e2m1", gradient_rounding="stochastic"),
    # One scale for a tensor, by its own largest element; E5M2 gradients, as published.
    "fp8-tensor": Recipe("fp8_e4m3_tensor", "fp8_e4m3_tensor", "fp8_e5m2_tensor"),
    "fp8-tensor-e4m3": Recipe("fp8_e4m3_tensor", "fp8_e4m3_tensor", "fp8_e4m3_tensor"),
    # Weights in tiles of 128 x 128, all else in blocks of 1 x 128, float32 scales.
    "fp8-blocks": Recipe("fp8_e4m3_128x128", "fp8_e4m3_b128", "fp8_e4m3_b128"),
}
LEAST_RATE = 0.1  # of the learning rate, at the end of the cosine
RATE = 1.5e-3  # the largest learning rate of a network of `Size.width`; of a wider one less
STEPS_COMPARED = 8  # batches for which single steps are compared


@dataclass(frozen=True)
class Plan:
    """What every run does.

    Validation: `checks` batches every `interval` steps, eight times as many at the end.
    variants: all that are trained; name: of the size.
    """

    device: str
    steps: int
    batch: int
    rate: float
    warmup: int
    interval: int
    checks: int
    compile: bool
    variants: tuple[str, ...]
    name: str
    size: Size


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line: train, then report."""
    options = _parser().parse_args(arguments)
    out = Path(options.out)
    if not options.report:
        out.mkdir(parents=True, exist_ok=True)
        (out / RESULTS).unlink(missing_ok=True)
        run_all([_plan(options, name) for name in options.sizes], options.seeds, options.jobs, out)
    print(report(out))


def run_all(plans: Sequence[Plan], seeds: Sequence[int], jobs: int, out: Path) -> None:
    """Every variant of every plan with every seed, `jobs` variants at a time, the largest first."""
    # Set before CUDA starts: the same seed gives the same numbers.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    context = multiprocessing.get_context("spawn")
    ordered = sorted(plans, key=lambda plan: -plan.size.layers * plan.size.width**2)
    work = [(plan, name, seeds, out) for plan in ordered for name in plan.variants]
    with context.Pool(min(jobs, len(work)), maxtasksperchild=1) as pool:
        tasks = [pool.apply_async(run_variant, each) for each in work]
        pool.close()
        pool.join()  # one that fails stops no other
    for task in tasks:
        task.get()


def run_variant(plan: Plan, name: str, seeds: Sequence[int], out: Path) -> None:
    """One variant with each seed, one after the other; a line of results for each."""
    torch.use_deterministic_algorithms(True)
    text = read_text()
    for seed in seeds:
        started = time.perf_counter()
        losses, model = train(plan, VARIANTS[name], seed, text)
        parameters = sum(parameter.numel() for parameter in model.parameters())
        result = {"size": plan.name, "parameters": parameters, "variant": name, "seed": seed}
        result |= losses | {"sha256": text.sha256}
        if name == BASE:
            result["steps"] = compare_steps(plan, model, seed, text)
        result |= {"seconds": time.perf_counter() - started, "plan": asdict(plan)}
        # One write for a line, so that the lines of two processes do not mix.
        with (out / RESULTS).open("ab", buffering=0) as file:
            file.write(json.dumps(result).encode() + b"\n")
        where = f"{plan.name} {name} seed {seed}"
        print(f"{where}: {result['final']:.4f}, {result['seconds']:.1f} s", flush=True)


def train(
    plan: Plan, recipe: Recipe | None, seed: int, text: Text
) -> tuple[dict[str, Any], nn.Module]:
    """Losses in nats per byte (`train` and `validation` as [step, loss], `final`) with the
    milliseconds of a step, and the model.
    """
    torch.manual_seed(seed)
    model: nn.Module = Transformer(plan.size).to(plan.device)
    if recipe is not None:
        model = convert(model, recipe, skip=["head"])
    if plan.compile:
        for block in model.blocks:  # all blocks share what is compiled for the first
            block.compile(fullgraph=True)
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=plan.rate, betas=(0.9, 0.95), weight_decay=0.1)
    batches = _batches(text.train, plan, plan.steps, seed)
    held_out = list(_batches(text.validation, plan, 8 * plan.checks, 0))
    losses, checked, clock = [], [], _Clock(plan.device)
    for step, (x, y) in enumerate(batches):
        if step % plan.interval == 0:
            checked.append([step, _mean_loss(model, held_out[: plan.checks], plan)])
            clock.start()
        for group in optimizer.param_groups:
            group["lr"] = plan.rate * _schedule(step, plan)
        loss = _loss(plan, model, x, y)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
        clock.count(step % plan.interval == plan.interval - 1)
    checked.append([plan.steps, _mean_loss(model, held_out[: plan.checks], plan)])
    smooth = [
        [i, torch.stack(losses[i : i + plan.interval]).mean().item()]
        for i in range(0, len(losses), plan.interval)
    ]
    result = {
        "train": _rounded(smooth),
        "validation": _rounded(checked),
        "final": _mean_loss(model, held_out, plan),
        "milliseconds": clock.milliseconds,
    }
    return result, model


def compare_steps(plan: Plan, model: nn.Module, seed: int, text: Text) -> dict[str, Any]:
    """Errors of one step of the plan's variants from the weights of `model`, by variant."""
    batches = list(_batches(text.train, plan, STEPS_COMPARED, 1000 + seed))
    recipes = {name: VARIANTS[name] for name in plan.variants}
    errors = step_errors(model, recipes, batches, partial(_loss, plan))
    return {name: asdict(error) for name, error in errors.items()}


def _batches(text: Tensor, plan: Plan, count: int, seed: int) -> Any:
    generator = torch.Generator().manual_seed(seed)
    last = len(text) - plan.size.length - 1
    starts = torch.randint(0, last, (count, plan.batch), generator=generator).to(plan.device)
    text = text.to(plan.device)
    for row in starts:
        yield windows(text, row, plan.size.length)


def _loss(plan: Plan, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    with torch.autocast(torch.device(plan.device).type, torch.bfloat16):
        logits = model(x)
    return nn.functional.cross_entropy(logits.flatten(0, 1).float(), y.flatten())


def _mean_loss(model: nn.Module, batches: Sequence[tuple[Tensor, Tensor]], plan: Plan) -> float:
    # Gradients stay on: without them everything would be compiled a second time.
    return torch.stack([_loss(plan, model, x, y).detach() for x, y in batches]).mean().item()


def _schedule(step: int, plan: Plan) -> float:
    """Linear warm-up, then a cosine down to LEAST_RATE."""
    if step < plan.warmup:
        return (step + 1) / plan.warmup
    done = (step - plan.warmup) / max(1, plan.steps - plan.warmup)
    return LEAST_RATE + (1 - LEAST_RATE) * (1 + math.cos(math.pi * done)) / 2


def _rounded(points: list[list[float]]) -> list[list[float]]:
    return [[step, round(loss, 5)] for step, loss in points]


class _Clock:
    """Milliseconds a training step takes: the median over intervals."""

    def __init__(self, device: str) -> None:
        self._device, self._begin, self._steps, self._means = device, 0.0, 0, []

    def start(self) -> None:
        self._wait()
        self._begin, self._steps = time.perf_counter(), 0

    def count(self, last: bool) -> None:
        self._steps += 1
        if last:
            self._wait()
            self._means.append(1e3 * (time.perf_counter() - self._begin) / self._steps)

    def _wait(self) -> None:
        if self._device.startswith("cuda"):
            torch.cuda.synchronize()

    @property
    def milliseconds(self) -> float | None:
        return sorted(self._means)[(len(self._means) - 1) // 2] if self._means else None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    cuda = torch.cuda.is_available()
    add = parser.add_argument
    add("--out", required=True, help="folder of results")
    add("--report", action="store_true", help="only table and picture, from results that are there")
    add("--device", default="cuda" if cuda else "cpu")
    add("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS), metavar="NAME")
    add("--seeds", nargs="+", type=int, default=[0, 1, 2], metavar="N")
    add("--steps", type=int, default=500)
    add("--batch", type=int, default=64, help="sequences a step")
    add("--rate", type=float, help=f"largest learning rate (default: {RATE} x 384 / width)")
    add("--warmup", type=int, default=50, help="steps")
    add("--interval", type=int, default=25, help="steps between validations")
    add(
        "--checks",
        type=int,
        default=2,
        help="batches of a validation, eight times as many at the end",
    )
    add("--sizes", nargs="+", choices=SIZES, default=["medium"], metavar="NAME")
    for name in ("layers", "width", "heads"):
        add(f"--{name}", type=int, help="in place of the size's own")
    add("--length", type=int, default=Size.length, help="bytes of a sequence")
    add("--jobs", type=int, default=len(VARIANTS) if cuda else 1, help="variants at a time")
    add("--eager", action="store_true", help="do not compile")
    return parser


def _plan(options: argparse.Namespace, name: str) -> Plan:
    own = {key: getattr(options, key) for key in ("layers", "width", "heads", "length")}
    size = replace(SIZES[name], **{key: value for key, value in own.items() if value is not None})
    names = ("device", "steps", "batch", "warmup", "interval", "checks")
    return Plan(
        **{key: getattr(options, key) for key in names},
        rate=options.rate if options.rate is not None else RATE * Size.width / size.width,
        compile=not options.eager,
        variants=tuple(options.variants),
        name=name,
        size=size,
    )


if __name__ == "__main__":
    main()
