"""A network by several recipes, each compared with the network itself."""

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence

from torch import nn

from ...model.errors import one_line
from ...model.schemes.pairing import RECOMMENDED, pairings
from .. import RECIPES, Evaluation, Recipe, convert, evaluate
from .network import Network


def recipes(
    texts: Sequence[str], rules: Sequence[str] = (RECOMMENDED,), blocks: Sequence[int] = ()
) -> dict[str, Recipe]:
    """Recipes by name: `mxdot.nn.RECIPES`, schemes and ``weights/activations``.

    rules, blocks: of schemes, as `pairings` varies them. Raises ValueError for an unknown text, no
    text, and for a recipe of RECIPES together with rules or blocks, because it has its own.
    """
    if not texts:
        raise ValueError("recipe must name at least one recipe, not none")
    own = [text for text in texts if text in RECIPES]
    if own and (tuple(rules) != (RECOMMENDED,) or blocks):
        raise ValueError(f"scale-rule and block are of schemes, not of the recipe {own[0]}")
    named: dict[str, Recipe] = {}
    for text in texts:
        if text in RECIPES:
            named[text] = RECIPES[text]
        else:
            pairs = pairings([text], rules, blocks)
            named |= {pair.name: Recipe(pair.weights, pair.activations) for pair in pairs}
    return named


def evaluate_network(
    network: Network,
    named: Mapping[str, Recipe],
    *,
    skip: Sequence[str] = (),
    metric: str = "sqnr",
    told: Callable[[str], None] = print,
) -> dict[str, Evaluation]:
    """`mxdot.nn.evaluate` of the network by each recipe.

    skip: see `mxdot.nn.convert`. told: takes a line per warning, for example about layers that stay
    in high precision.
    Raises ValueError for inputs that the network does not take.
    """
    evaluations: dict[str, Evaluation] = {}
    said: set[str] = set()
    for name, recipe in named.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            model = convert(copy.deepcopy(network.model), recipe, skip=skip)
            evaluations[name] = _evaluation(model, network, metric)
        for line in dict.fromkeys(str(each.message) for each in caught):
            if line not in said:
                told(line)
            said.add(line)
    return evaluations


def _evaluation(model: nn.Module, network: Network, metric: str) -> Evaluation:
    try:
        return evaluate(model, network.model, network.batches, metric)
    except IndexError as error:  # positions that an embedding does not have
        longest = max(batch["input_ids"].shape[-1] for batch in network.batches)
        raise ValueError(
            f"length must be one that the model has positions for, not {longest}: {error}"
        ) from None
    except (AssertionError, AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"model must take input_ids alone: {one_line(str(error))}") from error
