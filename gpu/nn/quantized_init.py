"""quantized_init: networks are made with quantised weights, so that others never exist together."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from threading import get_ident
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ..tensors.container import Container, alike
from .convert import turn_off_fused_path
from .frozen import dense_codes
from .linear import MXLinear, as_recipe
from .recipe import Recipe

_inside = False  # of the process: what is replaced there, is for all threads


@contextmanager
def quantized_init(recipe: Recipe | None = None) -> Iterator[None]:
    """Linear layers that are made inside hold codes and scales only, as `freeze` leaves them.

        with quantized_init(Recipe("e2m1")):
            model = Network()
        model.load_state_dict(torch.load(path, weights_only=True))  # of such a network, or a frozen

    Every torch.nn.Linear that this thread makes becomes an MXLinear of `recipe`, and every MXLinear
    keeps its own recipe if it was given one. Each is quantised as soon as it has been made, so that
    no more than one weight of floats is there at a time, and none on the device meta, whose layers
    get their codes by `to_empty`, or by `load_state_dict(..., assign=True)`.
    Subclasses of Linear and everything else stay as `convert` would leave them, without a warning.
    What changes a weight in place inside (`torch.nn.init`, `copy_`, and so `load_state_dict` of
    floats) is given floats, one weight at a time, filled up to whole groups as the codes are, which
    are quantised again.
    Raises TypeError or ValueError for a recipe whose weights have no format, or with names of
    layers that stay (they have none yet: make such layers outside), and inside another.
    """
    recipe = as_recipe(recipe)
    if recipe.weight is None:
        raise ValueError("recipe must have a format or a scheme of weights, not None")
    if recipe.high_precision:
        raise ValueError(
            "high_precision must be empty for layers that have no names yet, not "
            f"{recipe.high_precision}"
        )
    global _inside
    if _inside:
        raise ValueError("quantized_init must not be entered inside another")
    with ExitStack() as stack:
        stack.callback(_leave)
        _inside = True
        for kind, finish in FINISHES.items():
            stack.enter_context(_finished(kind, finish, recipe))
        writes = stack.enter_context(_Writes(recipe))
        yield
        writes.finish()


def _leave() -> None:
    global _inside
    _inside = False


@contextmanager
def _finished(kind: type, finish: Callable[[Any, Recipe], None], recipe: Recipe) -> Iterator[None]:
    """The constructor of a class ends with `finish`, in this thread."""
    construct, thread = kind.__init__, get_ident()

    @wraps(construct)
    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        construct(self, *args, **kwargs)
        if type(self) is kind and get_ident() == thread:
            finish(self, recipe if kwargs.get("recipe") is None else kwargs["recipe"])

    kind.__init__ = made
    try:
        yield
    finally:
        kind.__init__ = construct


def _quantise(layer: nn.Linear, recipe: Recipe) -> None:
    made = MXLinear.from_linear(layer, recipe)
    layer.__class__, layer.__dict__ = MXLinear, made.__dict__
    made.freeze(keep_weight=False)


FINISHES: dict[type, Callable[[Any, Recipe], None]] = {
    nn.Linear: _quantise,
    MXLinear: _quantise,
    nn.TransformerEncoderLayer: lambda layer, _: turn_off_fused_path(layer),
    nn.TransformerEncoder: lambda layer, _: turn_off_fused_path(layer),
}


class _Writes(TorchFunctionMode):
    """Functions that change codes in place change floats, until something else has its turn."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        self.recipe, self.target, self.floats = recipe, None, torch.empty(0)

    def __torch_function__(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        given = [*args, *kwargs.values()]
        codes = [x for x in given if isinstance(x, Container)]
        if not (len(codes) == 1 and codes[0] is given[0] and self._takes(func, codes[0])):
            if codes:
                self.finish()
            return func(*args, **kwargs)
        (target,) = codes
        if target.is_meta:
            return target
        if self.target is None or _address(self.target) != _address(target):
            self.finish()
            self.target, self.floats = target, target.dequantize().contiguous()
        args = [self.floats if x is target else x for x in args]
        # The floats, not the codes: an initialiser may go on with them.
        return func(*args, **{k: self.floats if x is target else x for k, x in kwargs.items()})

    def _takes(self, func: Any, x: Container) -> bool:
        """Whether `func` writes into its first argument, and floats can become such codes."""
        name = func.__name__
        if name.startswith("_") or not name.endswith("_") or name in NO_WRITES or x.ndim != 2:
            return False
        return alike(self._codes(torch.empty(x.shape, device="meta")), x)

    def _codes(self, floats: Tensor) -> Any:
        rule = self.recipe.inference_accumulator(floats.shape[1])
        return dense_codes(floats, self.recipe, rule)

    def finish(self) -> None:
        """Quantise what has been written."""
        if self.target is not None:
            self.target.copy_(self._codes(self.floats))
        self.target, self.floats = None, torch.empty(0)


NO_WRITES = ("requires_grad_", "detach_", "share_memory_")


def _address(x: Container) -> int:
    return next(iter(x.named_parts().values())).data_ptr()
