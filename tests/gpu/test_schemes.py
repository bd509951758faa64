"""Every scheme on tensors equals the model in every code, scale and value, on every device."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from compare import generator
from devices import on_devices, tensor
from mxdot.gpu.schemes import ScaledTensor, quantize
from mxdot.model import schemes as model
from mxdot.model.quantize import NONFINITE
from mxdot.model.rounding import quotient
from mxdot.model.schemes import SCHEMES, TENSOR, Level, Limits, block
from mxdot.model.schemes.array import Scaled
from mxdot.model.schemes.quantize import quantized
from quantize_cases import random_blocks, with_nonfinite
from scheme_cases import assert_same, random_array, shrunk
from scheme_checks import check, check_values

every_scheme = pytest.mark.parametrize("name", SCHEMES)


def test_words_of_a_generator():
    x = torch.tensor(generator("gpu drawn").standard_normal((4, 64)).astype(np.float32))
    drawn = [
        quantize(x, "int8_channel", rounding="stochastic", rng=torch.Generator().manual_seed(seed))
        for seed in (1, 1, 2)
    ]
    assert torch.equal(drawn[0].codes, drawn[1].codes)
    assert not torch.equal(drawn[0].codes, drawn[2].codes)


@on_devices
@every_scheme
def test_next_to_every_code_and_tie(name, device):
    """Each value, each middle of two, and their float32 neighbours, under a scale of one."""
    scheme = SCHEMES[name]
    for element in scheme.elements:
        values = np.unique(element.values[np.isfinite(element.values)])
        if scheme.zero_point:
            values = values - values.min()
        points = np.concatenate([values, (values[1:] + values[:-1]) / 2]).astype(np.float32)
        near = [points, *(np.nextafter(points, np.float32(end)) for end in (-np.inf, np.inf))]
        largest = np.float32(np.abs(values).max())
        pair = np.stack([np.clip(np.concatenate(near), -largest, largest)] * 2, axis=1)
        pair[:, 1] = largest
        one = Level(block(2), scheme.levels[0].format, scheme.levels[0].rule)
        check(pair, replace(scheme, elements=(element,), levels=(one,)), device)


@on_devices
@every_scheme
def test_any_codes_and_scales(name, device):
    """Dequantisation of codes and scales that no quantisation makes: ends of formats, NaN."""
    rng = generator("gpu dequantize", name)
    for scheme in (SCHEMES[name], shrunk(SCHEMES[name])):
        for kind in ("one", "ends", "any", "nan"):
            want = random_array(rng, scheme, 128, 256, kind)
            result = ScaledTensor.from_model(want, device)
            assert_same(result.to_model(), want)
            check_values(result, want)


@on_devices
@pytest.mark.parametrize("name", ["mixed4:e2", "mixed6:ceil:e5", "mixed8:e8"])
def test_errors_of_digits(name, device):
    rng = generator("gpu errors", name)
    for scheme in (model.scheme(name), shrunk(model.scheme(name))):
        for matrix in (random_blocks(rng, 32, 64), rng.standard_normal((32, 64)) ** 3):
            check(matrix.astype(np.float32), scheme, device)
            dirty = with_nonfinite(rng, matrix.astype(np.float32))
            check(dirty, scheme, device, nonfinite="element")
    message = rf"^limits must be None for {name}: its errors have \d digits below each group's own"
    limits = torch.ones((1, 1), device=device)
    with pytest.raises(ValueError, match=message):
        quantize(torch.ones((1, 32), device=device), name, limits=limits)


@pytest.mark.filterwarnings("ignore:.*that produce tensors with dtype.*deprecated:UserWarning")
@pytest.mark.parametrize(("name", "low"), [("int8_channel", -127), ("int8_affine_channel", -128)])
def test_pytorch_quantises_alike_under_the_same_scales(name, low):
    """torch.quantize_per_channel and fake_quantize_per_channel_affine, every row a channel."""
    x = torch.tensor(generator("per channel", name).standard_normal((64, 512)).astype(np.float32))
    x[1] *= 2.0**40
    x[2] = x[2].abs() + 1
    ours = quantize(x, name)
    scales = ours.scales[0][:, 0]
    zeros = torch.zeros(64, dtype=torch.int32)
    if ours.zero_points is not None:
        zeros = ours.zero_points[:, 0]
        assert len(zeros.unique()) > 10
    theirs = torch.quantize_per_channel(x, scales.double(), zeros.long(), 0, torch.qint8)
    values = torch.fake_quantize_per_channel_affine(x, scales, zeros, 0, low, 127)
    assert torch.equal(theirs.int_repr(), ours.codes.view(torch.int8))
    assert torch.equal(values, ours.dequantize())


@on_devices
def test_quotients_are_rounded_to_odd(device):
    """Equal to the model, which is tested against fractions: exact, next to a short number, any."""
    rng = generator("gpu quotient")
    b = rng.integers(2**27, 2**28, 100000).astype(np.float64)
    near = b * rng.integers(2**24, 2**25, b.size) + rng.integers(-1, 2, b.size)
    short = rng.integers(-(2**24), 2**24, b.size).astype(np.float64)
    a = np.concatenate([near, short, [0.0, -0.0]])
    b = np.append(np.tile(b, 2), [1.0, 3.0]) * np.ldexp(1.0, rng.integers(-150, 100, a.size))
    want = quotient(a, b)
    assert (want != a / b).mean() > 0.2
    result = quotient(tensor(a, device), tensor(b, device)).cpu().numpy()
    np.testing.assert_array_equal(result.view(np.uint64), want.view(np.uint64))


class NeverWaiting(TorchDispatchMode):
    """Refuses what the caller of a device waits for, as the capture of a CUDA graph does."""

    WAITS = ("aten::_local_scalar_dense", "aten::nonzero", "aten::lift_fresh", "aten::equal")

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        assert func.name() not in self.WAITS, func
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("nonfinite", NONFINITE)
@every_scheme
def test_nobody_waits_for_a_device(name, nonfinite):
    """The first call makes the tables; later calls never wait."""
    scheme, x = SCHEMES[name], torch.randn(128, 256)
    limits = None
    if scheme.levels[0].granularity == TENSOR:
        limits = Limits(np.full((1, 1), -1, np.float32), np.full((1, 1), 2, np.float32))

    def values():
        parts = quantized(x, scheme, 1, limits, "nearest_even", nonfinite, None, 2**14)
        return Scaled(scheme, *parts, 1).values(parts.codes)

    first = values()
    with NeverWaiting():
        again = values()
    assert torch.equal(first, again)


@on_devices
@every_scheme
def test_limits(name, device):
    """Limits of a calibrator, wider than the data, and at zero."""
    rng = generator("gpu limits", name)
    scheme = shrunk(SCHEMES[name])
    x = rng.standard_normal((8, 16)).astype(np.float32)
    low = model.calibrate([x], scheme, "percentile:80").low
    for factors in ((1, 1), (0, 3), (4, 0), (0, 0), (2.0**100, 2.0**-100)):
        limits = Limits(low * np.float32(factors[0]), -low * np.float32(factors[1]))
        check(x, scheme, device, limits=limits)
