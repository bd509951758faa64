"""Containers over the ranks of a process group: what FSDP2 and DTensor hand to one another."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor


class InParts(Protocol):
    """The methods of a `Container` that sharding needs."""

    def named_parts(self) -> dict[str, Tensor]: ...

    def facts(self) -> tuple[Any, ...]: ...

    def shared(self, dim: int) -> set[str]: ...

    def made_of(
        self, parts: dict[str, Tensor], facts: tuple[Any, ...], shape: Sequence[int]
    ) -> Any: ...


def own_parts(x: InParts) -> tuple[Tensor, ...]:
    """Tensors that FSDP2 gathers of a container that it has cut along the rows."""
    return tuple(part.contiguous() for part in x.named_parts().values())


def gathered(x: InParts, of_ranks: Sequence[Tensor], shape: torch.Size) -> Any:
    """The whole, of `shape`, that `x` is this rank's rows of; of the parts of all ranks, joined."""
    own, shared = x.named_parts(), x.shared(0)
    parts = {
        name: every[: len(own[name])] if name in shared else every
        for name, every in zip(own, of_ranks, strict=True)
    }
    return x.made_of(parts, x.facts(), shape)


def refill(x: InParts, other: InParts) -> None:
    """Copy the parts of `other` into `x`, except parts that share memory."""
    own = x.named_parts()
    for name, part in other.named_parts().items():
        if part.data_ptr() != own[name].data_ptr():
            own[name].copy_(part)


def scatter(
    outputs: Sequence[InParts],
    inputs: Sequence[Any],
    group: Any,
    root: int,
    async_op: bool = True,
    timeout: int = -1,
) -> Any:
    """c10d::scatter_, part by part."""
    collective = torch.ops.c10d.scatter_.default

    def send(buffer: Tensor, name: str) -> Any:
        of_inputs = [[_bytes(getattr(x, name)) for x in each] for each in inputs]
        return collective([buffer], of_inputs, group, root, True, timeout)

    return outputs, _each_part(outputs, send)


def broadcast(
    tensors: Sequence[InParts],
    group: Any,
    root: int,
    root_tensor: int,
    async_op: bool = True,
    timeout: int = -1,
) -> Any:
    """c10d::broadcast_, part by part."""
    collective = torch.ops.c10d.broadcast_.default

    def send(buffer: Tensor, _: str) -> Any:
        return collective([buffer], group, root, root_tensor, True, timeout)

    return tensors, _each_part(tensors, send)


def _each_part(outputs: Sequence[InParts], send: Callable[[Tensor, str], Any]) -> Any:
    """`send` of the bytes of every part of the one output, each waited for; the last one's work.

    All are sent asynchronously: otherwise NCCL gives no work, which the caller's operator returns.
    """
    from torch.distributed import Work

    (output,), work = outputs, None
    for name, part in output.named_parts().items():
        buffer = _bytes(part)
        _, work = send(buffer, name)
        Work.unbox(work).wait()
        if buffer.data_ptr() != part.data_ptr():
            part.copy_(buffer.view(part.dtype).view(part.shape))
    return work


def _bytes(part: Tensor) -> Tensor:
    """The bytes of a part in a row, of its own memory where it can be: some codes have a type that
    no backend takes."""
    return part.contiguous().view(-1).view(torch.uint8)


# A build of PyTorch may lack them.
COLLECTIVES: dict[Any, Callable[..., Any]] = {}
if torch.distributed.is_available():
    COLLECTIVES = {
        torch.ops.c10d.scatter_.default: scatter,
        torch.ops.c10d.broadcast_.default: broadcast,
    }
