"""Print the table of mxdot.nn.RECIPES for tools/tables.py, with PyTorch or without."""

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

if find_spec("torch") is None:
    sys.path.append(str(Path(__file__).parent.parent / "docs"))
    import_module("torch_stand_in").install()

from mxdot.nn import RECIPES, Recipe
from mxdot.nn.recipe import PRODUCTS, ROLES
from mxdot.nn.recipes import SOURCES

HEADER = "| recipe | W | x | g | scales | output | input gradient | weight gradient | source |"
LETTERS = {"weight": "W", "activation": "x", "gradient": "g"}
SUMMED = ("K", "N", "M")  # by product: the axis it sums over
FEATURES = {"weight": "K", "activation": "K", "gradient": "N"}


def main() -> None:
    """A row for each recipe, by its fields."""
    print(HEADER)
    for name, recipe in RECIPES.items():
        formats = [
            f"`{value}`" if value else "-" for value in (getattr(recipe, role) for role in ROLES)
        ]
        products = [product(recipe, *pair) for pair in zip(PRODUCTS, SUMMED, strict=True)]
        cells = [f"`{name}`", *formats, scales(recipe), *products, SOURCES[name]]
        print(f"| {' | '.join(cells)} |")


def scales(recipe: Recipe) -> str:
    """Source of the outermost scales."""
    if recipe.limits == "delayed":
        return f"delayed: {recipe.window} steps, times 2^{recipe.margin}"
    if recipe.limits == "current":
        return "current" if recipe.of_schemes else f"current, `{recipe.scale_rule}`"
    return f"{recipe.limits}; beyond `{recipe.clipped_gradient}`"


def product(recipe: Recipe, roles: tuple[str, str], summed: str) -> str:
    """Each operand of a product, and the axis that its groups run along."""
    texts = []
    for role in roles:
        if getattr(recipe, role) is None:
            texts.append(f"{LETTERS[role]} as it is")
            continue
        text = f"{LETTERS[role]} along {FEATURES[role] if recipe.once else summed}"
        if recipe.rounding(role) == "stochastic":
            text += ", stochastic"
        texts.append(text)
    mixed = f"; both by Hadamard {recipe.hadamard}" if recipe.hadamard and summed == "M" else ""
    return "; ".join(texts) + mixed


if __name__ == "__main__":
    main()
