"""Attention's two products by a recipe: scaled_dot_product_attention with quantised operands.

Scores are Q K^T, both quantised along the head's features, times the scale in float32; a softmax in
float32 gives P, and the output is P V, both quantised along the keys. A recipe's accumulator makes
both products, rounded to float32; other recipes multiply the values in float32. Gradients pass the
quantisation as if it were not there, and are products of values in float32.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, local
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.nn.functional import dropout, scaled_dot_product_attention
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

from ..gpu import executors
from ..gpu.checks import dtype_name
from .multiply import FAST, Rule, multiply
from .quantizers import Quantizer
from .recipe import Recipe

Tell = Callable[["Recipe | None", tuple[Any, ...], dict[str, Any], Tensor], None]
_observers: list[Tell] = []


def attention(
    recipe: Recipe,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """`torch.nn.functional.scaled_dot_product_attention` with the products of `recipe.attention`.

    ValueError for a recipe without a format of attention, and for a mask of a causal one;
    TypeError for dtypes that PyTorch refuses.
    """
    if recipe.attention is None:
        raise ValueError("attention of the recipe must be a format, not None")
    if is_causal and attn_mask is not None:
        raise ValueError("attn_mask must be None with is_causal, not a tensor")
    device = query.device.type
    dtype = query.dtype
    is_cast = torch.is_autocast_enabled(device)
    _check_dtypes((query, key, value), attn_mask, is_cast)
    if is_cast:
        dtype = torch.get_autocast_dtype(device)
    query, key, value = (x.to(dtype) for x in (query, key, value))
    if enable_gqa:
        repeats = query.shape[-3] // key.shape[-3]
        key, value = (x.repeat_interleave(repeats, dim=-3) for x in (key, value))
    lead = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
    heads = lead or (1,)  # matrices alone have no heads
    query, key, value = (
        x.expand(*heads, *x.shape[-2:]).flatten(0, -3) for x in (query, key, value)
    )
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    rules = recipe.quantizer("attention"), recipe.attention_rule
    with torch.autocast(device, enabled=False):
        scores = _Product.apply(query, key, *rules) * factor
        scores = _masked(scores.unflatten(0, heads), attn_mask, is_causal)
        nowhere = (scores == -torch.inf).all(-1, keepdim=True)
        # The gradient of softmax is NaN for scores of -Inf alone.
        weights = torch.softmax(scores.masked_fill(nowhere, 0), -1).masked_fill(nowhere, 0)
        weights = dropout(weights, dropout_p) if dropout_p else weights
        made = _Product.apply(weights.flatten(0, -3), value.mT, *rules)
    return made.reshape(*lead, *made.shape[-2:]).to(dtype)


def _check_dtypes(given: tuple[Tensor, ...], mask: Tensor | None, is_cast: bool) -> None:
    """TypeError unless PyTorch takes dtypes of query, key and value, and of the mask."""
    query, *others = (x.dtype for x in given)
    if not is_cast and any(other != query for other in others):
        names = ", ".join(map(dtype_name, (query, *others)))
        raise TypeError(f"query, key and value must have one dtype, not {names}")
    halves = (torch.float16, torch.bfloat16) if is_cast else ()
    known = [*dict.fromkeys((torch.bool, torch.float32, query, *halves))]
    if mask is not None and mask.dtype not in known:
        *first, last = map(dtype_name, known)
        raise TypeError(
            f"attn_mask must have dtype {', '.join(first)} or {last}, not {dtype_name(mask.dtype)}"
        )


def _masked(scores: Tensor, mask: Tensor | None, is_causal: bool) -> Tensor:
    if is_causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if mask is None:
        return scores
    if mask.dtype == torch.bool:
        return scores.masked_fill(~mask, -torch.inf)
    return scores + mask


class _Product(torch.autograd.Function):
    """a (B, M, K), b (B, N, K) to a b^T (B, M, N) of float32, both quantised along K."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, quantizer: Quantizer, rule: Rule) -> Tensor:
        ctx.save_for_backward(a, b)
        ctx.quantizer = quantizer
        if rule == FAST:
            return _values(a, quantizer) @ _values(b, quantizer).mT
        shape = a.shape[1], b.shape[1]
        made = [
            multiply(quantizer.codes(x), quantizer.codes(y), rule, shape, torch.float32)
            for x, y in zip(a, b, strict=True)
        ]
        return torch.stack(made) if made else a.new_empty((0, *shape), dtype=torch.float32)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        (a, b), da, db = ctx.saved_tensors, None, None
        if ctx.needs_input_grad[0]:
            da = (g @ _values(b, ctx.quantizer)).to(a.dtype)
        if ctx.needs_input_grad[1]:
            db = (g.mT @ _values(a, ctx.quantizer)).to(b.dtype)
        return da, db, None, None


def _values(x: Tensor, quantizer: Quantizer) -> Tensor:
    """Values of (B, M, K) after quantisation, float32."""
    matrix = x.reshape(x.shape[0] * x.shape[1], x.shape[2])
    values = quantizer.values(matrix, False)[:, : x.shape[-1]]
    return values.to(torch.float32).reshape(x.shape)


def kernel_name(recipe: Recipe, device: torch.device) -> str:
    """Name of the product of attention, and who computes it."""
    if recipe.attention_rule == FAST:
        return "values (torch)"
    return f"matmul ({' or '.join(executors.by_themselves(device))})"


# Networks -----------------------------------------------------------------------------------------


class _Attention(TorchFunctionMode):
    """Calls of scaled_dot_product_attention take a recipe's products, or PyTorch's for None."""

    def __init__(self, recipe: Recipe | None) -> None:
        super().__init__()
        self.recipe = recipe

    def __torch_function__(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is scaled_dot_product_attention:
            return self.attend(*args, **kwargs)
        if func is functional.multi_head_attention_forward:  # which calls the other, unseen
            with _in_place_of_pytorchs(self.attend):
                return func(*args, **kwargs)
        return func(*args, **kwargs)

    def attend(self, *args: Any, **kwargs: Any) -> Tensor:
        """The attention that is in force."""
        if self.recipe is None:
            made = scaled_dot_product_attention(*args, **kwargs)
        else:
            made = attention(self.recipe, *args, **kwargs)
        for tell in _observers:
            tell(self.recipe, args, kwargs, made)
        return made


class _Thread(local):
    attend: Callable[..., Tensor] | None = None  # what modules of PyTorch call in this thread


_thread, _lock, _threads = _Thread(), Lock(), 0


def _attend(*args: Any, **kwargs: Any) -> Tensor:
    return (_thread.attend or scaled_dot_product_attention)(*args, **kwargs)


@contextmanager
def _in_place_of_pytorchs(attend: Callable[..., Tensor]) -> Iterator[None]:
    """Modules of PyTorch call `attend` in this thread, or what already is in its place."""
    global _threads
    if _thread.attend is not None:
        yield
        return
    with _lock:
        _threads += 1
        functional.scaled_dot_product_attention = _attend
    _thread.attend = attend
    try:
        yield
    finally:
        _thread.attend = None
        with _lock:
            _threads -= 1
            if not _threads:
                functional.scaled_dot_product_attention = scaled_dot_product_attention


class _Attending:
    """Mark of the classes of modules whose passes have a recipe's attention in force."""

    attention_recipe: Recipe | None = None


def _attending(kind: Any) -> type:
    """The class of modules of class `kind` that have a recipe's attention: one for each."""
    for own in kind.__subclasses__():
        if _is_made(own):
            return own

    class Attending(kind, _Attending):
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            if self.attention_recipe is None:
                return super().__call__(*args, **kwargs)
            # Hooks of a module would not run after a KeyboardInterrupt.
            with _Attention(self.attention_recipe):
                return super().__call__(*args, **kwargs)

        def __reduce_ex__(self, protocol: Any) -> Any:
            """A module is pickled by the class that its own stands for."""
            make, args, *rest = super().__reduce_ex__(protocol)
            parts = [kind if part is Attending else part for part in (make, *args)]
            return _remade, (self.attention_recipe, *parts), *rest

    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(Attending, name, getattr(kind, name))
    if hasattr(kind, "__deepcopy__"):  # which may forget it; else a copy is made as by a pickle
        Attending.__deepcopy__ = lambda self, memo: _with_attention(
            kind.__deepcopy__(self, memo), self.attention_recipe
        )
    return Attending


def _remade(recipe: Recipe | None, make: Callable[..., nn.Module], *args: Any) -> nn.Module:
    """A module from the parts of its pickle."""
    return _with_attention(make(*args), recipe)


def _with_attention(module: nn.Module, recipe: Recipe | None) -> nn.Module:
    if not isinstance(module, _Attending):
        module.__class__ = _attending(type(module))
    vars(module)["attention_recipe"] = recipe
    return module


def _is_made(kind: type) -> bool:
    return kind.__bases__[1:] == (_Attending,)


def set_attention(model: nn.Module, recipe: Recipe) -> None:
    """Let attention in passes of `model` be that of a recipe, PyTorch's where it has none."""
    if recipe.attention is not None:
        _with_attention(model, recipe)
    elif isinstance(model, _Attending):
        vars(model).pop("attention_recipe", None)
        if _is_made(type(model)):
            model.__class__ = type(model).__bases__[0]


def check_recomputed(recipe: Recipe) -> None:
    """ValueError where a backward pass computes a layer again (activation checkpointing) outside of
    the passes that have the recipe's attention: gradients would be those of PyTorch's attention."""
    if recipe.attention is None or torch.compiler.is_compiling():
        return
    again = torch._C._current_graph_task_id() != -1
    modes = _get_current_function_mode_stack() if again else ()
    if again and not any(isinstance(mode, _Attention) for mode in modes):
        raise ValueError(
            "attention must be None where activation checkpointing computes layers again, not "
            f"{recipe.attention}; convert each checkpointed module by itself"
        )


def has_attention(model: nn.Module) -> bool:
    """Whether a module of `model` has the attention of a recipe in force during its passes."""
    return any(
        isinstance(module, _Attending) and module.attention_recipe is not None
        for module in model.modules()
    )


@contextmanager
def observed(tell: Tell) -> Iterator[None]:
    """`tell` is called after each call of attention inside: recipe, arguments and the output."""
    _observers.append(tell)
    try:
        with _Attention(None):
            yield
    finally:
        _observers.remove(tell)
