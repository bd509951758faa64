"""torch.compile of networks changes no bit, and leaves the model's NumPy alone."""

import sys
from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend

from mxdot.model import MX_FORMATS
from mxdot.nn import RECIPES as NAMED
from mxdot.nn import Recipe, convert, freeze

RECIPES = {
    "exact": Recipe(accumulator="exact"),
    "aligned, wide sums": Recipe("e5m2", "e5m2", "e5m2", accumulator="aligned:13"),
    "hopper": Recipe(accumulator="hopper"),
    "ampere, bf16": Recipe(machine="ampere-bf16"),
    "hopper-promoted": Recipe("e3m2", "e2m3", "e5m2", accumulator="hopper-promoted"),
    "fixed, of limbs": Recipe("e2m1", "e2m1", "e2m1", accumulator="fixed:80:-60"),
    "float32": Recipe(gradient_rounding="stochastic", accumulator="float32"),
    "int32": Recipe("int8", "int8", "int8", accumulator="int32"),
    "scheme": Recipe("int8_channel", "int8_affine"),
    "scheme, blackwell": Recipe("nvfp4", "mx9", "vsquant4_u4", accumulator="blackwell"),
    "scheme, int32": Recipe("int4_g128", "int8_channel", accumulator="int32"),
    "weight-only": Recipe("int4_g32", None, accumulator="exact"),
    "saved": Recipe(saved="quantized"),
    "saved, packed": Recipe("e2m1", "e2m1", saved="quantized", accumulator="exact"),
    "saved, scheme": Recipe("int8_channel", "int8_affine", saved="quantized"),
    **{f"named, {name}": recipe for name, recipe in NAMED.items()},
}
FROZEN = {
    "fast": Recipe(),
    **{name: RECIPES[name] for name in ("hopper", "scheme", "named, fp8_delayed", "named, nvfp4")},
}
CASES = [
    *((name, recipe, False) for name, recipe in RECIPES.items()),
    *((name, recipe, True) for name, recipe in FROZEN.items()),
]
every_case = pytest.mark.parametrize(
    ("recipe", "frozen"),
    [case[1:] for case in CASES],
    ids=[name + ", frozen" * frozen for name, _, frozen in CASES],
)
pytestmark = [  # the compiler's own
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf"),
]


@pytest.fixture(autouse=True)
def nothing_is_cached():
    """Clear all caches, as in a new process, so that cached work is done under the compiler."""
    torch.compiler.reset()
    for name, module in list(sys.modules.items()):
        for value in vars(module).values() if name.startswith("mxdot") else ():
            if hasattr(value, "cache_clear"):
                value.cache_clear()
    for fmt in MX_FORMATS.values():
        for name in vars(fmt).keys() - {field.name for field in fields(fmt)}:
            del vars(fmt)[name]


def network(recipe, frozen=False):
    """Without biases: their gradients are sums of the compiler's own order."""
    torch.manual_seed(0)
    linear = nn.Linear(64, 48, bias=False), nn.Linear(48, 32, bias=False)
    made = convert(nn.Sequential(linear[0], nn.ReLU(), linear[1]), recipe)
    return freeze(made) if frozen else made


def step(function, net):
    """Output and gradients."""
    torch.manual_seed(1)
    net.zero_grad()
    x = torch.randn(20, 64, requires_grad=True)
    y = function(x)
    y.square().sum().backward()
    gradients = [p.grad.clone() for p in net.parameters() if p.requires_grad]
    return [y.detach(), x.grad, *gradients, *(b.clone() for b in net.buffers())]


def assert_same_step(net, **options):
    """A step is one graph: NumPy anywhere would break it."""
    with torch._dynamo.config.patch(trace_numpy=False):
        compiled = step(torch.compile(net, fullgraph=True, **options), net)
    for result, want in zip(compiled, step(net, net), strict=True):
        assert torch.equal(result, want)


@every_case
def test_a_network_is_one_graph_with_the_bits_of_the_eager_one(recipe, frozen):
    assert_same_step(network(recipe, frozen), backend="aot_eager")
    for fmt in MX_FORMATS.values():
        for table in (fmt.values, *fmt.triples):
            assert not table.flags.writeable
            assert isinstance(table.base, np.ndarray | None)


@pytest.mark.parametrize("name", ["hopper", "scheme"])
def test_code_of_the_default_compiler(name):
    assert_same_step(network(RECIPES[name]))


@every_case
def test_a_network_is_exported(recipe, frozen):
    """The export is one graph, whose operators are PyTorch's and mxdot's."""
    net = network(recipe, frozen)
    x = torch.randn(20, 64)
    with torch.no_grad():
        exported = torch.export.export(net, (x,))
        assert torch.equal(exported.module()(x), net(x))
    for node in exported.graph.nodes:
        if node.op == "call_function":
            assert str(node.target).startswith(("aten.", "mxdot.", "<built-in function getitem>"))


GRAPHS = {
    "mxfp8, training": 1,
    "fp8_delayed, training": 1,
    "int4_learned, training": 2,  # one more before the limits have begun
    "w8a8, frozen": 1,
    "w8a8, codes": 1,
    "int4_weights, codes": 1,
}


@pytest.mark.parametrize(("case", "graphs"), GRAPHS.items(), ids=GRAPHS)
def test_a_network_is_compiled_once(case, graphs):
    """For one number of rows, and once more for others."""
    name, state = case.split(", ")
    net = network(replace(NAMED[name]), state == "frozen")  # a new recipe
    if state == "codes":
        freeze(net, keep_weight=False)
    counter = CompileCounterWithBackend("eager")
    compiled = torch.compile(net, fullgraph=True, backend=counter)
    for _ in range(3):
        compiled(torch.randn(20, 64))
    assert counter.frame_count == graphs
    for rows in (24, 28, 20):
        compiled(torch.randn(rows, 64))
    net.load_state_dict(net.state_dict())
    compiled(torch.randn(20, 64))
    assert counter.frame_count == graphs + 1
    for _ in range(2 * (state == "frozen")):  # a change takes a graph that quantises
        net[0].weight.data += 1
        compiled(torch.randn(20, 64))
        compiled(torch.randn(20, 64))
        assert counter.frame_count == graphs + 2


CAPTURED = {
    "fast": (Recipe(), False),
    "fast, frozen": (Recipe(), True),
    "hopper": (Recipe(accumulator="hopper"), False),
    "exact, frozen": (Recipe(accumulator="exact"), True),
    "packed": (Recipe("int4_g64", None), True),
    "scheme": (Recipe("nvfp4", "nvfp4"), False),
    "scheme, frozen": (RECIPES["scheme"], True),
}


@pytest.mark.cuda
@pytest.mark.parametrize(("recipe", "frozen"), CAPTURED.values(), ids=CAPTURED)
def test_a_network_runs_as_a_cuda_graph(recipe, frozen):
    """Nothing on the way waits for the GPU, which a capture refuses."""
    net = network(recipe, frozen).to("cuda", torch.bfloat16)
    static = torch.randn(32, 64, device="cuda", dtype=torch.bfloat16)
    other = torch.randn_like(static)
    with torch.no_grad():
        want = net(other)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = net(static)
        static.copy_(other)
        graph.replay()
    assert torch.equal(result, want)
