"""torch.compile takes quantisation and its inverse whole, and changes no bit."""

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from compare import generator
from devices import assert_same_blocks, bits, on_devices, tensor
from mxdot import gpu, model
from mxdot.gpu import schemes
from mxdot.gpu.names import format_name
from mxdot.gpu.ops import unscaled
from mxdot.model import FORMATS, MX_FORMATS
from mxdot.model.formats import FloatFormat, Specials
from mxdot.model.schemes import SCHEMES
from quantize_cases import RULES, random_blocks, with_nonfinite

CASES = [
    ("e4m3", "ceil", "nearest_even", "element"),
    ("e2m1", "even", "stochastic", "poison"),
    ("int8", "floor", "toward_zero", "poison"),
    ("e5m2", "floor", "nearest_even", "element"),
    ("e4m3fnuz", "floor", "nearest_even", "element"),
    ("bf16", "ceil", "stochastic", "element"),
]
OWN = FloatFormat("own", 3, 4, Specials.IEEE)  # which is not in the table
OTHERS = [fmt for name, fmt in FORMATS.items() if name not in MX_FORMATS]


@on_devices
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own
@pytest.mark.parametrize(("fmt", "rule", "rounding", "policy"), CASES)
def test_the_compiler_changes_no_bit(fmt, rule, rounding, policy, device):
    rng = generator("gpu compile", fmt)
    x = with_nonfinite(rng, random_blocks(rng, 64, 128))
    words = rng.integers(0, 2**32, x.shape, dtype=np.uint32)
    options = {"scale_rule": rule, "rounding": rounding, "nonfinite": policy}

    @torch.compile(fullgraph=True)
    def compiled(x, words):
        blocks = gpu.quantize(x, fmt, rng=words, **options)
        return blocks, blocks.dequantize()

    result, values = compiled(tensor(x, device), tensor(words, device))
    want = model.quantize(x, fmt, rng=words, **options)
    assert_same_blocks(result, want)
    np.testing.assert_array_equal(bits(values.cpu().numpy()), bits(want.dequantize()))


def traced(function):
    """`function` as one graph, run as it is: code of the compiler's own takes long to make."""
    torch.compiler.reset()
    return torch.compile(function, fullgraph=True, backend="eager")


@pytest.mark.parametrize(
    ("rule", "formats"),
    [
        *((rule, [*MX_FORMATS.values(), OWN]) for rule in RULES),
        *(("ceil", list(MX_FORMATS)), ("even", OTHERS)),
    ],
    ids=[*RULES, "names", "others"],
)
def test_no_format_is_taken_for_another(rule, formats):
    """The compiler would take the numbers of several formats for variables of one graph."""
    quantize = traced(lambda x, fmt: gpu.quantize(x, fmt, scale_rule=rule))
    x = random_blocks(generator("gpu formats", rule), 16, 64)
    for fmt in formats:
        result = quantize(torch.tensor(x), fmt)
        assert_same_blocks(result, model.quantize(x, fmt, scale_rule=rule))


@pytest.mark.parametrize("formats", [[*MX_FORMATS.values(), OWN], OTHERS], ids=["mx", "others"])
@pytest.mark.parametrize(
    "function",
    [gpu.MXTensor.dequantize, lambda x: gpu.unpack(x.pack(), x.format)],
    ids=["dequantize", "pack"],
)
def test_blocks_from_outside_the_graph(function, formats):
    compiled = traced(function)
    rng = generator("gpu blocks from outside")
    for fmt in formats:
        codes = rng.integers(0, 2**fmt.bits, (4, 64)).astype(fmt.dtype)
        scales = rng.integers(0, 256, (4, 2), dtype=np.uint8)
        blocks = gpu.MXTensor(torch.tensor(codes), torch.tensor(scales), fmt)
        result, want = compiled(blocks).numpy(), function(blocks).numpy()
        assert result.tobytes() == want.tobytes(), fmt


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own
def test_products_in_a_graph():
    """Operators, in one graph with what is around them, and with schemes' too."""

    def layer(x, w):
        y = gpu.matmul(gpu.quantize(x + 1, "e4m3"), gpu.quantize(w, "e2m1"), "hopper")
        a, b = schemes.quantize(x, "nvfp4"), schemes.quantize(w, "int4_g128")
        packed = schemes.pack_weights(b)
        half = schemes.weight_only_matmul(x.bfloat16(), packed)
        return (
            2 * y,
            packed.dequantize() + 1,
            half + 1,
            schemes.matmul(a, a, "aligned:13", c=x[:, :8]),
            schemes.matmul(x, b, "exact", c=y),
            schemes.int8_matmul(*(schemes.quantize(z, "int8_channel") for z in (x, w))),
            a.dequantize(torch.bfloat16),
        )

    rng = generator("gpu products between graphs")
    x, w = (torch.tensor(rng.standard_normal((n, 128)).astype(np.float32)) for n in (8, 16))
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    for result, want in zip(compiled(x, w), layer(x, w), strict=True):
        assert torch.equal(result, want)


def test_fakes_have_the_shapes_and_types_of_results():
    """Shapes that a compiler assumes before anything runs, for every scheme, along either axis."""
    x = torch.randn(128, 256)
    for name in SCHEMES:
        for axis in (0, -1):
            args = (x, name, axis, [], [], [], None, "nearest_even", "poison", None, None)
            parts = _opcheck(torch.ops.mxdot.scheme_quantize, args)
            args = (parts, name, axis, torch.bfloat16, None)
            _opcheck(torch.ops.mxdot.scheme_dequantize, args)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_the_fake_of_dequantize(dtype):
    """The operator itself, because a compiler calls it on tensors without values."""
    for name in (*MX_FORMATS, format_name(OWN)):
        codes, scales = torch.zeros(6, 32, dtype=torch.uint8), torch.zeros(6, dtype=torch.uint8)
        args = (codes, scales, name, dtype, None)
        _opcheck(torch.ops.mxdot.dequantize, args)


def test_the_fakes_of_mx():
    """Quantisation along every axis, along both, regrouped: uint16 and uint32 codes too."""
    words = torch.ones(64, 2, 256, dtype=torch.uint32)
    for name, axis in (("e2m1", 0), ("bf16", 2), ("tf32", -1), (format_name(OWN), 0)):
        rules = name, 32, axis, "ceil", "stochastic", "element", words, None
        _opcheck(torch.ops.mxdot.quantize, (torch.randn(64, 2, 256), *rules))
    for transposed in (False, True):
        rules = "e4m3", 32, "floor", "nearest_even", "poison", None, None, transposed, None
        _opcheck(torch.ops.mxdot.quantize_both, (torch.randn(64, 96), *rules))
    blocks = gpu.quantize(torch.randn(5, 160), "e4m3")
    args = (blocks.codes, blocks.scales, "e4m3", 32, None)
    _opcheck(torch.ops.mxdot.regroup, args)
    for name in unscaled.UNSCALED:
        _opcheck(torch.ops.mxdot.unscaled, (torch.randn(4, 64, dtype=torch.bfloat16), name))


def test_the_fakes_of_integers():
    for names in (("int8_channel", "int8_tensor"), ("int4_g32", "vsquant4_u4")):
        a, b = (schemes.quantize(torch.randn(4, 128), name) for name in names)
        args = (a.parts(), b.parts(), *names, "refuse")
        sums, scales, _ = _opcheck(torch.ops.mxdot.integer_sums, args)
        args = (sums, scales, torch.ones(4, 4), 0)
        _opcheck(torch.ops.mxdot.rescale_integer_sums, args)
        args = (sums, "ShiftRescale", [torch.tensor(3)], torch.tensor(1), [-128, 127, -128, 127])
        _opcheck(torch.ops.mxdot.requantize, args)


def _opcheck(operator, args):
    torch.library.opcheck(operator, args, test_utils=("test_schema", "test_faketensor"))
    return operator(*args)


def test_who_looks_on_sees_operators():
    """Tensors with values, in a mode of tensors without: no table is made of fakes."""
    x = torch.randn(4, 64)
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert gpu.quantize(x, "e3m2").codes.shape == (4, 64)
    want = model.quantize(x.numpy(), "e3m2")
    assert_same_blocks(gpu.quantize(x, "e3m2"), want)


def test_operators_have_no_gradient():
    x = torch.randn(4, 64, requires_grad=True)
    assert not schemes.quantize(x, "int8_channel").dequantize().requires_grad
