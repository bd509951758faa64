"""Layers that read one input quantise it once in a compiled network."""

from collections import Counter

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from mxdot.gpu.repeated import share
from mxdot.nn import Recipe, convert, freeze

ROWS = Recipe("fp8_e4m3_row", "fp8_e4m3_row", accumulator="float8")
QUANTIZE = torch.ops.mxdot.scheme_quantize.default


class Three(torch.nn.Module):
    """Layers on one input, of any leading shape, and one on another."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(256, 32) for _ in range(4))

    def forward(self, x):
        one, two, three, other = self.layers
        return one(x) + two(x) * three(x) - other(x + 1)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own
def test_the_compiler_quantises_each_input_once():
    net, x = freeze(convert(Three(), ROWS)), torch.randn(2, 3, 256)
    torch.compiler.reset()
    compiled = torch.compile(net, fullgraph=True)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), net(x), rtol=0, atol=0)
        kinds = [torch.profiler.ProfilerActivity.CPU]
        with torch.profiler.profile(activities=kinds, acc_events=True) as profile:
            compiled(x)
    assert Counter(event.name for event in profile.events())["mxdot::scheme_quantize"] == 2


@pytest.mark.parametrize(("other", "count"), [({}, 1), ({"scheme": "int8_channel"}, 2)])
def test_what_differs_is_not_shared(other, count):
    def quantized(x, scheme="fp8_e4m3_row"):
        rest = 1, [], [], [], None, "nearest_even", "poison", None, None
        return QUANTIZE(x.view(-1, 256), scheme, *rest)[0]

    graph = make_fx(lambda x: (quantized(x), quantized(x, **other)))(torch.randn(2, 3, 256)).graph
    share(graph)
    graph.lint()
    assert [node.target for node in graph.nodes].count(QUANTIZE) == count
    assert len(graph.output_node().args[0]) == 2
