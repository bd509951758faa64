r"""Train a small language model in bfloat16 until it has converged, then sweep accumulators.

    python examples/lm_sweep.py --out build/lm_sweep         # minutes on one GPU
    python examples/lm_sweep.py --out build/try --device cpu --layers 1 --width 32 --heads 2 \
        --length 32 --steps 8 --interval 4 --accumulators aligned:4,exact

The network, its text and its optimiser are those of train_lm.py. Held-out text has two halves. The
loss on the first ends the training: at each of several learning rates, from the best weights, until
the loss falls no more. The second gives the perplexities of the network in float32, in bfloat16,
and with MXFP8 blocks by each accumulator. Rows go to OUT/rows.json. A run that was cut off goes on
from OUT/checkpoint.pt and OUT/results.
"""

import argparse
import math
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from lm_network import SIZES, Size, Transformer
from lm_text import Text, read_text, windows
from torch import Tensor, nn

from mxdot.model.errors import integer
from mxdot.nn.networks import (
    Network,
    accumulator_recipes,
    accumulators,
    end_to_end_lines,
    end_to_end_table,
    recipes,
    run_cases,
)
from mxdot.util.jobs import Observer, Task
from mxdot.util.store import Outcome
from mxdot.util.tables import write_json

ROWS, CHECKPOINT = "rows.json", "checkpoint.pt"
FORMATS, REFERENCE, PLAIN = "mxfp8", "float32", "bf16"
SWEEP = "aligned:3..14,hopper,exact"
FALL = 0.25  # of the learning rate, from one stage to the next
LEAST_GAIN = 0.0005  # nats per byte that count as a fall of the loss
SAVED = 10  # checks between checkpoints within a stage
READ = 32  # sequences that the sweep reads at a time

Batch = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Plan:
    """How the network is trained.

    interval: steps between checks of the loss. checks: batches of a check. patience: checks without
    a fall that end a stage.
    """

    size: Size
    device: str
    seed: int
    batch: int
    rate: float
    warmup: int
    interval: int
    checks: int
    patience: int
    stages: int


@dataclass
class Progress:
    """Where training is; history: [step, loss] of the checks; begun: step at which a stage did."""

    step: int = 0
    stage: int = 0
    begun: int = 0
    waited: int = 0
    seconds: float = 0.0
    best: float = math.inf
    history: list[list[float]] = field(default_factory=list)

    def note(self, loss: float) -> bool:
        """Whether the loss of a check is the best so far."""
        self.history.append([self.step, round(loss, 5)])
        if loss < self.best - LEAST_GAIN:
            self.best, self.waited = loss, 0
            return True
        self.waited += 1
        return False


class Reader(Transformer):
    """The network with the argument of a causal model of `transformers`."""

    def __init__(self, size: Size) -> None:
        super().__init__(size)
        self.config = size

    def forward(self, input_ids: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(input_ids)


class Told(Observer):
    """Says when a case ends."""

    def begin(self, tasks: Sequence[Task], kept: int) -> None:
        print(f"{len(tasks)} cases to run, {kept} kept", flush=True)

    def start(self, task: Task) -> None:
        pass

    def end(self, task: Task, outcome: Outcome) -> None:
        print(f"{task.label}: {outcome.error or f'{outcome.seconds:.1f} s'}", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line: train, sweep, write and print the rows."""
    parser = _parser()
    options = parser.parse_args(arguments)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # the same seed, the same numbers
    try:
        plan = _plan(options)
        rules = accumulators(options.accumulators)
        out, text = Path(options.out), read_text()
        model, about = train(plan, options.steps, text, out / CHECKPOINT, not options.eager)
    except ValueError as error:
        parser.error(str(error))
    network = network_of(model, plan, text, options.sequences)
    named = {PLAIN: recipes([PLAIN])[PLAIN], **accumulator_recipes(recipes([FORMATS]), rules)}
    rows = run_cases(network, named, out, Told(), skip=["head"])
    content = {"model": "language model", "inputs": network.inputs, "training": about}
    write_json(out / ROWS, content | {"networks": end_to_end_lines(rows)})
    print(end_to_end_table(rows, REFERENCE))


# Training -----------------------------------------------------------------------------------------


def train(
    plan: Plan, most: int, text: Text, path: Path, compiled: bool
) -> tuple[Reader, dict[str, Any]]:
    """The network with the weights of least loss, and how it came to them.

    most: steps. path: a checkpoint, from which training goes on. compiled: blocks, on a GPU.
    """
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(plan.seed)
    model = Reader(plan.size).to(plan.device)
    optimizer, progress, best = _optimizer(model, plan), Progress(), _weights(model)
    identity = asdict(plan) | {"sha256": text.sha256}
    if path.exists():
        progress, best = _load(path, identity, model, optimizer)
    if compiled and plan.device.startswith("cuda"):
        for block in model.blocks:  # all blocks share what is compiled for the first
            block.compile(fullgraph=True)
    held_out = list(_consecutive(halves(text)[0], plan, plan.checks))
    path.parent.mkdir(parents=True, exist_ok=True)
    while progress.stage < plan.stages and progress.step < most:
        started = time.perf_counter()
        for x, y in _batches(text.train, plan, progress.step):
            _step(model, optimizer, x, y, _rate(plan, progress))
            progress.step += 1
        if progress.note(_mean_loss(model, held_out)):
            best = _weights(model)
        progress.seconds += time.perf_counter() - started
        ends = progress.waited >= plan.patience
        if ends:
            print(f"step {progress.step}: loss {progress.best:.4f} falls no more", flush=True)
            model.load_state_dict(best)
            optimizer = _optimizer(model, plan)
            progress.stage, progress.begun = progress.stage + 1, progress.step
            progress.waited = 0
        if ends or progress.step >= most or len(progress.history) % SAVED == 0:
            _save(path, identity, model, optimizer, progress, best)
    torch.use_deterministic_algorithms(False)
    trained = Reader(plan.size).to(plan.device)
    trained.load_state_dict(best)
    about = {
        "parameters": sum(parameter.numel() for parameter in trained.parameters()),
        "converged": progress.stage >= plan.stages,
        "steps": progress.step,
        "best": progress.best,
        "history": progress.history,
        "seconds": round(progress.seconds, 1),
        "device": _name(plan.device),
        "plan": identity,
    }
    return trained.eval(), about


def halves(text: Text) -> tuple[Tensor, Tensor]:
    """Held-out text that ends the training, and text for the perplexities."""
    middle = len(text.validation) // 2
    return text.validation[:middle], text.validation[middle:]


def network_of(model: Reader, plan: Plan, text: Text, sequences: int) -> Network:
    """The network with text that training has not seen, `sequences` at most."""
    unseen = halves(text)[1]
    count, length = min(sequences, len(unseen) // plan.size.length), plan.size.length
    rows = unseen[: count * length].view(count, length).long().to(plan.device)
    batches = [{"input_ids": part} for part in rows.split(READ)]
    told = f"{count} sequences of {length} bytes of Python's library and documentation"
    return Network(model, batches, told, is_causal=True, is_text=True)


def _batches(text: Tensor, plan: Plan, step: int) -> Iterator[Batch]:
    """Random windows for the steps of one interval, which the seed and the step decide."""
    generator = torch.Generator().manual_seed(plan.seed * 2**32 + step)
    last, text = len(text) - plan.size.length - 1, text.to(plan.device)
    starts = torch.randint(0, last, (plan.interval, plan.batch), generator=generator)
    for row in starts.to(plan.device):
        yield windows(text, row, plan.size.length)


def _consecutive(text: Tensor, plan: Plan, count: int) -> Iterator[Batch]:
    """The first windows of a text, `count` batches at most."""
    length, text = plan.size.length, text.to(plan.device)
    starts = torch.arange(0, len(text) - length - 1, length, device=plan.device)
    for row in starts[: count * plan.batch].split(plan.batch):
        yield windows(text, row, length)


def _step(
    model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor, rate: float
) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate
    _loss(model, x, y).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()


def _rate(plan: Plan, progress: Progress) -> float:
    """A linear warm-up of every stage, then a constant."""
    warm = min(1.0, (progress.step - progress.begun + 1) / max(1, plan.warmup))
    return plan.rate * FALL**progress.stage * warm


def _loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    with torch.autocast(x.device.type, torch.bfloat16):
        logits = model(x)
    return nn.functional.cross_entropy(logits.flatten(0, 1).float(), y.flatten())


def _mean_loss(model: nn.Module, batches: Sequence[Batch]) -> float:
    # Gradients stay on: without them everything would be compiled a second time.
    losses = torch.stack([_loss(model, x, y).detach() for x, y in batches])
    return losses.mean().item()


def _optimizer(model: nn.Module, plan: Plan) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=plan.rate, betas=(0.9, 0.95), weight_decay=0.1)


# Checkpoints --------------------------------------------------------------------------------------


def _weights(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def _save(
    path: Path,
    identity: dict[str, Any],
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    progress: Progress,
    best: dict[str, Tensor],
) -> None:
    """A whole checkpoint, or none."""
    content = {"identity": identity, "progress": asdict(progress), "best": best}
    content |= {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    part = path.with_suffix(".part")
    torch.save(content, part)
    part.replace(path)


def _load(
    path: Path, identity: dict[str, Any], model: nn.Module, optimizer: torch.optim.Optimizer
) -> tuple[Progress, dict[str, Tensor]]:
    """Progress and best weights; ValueError for a checkpoint of other options or another text."""
    kept = torch.load(path, map_location=identity["device"], weights_only=True)
    other = [name for name, value in identity.items() if kept["identity"].get(name) != value]
    if other:
        raise ValueError(
            f"out must be another folder: {path} is of another {', '.join(other)}, "
            f"{kept['identity'].get(other[0])} and not {identity[other[0]]}"
        )
    model.load_state_dict(kept["model"])
    optimizer.load_state_dict(kept["optimizer"])
    return Progress(**kept["progress"]), kept["best"]


# The command line ---------------------------------------------------------------------------------


def _name(device: str) -> str:
    return torch.cuda.get_device_name(device) if device.startswith("cuda") else device


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--out", required=True, help="folder of checkpoint, results and rows")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    add(
        "--accumulators", default="aligned:3..14,hopper,exact", metavar="A,...", help="of the sweep"
    )
    add("--sequences", type=int, default=1024, help="of the sweep's text, at most")
    add("--seed", type=int, default=0)
    add("--steps", type=int, default=30_000, help="the most; fewer where the loss falls no more")
    add("--batch", type=int, default=64, help="sequences a step")
    add("--rate", type=float, default=1.5e-3, help="largest learning rate")
    add("--warmup", type=int, default=50, help="steps of each stage")
    add("--interval", type=int, default=100, help="steps between checks of the loss")
    add("--checks", type=int, default=16, help="batches of a check")
    add("--patience", type=int, default=5, help="checks without a fall that end a stage")
    add("--stages", type=int, default=4, help=f"each at {FALL} of the rate of the one before it")
    add("--size", choices=SIZES, default="medium")
    for name in ("layers", "width", "heads", "length"):
        add(f"--{name}", type=int, help="in place of the size's own")
    add("--eager", action="store_true", help="do not compile")
    return parser


def _plan(options: argparse.Namespace) -> Plan:
    """The plan; ValueError for a number that has no sense."""
    for name in ("sequences", "steps", "batch", "interval", "checks", "patience", "stages"):
        integer(name, getattr(options, name), 1)
    for name in ("seed", "warmup"):
        integer(name, getattr(options, name), 0)
    if not 0 < options.rate < 1:
        raise ValueError(f"rate must be from 0 to 1, both excluded, not {options.rate}")
    own = {key: getattr(options, key) for key in ("layers", "width", "heads", "length")}
    for name, value in own.items():
        if value is not None:
            integer(name, value, 1)
    size = replace(SIZES[options.size], **{k: value for k, value in own.items() if value})
    if size.width % size.heads:
        raise ValueError(f"heads must divide the width {size.width}, not {size.heads}")
    names = ("device", "seed", "batch", "rate", "warmup", "interval", "checks", "patience")
    return Plan(size, **{key: getattr(options, key) for key in names}, stages=options.stages)


if __name__ == "__main__":
    main()
