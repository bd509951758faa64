"""A network end to end by machines or accumulators: error, perplexity, the first other token.

Every case is a task of `util.jobs`: its result is kept, and a run that was cut off goes on there.
"""

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import cycle
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ...model import Accumulator
from ...model.accumulators import accumulator
from ...util.charts import Entry, Picture, save
from ...util.charts.layers import axis, level, lines, panel, points
from ...util.charts.palette import MANY, SHAPES
from ...util.jobs import Backend, Observer, results_of
from ...util.jobs import run as run_tasks
from ...util.keys import fingerprint, task_key, version_of
from ...util.store import Outcome
from ...util.sweep import expand, values
from ...util.tables import records, write_csv
from .. import Evaluation, Recipe
from ..batches import evaluation_mode, run
from ..evaluate import WHOLE, OutputErrors, first_tensor, row_text
from .evaluation import by_recipe, taking_inputs, telling
from .network import Network

SOURCES = ("model", "gpu", "nn")
ORIGINAL = "float32"
"""Name of the network as it is."""


# Cases --------------------------------------------------------------------------------------------


def machine_recipes(names: Sequence[str]) -> dict[str, Recipe]:
    """A recipe for each machine, by the name given; ValueError for unknown machines and none."""
    if not names:
        raise ValueError("machine must name at least one machine, not none")
    return {name: Recipe(machine=name) for name in names}


def accumulators(text: str) -> list[Accumulator]:
    """Accumulators of a sweep text, as ``aligned:6..14,hopper,exact``; ValueError names them."""
    return list(dict.fromkeys(map(accumulator, values(text, "accumulator", expand))))


def accumulator_recipes(
    named: Mapping[str, Recipe], rules: Sequence[Accumulator]
) -> dict[str, Recipe]:
    """Every recipe with every accumulator; ValueError for a pair that does not fit."""
    return {
        f"{name} {rule}": replace(recipe, accumulator=rule)
        for name, recipe in named.items()
        for rule in rules
    }


@dataclass(frozen=True)
class Case:
    """A task: the network by a recipe, or as it is, on all of its inputs."""

    name: str
    recipe: Recipe | None
    skip: tuple[str, ...]
    network: Network
    digest: str

    weight = 1.0

    @property
    def label(self) -> str:
        return self.name

    @property
    def key(self) -> str:
        versions = [version_of(name) for name in ("torch", "transformers")]
        return task_key(
            "network", self.digest, repr(self.recipe), self.skip, versions, fingerprint(SOURCES)
        )

    def run(self) -> dict[str, Any]:
        """Errors against the network as it is; of a causal one the loss, and tokens it expects."""
        network, recipe = self.network, self.recipe
        model = network.model if recipe is None else by_recipe(network, recipe, self.skip)
        errors, loss, count, tokens = OutputErrors(), 0.0, 0, []
        with evaluation_mode(model, network.model), taking_inputs(network):
            for index, batch in enumerate(network.batches):
                want = first_tensor(run(network.model, batch, index))
                result = want
                if recipe is not None:
                    result = first_tensor(run(model, batch, index))
                errors.add(result, want)
                if network.is_causal:
                    loss += next_token_loss(result, batch["input_ids"])
                    count += batch["input_ids"][:, 1:].numel()
                    tokens += result.argmax(-1).tolist()
        return {
            "sqnr_db": errors.sqnr,
            "cosine": errors.cosine,
            "mse": errors.mse,
            "loss": loss / count if count else None,
            "tokens": tokens,
        }


def next_token_loss(logits: Tensor, tokens: Tensor) -> float:
    """Sum of the cross entropies of all tokens but the first, given those before; in nats."""
    given, wanted = logits[:, :-1].to(torch.float64), tokens[:, 1:]
    return cross_entropy(given.flatten(0, 1), wanted.flatten(), reduction="sum").item()


def digest_of(network: Network) -> str:
    """Hash of all that results depend on: parameters, configuration, inputs and device."""
    digest = hashlib.sha256()
    config = getattr(network.model, "config", None)
    digest.update(type(network.model).__name__.encode())
    if config is not None:
        digest.update(str(config).encode())
    tensors = [*network.model.state_dict().items()]
    tensors += [pair for batch in network.batches for pair in sorted(batch.items())]
    for name, tensor in tensors:
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} {tensor.device.type}".encode())
        flat = tensor.detach().cpu().contiguous().flatten()
        digest.update(flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b"")
    return digest.hexdigest()


# Running ------------------------------------------------------------------------------------------


class _Here(Executor):
    """Runs each task in this thread: networks stay where they are, and Ctrl-C ends the task."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


@contextmanager
def _here(limit: int) -> Iterator[Executor]:
    yield _Here()


def run_cases(
    network: Network,
    named: Mapping[str, Recipe],
    directory: Path,
    observer: Observer,
    *,
    skip: Sequence[str] = (),
    reference: str = ORIGINAL,
    told: Callable[[str], None] = print,
    fresh: bool = False,
) -> list["EndToEnd"]:
    """A row for the network as it is, and one for each recipe; results are kept in `directory`.

    reference: the name whose tokens the others are compared with. skip: see `mxdot.nn.convert`.
    told: takes a line per warning, as in `evaluate_network`. fresh: forget kept results first.
    """
    _check(network, named, skip, told)
    digest = digest_of(network)
    cases = [
        Case(name, recipe, tuple(skip), network, digest)
        for name, recipe in ({ORIGINAL: None} | dict(named)).items()
    ]
    backend = Backend(_here, 1)
    with telling(lambda line: None):  # told above
        outcomes = run_tasks(cases, results_of(directory, backend, fresh), backend, observer)
    kept = {case.name: outcomes[case.key] for case in cases}
    tokens = (kept[reference].value or {}).get("tokens")
    return [
        EndToEnd.of(case, kept[case.name], network, None if case.name == reference else tokens)
        for case in cases
    ]


def _check(
    network: Network,
    named: Mapping[str, Recipe],
    skip: Sequence[str],
    told: Callable[[str], None],
) -> None:
    """Refuse layers of `skip` and inputs that the network does not have, before any case runs."""
    with telling(told):
        by_recipe(network, next(iter(named.values())), skip)
    with evaluation_mode(network.model), taking_inputs(network):
        run(network.model, network.batches[0], 0)


def _about(doc: str, unit: str | None = None) -> Any:
    return field(default=None, metadata={"doc": doc, "unit": unit})


@dataclass(frozen=True)
class EndToEnd:
    """One case. None: not known, or failed. The fields are the schema."""

    name: str = field(metadata={"doc": "machine, or recipe and accumulator, or float32"})
    accumulator: str | None = _about("accumulator of the linear layers")
    sqnr_db: float | None = _about("SQNR of the outputs against float32", "dB")
    cosine: float | None = _about("cosine of the outputs to float32's")
    mse: float | None = _about("mean squared error of the outputs against float32")
    perplexity: float | None = _about("of a causal network on the text that was given")
    tokens: int | None = _about("tokens that a causal network expects, one after each position")
    tokens_differ: int | None = _about("those that are not the reference's")
    first_sequence: int | None = _about("sequence of the first of these, from 1")
    first_position: int | None = _about("tokens that were read of it")
    first_token: int | None = _about("token that is expected there")
    reference_token: int | None = _about("token that the reference expects there")
    error: str | None = _about("what failed, in one line")

    @classmethod
    def of(
        cls, case: Case, outcome: Outcome, network: Network, reference: list[list[int]] | None
    ) -> "EndToEnd":
        """The row of an outcome. reference: tokens to compare with, or None."""
        rule = None if case.recipe is None else str(case.recipe.accumulator)
        if not outcome.ok:
            return cls(case.name, rule, error=outcome.error)
        value = outcome.value
        loss, tokens = value["loss"], value["tokens"]
        facts = {name: value[name] for name in ("sqnr_db", "cosine", "mse")}
        if loss is not None and network.is_text:
            facts["perplexity"] = math.exp(loss) if loss < 700 else math.inf
        if tokens:
            facts["tokens"] = sum(map(len, tokens))
        if tokens and reference:
            facts |= differences(tokens, reference)
        return cls(case.name, rule, **facts)


def differences(tokens: list[list[int]], reference: list[list[int]]) -> dict[str, int]:
    """How many tokens differ, and which is the first, as fields of `EndToEnd`."""
    places = [
        (i, k)
        for i, (row, others) in enumerate(zip(tokens, reference, strict=True))
        for k, (token, other) in enumerate(zip(row, others, strict=True))
        if token != other
    ]
    if not places:
        return {"tokens_differ": 0}
    i, k = places[0]
    first = {"first_sequence": i + 1, "first_position": k + 1}
    first |= {"first_token": tokens[i][k], "reference_token": reference[i][k]}
    return {"tokens_differ": len(places)} | first


# Tables -------------------------------------------------------------------------------------------


def end_to_end_table(rows: Sequence[EndToEnd], reference: str) -> str:
    """A table of rows whose tokens are compared with those of `reference`."""
    columns = ["network", "accumulator", "SQNR to float32, dB", "cosine"]
    texts, causal = any(r.perplexity is not None for r in rows), any(r.tokens for r in rows)
    columns += ["perplexity"] * texts
    columns += [f"tokens other than {reference}'s", "the first"] * causal
    table = [row_text(columns), row_text(["---"] * len(columns))]
    for row in rows:
        cells = [row.name, row.accumulator or "-"]
        if row.error is not None:
            table.append(row_text([*cells, row.error]))
            continue
        cells += [f"{row.sqnr_db:.1f}", f"{row.cosine:.6f}"]
        cells += [_perplexity(row)] * texts
        cells += [_count(row), _first(row)] * causal
        table.append(row_text(cells))
    return "\n".join(table)


def _perplexity(row: EndToEnd) -> str:
    return "-" if row.perplexity is None else f"{row.perplexity:.3f}"


def _count(row: EndToEnd) -> str:
    return "-" if row.tokens_differ is None else f"{row.tokens_differ} of {row.tokens}"


def _first(row: EndToEnd) -> str:
    if not row.tokens_differ:
        return "-"
    return (
        f"sequence {row.first_sequence}, after token {row.first_position}: {row.first_token}, "
        f"not {row.reference_token}"
    )


def difference_table(evaluation: Evaluation) -> str:
    """Layers of a machine against the reference's: outputs that differ, and SQNR."""
    columns = ("layer", "outputs that differ", "SQNR, dB")
    inside = ("differ in the model", "SQNR in the model, dB")
    table = [row_text([*columns, *inside]), row_text(["---"] * 5)]
    layers = [(layer.name, layer.alone, layer.within) for layer in evaluation.layers]
    for name, alone, within in [*layers, (WHOLE, evaluation.whole, evaluation.whole)]:
        cells = [name]
        for errors in (alone, within):
            cells += [f"{errors.differing:.2%}", f"{errors.sqnr:.1f}"]
        table.append(row_text(cells))
    return "\n".join(table)


def write_end_to_end(rows: Sequence[EndToEnd], directory: Path) -> list[Path]:
    """Write `end_to_end.csv`, a line for each row, and `end_to_end.svg` of fraction bits."""
    drawn = sweep_picture(rows)
    pictures = [] if drawn is None else save(drawn, directory / "end_to_end", ["svg"])
    return [write_csv(directory / "end_to_end.csv", records(EndToEnd, rows)), *pictures]


# The picture --------------------------------------------------------------------------------------


def sweep_picture(rows: Sequence[EndToEnd]) -> Picture | None:
    """SQNR, and perplexity where it is known, against fraction bits; None for no such accumulator.

    Accumulators without fraction bits are levels, and so is the perplexity of float32.
    """
    placed = {row: bits for row in rows if (bits := _fraction_bits(row)) is not None}
    if not placed:
        return None
    families = dict.fromkeys(map(_family, placed))
    looks = dict(zip(families, zip(cycle(MANY), cycle(SHAPES)), strict=False))
    shown = {"sqnr_db": "SQNR to float32, dB", "perplexity": "perplexity"}
    across = [min(placed.values()) - 0.5, max(placed.values()) + 0.5]
    panels = []
    for name, title in shown.items():
        values = [
            {"x": bits, "y": getattr(row, name), "colour": look[0], "shape": look[1], "line": line}
            for row, bits in placed.items()
            for line, look in [(_family(row), looks[_family(row)])]
            if _is_finite(getattr(row, name))
        ]
        if not values:
            continue
        levels = [
            part
            for row in rows
            if row not in placed and _is_finite(getattr(row, name))
            for part in level(getattr(row, name), row.name)
        ]
        axes = axis("fraction bits", domain=across), axis(title)
        panels.append(panel(title, *axes, *levels, lines(values), points(values)))
    legend = [Entry(name, *look) for name, look in looks.items()]
    title = "A network through accumulators, end to end"
    return Picture("end_to_end", title, panels, legend=legend, columns=2) if panels else None


def _is_finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _fraction_bits(row: EndToEnd) -> int | None:
    rule = None if row.accumulator is None else accumulator(row.accumulator)
    return getattr(rule, "fraction_bits", None)


def _family(row: EndToEnd) -> str:
    """Name of the row without its fraction bits."""
    return row.name.partition(":")[0]


def end_to_end_lines(rows: Sequence[EndToEnd]) -> list[dict[str, Any]]:
    """Rows as plain values."""
    return [asdict(row) for row in rows]
