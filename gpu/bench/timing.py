"""Rows of a table of speeds, and the clock they are read from."""

from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class BenchRow:
    """One line of the table. reference: what `ratio` compares the speed with, if anything."""

    what: str
    speed: str
    ratio: str = ""
    reference: str = ""

    def __str__(self) -> str:
        return f"| {self.what} | {self.speed} | {self.ratio} | {self.reference} |"


def milliseconds(work: Callable[[], object]) -> float:
    """The median time of `work`, the second-level cache flushed before each."""
    from triton.testing import do_bench

    return do_bench(work, warmup=25, rep=200, return_mode="median")


def copy_time(size: int) -> float:
    """The time of a device copy that reads and writes `size` bytes in all."""
    source = torch.empty(size // 2, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return milliseconds(lambda: target.copy_(source))


def graphed(work: Callable[[], object]) -> Callable[[], None]:
    """A replay of the kernels of `work` alone, without the time Python takes to launch them."""
    work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay
