"""Container: a tensor of values that is held as codes and scales, as PyTorch sees it.

A wrapper subclass of torch.Tensor: it has the shape and the device of the values, which are
float32, and may stand where PyTorch moves, copies, cuts, saves and loads tensors, as a Parameter
too. It has no arithmetic.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import return_and_correct_aliasing

from .. import names
from . import sharding

aten = torch.ops.aten
CLASSES: dict[str, type["Container"]] = {}  # by name, which files keep


class Container(Tensor):
    """Base of all containers; a subclass names its parts and how they are cut.

    Three things make a container again: its parts, which are attributes that are tensors; its
    facts, which are plain values that files keep too; and its shape.
    """

    __torch_function__ = torch._C._disabled_torch_function_impl

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        CLASSES[cls.__name__] = cls

    @classmethod
    def wrapper(cls, shape: Sequence[int], device: torch.device) -> Any:
        """A container of values of `shape`, without parts yet."""
        made = Tensor._make_wrapper_subclass(cls, shape, dtype=torch.float32, device=device)
        # torch.export replaces this method of parameters' classes, to look for them in its graph.
        if not torch.compiler.is_dynamo_compiling() and (
            cls.__getattribute__ is not Tensor.__getattribute__
        ):
            made.__class__ = _unwatched(cls)  # pyright: ignore[reportArgumentType]
        return made

    @property
    def data(self) -> Tensor:
        """The container without gradients. Assigning copies; TypeError unless it is alike."""
        return torch.Tensor.data.__get__(self)  # pyright: ignore[reportAttributeAccessIssue]

    @data.setter
    def data(self, value: Tensor) -> None:
        # PyTorch would take it, and leave the parts as they are.
        with torch.no_grad():
            self.copy_(value)

    def facts(self) -> tuple[Any, ...]:
        """Fields that are no tensors: strings, numbers, tuples of them."""
        raise NotImplementedError

    @classmethod
    def made_of(
        cls, parts: dict[str, Tensor], facts: tuple[Any, ...], shape: Sequence[int]
    ) -> "Container":
        """The container of these parts, by name (none that is None), and facts."""
        raise NotImplementedError

    def cut(self, dim: int, start: int, stop: int) -> "Container":
        """Values from `start` to `stop` along an axis; ValueError where groups are not whole."""
        raise TypeError(f"{type(self).__name__} has no parts along axis {dim}")

    def transposed(self) -> "Container":
        """The transpose of a matrix."""
        raise TypeError(f"{type(self).__name__} has no transpose")

    def shared(self, dim: int) -> set[str]:
        """The parts that slices along an axis keep whole."""
        return set()

    def named_parts(self) -> dict[str, Tensor]:
        """The parts that there are, by the names of their attributes.

        A method, as all that operators call: torch.compile does not trace a tensor's properties.
        """
        raise NotImplementedError

    def parts(self) -> list[Tensor]:
        """`named_parts` without the names."""
        return list(self.named_parts().values())

    def with_parts(self, change: Callable[[Tensor], Tensor]) -> "Container":
        """A container like this one with other parts."""
        changed = {name: change(part) for name, part in self.named_parts().items()}
        return self.made_of(changed, self.facts(), self.shape)

    def contiguous(self, memory_format: Any = torch.contiguous_format) -> "Container":
        if memory_format not in (torch.contiguous_format, torch.preserve_format):
            raise TypeError(
                f"memory_format of {type(self).__name__} must be contiguous_format, not "
                f"{str(memory_format).removeprefix('torch.')}"
            )
        return self.with_parts(Tensor.contiguous)

    def share_memory_(self) -> "Container":
        """Move the parts to memory that processes share."""
        for part in self.named_parts().values():
            part.share_memory_()
        return self

    def is_shared(self) -> bool:
        """Whether all parts are in memory that processes share."""
        return all(part.is_shared() for part in self.named_parts().values())

    def __dlpack__(self, **_: Any) -> Any:
        raise TypeError(f"{type(self).__name__} has no DLPack: it holds codes, in its parts")

    def check(self) -> None:
        """ValueError for parts that hold what none can; it looks at all of them."""

    def fsdp_pre_all_gather(
        self, mesh: Any, outer_size: Any, outer_stride: Any, module: Any, mp_policy: Any
    ) -> tuple[tuple[Tensor, ...], torch.Size]:
        """A hook of FSDP2: what it gathers, and what the next one is told."""
        return sharding.own_parts(self), outer_size

    def fsdp_post_all_gather(
        self, all_gather_outputs: Any, metadata: torch.Size, param_dtype: Any, *, out: Any = None
    ) -> "tuple[Container, tuple[()]] | None":
        """A hook of FSDP2: the whole, in the memory that it frees and fills again."""
        whole = sharding.gathered(self, all_gather_outputs, metadata)
        if out is None:
            return whole, ()
        sharding.refill(getattr(out, "_local_tensor", out), whole)
        return None

    def __repr__(self) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
        facts = ", ".join(map(str, self.facts()))
        return f"{type(self).__name__}({tuple(self.shape)}, {facts}, device={str(self.device)!r})"

    def __tensor_flatten__(self) -> tuple[list[str], tuple[Any, ...]]:
        return list(self.named_parts()), self.facts()

    def _stable_hash_for_caching(self) -> str:
        """Key in PyTorch's cache of compiled graphs: everything except the values."""
        parts = [
            (name, x.dtype, str(x.device), tuple(x.shape), x.stride())
            for name, x in self.named_parts().items()
        ]
        return f"{type(self).__name__}{self.facts()}{tuple(self.shape)}{parts}"

    @classmethod
    def __tensor_unflatten__(
        cls, parts: dict[str, Tensor], facts: tuple[Any, ...], shape: Any, stride: Any
    ) -> "Container":
        return cls.made_of(parts, facts, shape)

    def __reduce_ex__(self, protocol: Any) -> Any:
        own = [fact for fact in self.facts() if fact in names.OTHERS]
        if own:
            raise ValueError(
                f"a {type(self).__name__} to be copied or saved must have a scheme with a name, "
                f"not {own[0]}"
            )
        parameter = self.requires_grad if isinstance(self, torch.nn.Parameter) else None
        kept = self.named_parts(), self.facts(), tuple(self.shape)
        return restored, (type(self).__name__, *kept, parameter)

    @classmethod
    def __torch_dispatch__(  # pyright: ignore[reportIncompatibleMethodOverride]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if func in sharding.COLLECTIVES:
            return sharding.COLLECTIVES[func](*args, **(kwargs or {}))
        if func in FACTS:
            return FACTS[func](*args, **(kwargs or {}))
        inference = torch.is_inference_mode_enabled()
        if func not in OPERATORS and inference:  # which hands on whole what is made of others
            made = func.decompose(*args, **(kwargs or {}))
            if made is not NotImplemented:
                return made
        if func not in OPERATORS:
            # No TypeError, which Python's operators take for another operand's turn.
            raise NotImplementedError(
                f"{cls.__name__} has no operator {func}: it holds codes, whose values dequantize() "
                "gives"
            )
        # A view is an inference tensor where its base is one: PyTorch lets them share a version.
        if func in VIEWS and inference and not args[0].is_inference():
            with torch.inference_mode(False):
                return _made(func, args, kwargs or {})
        return _made(func, args, kwargs or {})


@cache
def _unwatched(cls: type[Container]) -> type[Container]:
    """A class of containers made during an export: it holds parts as `cls` does without one."""
    own = type(cls.__name__, (cls,), {"__getattribute__": Tensor.__getattribute__})
    CLASSES[cls.__name__] = cls  # which files keep
    return own


def _made(func: Any, args: Any, kwargs: Any) -> Any:
    made = OPERATORS[func](*args, **kwargs)
    if isinstance(made, Flat):
        return made  # of another class, which the correction does not take
    for x in made if isinstance(made, list) else (made,):
        x.__class__ = type(args[0])  # an export looks for both, or for neither
    return return_and_correct_aliasing(func, args, kwargs, made)


def holds_codes(x: Tensor) -> bool:
    """Whether a tensor, or what a DTensor has of it on this rank, is a container."""
    return isinstance(getattr(x, "_local_tensor", x), Container)


def alike(x: Tensor, other: Tensor) -> bool:
    """Whether two tensors are containers of one kind, shape and facts."""
    x, other = (getattr(each, "_local_tensor", each) for each in (x, other))
    if not (isinstance(x, Container) and isinstance(other, Container)):
        return False
    mine, its = ((type(c), c.shape, c.facts(), list(c.named_parts())) for c in (x, other))
    return mine == its


def restored(
    name: str,
    parts: dict[str, Tensor],
    facts: tuple[Any, ...],
    shape: tuple[int, ...],
    parameter: bool | None,
) -> Container:
    """A container from a file; `parameter`: whether it takes a gradient, None for no Parameter.

    ValueError for codes and scales that do not fit the container.
    """
    made = CLASSES[name].made_of(parts, facts, shape)
    if made.device.type != "meta":
        made.check()
    return made if parameter is None else torch.nn.Parameter(made, parameter)  # type: ignore


torch.serialization.add_safe_globals([restored])


# What PyTorch may do with a container -----------------------------------------------------------


def _same(x: Container, *_: Any, **__: Any) -> Container:
    return x.with_parts(lambda part: part.detach())


def _clone(x: Container, *, memory_format: Any = None) -> Container:
    return x.with_parts(lambda part: part.clone(memory_format=memory_format))


def _moved(x: Container, *, dtype: Any = None, device: Any = None, **options: Any) -> Container:
    if dtype not in (None, torch.float32):
        name = str(dtype).removeprefix("torch.")
        raise TypeError(f"dtype of {type(x).__name__} must be float32, not {name}")
    kept = {key: options[key] for key in ("non_blocking",) if key in options}
    return x.with_parts(lambda part: part.to(device=device, copy=True, **kept))


def _copied(x: Container, other: Any, non_blocking: bool = False) -> Container:
    if not isinstance(x, Container):
        raise TypeError(f"{_shown(x)} takes no copy of {other}, which holds codes")
    if not alike(x, other):
        raise TypeError(f"{x} takes a copy of its like only, not of {_shown(other)}")
    for name, part in x.named_parts().items():
        part.copy_(getattr(other, name), non_blocking)
    return x


def _shown(x: Any) -> str:
    return str(x) if isinstance(x, Container) else f"{type(x).__name__} of {tuple(x.shape)}"


def _viewed(
    x: Container, size: Sequence[int], stride: Sequence[int] | None = None, offset: int | None = 0
) -> Container:
    if list(size) == [-1] and stride is None:
        return Flat(x)
    if tuple(size) != x.shape or tuple(stride or x.stride()) != x.stride() or offset:
        raise TypeError(f"{type(x).__name__} has no view of another shape than {tuple(x.shape)}")
    return _same(x)


class Flat(Container):
    """All values of a container in a row: FSDP2 asks for such a view, and does nothing with it."""

    def __new__(cls, whole: Container) -> "Flat":
        return cls.wrapper([whole.numel()], whole.device)

    def __init__(self, whole: Container) -> None:
        self.whole = whole

    def named_parts(self) -> dict[str, Tensor]:
        return self.whole.named_parts()

    def facts(self) -> tuple[()]:
        return ()


def _empty(x: Container, *, device: Any = None, **_: Any) -> Container:
    return x.with_parts(lambda part: torch.empty_like(part, device=device))


def _room(x: Container, size: Sequence[int], *, device: Any = None, **_: Any) -> Container:
    """Room for one like `x`, or for one of equal parts along the rows."""
    return _empty(x if tuple(size) == x.shape else _zeros(x, size), device=device)


def _zeros_like(x: Container, *, device: Any = None, **_: Any) -> Container:
    return x.with_parts(lambda part: torch.zeros_like(part, device=device))


def _zeros(x: Container, size: Sequence[int], **_: Any) -> Container:
    """Room for one of equal parts along the rows."""
    rows = size[0]
    part = _sliced(x, 0, 0, rows) if rows and x.shape[0] % rows == 0 else None
    if part is None or part.shape != tuple(size) or part.facts() != x.facts():
        raise ValueError(f"{x} must be cut into equal parts of its rows, not {tuple(size)}")
    return part.with_parts(torch.zeros_like)


def _pinned(x: Container, device: Any = None) -> Container:
    return x.with_parts(Tensor.pin_memory)


def _is_pinned(x: Container, device: Any = None) -> bool:
    return all(part.is_pinned() for part in x.named_parts().values())


def _sliced(
    x: Container, dim: int = 0, start: int | None = None, stop: int | None = None, step: int = 1
) -> Container:
    if step != 1:
        raise ValueError(f"step of a slice of {type(x).__name__} must be 1, not {step}")
    dim = dim % x.ndim
    start, stop, _ = slice(start, stop).indices(x.shape[dim])
    if (start, stop) == (0, x.shape[dim]):
        return _same(x)
    return x.cut(dim, start, max(start, stop))


def _split(x: Container, size: int, dim: int = 0) -> list[Container]:
    return [_sliced(x, dim, at, at + size) for at in range(0, x.shape[dim], size)]


def _turned(x: Container, *dims: int) -> Container:
    if x.ndim != 2:
        raise TypeError(f"{type(x).__name__} of {x.ndim} axes has no transpose, only a matrix has")
    if dims and dims[0] % 2 == dims[1] % 2:
        return _same(x)
    return x.transposed()


def _permuted(x: Container, dims: Sequence[int]) -> Container:
    return _same(x) if list(dims) == list(range(x.ndim)) else _turned(x)


VIEWS: dict[Any, Callable[..., Any]] = {
    aten.detach.default: _same,
    aten.alias.default: _same,
    aten.view.default: _viewed,
    aten.as_strided.default: _viewed,
    aten.slice.Tensor: _sliced,
    aten.split.Tensor: _split,
    aten.t.default: _turned,
    aten.transpose.int: _turned,
    aten.permute.default: _permuted,
}
OPERATORS: dict[Any, Callable[..., Any]] = {
    **VIEWS,
    aten.clone.default: _clone,
    aten._to_copy.default: _moved,
    aten.copy_.default: _copied,
    aten.empty_like.default: _empty,
    aten.zeros_like.default: _zeros_like,
    aten.new_empty.default: _room,
    aten.new_zeros.default: _zeros,
    aten._pin_memory.default: _pinned,
}
FACTS: dict[Any, Callable[..., Any]] = {aten.is_pinned.default: _is_pinned}  # no tensor made


def whole_groups(dim: int, start: int, stop: int, length: int, group: int) -> slice:
    """The groups from `start` to `stop`; ValueError unless they are whole."""
    if start % group or (stop % group and stop != length):
        raise ValueError(
            f"a slice along axis {dim} must be of whole groups of {group}, not {start} to {stop}"
        )
    return slice(start // group, -(-stop // group))


def along(part: Tensor, dim: int, where: slice) -> Tensor:
    """`part[where]` along an axis."""
    return part.narrow(dim, where.start, where.stop - where.start)
