"""convert: a model's linear layers become MXLinear; freeze: they keep quantised weights."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from torch import nn

from .linear import MXLinear, as_recipe
from .recipe import Recipe, layer_names


def convert(model: nn.Module, recipe: Recipe | None = None, skip: Sequence[str] = ()) -> nn.Module:
    """Replace every torch.nn.Linear in `model` by an MXLinear with the same parameters.

    The model is changed in place and returned; a Linear itself returns its replacement. Parameters
    stay the same objects, so optimisers and tied weights keep working. Subclasses of Linear,
    MXLinear among them, are left alone: they may compute something else.
    skip: names, as `model.named_modules()` gives them, of layers that stay in high precision,
    beside the recipe's own, with the wildcards of fnmatch: ``lm_head``, ``blocks.0.*``.
    Raises ValueError when a name of `skip` matches no linear layer, or none is left to convert.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, not {type(model).__name__}")
    recipe = as_recipe(recipe)
    skip = layer_names("skip", skip)
    linear = {
        name: module
        for name, module in model.named_modules(remove_duplicate=False)
        if type(module) is nn.Linear
    }
    for pattern in skip:
        if not any(fnmatchcase(name, pattern) for name in linear):
            raise ValueError(f"skip must name linear layers of the model, not {pattern!r}")
    patterns = (*skip, *recipe.high_precision)
    kept = {
        id(module)
        for name, module in linear.items()
        if any(fnmatchcase(name, pattern) for pattern in patterns)
    }
    made = {
        id(module): MXLinear.from_linear(module, recipe)
        for module in linear.values()
        if id(module) not in kept
    }
    if not made:
        raise ValueError("model must have a torch.nn.Linear to convert, not none")
    if id(model) in made:
        return made[id(model)]
    for name, module in linear.items():
        if id(module) in made:
            model.set_submodule(name, made[id(module)])
    for module in model.modules():
        if isinstance(module, nn.TransformerEncoderLayer):
            # Its fused path would read the weights and never call MXLinear; this turns it off.
            module.activation_relu_or_gelu = 0
    return model


def freeze(model: nn.Module) -> nn.Module:
    """`MXLinear.freeze` of every MXLinear in `model`, which is returned; ValueError if none."""
    layers = [module for module in model.modules() if isinstance(module, MXLinear)]
    if not layers:
        raise ValueError("model must have an MXLinear to freeze, not none")
    for layer in layers:
        layer.freeze()
    return model
