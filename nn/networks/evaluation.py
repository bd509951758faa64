"""A network by several recipes, each compared with the network itself; the table and picture."""

import copy
import itertools
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ...model.errors import nearest, one_line
from ...model.schemes import SCHEMES, scheme
from ...model.schemes.pairing import RECOMMENDED, pairings
from ...util.charts import Entry, Picture, save
from ...util.charts.layers import axis, names_axis, panel, points
from ...util.charts.palette import MANY, SHAPES
from ...util.tables import lines, write_csv
from .. import RECIPES, Evaluation, Recipe, convert, evaluate
from ..evaluate import METRICS, WHOLE, OutputErrors
from .network import Network

COLUMNS = (
    *("recipe", "layer", "kernel", "sqnr_db", "cosine", "mse", "largest"),
    *("model_sqnr_db", "model_cosine", "model_mse", "differ", "model_differ"),
)
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
"""Precision of a network whose weights have a format."""
CEILING = 160.0  # dB; where a layer without error is drawn
LEAST = 1e-30  # the same of a mean squared error
LINE_HEIGHT, LEAST_HEIGHT = 14, 60


def recipes(
    texts: Sequence[str], rules: Sequence[str] = (RECOMMENDED,), blocks: Sequence[int] = ()
) -> dict[str, Recipe]:
    """Recipes by name: `mxdot.nn.RECIPES`, ``bf16``, ``fp16``, schemes, ``weights/activations``.

    rules, blocks: of schemes, as `pairings` varies them. Raises ValueError for an unknown text, no
    text, and for a recipe of RECIPES together with rules or blocks, because it has its own.
    """
    if not texts:
        raise ValueError("recipe must name at least one recipe, not none")
    known = {**RECIPES, **{fmt: Recipe(fmt, fmt, fmt) for fmt in DTYPES}}
    own = [text for text in texts if text in known]
    if own and (tuple(rules) != (RECOMMENDED,) or blocks):
        raise ValueError(f"scale-rule and block are of schemes, not of the recipe {own[0]}")
    named: dict[str, Recipe] = {}
    for text in texts:
        if text in known:
            named[text] = known[text]
        else:
            if "/" not in text and text.partition(":")[0] not in SCHEMES:
                _check_scheme(text, known)
            pairs = pairings([text], rules, blocks)
            named |= {pair.name: Recipe(pair.weights, pair.activations) for pair in pairs}
    return named


def _check_scheme(text: str, known: Collection[str]) -> None:
    """ValueError with names of recipes and schemes, unless the text is a scheme's."""
    try:
        scheme(text)
    except ValueError as error:
        if not str(error).startswith("scheme must be one of"):
            raise
        raise ValueError(
            f"recipe must be one of {', '.join(known)}, a scheme or weights/activations "
            f"(docs/schemes.md), not {text!r}{nearest(text, [*known, *SCHEMES])}"
        ) from None


def evaluate_network(
    network: Network,
    named: Mapping[str, Recipe],
    *,
    skip: Sequence[str] = (),
    metric: str = "sqnr",
    told: Callable[[str], None] = print,
    reference: Recipe | None = None,
) -> dict[str, Evaluation]:
    """`mxdot.nn.evaluate` of the network by each recipe.

    skip: see `mxdot.nn.convert`. told: takes a line per warning, for example about layers that stay
    in high precision. reference: the recipe of the network that errors are against; None for the
    network as it is.
    Raises ValueError for inputs that the network does not take.
    """
    evaluations: dict[str, Evaluation] = {}
    once = _once(told)
    original = network.model
    if reference is not None:
        with telling(once):
            original = by_recipe(network, reference, skip)
    for name, recipe in named.items():
        with telling(once):
            model = by_recipe(network, recipe, skip)
            with taking_inputs(network):
                evaluations[name] = evaluate(model, original, network.batches, metric)
    return evaluations


def by_recipe(network: Network, recipe: Recipe, skip: Sequence[str]) -> nn.Module:
    """A copy of the network with layers of `recipe`, in bfloat16 or float16 if its weights are."""
    model = copy.deepcopy(network.model)
    if recipe.weight in DTYPES:
        model = model.to(DTYPES[str(recipe.weight)])
    return convert(model, recipe, skip=skip)


def _once(told: Callable[[str], None]) -> Callable[[str], None]:
    """`told`, which hears equal lines once."""
    said: set[str] = set()

    def tell(line: str) -> None:
        if line not in said:
            said.add(line)
            told(line)

    return tell


@contextmanager
def telling(told: Callable[[str], None]) -> Iterator[None]:
    """Context whose warnings `told` takes, line by line, when it ends."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for line in dict.fromkeys(str(each.message) for each in caught):
        told(line)


@contextmanager
def taking_inputs(network: Network) -> Iterator[None]:
    """Context in which errors of the forward pass become ValueErrors about the inputs."""
    try:
        yield
    except IndexError as error:  # positions that an embedding does not have
        longest = max(batch["input_ids"].shape[-1] for batch in network.batches)
        raise ValueError(
            f"length must be one that the model has positions for, not {longest}: {error}"
        ) from None
    except (AssertionError, AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"model must take input_ids alone: {one_line(str(error))}") from error


def write(
    evaluations: Mapping[str, Evaluation], directory: Path, against: str = "float32"
) -> list[Path]:
    """Write `layers.csv`, a line for each layer of each recipe, and `layers.svg`."""
    return [
        write_csv(directory / "layers.csv", lines(COLUMNS, layer_lines(evaluations))),
        *save(picture(evaluations, against), directory / "layers", ["svg"]),
    ]


def layer_lines(evaluations: Mapping[str, Evaluation]) -> list[dict[str, Any]]:
    """A line for each layer of each recipe, with the names of `COLUMNS`."""
    return [line for name, each in evaluations.items() for line in _lines(name, each)]


def _lines(recipe: str, evaluation: Evaluation) -> list[dict[str, Any]]:
    """Errors of layers alone, and in the model; of the whole model in both."""
    rows = [(each.name, each.kernel, each.alone, each.within) for each in evaluation.layers]
    rows.append((WHOLE, "", evaluation.whole, evaluation.whole))
    return [
        {"recipe": recipe, "layer": name, "kernel": kernel, "largest": alone.relative}
        | {"sqnr_db": alone.sqnr, "cosine": alone.cosine, "mse": alone.mse}
        | {f"model_{key}": value for key, value in _metrics(within).items()}
        | {"differ": alone.differing, "model_differ": within.differing}
        for name, kernel, alone, within in rows
    ]


def _metrics(errors: OutputErrors) -> dict[str, float]:
    return {"sqnr_db": errors.sqnr, "cosine": errors.cosine, "mse": errors.mse}


def picture(evaluations: Mapping[str, Evaluation], against: str) -> Picture:
    """The metric of every layer, alone and in the model, whose own stands below them."""
    metric = next(iter(evaluations.values())).metric
    looks = dict(
        zip(evaluations, zip(itertools.cycle(MANY), itertools.cycle(SHAPES)), strict=False)
    )
    names = list(dict.fromkeys(x.name for each in evaluations.values() for x in each.layers))
    alone, within = [], []
    for recipe, evaluation in evaluations.items():
        colour, shape = looks[recipe]
        look = {"colour": colour, "shape": shape}
        for layer in evaluation.layers:
            alone.append({"x": _shown(layer.alone, metric), "y": layer.name, **look})
            within.append({"x": _shown(layer.within, metric), "y": layer.name, **look})
        within.append({"x": _shown(evaluation.whole, metric), "y": WHOLE, **look})
    across = _across(metric, [value["x"] for value in within + alone])
    panels = [
        panel(
            f"layers alone, given {against}'s inputs", across, names_axis(names), points(alone, 45)
        ),
        panel("in the model", across, names_axis([*names, WHOLE]), points(within, 45)),
    ]
    heights = [max(LEAST_HEIGHT, LINE_HEIGHT * count) for count in (len(names), len(names) + 1)]
    legend = [Entry(name, *look) for name, look in looks.items()]
    title = f"{METRICS[metric].partition(',')[0]} of outputs against {against}"
    return Picture("layers", title, panels, legend=legend, height=heights, columns=2)


def _across(metric: str, values: Sequence[float]) -> dict[str, Any]:
    """An axis with room for marks at both ends, the same for both panels."""
    low, high = min(values), max(values)
    if metric == "mse":
        return axis(METRICS[metric], log=10, domain=[low / 2, high * 2])
    room = 0.04 * (high - low) or 0.04 * abs(high) or 1.0
    return axis(METRICS[metric], domain=[low - room, high + room])


def _shown(errors: OutputErrors, metric: str) -> float:
    value = getattr(errors, metric)
    if metric == "sqnr":
        return max(min(value, CEILING), -CEILING)
    return max(value, LEAST) if metric == "mse" else value
