"""convert: a model's linear layers become MXLinear; freeze: they keep quantised weights.

quantize_: both in one call, as torchao names it.
"""

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from glob import escape
from typing import Any

from torch import nn
from torch.nn.parameter import is_lazy
from torch.nn.utils.parametrize import is_parametrized

from ..gpu.repeated import share_when_compiled
from ..model.errors import nearest
from .attention import set_attention
from .experts import MXExperts, is_stacked, projections
from .linear import MXLinear, as_recipe, check_own_weights
from .recipe import Recipe, layer_names
from .recipes import recipe_of

NO_PRODUCTS = (nn.Embedding, nn.EmbeddingBag, nn.LayerNorm, nn.RMSNorm)  # whatever their weights
ADDED = ("pos", "emb", "token", "bias", "table", "mask")  # in names of what is no matrix


def convert(model: nn.Module, recipe: Recipe | None = None, skip: Sequence[str] = ()) -> nn.Module:
    """Replace every torch.nn.Linear in `model` by an MXLinear with the same parameters.

    Stacked experts of a mixture become MXExperts, where limits are ``current``.
    The model is changed in place and returned; a Linear itself returns its replacement. Parameters
    stay the same objects, so optimisers and tied weights keep working. Subclasses of Linear,
    MXLinear among them, are left alone: they may compute something else. So are a Linear whose
    `forward` was replaced, or that was compiled before, and the `out_proj` of
    nn.MultiheadAttention, which reads its weight and never calls it.
    One UserWarning names all layers that go on to multiply in high precision: such ones, attention,
    convolutions, recurrent layers, and what seems to have products of its own. Products with the
    weight of another module, or with a buffer, are not seen: `evaluate` names layers that are never
    called.
    A recipe with a format of `attention` has it in every call of
    torch.nn.functional.scaled_dot_product_attention that a forward pass of the model makes.
    skip: names, as `model.named_modules()` gives them, of layers that stay in high precision
    without a warning, in addition to the recipe's own, with the wildcards of fnmatch: ``lm_head``,
    ``blocks.0.*``.
    Raises ValueError when a name of `skip` matches no such layer, or none is left to convert.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, not {type(model).__name__}")
    recipe = as_recipe(recipe)
    skip = layer_names("skip", skip)
    linear, others = layers_with_products(model, recipe)
    for pattern in skip:
        if not any(fnmatchcase(name, pattern) for name in (*linear, *others)):
            raise ValueError(
                f"skip must name layers of the model that multiply by weights, not {pattern!r}"
                f"{nearest(pattern, [*linear, *others])}"
            )
    patterns = (*skip, *recipe.high_precision)
    kept = _matching({**linear, **others}, patterns)
    made = {
        id(module): _replacement(module, recipe)
        for module in linear.values()
        if id(module) not in kept
    }
    if not made:
        reason = _instead(model, linear, others)
        raise ValueError(f"model must have a torch.nn.Linear to convert, not {reason}")
    left = [
        f"{name} ({type(module).__name__})"
        for name, module in model.named_modules()
        if name in others and id(module) not in kept
    ]
    if left:
        warnings.warn(
            "convert leaves in high precision what multiplies without calling a torch.nn.Linear: "
            f"{', '.join(left)}; name in skip what is meant to stay so",
            stacklevel=2,
        )
    if id(model) in made:
        return made[id(model)]
    for name, module in linear.items():
        if id(module) in made:
            model.set_submodule(name, made[id(module)])
    for module in model.modules():
        turn_off_fused_path(module)
    set_attention(model, recipe)
    return model


def _replacement(module: nn.Module, recipe: Recipe) -> nn.Module:
    if isinstance(module, nn.Linear):
        return MXLinear.from_linear(module, recipe)
    return MXExperts(module, recipe)


def _instead(
    model: nn.Module, linear: Mapping[str, nn.Module], others: Mapping[str, nn.Module]
) -> str:
    """Advice for a model without a Linear to convert, by its other modules."""
    if linear:
        return "only such that stay in high precision by name"
    parametrized = [module for module in model.modules() if is_parametrized(module)]
    kinds = dict.fromkeys(type(module).__name__ for module in parametrized or others.values())
    if not kinds:
        return "none"
    remedy = ": torch.nn.utils.parametrize.remove_parametrizations makes a Linear of such a layer"
    return f"{', '.join(kinds)} alone{remedy if parametrized else ''}"


def layers_with_products(
    model: nn.Module, recipe: Recipe
) -> tuple[dict[str, nn.Module], dict[str, nn.Module]]:
    """Layers to replace, and others that multiply in high precision, by all their names."""
    named = dict(model.named_modules(remove_duplicate=False))
    never_called = {
        id(module.out_proj)
        for module in named.values()
        if isinstance(module, nn.MultiheadAttention)
        and type(module).forward is nn.MultiheadAttention.forward
    }
    linear: dict[str, nn.Module] = {}
    others: dict[str, nn.Module] = {}
    for name, module in named.items():
        if id(module) in never_called:
            others[name] = module
        elif _is_converted(module, recipe):
            linear[name] = module
        elif not isinstance(module, MXLinear | MXExperts) and _has_products(module):
            others[name] = module
    return linear, others


def _is_converted(module: nn.Module, recipe: Recipe) -> bool:
    fits = type(module) is nn.Linear or is_stacked(module, recipe)
    return fits and not _has_own_call(module)


def _has_products(module: nn.Module) -> bool:
    """Whether it multiplies by weights of its own, as far as its parameters tell.

    Those of two axes or more are taken for such weights. Where there are parts that have parameters
    too, some may be added to what goes to the parts, as positions are: those whose name says so, or
    whose first axis or all others are of length 1.
    """
    if isinstance(module, NO_PRODUCTS):
        return False
    own = dict(module.named_parameters(recurse=False))
    matrices = {name: p for name, p in own.items() if is_lazy(p) or p.ndim > 1}
    known = isinstance(module, nn.Linear | nn.MultiheadAttention)
    if known or len(own) == len(list(module.parameters())):
        return bool(matrices)
    return any(
        is_lazy(p) or (len(p) > 1 and p[0].numel() > 1 and not _is_added(name))
        for name, p in matrices.items()
    )


def _is_added(name: str) -> bool:
    return any(word in name.lower() for word in ADDED)


def _has_own_call(module: nn.Module) -> bool:
    """Whether this object is called otherwise than others of its class: a copy would be, too."""
    return "forward" in vars(module) or vars(module).get("_compiled_call_impl") is not None


def _matching(named: Mapping[str, nn.Module], patterns: Iterable[str]) -> set[int]:
    """The ids of the modules that one of `patterns` matches by any of their names."""
    return {
        id(module)
        for name, module in named.items()
        if any(fnmatchcase(name, pattern) for pattern in patterns)
    }


def turn_off_fused_path(module: nn.Module) -> None:
    """Turn off the fused path of PyTorch's encoder layer, which would read an MXLinear's weight.

    A stack of encoder layers hands them nested tensors, which only the fused path takes.
    """
    if not isinstance(module, nn.TransformerEncoderLayer | nn.TransformerEncoder):
        return
    if any(isinstance(part, MXLinear) for part in module.modules()):
        if isinstance(module, nn.TransformerEncoder):
            module.use_nested_tensor = False
        else:
            module.activation_relu_or_gelu = 0


def freeze(model: nn.Module, keep_weight: bool = True) -> nn.Module:
    """`MXLinear.freeze` of every MXLinear in `model`, which is returned; ValueError if none.

    MXExperts are frozen too. A UserWarning names weights that other modules have too, and keep as
    floats, where codes replace them. ValueError, before any layer is frozen, for a weight that
    pruning, weight_norm or spectral_norm computes by a hook.
    """
    layers = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, MXLinear | MXExperts)
    }
    if not layers:
        raise ValueError("model must have an MXLinear to freeze, not none")
    _check_own_weights(layers)
    _freeze(model, layers.values(), keep_weight)
    return model


def _check_own_weights(layers: Mapping[str, nn.Module]) -> None:
    """ValueError for a weight that a hook computes."""
    for name, layer in layers.items():
        names = ("weight",) if isinstance(layer, nn.Linear) else projections(layer)
        check_own_weights(f"layer {name!r}" if name else "model", layer, names)


def _freeze(model: nn.Module, layers: Iterable[MXLinear | MXExperts], keep_weight: bool) -> None:
    """Freeze layers of a model, with a warning of weights that are untied."""
    tied = _tied_weights(model)
    share_when_compiled()
    for layer in layers:
        layer.freeze(keep_weight)
    parameters = dict(model.named_parameters(remove_duplicate=False))
    untied = [
        " and ".join(names)
        for names in tied
        if any(parameters[name] is not parameters[names[0]] for name in names)
    ]
    if untied:
        warnings.warn(
            f"freeze unties weights, whose place codes take: {', '.join(untied)}; keep_weight=True "
            "leaves them tied",
            stacklevel=3,
        )


def _tied_weights(model: nn.Module) -> list[list[str]]:
    """Names of every Parameter that has several."""
    names: defaultdict[int, list[str]] = defaultdict(list)
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names[id(parameter)].append(name)
    return [each for each in names.values() if len(each) > 1]


def quantize_(
    model: nn.Module,
    config: Recipe | str | Mapping[str, Any] = "mxfp8",
    filter_fn: Callable[[nn.Module, str], bool] | None = None,
) -> None:
    """Make every torch.nn.Linear in `model` an MXLinear that holds codes alone, in place.

    As `torchao.quantization.quantize_`, for inference: `convert`, then `freeze` of these layers
    with keep_weight=False. config: a Recipe, a name of RECIPES, or fields of a Recipe by name.
    filter_fn: takes a layer (a torch.nn.Linear, or stacked experts) and its name, and says whether
    it is quantised; None takes all.
    Raises TypeError or ValueError as `convert` and `freeze` do, and for a model that is a Linear
    itself, before any layer is changed.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, not {type(model).__name__}")
    if isinstance(model, nn.Linear):
        raise ValueError("model must hold its torch.nn.Linear, not be one")
    if not (filter_fn is None or callable(filter_fn)):
        raise TypeError(f"filter_fn must take a layer and its name, or be None, not {filter_fn!r}")
    recipe = recipe_of(config)
    before = {id(module) for module in model.modules()}
    linear, _ = layers_with_products(model, recipe)
    skip = []
    if filter_fn is not None:
        skip = [escape(name) for name, layer in linear.items() if not filter_fn(layer, name)]
    kept = _matching(linear, (*skip, *recipe.high_precision))
    _check_own_weights({name: layer for name, layer in linear.items() if id(layer) not in kept})
    convert(model, recipe, skip)
    made = [layer for layer in model.modules() if isinstance(layer, MXLinear | MXExperts)]
    _freeze(model, [layer for layer in made if id(layer) not in before], keep_weight=False)
