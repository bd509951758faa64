"""A pass of PyTorch's compiler: of equal calls of an operator of ours in a graph, one is made.

Layers that read the same input (queries, keys and values; gate and up) each quantise it. PyTorch
finds repeated calls of custom operators in training alone.
"""

import operator
from importlib import import_module
from typing import Any

import torch
from torch.fx import Graph, Node

aten = torch.ops.aten
# Operators between layers and their common input, or that take results apart.
VIEWS = {
    aten.view.default,
    aten.reshape.default,
    aten.view.dtype,
    aten.slice.Tensor,
    aten.constant_pad_nd.default,
    operator.getitem,
}


def _is_view(node: Node) -> bool:
    return node.op == "call_function" and callable(node.target) and node.target in VIEWS


def _is_ours(node: Node) -> bool:
    return node.op == "call_function" and getattr(node.target, "namespace", None) == "mxdot"


def _key(x: Any) -> Any:
    """An argument as something hashable: a view by what it shows, other nodes as they are."""
    if isinstance(x, list | tuple):
        return tuple(map(_key, x))
    if isinstance(x, dict):
        return tuple((name, _key(value)) for name, value in x.items())
    if isinstance(x, Node):
        return (x.target, _key(x.args), _key(x.kwargs)) if _is_view(x) else x
    return type(x), repr(x)  # by its text: 0.0 equals -0.0


def _given_away(graph: Graph) -> set[Node]:
    """Nodes whose memory results of the graph have: a program may write there."""
    found: set[Node] = set()
    todo = list(graph.output_node().all_input_nodes)
    while todo:
        node = todo.pop()
        if node not in found:
            found.add(node)
            todo += node.all_input_nodes if _is_view(node) else []
    return found


def share(graph: Graph) -> None:
    """Let the first of equal calls serve for all. The operators change none of their arguments."""
    first: dict[Any, Node] = {}
    kept = _given_away(graph)
    for node in list(graph.nodes):
        if not _is_ours(node) or node in kept:
            continue
        same = first.setdefault((node.target, _key(node.args), _key(node.kwargs)), node)
        if same is not node:
            node.replace_all_uses_with(same)
            graph.erase_node(node)


def share_when_compiled() -> None:
    """Have the compiler call `share`, unless the program has given it a pass of its own."""
    config: Any = import_module("torch._inductor.config")
    if config.post_grad_custom_pre_pass is not None:
        return
    passes = import_module("torch._inductor.custom_graph_pass")

    class Share(passes.CustomGraphPass):
        """`share`, with a name for the compiler's cache."""

        def __call__(self, graph: Graph) -> None:
            share(graph)

        def uuid(self) -> Any:
            return passes.get_hash_for_files((__file__,))

    config.post_grad_custom_pre_pass = Share()
