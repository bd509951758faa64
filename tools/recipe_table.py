"""Print the table of mxdot.nn.RECIPES for tools/tables.py, with PyTorch or without."""

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

if find_spec("torch") is None:
    sys.path.append(str(Path(__file__).parent.parent / "docs"))
    import_module("torch_stand_in").install()

from mxdot.nn import RECIPES, Recipe
from mxdot.nn.recipe import ROLES
from mxdot.nn.recipes import SOURCES

HEADER = "| recipe | W | x | g | scales | groups | source |"


def main() -> None:
    """A row for each recipe, by its fields."""
    print(HEADER)
    for name, recipe in RECIPES.items():
        formats = [
            f"`{value}`" if value else "-" for value in (getattr(recipe, role) for role in ROLES)
        ]
        cells = [f"`{name}`", *formats, scales(recipe), groups(recipe), SOURCES[name]]
        print(f"| {' | '.join(cells)} |")


def scales(recipe: Recipe) -> str:
    """Source of the outermost scales."""
    if recipe.limits == "delayed":
        return f"delayed: {recipe.window} steps, times 2^{recipe.margin}"
    if recipe.limits == "current":
        return "current" if recipe.of_schemes else f"current, `{recipe.scale_rule}`"
    return f"{recipe.limits}; beyond `{recipe.clipped_gradient}`"


def groups(recipe: Recipe) -> str:
    """The axis of scales, and changes to operands of backward products."""
    texts = ["features" if recipe.once else "sums"]
    if recipe.gradient_rounding == "stochastic":
        texts.append("g stochastic")
    if recipe.hadamard:
        texts.append(f"Hadamard {recipe.hadamard}")
    return ", ".join(texts)


if __name__ == "__main__":
    main()
