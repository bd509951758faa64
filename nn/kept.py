"""Kept weights: floats of a frozen layer, which say when they are changed.

A frozen layer multiplies by codes made once. A change of its floats reaches it in two ways: methods
of the Parameter that change it, and its `data`, tell the layer at once; the version of the tensor
tells every pass that is not compiled.

Another tensor may stand in the weight's place. While the weight is still somewhere, as in
`torch.func.functional_call`, the tensor counts for that pass alone. A Parameter that is there for
good, as FSDP2's is once it has cut and gathered the weight, is kept as the weight was.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol
from weakref import ReferenceType, WeakSet, ref

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

from ..gpu.checks import is_dtensor
from ..gpu.tensors.container import holds_codes

NO_WRITES = ("requires_grad_", "detach_", "share_memory_")
IN_PLACE = ("__setitem__", *(f"__i{name}__" for name in ("add", "sub", "mul", "truediv", "pow")))


Mark = tuple[ReferenceType, int]  # a weight and its version


class Keeping(Protocol):
    """Keeper of the codes of a weight: an MXLinear, or a `Stacked` of experts."""

    @property
    def weight(self) -> Any: ...

    frozen: Any
    mark: Mark | None


class KeptWeight(nn.Parameter):
    """A Parameter whose changes are seen by the layers that keep its codes (`watch`).

    For a plain Parameter of its values, pass `weight.detach()` to `nn.Parameter`.
    """

    @property
    def data(self) -> Tensor:
        """The tensor without gradients, of the Parameter's version. Who asks may change it."""
        _tell(self)
        return self.detach()

    @data.setter
    def data(self, value: Tensor) -> None:
        torch.Tensor.data.__set__(self, value)  # pyright: ignore[reportAttributeAccessIssue]
        _tell(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> nn.Parameter:
        values = self.detach().clone(memory_format=torch.preserve_format)
        return memo.setdefault(id(self), nn.Parameter(values, self.requires_grad))

    def __reduce_ex__(self, protocol: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return nn.Parameter(self.detach(), self.requires_grad).__reduce_ex__(protocol)


LAYERS = WeakIdKeyDictionary()  # of each KeptWeight: a WeakSet


def changes(name: str) -> bool:
    """Whether a function of this name changes its first argument."""
    in_place = name.endswith("_") and not name.startswith("_") and name not in NO_WRITES
    return in_place or name in IN_PLACE


def _telling(change: Callable[..., Any]) -> Callable[..., Any]:
    """A method of Tensor that changes it, and tells the layers."""

    @wraps(change)
    def told(self: KeptWeight, *args: Any, **kwargs: Any) -> Any:
        result = change(self, *args, **kwargs)
        _tell(self)
        return result

    return told


for _name in filter(changes, dir(Tensor)):
    setattr(KeptWeight, _name, _telling(getattr(Tensor, _name)))


def _tell(weight: KeptWeight) -> None:
    """Make the next pass of each layer quantise again."""
    for layer in LAYERS.get(weight, ()):
        layer.frozen = None


def watch(layer: Keeping) -> None:
    """Let changes of the weight reach the layer, whose codes are those of the weight."""
    if type(layer.weight) is nn.Parameter:
        layer.weight.__class__ = KeptWeight
    note(layer)


def note(layer: Keeping) -> None:
    """Take the weight for unchanged from here on, if it is a KeptWeight."""
    layer.mark = None
    if type(layer.weight) is KeptWeight:
        layer.mark = ref(layer.weight), version(layer.weight)
        LAYERS.setdefault(layer.weight, WeakSet()).add(layer)


def unwatch(layer: Keeping) -> None:
    """Undo `watch`; the weight is a plain Parameter again where no other layer keeps it."""
    weight, layer.mark = layer.weight, None
    if type(weight) is KeptWeight:
        layers = LAYERS.get(weight, WeakSet())
        layers.discard(layer)
        if not layers:
            LAYERS.pop(weight, None)  # `swap_tensors` refuses tensors with weak references
            weight.__class__ = nn.Parameter


def is_replaced(layer: Keeping) -> bool:
    """Whether a tensor that is not watched stands where `watch` saw a weight, as in
    `torch.func.functional_call`. DTensors and codes do not count."""
    weight = layer.weight
    plain = not (type(weight) is KeptWeight or is_dtensor(weight) or holds_codes(weight))
    return layer.mark is not None and plain


def is_changed(layer: Keeping) -> bool:
    """Whether the weight that `watch` saw has other values, or may have."""
    if layer.mark is None or type(layer.weight) is not KeptWeight:
        return is_replaced(layer)
    seen, version_seen = layer.mark
    return seen() is not layer.weight or version_seen != version(layer.weight)


def version(weight: Tensor) -> int:
    """Number of changes of a tensor; 0 where PyTorch does not count them."""
    return 0 if weight.is_inference() else weight._version


def codes(layer: Keeping, weight: Tensor, quantise: Callable[[Tensor], Any]) -> Any:
    """Codes of the layer's weight, whose values are `weight`: kept ones, or new where it changed.

    A compiled pass takes kept codes, which methods of the Parameter and its `data` take away.
    """
    if not torch.compiler.is_compiling():
        if is_replaced(layer):
            if layer.mark[0]() is not None or type(layer.weight) is not nn.Parameter:  # type: ignore
                return quantise(weight)  # for this pass alone
            watch(layer)
            layer.frozen = None
        elif is_changed(layer):
            layer.frozen = None
    if layer.frozen is None:
        layer.frozen = quantise(weight)
        if not torch.compiler.is_compiling():
            note(layer)
    return layer.frozen
