"""MXLinear: torch.nn.Linear whose matrix products take operands of MX formats or of schemes."""

from collections.abc import Iterable
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.prune import BasePruningMethod
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

from ..gpu import checks, executors, repeated
from ..gpu.ops import block_scaled, few_rows, float8
from ..gpu.schemes import PackedWeights, int8
from ..gpu.tensors.container import Container, alike, holds_codes
from ..model.accumulators import Accumulator, Int32
from ..model.errors import flag, integer
from ..model.schemes import Limits
from . import kept, sharded
from . import limits as static
from .attention import check_recomputed
from .multiply import BLOCK_SCALED, FAST, FLOAT8, Rule
from .products import LayerProduct, dense_codes, frozen_weight
from .quantizers import Operand, SchemeQuantizer
from .recipe import Recipe

DTYPES = (torch.float32, torch.bfloat16, torch.float16)


class MXLinear(nn.Linear):
    """A drop-in for torch.nn.Linear, with the same parameters and the same state_dict.

    A layer that has `activation_limits` saves them in it too. With ``delayed`` limits it has a
    buffer more, `amax_history`; with ``learned`` ones Parameters `weight_limit` and
    `activation_limit`, float32, to be made before the optimiser is: they begin with the first
    forward pass in training, where they are 0, that has a finite value other than 0. No cast
    changes any of these.
    With input x (..., K), weight W (N, K) and the gradient g (..., N) of the output, rows counted
    along M, it computes

        output           x W^T   (M, N)   x and W quantised along K
        input gradient   g W     (M, K)   g and W quantised along N
        weight gradient  g^T x   (N, K)   g and x quantised along M

    Each operand is quantised from the tensor in the precision it came in, never from another
    quantised one; an axis that the block size does not divide is filled up with zeros. Gradients
    pass the quantisation as if it were not there (straight-through).
    In a recipe with schemes each operand is quantised once, its groups along the features (K of x
    and W, N of g), and the backward products take those values too; with `groups` ``sums`` it is as
    above.
    `freeze` keeps the quantised weight for inference.

    Results have the dtype of autocast, or of the input outside it; the bias is added in that dtype,
    after the product. A fast product multiplies dequantised values of that dtype. They are exact in
    bfloat16 and float32 (no format has more than 8 significant bits) except values
    outside their normal range, and float16's range is small.
    Raises TypeError or ValueError for inputs that nn.Linear would refuse, and for float64.
    """

    is_frozen: bool = False
    frozen: Operand | None = None  # kept with the weight, from the next pass at latest
    mark: kept.Mark | None = None  # of the kept weight, as `kept` saw it
    _of_part: bool = False  # whether that is of this rank's part of a weight
    _rule: Rule = FAST  # by which a frozen layer multiplies
    _static: SchemeQuantizer | None = None  # of activations, where they have limits
    amax_history: Tensor  # of delayed limits
    limits_begun: bool = False  # whether learned limits have begun to

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        recipe: Recipe | None = None,
    ) -> None:
        super().__init__(in_features, out_features, bias, device, dtype)
        self.recipe = as_recipe(recipe)
        static.set_up(self)

    @property
    def activation_limits(self) -> Limits | None:
        """Limits of activations, each of shape (1, 1); None for their own extremes.

        For schemes of activations with an outermost scale per tensor; values beyond saturate.
        `mxdot.nn.calibrate` finds limits. They are in the state_dict and load into any layer
        with a scheme of this kind; moving and casting the layer does not change them.
        Setting them raises TypeError or ValueError, naming them.
        """
        return None if self._static is None else self._static.limits

    @activation_limits.setter
    def activation_limits(self, limits: Limits | None) -> None:
        self._static = None if limits is None else static.with_limits(self.recipe, limits)

    def freeze(self, keep_weight: bool = True) -> "MXLinear":
        """Quantise the weight once, for inference: the layer multiplies by what is kept.

        The weight takes no gradient from here on. It stays in the state_dict; loading another one,
        moving or casting the layer, and any other change of it by PyTorch quantises again (a
        compiled pass sees changes by the Parameter's own methods and its `data`). A weight that is
        a DTensor (`fully_shard`) is quantised by the next forward pass, which has it whole, and so
        is one that became a DTensor since (`fully_shard`, `parallelize_module`); later passes keep
        these codes: freeze again after changing it, except by `load_state_dict`.
        keep_weight: False puts the codes in the weight's place, as a Parameter that is a container
        (`MXTensor`, ...), filled up to whole groups. Results are the same, except of at most 16
        rows on CUDA, which are summed in another order. It is saved, loaded into such layers, moved
        and cut as others are, but not cast; there is no way back, and no gradient for the input.
        ValueError for a weight that is a DTensor.
        ValueError too for a weight that a hook computes (pruning, weight_norm, spectral_norm).
        Where the schemes have exact INT32 sums, these replace ``fast`` products; INT4 weights of a
        ``fast`` weight-only product are packed (`mxdot.gpu.schemes.pack_weights`).
        """
        flag("keep_weight", keep_weight)
        check_own_weights("the layer", self, ("weight",))
        repeated.share_when_compiled()
        whole = not checks.is_dtensor(self.weight)
        if self.keeps_weight and not (keep_weight or whole):
            raise ValueError("keep_weight must be True of a weight that is a DTensor, not False")
        self._takes_gradients(False)
        if not self.is_frozen:
            static.warn_of_limits(self)
        self.is_frozen = True
        # Found once: torch.compile would not trace what finds it.
        self._rule = self.recipe.inference_accumulator(self.in_features)
        if not keep_weight and self.keeps_weight:
            codes = self.codes_of(self.weight.detach())
            if isinstance(codes, Container):  # it has a format
                kept.unwatch(self)
                self.weight = nn.Parameter(codes, requires_grad=False)
        if not self.keeps_weight:
            self.frozen = None  # the weight is
            return self
        self._of_part = not whole
        self.frozen = self._frozen_weight(self.weight.detach()) if whole else None
        kept.watch(self)
        return self

    def _frozen_weight(self, weight: Tensor) -> Operand:
        limit = static.within(self, "weight", weight)[1]
        return frozen_weight(weight, self.recipe, self._rule, limit)

    def codes_of(self, weight: Tensor) -> Operand:
        """Codes that replace a weight (N, K) in a frozen layer."""
        limit = static.within(self, "weight", weight)[1]
        return dense_codes(weight, self.recipe, self._rule, limit)

    def unfreeze(self) -> "MXLinear":
        """Forget the quantised weight; the weight takes gradients. ValueError if it is not kept."""
        self._check_keeps_weight("unfreeze")
        kept.unwatch(self)
        self._takes_gradients(True)
        self.is_frozen, self.frozen = False, None
        return self

    def _takes_gradients(self, wanted: bool) -> None:
        for x in (self.weight, *static.learned(self)):
            x.requires_grad_(wanted)

    @property
    def rule(self) -> Rule:
        """Product of the output: ``fast``, ``float8`` or an accumulator."""
        return self._rule if self.is_frozen else self.recipe.accumulator

    @property
    def kernel(self) -> str:
        """Name of the product, and who computes it where the weight is (`kernel_of`)."""
        return kernel_of(self)

    @property
    def keeps_weight(self) -> bool:
        """Whether there is a weight of floats, and not its codes alone."""
        return not holds_codes(self.weight)

    def _check_keeps_weight(self, what: str) -> None:
        if not self.keeps_weight:
            raise ValueError(f"{what} must be of a layer frozen with keep_weight=True, not False")

    def _apply(self, fn: Any, recurse: bool = True) -> "MXLinear":
        """Codes and limits go where the rest goes, but are not cast."""

        def moved(x: Tensor) -> Tensor:
            if not (holds_codes(x) or static.is_state(self, x)):
                return fn(x)
            probe = fn(torch.empty(0, dtype=torch.uint8, device=x.device))
            where = probe.device
            if where.type == "cpu" and probe.is_shared():
                return x.share_memory_()
            return fn(x) if "meta" in (x.device.type, where.type) else x.to(where)

        kept.unwatch(self)
        super()._apply(moved, recurse)
        return self.freeze() if self.is_frozen else self

    def register_parameter(self, name: str, param: nn.Parameter | None) -> None:
        """Register as nn.Module does; a weight of floats that replaces codes is not frozen, one
        that replaces floats of a frozen layer is quantised."""
        before = self._parameters.get(name)
        super().register_parameter(name, param)
        if before is not None and holds_codes(before) and param is not None:
            self.is_frozen = holds_codes(param)
        elif name == "weight" and self.is_frozen and param is not None:
            self.freeze()

    def __getstate__(self) -> Any:
        """The state of a copy, whose codes are those of its weight."""
        if kept.is_changed(self):
            self.freeze()
        return {**super().__getstate__(), "mark": None}  # of this process

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        if self.is_frozen and self.keeps_weight:
            kept.watch(self)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        limits = self.activation_limits
        if limits is not None:
            destination[prefix + static.KEY] = static.to_tensor(limits, self.weight.device)

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Load limits as buffers are loaded: keys that the layer does not use are unexpected. Codes
        take the weight's place only in a layer that holds codes."""
        before = self.weight
        kept.unwatch(self)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )
        if holds_codes(self.weight) and not alike(self.weight, before):  # assigned
            own = getattr(self.weight, "_local_tensor", self.weight)
            error_msgs.append(
                f"{prefix}weight must be of a layer frozen with keep_weight=False and of equal "
                f"recipe to take {own}"
            )
            self.weight = before
        key = prefix + static.KEY
        if key in state_dict and static.static_scheme(self.recipe) is not None:
            if key in unexpected_keys:
                unexpected_keys.remove(key)
            try:
                self.activation_limits = static.from_tensor(state_dict[key])
            except ValueError as error:
                error_msgs.append(f"{prefix}{error}")
        elif strict and self.activation_limits is not None:
            missing_keys.append(key)
        if self.is_frozen:
            self.freeze()

    @classmethod
    def from_linear(cls, linear: nn.Linear, recipe: Recipe | None = None) -> "MXLinear":
        """A layer with the parameters (not copies), hooks and mode of `linear`, and no limits."""
        if not isinstance(linear, nn.Linear):
            raise TypeError(f"linear must be a torch.nn.Linear, not {type(linear).__name__}")
        if isinstance(linear, MXLinear):
            linear._check_keeps_weight("linear")
        recipe = as_recipe(recipe)
        made = cls.__new__(cls)
        made.__dict__.update(linear.__dict__)
        made.recipe, made.activation_limits = recipe, None
        made.is_frozen, made.frozen, made.mark = False, None, None
        static.set_up(made)
        return made

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  # nn.Linear's name
        check_recomputed(self.recipe)
        return self.add_bias(self.multiply(input))

    def multiply(self, x: Tensor) -> Tensor:
        """x W^T without the bias: (..., K) to (..., N)."""
        dtype = self._result_dtype(x)
        if not checks.is_dtensor(self.weight):
            return self._product(x, self.weight, dtype)
        if self.is_frozen and not self._of_part:
            self.frozen, self._of_part = None, True
        together = sharded.rows_together(self.recipe)
        return sharded.product(x, self.weight, lambda *p: self._product(*p, dtype), together)

    def _product(self, x: Tensor, weight: Tensor, dtype: torch.dtype) -> Tensor:
        """x W^T with all of the weight, or with one rank's part of x and of the weight."""
        rows = x.reshape(prod(x.shape[:-1]), x.shape[-1])
        activation = self._static
        if activation is None:
            activation = self.recipe.quantizer("activation")
        record = self.training and not self.is_frozen
        if record and not self.limits_begun and self.recipe.limits == "learned":
            static.begin(self, weight=weight, activation=rows)
        rows, x_limit = static.within(self, "activation", rows, record)
        weight_limit = frozen = None
        if self.is_frozen:
            weight = weight.detach()
            if not isinstance(weight, Container):
                frozen = kept.codes(self, weight, self._frozen_weight)
        # Of a frozen layer the backward pass alone looks at it.
        if not isinstance(weight, Container) and (torch.is_grad_enabled() or not self.is_frozen):
            weight, weight_limit = static.within(self, "weight", weight, record)
        history = self.amax_history if self.recipe.limits == "delayed" else None
        features = min(self.out_features, weight.shape[0])  # codes may fill up a group
        limits = x_limit, weight_limit, history, record
        product = LayerProduct.apply(
            rows, weight, *limits, features, frozen, self._rule, activation, self.recipe, dtype
        )
        return product.reshape(*x.shape[:-1], features)

    def add_bias(self, product: Tensor) -> Tensor:
        """`product` plus the bias, if there is one."""
        return product if self.bias is None else product + self.bias.to(product.dtype)

    def extra_repr(self) -> str:
        limits, shown = self.activation_limits, ""
        if limits is not None:
            shown = f", activation_limits=({limits.low.item():g}, {limits.high.item():g})"
        return f"{super().extra_repr()}, kernel={self.kernel!r}, recipe={self.recipe}{shown}"

    def _result_dtype(self, x: Tensor) -> torch.dtype:
        """The dtype of results; raises for an input or a weight that does not fit."""
        if not checks.holds_values(x) or x.layout != torch.strided:
            given = x.layout if checks.holds_values(x) else type(x).__name__
            raise TypeError(f"input must be a dense torch.Tensor, not {given}")
        if x.ndim == 0 or x.shape[-1] != self.in_features:
            raise ValueError(
                f"input must have shape (..., {self.in_features}), not {tuple(x.shape)}"
            )
        for name, tensor in (("input", x), ("weight", self.weight)):
            if tensor.dtype not in DTYPES:
                known, given = [*map(checks.dtype_name, DTYPES)], checks.dtype_name(tensor.dtype)
                raise TypeError(
                    f"{name} must have dtype {', '.join(known[:-1])} or {known[-1]}, not {given}"
                )
        if checks.is_dtensor(self.weight):
            backward = torch.is_grad_enabled() and self.keeps_weight
            shape = self.out_features, self.in_features
            sharded.check_cut(self.weight, shape, self.recipe, backward)
        if torch.is_autocast_enabled(x.device.type):
            return torch.get_autocast_dtype(x.device.type)
        if self.keeps_weight and x.dtype != self.weight.dtype:
            want, given = checks.dtype_name(self.weight.dtype), checks.dtype_name(x.dtype)
            raise TypeError(f"input must have the weight's dtype {want}, not {given}")
        return x.dtype


HOOKS: dict[type, tuple[str, str]] = {
    BasePruningMethod: ("_tensor_name", "prune.remove"),
    WeightNorm: ("name", "remove_weight_norm"),
    SpectralNorm: ("name", "remove_spectral_norm"),
}
"""Hooks that compute a weight before each pass: where its name is, and what undoes them."""


def check_own_weights(name: str, module: nn.Module, weights: Iterable[str]) -> None:
    """ValueError, which begins with `name`, if a hook computes one of a module's `weights`."""
    computed = {weight for weight in weights if weight not in module._parameters}
    for hook in module._forward_pre_hooks.values() if computed else ():
        for kind, (attribute, remedy) in HOOKS.items():
            if isinstance(hook, kind) and getattr(hook, attribute) in computed:
                raise ValueError(
                    f"{name} must hold its {getattr(hook, attribute)} to be frozen, not compute it "
                    f"by {type(hook).__name__}: torch.nn.utils.{remedy} makes it a Parameter"
                )


def as_recipe(recipe: Recipe | None) -> Recipe:
    """`recipe`, or the default one for None; TypeError for anything else."""
    if recipe is None:
        return Recipe()
    if not isinstance(recipe, Recipe):
        raise TypeError(f"recipe must be a Recipe, not {type(recipe).__name__}")
    return recipe


def kernel_of(layer: MXLinear, rows: int | None = None) -> str:
    """The product of a layer's output, and who computes it on the device of its weight.

    rows: rows of the input, at least 1; None for more than few.

    =======================  ===================================================================
    ``values``               the library's product of quantised values, of the result's dtype
    ``float8_matmul``        `scaled_mm`, the library's product by FP8 units; without these its
                             values in float32
    ``block_scaled_matmul``  `scaled_mm` of MXFP8 or NVFP4 blocks as they are, where the device has
                             units for them; elsewhere their values in float32
    ``int8_matmul``          W8A8 by exact INT32 sums: a frozen layer of such schemes
    ``weight_only_matmul``   packed 4-bit weights of a frozen layer, by bfloat16 or float16; by
                             float32 their values
    ``few_rows_matmul``      on CUDA at most 16 rows of bfloat16 or float16 by the codes of a layer
                             frozen with ``keep_weight=False``, in place of ``values``; of FP8 rows
                             in place of ``float8_matmul`` too
    ``matmul``               the bits of an accumulator, of element formats
    ``schemes.matmul``       the same, of schemes
    =======================  ===================================================================

    Where it says ``triton or torch``, `mxdot.gpu.executors` asks the first for each product: its
    kernels may refuse a shape.
    """
    kept = layer.frozen if layer.keeps_weight else layer.weight.data
    if rows is not None and _takes_few(layer, integer("rows", rows, 1, 2**31 - 1)):
        return f"few_rows_matmul ({' or '.join(executors.by_themselves(layer.weight.device))})"
    packed = isinstance(kept, PackedWeights)
    return kernel_name(layer.recipe, layer.rule, layer.weight.device, packed)


def kernel_name(recipe: Recipe, rule: Rule, device: torch.device, packed: bool = False) -> str:
    """`kernel_of` a layer; packed: whether it holds packed weights."""
    able = " or ".join(executors.by_themselves(device))
    if rule == FLOAT8:
        return f"float8_matmul ({'scaled_mm' if float8.has_units(device) else 'torch'})"
    if rule == BLOCK_SCALED:
        return f"block_scaled_matmul ({'scaled_mm' if block_scaled.has_units(device) else 'torch'})"
    if rule == FAST:
        return f"weight_only_matmul ({able})" if packed else "values (torch)"
    assert isinstance(rule, Accumulator)
    quantizers = [recipe.quantizer(role) for role in ("activation", "weight")]
    of_schemes = [each.scheme for each in quantizers if isinstance(each, SchemeQuantizer)]
    if not recipe.of_schemes:
        return f"matmul ({able})"
    if len(of_schemes) == 2 and rule == Int32() and int8.takes(*of_schemes):
        return f"int8_matmul ({able})"
    return "schemes.matmul (torch)"


def _takes_few(layer: MXLinear, rows: int) -> bool:
    """Whether `few_rows_matmul` has the product of as many rows."""
    if rows > few_rows.MOST_ROWS or layer.weight.device.type != "cuda":
        return False
    kept = layer.frozen if layer.keeps_weight else layer.weight.data
    if not isinstance(kept, few_rows.Weights):
        return False
    if layer.rule == FAST:
        return True
    quantizer = layer.recipe.quantizer("activation")
    of_rows = isinstance(quantizer, SchemeQuantizer) and few_rows.is_of_rows(quantizer.scheme)
    return layer.rule == FLOAT8 and of_rows and few_rows.has_short_scales(kept)
