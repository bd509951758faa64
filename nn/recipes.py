"""Recipes by name: how the field trains and serves networks, as `Recipe`s.

To add one, add a row. A part of a recipe is left out by `dataclasses.replace`.
"""

from collections.abc import Mapping
from dataclasses import MISSING, fields, replace
from typing import Any

from ..model.accumulators import Accumulator
from ..model.errors import choice
from .recipe import Recipe

_FP8 = Recipe("fp8_e4m3_tensor", "fp8_e4m3_tensor", "fp8_e5m2_tensor", groups="sums")
_INT4 = Recipe("int4_channel", "int4_tensor", clipped_gradient="hybrid", limits="octav")

RECIPES: dict[str, Recipe] = {
    "fp8_current": _FP8,
    "fp8_delayed": replace(_FP8, limits="delayed"),
    "fp8_blocks": Recipe("fp8_e4m3_128x128", "fp8_e4m3_b128", "fp8_e4m3_b128", groups="sums"),
    "mxfp8": Recipe(),
    "nvfp4": Recipe(
        "nvfp4_16x16",
        "nvfp4",
        "nvfp4",
        gradient_rounding="stochastic",
        groups="sums",
        hadamard=16,
    ),
    "w8a8": Recipe("int8_channel", "int8_affine"),
    "int4_weights": Recipe("int4_g128", None),
    "int4_octav": _INT4,
    "int4_learned": replace(_INT4, limits="learned", clipped_gradient="zero"),
}
SOURCES = {
    "fp8_current": "Micikevicius et al., arXiv:2209.05433",
    "fp8_delayed": "after the same",
    "fp8_blocks": "DeepSeek-V3, arXiv:2412.19437, section 3.3",
    "mxfp8": "Mishra et al., arXiv:2506.08027",
    "nvfp4": "NVIDIA, arXiv:2509.25149, section 4",
    "w8a8": "Krishnamoorthi, arXiv:1806.08342",
    "int4_weights": "after Frantar et al., GPTQ, arXiv:2210.17323",
    "int4_octav": "Sakr et al., arXiv:2206.06501",
    "int4_learned": "Esser et al., LSQ, arXiv:1902.08153",
}


def recipe_of(value: Recipe | str | Mapping[str, Any]) -> Recipe:
    """A Recipe of itself, of a name of RECIPES, or of its fields; TypeError or ValueError if none.

    Fields may be those of a JSON file.
    """
    if isinstance(value, Recipe):
        return value
    if isinstance(value, str):
        return RECIPES[choice("recipe", value, RECIPES)]
    if not isinstance(value, Mapping):
        raise TypeError(f"recipe must be a Recipe, its name or fields, not {value!r}")
    names = [field.name for field in fields(Recipe)]
    for name in value:
        choice("field of a recipe", name, names)
    return Recipe(**value)


def recipe_fields(recipe: Recipe) -> dict[str, Any]:
    """Fields that differ from the defaults, as values of JSON; ValueError for own schemes."""
    given = {}
    for field in fields(Recipe):
        value = getattr(recipe, field.name)
        if value == field.default and field.default is not MISSING:
            continue
        if isinstance(value, Accumulator):
            value = str(value)
        if isinstance(value, tuple):
            value = [*value]
        if not isinstance(value, str | int | list | None):
            raise ValueError(f"{field.name} must have a name to be kept in a file, not {value}")
        given[field.name] = value
    return given
