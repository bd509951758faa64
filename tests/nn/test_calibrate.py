"""calibrate: static limits of activations are the model's, and layers quantise within them."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from compare import generator
from devices import bits, on_devices
from linear_cases import assert_product, layer_of, operands, run
from mxdot.model import schemes
from mxdot.model.formats import E2M1
from mxdot.model.schemes import INT4_SYMMETRIC, TENSOR, Level, Limits, Scheme
from mxdot.nn import MXLinear, Recipe, calibrate, convert, freeze

INT8 = Recipe("int8_channel", "int8_affine")
CODE_BOOK = Scheme("book", (E2M1, INT4_SYMMETRIC), (Level(TENSOR, schemes.FLOAT32),), "a test")
ACTIVATIONS = ["int8_affine", "uint8_affine", "int8_tensor", "fp8_e4m3_tensor", "nvfp4", CODE_BOOK]
METHODS = ["amax", "percentile:99.5", "percentile:90", "average", "mse", "kl", "octav"]
BOUNDS = Limits([[-1.25]], [[0.75]])  # as of a calibration set of smaller values


def network(recipe, device="cpu"):
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(40, 24), nn.GELU(), nn.Linear(24, 8)).to(device)
    return convert(net, recipe)


def batches(count=2, device="cpu"):
    rng = generator("calibration set")
    return [
        torch.tensor(rng.standard_normal((2, 5, 40)).astype(np.float32), device=device)
        for _ in range(count)
    ]


def limit_bits(layer):
    """The limits of a layer as two bit patterns."""
    limits = layer.activation_limits
    return [bits(side).tolist() for side in (limits.low, limits.high)]


def rows(x, columns=1):
    """A matrix as the model takes it, filled up with zeros."""
    x = x.detach().float().cpu().reshape(-1, x.shape[-1]).numpy()
    return np.pad(x, ((0, 0), (0, -x.shape[1] % columns)))


# Which limits ------------------------------------------------------------------------------------


@on_devices
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_limits_are_the_models_for_the_inputs_of_each_layer(activation, method, device):
    """The layers fill K up to 128, the weights' groups, and calibration to those of activations."""
    if method in ("kl", "octav") and activation not in ACTIVATIONS[:3]:
        with pytest.raises(ValueError, match=f"^method {method} must be used with integer eleme"):
            calibrate(network(Recipe("int4_g128", activation)), [], method)
        return
    net = network(Recipe("int4_g128", activation), device)
    inputs = [(x, net[:2](x)) for x in batches(device=device)]
    assert calibrate(net, iter(batches(device=device)), method) is net
    columns = 16 if activation == "nvfp4" else 1
    for layer, taken in zip((net[0], net[2]), zip(*inputs, strict=True), strict=True):
        want = schemes.calibrate([rows(x, columns) for x in taken], activation, method)
        assert limit_bits(layer) == [bits(want.low).tolist(), bits(want.high).tolist()]


def test_narrow_inputs_count_as_the_values_they_have():
    net = network(INT8).bfloat16()
    x = batches(1)[0].bfloat16()
    calibrate(net, [x], "percentile:99")
    assert limit_bits(net[0]) == limit_bits_of(
        schemes.calibrate([rows(x)], "int8_affine", "percentile:99")
    )


def limit_bits_of(limits):
    return [bits(side).tolist() for side in (limits.low, limits.high)]


def test_calibrating_again_sees_no_limits():
    net = calibrate(network(INT8), batches())
    want = limit_bits(net[2])
    net[0].activation_limits = Limits([[0.0]], [[2.0**-20]])
    assert limit_bits(calibrate(net, batches())[2]) == want


class Shared(nn.Module):
    """A layer called by name, by place, on what is overwritten then, and without rows."""

    def __init__(self):
        super().__init__()
        self.layer = MXLinear(8, 8, recipe=INT8)
        self.again = self.layer

    def forward(self, x, scale=1):
        y = self.layer(input=x.clone())
        taken = scale * x
        z = self.again(taken)
        taken.fill_(1e6)
        return y + z + self.layer(x[:0]).sum()


@pytest.mark.parametrize(
    "made", [lambda x: (x, 3), lambda x: [x, 3], lambda x: {"x": x, "scale": 3}]
)
def test_every_call_of_a_layer_is_a_batch(made):
    model = Shared()
    x, y = torch.randn(4, 8), torch.randn(6, 8)
    calibrate(model, [made(x), made(y)], "average")
    calls = [rows(each) for each in (x, 3 * x, y, 3 * y)]
    assert limit_bits(model.layer) == limit_bits_of(
        schemes.calibrate(calls, "int8_affine", "average")
    )


def test_layers_whose_scales_fit_one_input_only_stay():
    net = network(INT8)
    net[2] = MXLinear.from_linear(net[2], Recipe("int8_channel", "int8_affine_channel"))
    calibrate(net, batches())
    assert net[0].activation_limits is not None
    assert net[2].activation_limits is None


def test_the_model_is_evaluated_and_left_as_it_was():
    net = nn.Sequential(nn.Dropout(), nn.Linear(40, 8), nn.Sequential(nn.Dropout().eval()))
    convert(net, INT8)
    seen = []
    net[1].register_forward_hook(lambda *_: seen.append(torch.is_grad_enabled()))
    calibrate(net, batches(2))
    assert limit_bits(net[1]) == limit_bits_of(
        schemes.calibrate([rows(x) for x in batches(2)], "int8_affine")
    )
    assert [m.training for m in net.modules()] == [True, True, True, True, False]
    assert seen == [False, False]
    net(batches(1)[0]).sum().backward()
    assert len(seen) == 3
    assert net[1].weight.grad is not None


# What a layer does with them ----------------------------------------------------------------------


def layer_within(recipe, weight, bounds=BOUNDS):
    layer = layer_of(weight, recipe)
    layer.activation_limits = bounds
    return layer


@on_devices
@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize(
    ("activation", "accumulator"),
    [
        *((name, "int32") for name in ACTIVATIONS[:3]),
        *((name, "exact") for name in ACTIVATIONS),
        ("int8_affine", "fused:25"),
    ],
    ids=str,
)
def test_outputs_are_the_models_products_within_the_limits(activation, accumulator, frozen, device):
    """Most values lie beyond the limits."""
    recipe = Recipe("int8_channel", activation, accumulator=accumulator)
    x, weight, _ = operands(generator("limited", activation, accumulator), 7, 48, 10, device)
    a = schemes.quantize(rows(x), activation, limits=BOUNDS)
    b = schemes.quantize(rows(weight), "int8_channel")
    want = schemes.matmul(a, b, accumulator)
    assert np.any(want != schemes.matmul(schemes.quantize(rows(x), activation), b, accumulator))
    layer = layer_within(recipe, weight)
    result = (layer.freeze() if frozen else layer)(x)
    np.testing.assert_array_equal(bits(result.detach().cpu().numpy()), bits(want))


def test_what_lies_beyond_saturates():
    layer = layer_within(Recipe("int8_channel", "int8_tensor"), torch.eye(2)).freeze()
    layer.activation_limits = Limits([[-127.0]], [[127.0]])
    x = torch.tensor([[1e30, -1e30], [126.6, -126.4]])
    torch.testing.assert_close(layer(x), torch.tensor([[127.0, -127], [127, -126]]))


@on_devices
def test_a_frozen_fast_layer_has_exact_sums(device):
    x, weight, _ = operands(generator("limited fast"), 16, 96, 24, device)
    a = schemes.quantize(rows(x), "int8_affine", limits=BOUNDS)
    want = schemes.matmul(a, schemes.quantize(rows(weight), "int8_channel"), "int32")
    result = layer_within(INT8, weight).freeze()(x)
    np.testing.assert_array_equal(bits(result.cpu().numpy()), bits(want))


@on_devices
def test_gradients_take_the_values_within_the_limits(device):
    """Straight through, also beyond them."""
    x, weight, g = operands(generator("limited gradients"), 16, 96, 24, device)
    y, dx, dw = run(layer_within(INT8, weight), x, g)
    a = schemes.quantize(rows(x), "int8_affine", limits=BOUNDS).dequantize().astype(np.float64)
    b = schemes.quantize(rows(weight), "int8_channel").dequantize().astype(np.float64)
    slope = g.double().cpu().numpy()
    for result, left, right in ((y, a, b.T), (dx, slope, b), (dw, slope.T, a)):
        assert_product(result, left, right)


def maxima(call):
    """How often a largest or least value is found, inside the operators too."""
    with torch.no_grad(), torch.profiler.profile() as seen:
        call()
    extremes = {f"aten::{name}" for name in ("amax", "amin", "aminmax", "max", "min")}
    return sum(event.name in extremes for event in seen.events())


@pytest.mark.parametrize("activation", ["int8_affine", "fp8_e4m3_tensor"])
def test_no_maximum_is_taken_at_run_time(activation):
    layer = MXLinear(40, 24, recipe=Recipe(None, activation))
    x = torch.randn(4, 40)
    assert maxima(lambda: layer(x)) > 0
    layer.activation_limits = BOUNDS
    assert maxima(lambda: layer(x)) == 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own
def test_a_compiled_model():
    """It is calibrated as it is, and compiled again with the limits."""
    torch.compiler.reset()
    net = network(INT8).eval()
    compiled = torch.compile(net, backend="aot_eager")
    x = batches(1)[0]
    with torch.no_grad():
        dynamic = compiled(x)
        calibrate(compiled, batches(), "percentile:90")
        static = compiled(x)
        assert torch.equal(static, net(x))
        assert not torch.equal(static, dynamic)
        freeze(net)
        torch.testing.assert_close(compiled(x), net(x))


# What is kept -------------------------------------------------------------------------------------


def test_state_dicts_have_the_limits_of_calibrated_layers(tmp_path):
    net = network(INT8)
    assert net.state_dict().keys() == network(Recipe()).state_dict().keys()
    calibrate(net, batches(), "percentile:99")
    extra = net.state_dict().keys() - network(INT8).state_dict().keys()
    assert extra == {"0.activation_limits", "2.activation_limits"}
    torch.save(net.state_dict(), tmp_path / "net.pt")
    state = torch.load(tmp_path / "net.pt", weights_only=True)
    for other in (network(INT8), network(INT8).to("meta")):
        other.load_state_dict(state, assign=True)
        assert limit_bits(other[0]) == limit_bits(net[0])
        assert limit_bits(other[2]) == limit_bits(net[2])
        assert torch.equal(other(batches(1)[0]), net(batches(1)[0]))


def test_loading_what_does_not_fit():
    """Errors of load_state_dict, as a buffer would give them."""
    calibrated, plain = calibrate(network(INT8), batches()), network(INT8)
    with pytest.raises(RuntimeError, match=r'Missing key.*"0.activation_limits"'):
        calibrated.load_state_dict(plain.state_dict())
    before = limit_bits(calibrated[0])
    calibrated.load_state_dict(plain.state_dict(), strict=False)
    assert limit_bits(calibrated[0]) == before
    for other in (nn.Sequential(nn.Linear(40, 24), nn.GELU(), nn.Linear(24, 8)), network(Recipe())):
        with pytest.raises(RuntimeError, match=r'Unexpected key.*"0.activation_limits"'):
            other.load_state_dict(calibrated.state_dict())
    for value, message in (
        (torch.zeros(3), r"0.activation_limits must have shape \(2,\), not \(3,\)"),
        (torch.ones(2), "0.activation_limits: low must be finite and at most 0, not 1.0"),
        (torch.tensor([0, np.inf]), "high must be finite and at least 0, not inf"),
        (torch.ones(2, device="meta"), "activation_limits must have values, not device meta"),
        ([0.0, 1.0], "0.activation_limits must be a torch.Tensor, not list"),
    ):
        with pytest.raises(RuntimeError, match=message):
            plain.load_state_dict({**calibrated.state_dict(), "0.activation_limits": value})
        assert plain[0].activation_limits is None


@on_devices
def test_moving_casting_and_copying_change_no_limit(tmp_path, device):
    layer = MXLinear(40, 8, recipe=INT8)
    layer.activation_limits = Limits(*np.array([[[-1 / 3]], [[2 / 3]]], np.float32))
    want = limit_bits(layer)
    for change in (
        lambda x: x.bfloat16(),
        lambda x: x.half().to(device),
        lambda x: x.double().float(),
        lambda x: x.freeze(),
        lambda x: x.freeze().to(device, torch.bfloat16).unfreeze(),
    ):
        changed = change(copy.deepcopy(layer))
        assert limit_bits(changed) == want
        saved = changed.state_dict()["activation_limits"]
        assert saved.dtype == torch.float32
        assert saved.device == changed.weight.device
    torch.save(layer, tmp_path / "layer.pt")
    assert limit_bits(torch.load(tmp_path / "layer.pt", weights_only=False)) == want
    assert MXLinear.from_linear(layer, INT8).activation_limits is None
    assert "activation_limits=(-0.333333, 0.666667)" in repr(layer)
    torch.set_default_dtype(torch.bfloat16)
    try:
        saved = layer.state_dict()["activation_limits"]
    finally:
        torch.set_default_dtype(torch.float32)
    assert saved.tolist() == [*layer.activation_limits.low[0], *layer.activation_limits.high[0]]


# Refusals -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "method", "error", "message"),
    [
        ([], "max", ValueError, "method must be one of amax, percentile, .*, not 'max'"),
        ([], None, ValueError, "method must be one of amax, percentile, .*, not None"),
        ([], "percentile:0", ValueError, "P of method percentile:P must be above 0, up to 100"),
        ([], "amax", ValueError, "batches must hold at least one batch, not none"),
        (batches(1)[0], "amax", TypeError, "batches must be an iterable of batches, not Tensor"),
        ({"x": 1}, "amax", TypeError, "batches must be an iterable of batches, not dict"),
        (None, "amax", TypeError, "batches must be an iterable of batches, not NoneType"),
        (
            [*batches(1), np.ones((2, 40))],
            "amax",
            TypeError,
            r"batches must hold tensors, tuples, .* forward takes, not ndarray \(batch 1\)",
        ),
        ([torch.ones(2, 41)], "amax", ValueError, r"input must have shape \(\.\.\., 40\)"),
        (
            [*batches(1), torch.full((1, 40), np.inf)],
            "amax",
            ValueError,
            "batches must give every layer finite inputs, not batch 1 layer '0'",
        ),
        (
            [torch.empty(0, 40)],
            "amax",
            ValueError,
            "batches must reach every layer with at least one row, not miss '0', '2'",
        ),
    ],
)
def test_refused_calibration_changes_nothing(given, method, error, message):
    net = network(INT8)
    net[0].activation_limits = net[2].activation_limits = BOUNDS
    with pytest.raises(error, match=f"^{message}"):
        calibrate(net, given, method)
    assert net[0].activation_limits is net[2].activation_limits is BOUNDS
    assert net.training
    assert not net[0]._forward_hooks


def test_models_that_are_refused():
    with pytest.raises(TypeError, match=r"^model must be a torch.nn.Module, not str$"):
        calibrate("net", [])
    with pytest.raises(ValueError, match=r"^model must be without torch.nn.DataParallel, which ru"):
        calibrate(nn.Sequential(nn.DataParallel(network(INT8))), batches())
    with pytest.raises(ValueError, match=r"^model must have an MXLinear to calibrate, not none$"):
        calibrate(nn.Linear(2, 2), [])


NO_LIMITS = {
    "None": Recipe("int8_channel", None),
    "int8_channel": Recipe("int8_channel", "int8_channel"),
    "fp8_e4m3_b128": Recipe("int8_channel", "fp8_e4m3_b128"),
    "mxfp8_e4m3": Recipe("int8_channel", "mxfp8_e4m3"),
    "e4m3": Recipe(),
}


@pytest.mark.parametrize("activation", NO_LIMITS)
def test_activations_that_have_no_limits(activation):
    net = network(NO_LIMITS[activation])
    wanted = "activations .*have a scheme with an outermost scale per tensor"
    with pytest.raises(ValueError, match=f"^{wanted} to be calibrated, not {activation}$"):
        calibrate(net, [])
    with pytest.raises(
        ValueError, match=f"^activation_limits must be None unless {wanted}, not {activation}$"
    ):
        net[0].activation_limits = BOUNDS


def test_limits_that_a_layer_refuses():
    layer = MXLinear(8, 8, recipe=INT8)
    with pytest.raises(TypeError, match=r"^activation_limits must be Limits or None, not tuple$"):
        layer.activation_limits = (-1, 1)  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(ValueError, match=r"^activation_limits must have shape \(1, 1\), not \(1,"):
        layer.activation_limits = Limits([0.0], [1.0])
