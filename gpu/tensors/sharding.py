"""Containers over the ranks of a process group: what FSDP2 and DTensor hand to one another."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from .container import Container


def own_parts(x: "Container") -> tuple[Tensor, ...]:
    """What FSDP2 gathers of a container that it has cut along the rows."""
    return tuple(part.contiguous() for part in x.named_parts().values())


def gathered(x: "Container", of_ranks: Sequence[Tensor], shape: torch.Size) -> "Container":
    """The whole, of `shape`, that `x` is this rank's rows of; of the parts of all ranks, joined."""
    own, shared = x.named_parts(), x.shared(0)
    parts = {
        name: every[: len(own[name])] if name in shared else every
        for name, every in zip(own, of_ranks, strict=True)
    }
    return x.made_of(parts, x.facts(), shape)


def refill(x: "Container", other: "Container") -> None:
    """`x` of the parts of another, where they are not already in the same memory."""
    own = x.named_parts()
    for name, part in other.named_parts().items():
        if part.data_ptr() != own[name].data_ptr():
            own[name].copy_(part)


def scatter(outputs: Sequence["Container"], inputs: Sequence[Any], *how: Any) -> Any:
    """c10d::scatter_, part by part."""
    return _each_part(torch.ops.c10d.scatter_.default, outputs, inputs, how)


def broadcast(tensors: Sequence["Container"], *how: Any) -> Any:
    """c10d::broadcast_, part by part."""
    return _each_part(torch.ops.c10d.broadcast_.default, tensors, None, how)


def _each_part(
    collective: Any, outputs: Sequence["Container"], inputs: Sequence[Any] | None, how: Any
) -> Any:
    """The collective of every part of the one output, each waited for."""
    from torch.distributed import Work

    (output,), work = outputs, None
    for name, part in output.named_parts().items():
        buffer = part.contiguous()
        of_inputs = [[getattr(x, name).contiguous() for x in each] for each in inputs or ()]
        _, work = collective([buffer], *([] if inputs is None else [of_inputs]), *how)
        Work.unbox(work).wait()
        if buffer is not part:
            part.copy_(buffer)
    return outputs, work


# A build of PyTorch may lack them.
COLLECTIVES: dict[Any, Callable[..., Any]] = {}
if torch.distributed.is_available():
    COLLECTIVES = {
        torch.ops.c10d.scatter_.default: scatter,
        torch.ops.c10d.broadcast_.default: broadcast,
    }
