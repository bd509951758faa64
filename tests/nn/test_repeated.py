"""Layers that read one input quantise it once in a compiled network, and results stay apart."""

from collections import Counter

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from mxdot.gpu.repeated import share
from mxdot.nn import Recipe, convert, freeze

ROWS = Recipe("fp8_e4m3_row", "fp8_e4m3_row", accumulator="float8")
QUANTIZE = torch.ops.mxdot.scheme_quantize.default


class Three(torch.nn.Module):
    """Layers on one input, of any leading shape, and one on another; one result is given twice."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(256, 32) for _ in range(4))

    def forward(self, x):
        one, two, three, other = self.layers
        return one(x) + two(x) * three(x) - other(x + 1), one(x), one(x)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own
def test_the_compiler_quantises_each_input_once():
    net, x = freeze(convert(Three(), ROWS)), torch.randn(2, 3, 256)
    torch.compiler.reset()
    compiled = torch.compile(net, fullgraph=True)
    with torch.no_grad():
        results = compiled(x)
        torch.testing.assert_close(results, net(x), rtol=0, atol=0)
        results[1].mul_(2)
        torch.testing.assert_close(results[2], net(x)[2], rtol=0, atol=0)
        kinds = [torch.profiler.ProfilerActivity.CPU]
        with torch.profiler.profile(activities=kinds, acc_events=True) as profile:
            compiled(x)
    assert Counter(event.name for event in profile.events())["mxdot::scheme_quantize"] == 2


def quantized(x, scheme="fp8_e4m3_row", padding=0.0):
    rest = 1, [], [], [], None, "nearest_even", "poison", None, None
    x = torch.ops.aten.constant_pad_nd.default(x.view(-1, 248), [0, 8], padding)
    return QUANTIZE(x, scheme, *rest)[0]


@pytest.mark.parametrize(
    ("other", "count"), [({}, 1), ({"scheme": "int8_channel"}, 2), ({"padding": -0.0}, 2)]
)
def test_what_differs_is_not_shared(other, count):
    both = make_fx(lambda x: quantized(x) + quantized(x, **other))(torch.randn(2, 3, 248)).graph
    share(both)
    both.lint()
    assert [node.target for node in both.nodes].count(QUANTIZE) == count


def test_results_of_the_graph_stay_apart():
    graph = make_fx(lambda x: (quantized(x), quantized(x)))(torch.randn(2, 3, 248)).graph
    share(graph)
    first, second = graph.output_node().args[0]
    assert first is not second
    assert [node.target for node in graph.nodes].count(QUANTIZE) == 2
