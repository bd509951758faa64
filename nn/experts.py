"""MXExperts: a mixture's stacked expert weights, of three axes, quantised, in grouped products.

The modules that it replaces are those of transformers (Mixtral, gpt-oss, DeepSeek, ...): weights
`gate_up_proj` or `up_proj`, and `down_proj`, of shape (experts, N, K), or (experts, K, N) where
`is_transposed` says so, with biases (experts, N) where there are. They are called with tokens (T,
H), and for each token the indices and weights of its experts, (T, k) each.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import grouped_mm

from ..gpu.checks import is_dtensor
from ..model.accumulators import Accumulator
from ..model.errors import flag
from . import kept
from .linear import MXLinear, as_recipe, check_own_weights, kernel_name, kernel_of
from .multiply import FAST
from .products import LayerProduct, frozen_weight
from .quantizers import Operand, Quantizer, SchemeQuantizer
from .recipe import Recipe

SIGNS = ("num_experts", "has_gate", "has_bias", "is_transposed", "has_post_expert_norm")
"""Attributes of a module of stacked experts."""
CODES = "quantized_"  # begins the names of lists of layers; libraries rename those of weights
ALIGNMENT = 8  # elements of a row that a grouped product of the library is a multiple of


def is_stacked(module: nn.Module, recipe: Recipe) -> bool:
    """Whether MXExperts can stand for a module, by the recipe."""
    if not all(hasattr(module, name) for name in SIGNS):
        return False
    names, own = projections(module), module._parameters
    activation = type(module) if module.has_gate else module
    return (
        recipe.limits == "current"
        and hasattr(activation, "_apply_gate" if module.has_gate else "act_fn")
        and all(own.get(name) is not None and own[name].ndim == 3 for name in names)
    )


def projections(module: Any) -> tuple[str, str]:
    """Names of the weights of the first and of the second product."""
    return ("gate_up_proj" if module.has_gate else "up_proj"), "down_proj"


class Stacked:
    """Codes of a frozen stacked weight, which `kept` keeps as it does an MXLinear's."""

    mark: kept.Mark | None = None
    frozen: Tensor | list[Operand] | None = None  # values in a stack, or the codes of each expert

    def __init__(self, experts: nn.Module, name: str) -> None:
        self.experts, self.name = experts, name

    @property
    def weight(self) -> Any:
        """The floats, or what stands in their place."""
        return self.experts._parameters.get(self.name, getattr(self.experts, self.name))

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "mark": None}  # of this process


class MXExperts(nn.Module):
    """A drop-in for a module of stacked experts, with its parameters and its state_dict.

    Each expert multiplies the tokens that go to it as an MXLinear of the recipe would, forwards and
    backwards. A frozen module whose recipe multiplies values and quantises activations row by row
    takes one grouped product of the library for all experts, where this has one: sizes must be
    multiples of 8, tokens take no gradient, and CUDA takes bfloat16 alone. Other passes take a
    product for each expert. Limits of the recipe must be ``current``.
    """

    is_frozen: bool = False
    frozen: dict[str, Stacked]

    def __init__(self, experts: Any, recipe: Recipe | None = None) -> None:
        """experts: the module that this one stands for; parameters are shared, not copied."""
        super().__init__()
        recipe = as_recipe(recipe)
        if not (isinstance(experts, nn.Module) and is_stacked(experts, recipe)):
            raise TypeError(
                "experts must be a module of stacked expert weights, and limits of the recipe "
                f"current, not {type(experts).__name__} and {recipe.limits}"
            )
        own = dict(vars(experts))
        for kind in ("_parameters", "_buffers", "_modules"):
            own[kind] = dict(own[kind])
        self.__dict__.update(own)
        self.kind, self.recipe, self.frozen = type(experts), recipe, {}

    # Weights --------------------------------------------------------------------------------------

    @property
    def dtype(self) -> torch.dtype | None:
        """Dtype of weights of floats; None where there are none."""
        return getattr(self, projections(self)[0]).dtype if self.keeps_weight else None

    @property
    def keeps_weight(self) -> bool:
        """Whether there are weights of floats, and not their codes alone."""
        return projections(self)[0] in self._parameters

    def _held(self, name: str) -> Tensor | nn.ModuleList:
        """Stacked weights, or layers that hold codes alone."""
        return getattr(self, name if self.keeps_weight else CODES + name)

    @property
    def kernel(self) -> str:
        """Name of the product, and who computes it where the weights are."""
        first = self._held(projections(self)[0])
        if isinstance(first, nn.ModuleList):
            return f"experts: {kernel_of(first[0])}"
        codes = [each.frozen for each in self.frozen.values()]
        stacks: list[Any] = [x for x in codes if isinstance(x, Tensor)]
        if codes and len(stacks) == len(codes) and all(_is_aligned(x, x.dtype) for x in stacks):
            return "grouped_mm (torch)"
        return f"experts: {kernel_name(self.recipe, self._rule(first), first.device)}"

    def _rule(self, weight: Tensor) -> Accumulator | str:
        features = weight.shape[1 if self.is_transposed else 2]
        return (
            self.recipe.inference_accumulator(features)
            if self.is_frozen
            else (self.recipe.accumulator)
        )

    def _experts_of(self, weight: Tensor) -> Iterator[Tensor]:
        """Weights (N, K) of each expert."""
        return (part.T if self.is_transposed else part for part in weight.unbind(0))

    def freeze(self, keep_weight: bool = True) -> "MXExperts":
        """Quantise the weights once, for inference, as `MXLinear.freeze` does.

        keep_weight: False makes of each weight an nn.ModuleList of MXLinear, one for each expert,
        which hold codes alone, and which the state_dict has as ``quantized_down_proj.0.weight``.
        """
        flag("keep_weight", keep_weight)
        names = projections(self) if self.keeps_weight else ()
        check_own_weights("the experts", self, names)
        whole = not any(is_dtensor(getattr(self, name)) for name in names)
        if not (keep_weight or whole):
            raise ValueError("keep_weight must be True of a weight that is a DTensor, not False")
        self.is_frozen = True
        self._unwatch()
        for name in names:
            weight = getattr(self, name).requires_grad_(False)
            if not keep_weight:
                layers = nn.ModuleList(map(self._layer, self._experts_of(weight.detach())))
                delattr(self, name)
                self.add_module(CODES + name, layers)
                continue
            own = self.frozen[name] = Stacked(self, name)
            if whole:  # else the next pass has it whole
                own.frozen = self._frozen(weight.detach())
            kept.watch(own)
        return self

    def unfreeze(self) -> "MXExperts":
        """Forget the quantised weights; the weights take gradients. ValueError if not kept."""
        if not self.keeps_weight:
            raise ValueError("unfreeze must be of experts frozen with keep_weight=True, not False")
        self._unwatch()
        for name in projections(self):
            getattr(self, name).requires_grad_(True)
        self.is_frozen = False
        return self

    def _unwatch(self) -> None:
        for own in self.frozen.values():
            kept.unwatch(own)
        self.frozen = {}

    def _codes(self, name: str) -> Tensor | list[Operand] | None:
        """Codes of a frozen weight; None where there are none."""
        if name not in self.frozen:
            return None
        own = self.frozen[name]
        return kept.codes(own, own.weight.detach(), self._frozen)

    def _frozen(self, weight: Tensor) -> Tensor | list[Operand]:
        rule = self._rule(weight)
        parts = [frozen_weight(part, self.recipe, rule, None) for part in self._experts_of(weight)]
        is_grouped = rule == FAST and _by_rows(self.recipe.quantizer("activation"))
        if is_grouped and all(type(part) is Tensor for part in parts):
            return torch.stack(parts).to(weight.dtype)
        return parts

    def _layer(self, weight: Tensor) -> MXLinear:
        layer = MXLinear(
            weight.shape[1], weight.shape[0], bias=False, device="meta", recipe=self.recipe
        )
        # A copy: a part would keep the memory of all.
        layer.weight = nn.Parameter(weight.clone(memory_format=torch.contiguous_format))
        return layer.freeze(keep_weight=False)

    def register_parameter(self, name: str, param: nn.Parameter | None) -> None:
        """Register as nn.Module does; a weight that replaces a frozen one is quantised."""
        super().register_parameter(name, param)
        if param is not None and name in self.frozen:
            self.freeze()

    def __getstate__(self) -> Any:
        """The state of a copy, whose codes are those of its weights."""
        if any(kept.is_changed(own) for own in self.frozen.values()):
            self.freeze()
        return super().__getstate__()

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        # A shallow copy has Parameters of its own to lose.
        codes = {name: own.frozen for name, own in self.frozen.items()}
        self.frozen = {}
        for name, frozen in codes.items():
            own = self.frozen[name] = Stacked(self, name)
            own.frozen = frozen
            kept.watch(own)

    def _apply(self, fn: Any, recurse: bool = True) -> "MXExperts":
        self._unwatch()
        super()._apply(fn, recurse)
        return self.freeze() if self.is_frozen else self

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self._unwatch()
        super()._load_from_state_dict(*args, **kwargs)
        if self.is_frozen:
            self.freeze()

    # Products -------------------------------------------------------------------------------------

    def forward(self, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
        """Tokens (T, H) through their experts, weighted and added."""
        tokens, k = top_k_index.shape
        experts, order = torch.sort(top_k_index.reshape(-1), stable=True)
        ends = torch.searchsorted(
            experts, torch.arange(self.num_experts, device=experts.device), right=True
        )
        first, second = projections(self)
        y = self._product(first, hidden_states[order // k], experts, ends)
        y = self.kind._apply_gate(self, y) if self.has_gate else self.act_fn(y)
        y = self._product(second, y, experts, ends)
        if self.has_post_expert_norm:
            y = self.post_expert_norm(y)
        # Indices beyond the experts are of other devices: their rows are zero.
        weights = top_k_weights.reshape(-1)[order].masked_fill(experts >= self.num_experts, 0)
        y = y * weights[:, None]
        back = torch.empty_like(order)
        back[order] = torch.arange(len(order), device=order.device)
        return y[back].reshape(tokens, k, y.shape[1]).sum(1).to(hidden_states.dtype)

    def _product(self, name: str, x: Tensor, experts: Tensor, ends: Tensor) -> Tensor:
        """Rows of x, sorted by their experts, by the weights of these, plus biases."""
        dtype = x.dtype
        if torch.is_autocast_enabled(x.device.type):
            dtype = torch.get_autocast_dtype(x.device.type)
        y = self._grouped(name, x, ends, dtype)
        if self.has_bias:
            bias = getattr(self, f"{name}_bias")
            y = y + bias[experts.clamp(max=self.num_experts - 1)].to(dtype)
        return y

    def _grouped(self, name: str, x: Tensor, ends: Tensor, dtype: torch.dtype) -> Tensor:
        frozen = self._codes(name)
        stacked: Any = frozen if isinstance(frozen, Tensor) else None
        is_plain = not (torch.is_grad_enabled() and x.requires_grad)
        if stacked is not None and is_plain and _is_aligned(stacked, dtype):
            values = self.recipe.quantizer("activation").values(x, False).to(dtype)
            product = grouped_mm(values, stacked.to(dtype).mT, offs=ends.to(torch.int32))
            rows = torch.arange(len(x), device=x.device)
            return product.masked_fill((rows >= ends[-1])[:, None], 0)  # they are not written
        features, products = self._products(name, frozen, dtype)
        made, start = [], 0
        for multiply, end in zip(products, ends.tolist(), strict=True):
            if end > start:
                made.append(multiply(x[start:end]).to(dtype))
            start = end
        made.append(x.new_zeros((len(x) - start, features), dtype=dtype))
        return torch.cat(made)

    def _products(
        self, name: str, frozen: Tensor | list[Operand] | None, dtype: torch.dtype
    ) -> tuple[int, list[Callable[[Tensor], Tensor]]]:
        """N, and for each expert what makes (rows, N) of its rows."""
        weight = self._held(name)
        if isinstance(weight, nn.ModuleList):
            layers = [layer for layer in weight if isinstance(layer, MXLinear)]
            return layers[0].out_features, [layer.multiply for layer in layers]
        features = weight.shape[2 if self.is_transposed else 1]
        parts = [*self._experts_of(weight)]
        codes = [None] * len(parts) if frozen is None else frozen
        activation, rule = self.recipe.quantizer("activation"), self._rule(weight)

        def product(part: Tensor, codes: Operand | None, rows: Tensor) -> Any:
            rules = features, codes, rule, activation, self.recipe, dtype
            return LayerProduct.apply(rows, part, None, None, None, False, *rules)

        return features, [partial(product, *pair) for pair in zip(parts, codes, strict=True)]

    def extra_repr(self) -> str:
        return f"experts={self.num_experts}, kernel={self.kernel!r}, recipe={self.recipe}"


def _by_rows(quantizer: Quantizer) -> bool:
    """Whether rows of activations are quantised alike whatever others there are."""
    if not isinstance(quantizer, SchemeQuantizer):
        return True
    return all(level.granularity.rows == 1 for level in quantizer.scheme.levels)


def _is_aligned(weight: Tensor, dtype: torch.dtype) -> bool:
    """Whether the library takes a grouped product of stacked values (experts, N, K)."""
    sizes = weight.shape[1] % ALIGNMENT or weight.shape[2] % ALIGNMENT
    return not sizes and (dtype == torch.bfloat16 or not weight.is_cuda)
