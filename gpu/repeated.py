"""A pass of PyTorch's compiler: an operator of ours that a graph calls twice on the same runs once.

Layers that read the same input (queries, keys and values; gate and up) each quantise it. The
compiler has the same expressions of its own operators once; of custom ones only where it trains.
"""

import operator
from functools import cache
from importlib import import_module
from typing import Any

import torch
from torch.fx import Graph, Node

aten = torch.ops.aten
# What stands between layers and their common input, or takes results apart.
VIEWS = {
    aten.view.default,
    aten.reshape.default,
    aten.view.dtype,
    aten.slice.Tensor,
    aten.constant_pad_nd.default,
    operator.getitem,
}


def _is_shared(target: Any) -> bool:
    name = getattr(target, "namespace", None)
    return name == "mxdot" or (callable(target) and target in VIEWS)


def _key(x: Any) -> Any:
    """Arguments as something hashable that differs where their kinds do."""
    if isinstance(x, list | tuple):
        return tuple(map(_key, x))
    if isinstance(x, dict):
        return tuple((name, _key(value)) for name, value in x.items())
    return x if isinstance(x, Node) else (type(x), x)


def share(graph: Graph) -> None:
    """Let the first of equal calls serve for all. The operators change none of their arguments."""
    first: dict[Any, Node] = {}
    for node in list(graph.nodes):
        if node.op != "call_function" or not _is_shared(node.target):
            continue
        kept = first.setdefault((node.target, _key(node.args), _key(node.kwargs)), node)
        if kept is not node:
            node.replace_all_uses_with(kept)
            graph.erase_node(node)


@cache
def share_when_compiled() -> None:
    """Have the compiler call `share`, unless the program has given it a pass of its own."""
    config = import_module("torch._inductor.config")
    graph_pass = import_module("torch._inductor.custom_graph_pass").CustomGraphPass
    if config.post_grad_custom_pre_pass is not None:
        return

    class Share(graph_pass):
        """`share`, with a name for the compiler's cache."""

        def __call__(self, graph: Graph) -> None:
            share(graph)

        def uuid(self) -> str:
            return "mxdot: share, 1"

    config.post_grad_custom_pre_pass = Share()
