"""Some cycles from any state as one combinational question, and its cases, for ABC's solver."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import aig
from .aig import Aig, Builder


def unroll(
    graph: Aig,
    cycles: int,
    fixed: dict[str, int],
    path: Path,
    order: Callable[[tuple[str, int]], Any] | None = None,
) -> None:
    """Whether the output is 1 in the last of `cycles`, whatever the state in the first one.

    fixed: values of inputs, by name, in every cycle; order: what inputs are sorted by.
    """
    free = [name for name in graph.inputs if name[0] not in fixed]
    if order is not None:
        free.sort(key=order)
    builder = Builder(cycles * len(free) + len(graph.nexts), 0)
    state = [builder.input(cycles * len(free) + i) for i in range(len(graph.nexts))]
    bad = aig.FALSE
    for cycle in range(cycles):
        given = {name: builder.input(cycle * len(free) + i) for i, name in enumerate(free)}
        leaves = [
            given[name] if name in given else fixed[name[0]] >> name[1] & 1 for name in graph.inputs
        ]
        nodes = builder.copy(graph, [*leaves, *state])
        state = [nodes[x >> 1] ^ x & 1 for x in graph.nexts]
        (output,) = graph.outputs.values()
        bad = nodes[output >> 1] ^ output & 1
    builder.write(path, [], bad)
