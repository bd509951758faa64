"""quantized_init: networks are made with quantised weights, so that others never exist together."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import wraps
from threading import get_ident
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ..gpu.tensors.container import Container, alike, holds_codes
from .convert import turn_off_fused_path
from .kept import changes
from .linear import MXLinear, as_recipe
from .recipe import Recipe

_inside = False  # of the process: what is replaced there, is for all threads


@contextmanager
def quantized_init(recipe: Recipe | None = None) -> Iterator[None]:
    """Linear layers that are made inside hold codes and scales only, as `freeze` leaves them.

    ::

        with quantized_init(Recipe("e2m1")):
            model = Network()
        model.load_state_dict(torch.load(path, weights_only=True))  # of such a network, or a frozen

    Every torch.nn.Linear that this thread makes becomes an MXLinear of `recipe`, and every MXLinear
    keeps its own recipe if it was given one. Each is quantised as soon as it has been made, so that
    no more than one weight of floats is there at a time, and none on the device meta, whose layers
    get their codes by `to_empty`, or by `load_state_dict(..., assign=True)`.
    Subclasses of Linear and everything else stay as `convert` would leave them, without a warning.
    What changes a weight in place inside (`torch.nn.init`, `copy_`, `data`, `load_state_dict` of
    floats) is given floats (out_features, in_features), one weight at a time, which are quantised
    again by the layer's own recipe. A function of `torch.nn.init` imported by its name sees the
    shape of the codes, filled up to whole groups, or is refused; so is `weight[:n].zero_()`.
    Raises TypeError or ValueError for a recipe whose weights have no format, or with names of
    layers that stay (they have none yet: make such layers outside), and inside another.
    """
    recipe = as_recipe(recipe)
    if recipe.weight is None:
        raise ValueError("recipe must have a format or a scheme of weights, not None")
    if recipe.attention is not None:
        raise ValueError(
            "attention must be None in quantized_init, whose networks convert does not see, not "
            f"{recipe.attention}"
        )
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
        writes = _Writes()
        for kind, finish in FINISHES.items():
            stack.enter_context(_finished(kind, finish, recipe, writes))
        for name in INITIALISERS:
            stack.enter_context(_replaced(nn.init, name, writes.initialiser))
        stack.enter_context(_replaced(MXLinear, "__setstate__", writes.known))
        stack.enter_context(_replaced(MXLinear, "_load_from_state_dict", _taking_floats))
        stack.enter_context(writes)
        yield
        writes.finish()


def _leave() -> None:
    global _inside
    _inside = False


@contextmanager
def _replaced(owner: Any, name: str, change: Callable[[Any], Any]) -> Iterator[None]:
    """An attribute is what `change` makes of it."""
    own, before = name in vars(owner), getattr(owner, name)
    setattr(owner, name, change(before))
    try:
        yield
    finally:
        setattr(owner, name, before) if own else delattr(owner, name)


def _finished(
    kind: type, finish: Callable[[Any, Recipe], None], recipe: Recipe, writes: "_Writes"
) -> AbstractContextManager[None]:
    """The constructor of a class ends with `finish`, in this thread."""
    thread = get_ident()

    def finishing(construct: Callable[..., None]) -> Callable[..., None]:
        @wraps(construct)
        def made(self: Any, *args: Any, **kwargs: Any) -> None:
            construct(self, *args, **kwargs)
            if type(self) is kind and get_ident() == thread:
                finish(self, recipe if kwargs.get("recipe") is None else kwargs["recipe"])
                if isinstance(self, MXLinear):
                    writes.layers.add(self)

        return made

    return _replaced(kind, "__init__", finishing)


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


INITIALISERS = [name for name in vars(nn.init) if name.endswith("_") and name[0] != "_"]


class _Writes(TorchFunctionMode):
    """Functions that change codes in place change floats, until something else has its turn."""

    def __init__(self) -> None:
        super().__init__()
        self.layers: WeakSet[MXLinear] = WeakSet()  # made inside
        self.layer: MXLinear | None = None  # whose weight the floats are
        self.target, self.floats = None, torch.empty(0)

    def known(self, restore: Callable[..., None]) -> Callable[..., None]:
        """Copies of layers count as made inside, too."""

        @wraps(restore)
        def restored(layer: MXLinear, state: Any) -> None:
            restore(layer, state)
            self.layers.add(layer)

        return restored

    def initialiser(self, fill: Callable[..., Tensor]) -> Callable[..., Tensor]:
        """One of torch.nn.init, which sees the shape of the layer's weight."""

        @wraps(fill)
        def filled(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            if not isinstance(tensor, Container):
                return fill(tensor, *args, **kwargs)
            if not tensor.is_meta:
                fill(self.floats_of(tensor), *args, **kwargs)
            return tensor

        return filled

    def __torch_function__(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        given = [*args, *kwargs.values()]
        codes = [x for x in given if isinstance(x, Container)]
        if not (len(codes) == 1 and codes[0] is given[0] and changes(func.__name__)):
            if codes:
                self.finish()
            return func(*args, **kwargs)
        (target,) = codes
        if target.is_meta:
            return target
        floats = self.floats_of(target)
        args = [floats if x is target else x for x in args]
        # The floats, not the codes: an initialiser may go on with them.
        return func(*args, **{k: floats if x is target else x for k, x in kwargs.items()})

    def floats_of(self, target: Container) -> Tensor:
        """Floats that replace a layer's codes, (out_features, in_features)."""
        if self.target is None or not _same(self.target, target):
            self.finish()
            layer = next((each for each in self.layers if _same(each.weight, target)), None)
            if layer is None:
                raise ValueError(
                    "a change of codes inside quantized_init must be of the whole weight of a "
                    f"layer that was made there, not of {target}"
                )
            rows, columns = layer.out_features, layer.in_features
            floats = target.dequantize()[:rows, :columns].contiguous()
            self.layer, self.target, self.floats = layer, target, floats
        return self.floats

    def finish(self) -> None:
        """Quantise what has been written."""
        layer, target, floats = self.layer, self.target, self.floats
        # First: what follows comes here again.
        self.layer, self.target, self.floats = None, None, torch.empty(0)
        if layer is not None and target is not None:
            target.copy_(layer.codes_of(floats))


def _taking_floats(load: Callable[..., None]) -> Callable[..., None]:
    """Layers load a weight of floats as its codes."""

    @wraps(load)
    def loaded(layer: MXLinear, state: Any, prefix: str, metadata: Any, *rest: Any) -> None:
        weight, key = layer.weight, f"{prefix}weight"
        given, shape = state.get(key), (layer.out_features, layer.in_features)
        of_floats = isinstance(given, Tensor) and not holds_codes(given) and given.shape == shape
        if of_floats and isinstance(weight, Container):
            device = given.device if weight.is_meta else weight.device
            floats = given.detach().to(device, torch.float32)
            state = {**state, key: layer.codes_of(floats)}
        load(layer, state, prefix, metadata, *rest)

    return loaded


def _same(x: Tensor, y: Container) -> bool:
    """Whether two tensors are the same codes in memory."""
    return alike(x, y) and _address(x) == _address(y)


def _address(x: Any) -> int:
    return next(iter(x.named_parts().values())).data_ptr()
