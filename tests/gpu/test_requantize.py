"""Requantisation of tensors has the model's integers and flags, on every device."""

import re

import numpy as np
import pytest
import torch
from numpy.typing import ArrayLike

from compare import generator
from devices import on_devices, tensor
from int32_sums import ENDS, HIGH, LOW, sums_of
from mxdot.gpu.schemes import ScaledTensor, integer_sums, requantize, requantize_traced
from mxdot.model import requantize as model
from mxdot.model import schemes
from mxdot.model.requantize import INTEGERS, FixedRescale, FloatRescale, ShiftRescale
from scheme_cases import random_array, shrunk

every_output = pytest.mark.parametrize("output", INTEGERS.values(), ids=str)


def check(sums, rescale, output, device, zero_point: ArrayLike = 0, **limits):
    """Integers, inexact and clipped of sums on `device` are the model's."""
    want = model.requantize_traced(sums, rescale, output, zero_point=zero_point, **limits)
    on_device = tensor(np.asarray(sums), device)
    result = requantize_traced(on_device, rescale, output, zero_point=zero_point, **limits)
    for name, mine, its in zip(want._fields, result, want, strict=True):
        assert mine.device.type == device
        mine = mine.cpu().numpy()
        assert (mine.dtype, mine.shape) == (its.dtype, its.shape), name
        np.testing.assert_array_equal(mine, its, name)
    assert torch.equal(
        requantize(on_device, rescale, output, zero_point=zero_point, **limits), result.integers
    )


def zero_points(rng, output, shape):
    """Anywhere in the output's range, the ends included."""
    ends = rng.choice([output.lowest, output.highest], shape)
    inside = rng.integers(output.lowest, output.highest + 1, shape)
    return np.where(rng.random(shape) < 0.3, ends, inside)


@on_devices
@every_output
def test_every_shift_alone(output, device):
    rng = generator("gpu shifts", str(output))
    shifts = np.arange(32)
    ties = (np.arange(-300, 300)[:, None] * 2**shifts + np.array([[-1], [0], [1]])[:, None]).ravel()
    ties = ties[(ties >= LOW) & (ties <= HIGH)]
    sums = np.unique(np.concatenate([np.arange(-(2**10), 2**10), ties, ENDS]))[:, None]
    check(sums + 0 * shifts, ShiftRescale(shifts), output, device)
    check(sums + 0 * shifts, ShiftRescale(shifts), output, device, zero_points(rng, output, 32))


@on_devices
@every_output
def test_every_multiplier_and_shift(output, device):
    rng = generator("gpu multipliers", str(output))
    ends = [0, 1, 2, 3, 2**30, 2**30 + 1, 2**31 - 2, 2**31 - 1]
    multipliers = np.concatenate([ends, rng.integers(0, 2**31, 20)])
    pairs = np.stack(np.meshgrid(multipliers, np.arange(63))).reshape(2, -1)
    sums = np.broadcast_to(sums_of(rng, 60)[:, None], (60 + len(ENDS), pairs.shape[1]))
    zero = zero_points(rng, output, pairs.shape[1])
    check(sums, FixedRescale(*pairs), output, device, zero)


@on_devices
@every_output
def test_float_scales(output, device):
    """Scales of every magnitude: subnormal scales and products, and products beyond float32."""
    rng = generator("gpu float scales", str(output))
    scales = np.exp2(rng.uniform(-149, 127, 300)).astype(np.float32)
    near_one = np.exp2(rng.uniform(-31, 0, 300)).astype(np.float32)
    ends = np.array([2.0**-149, 2.0**-126, 1 / 3, 0.5, 1.0, np.finfo(np.float32).max], np.float32)
    scales = np.concatenate([scales, near_one, ends])
    sums = np.broadcast_to(sums_of(rng, 60)[:, None], (60 + len(ENDS), len(scales)))
    check(sums, FloatRescale(scales), output, device, zero_points(rng, output, len(scales)))


@on_devices
def test_parameters_of_the_tensor_of_rows_and_of_columns(device):
    rng = generator("gpu parameters")
    sums = rng.integers(-(10**6), 10**6, (5, 3))
    for shape in ((), (3,), (5, 1), (5, 3)):
        scale = 2.0 ** rng.uniform(-16, -8, shape)
        for rescale in (
            FixedRescale.of(scale),
            ShiftRescale(rng.integers(8, 16, shape)),
            FloatRescale(scale.astype(np.float32)),
        ):
            check(sums, rescale, "uint8", device, rng.integers(0, 256, shape), low=3, high=250)


@on_devices
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32])
def test_integers_of_every_width(dtype, device):
    sums = np.arange(100, dtype=dtype) * dtype(1)
    check(sums, ShiftRescale(2), "int8_full", device)
    assert check_empty(np.empty((0, 4), dtype), device) == (0, 4)


def check_empty(sums, device):
    return tuple(requantize(tensor(sums, device), ShiftRescale(2)).shape)


@on_devices
@pytest.mark.parametrize("names", [("int8_affine", "int8_channel"), ("int8_channel", "int4_g32")])
def test_integer_inference(names, device):
    """A layer in integers only: INT32 sums of quantised tensors, requantised to INT8."""
    rng = generator("gpu inference", names)
    a, b = (random_array(rng, shrunk(schemes.SCHEMES[name]), 6, 32, "one") for name in names)
    want = schemes.integer_sums(a, b)
    result = integer_sums(ScaledTensor.from_model(a, device), ScaledTensor.from_model(b, device))
    for i in range(want.sums.shape[-1]):
        rescale = FixedRescale.of(want.scales[..., i] / 100)
        integers = requantize(result.sums[..., i], rescale, zero_point=-3)
        expected = model.requantize(want.sums[..., i], rescale, zero_point=-3)
        np.testing.assert_array_equal(integers.cpu().numpy(), expected)


@on_devices
def test_a_zero_point_on_the_device(device):
    sums = torch.arange(-8, 8, device=device)
    zero = torch.arange(-8, 8, device=device, dtype=torch.int8)
    result = requantize(sums, ShiftRescale(0), "int4_full", zero_point=zero)
    assert result.tolist() == [max(min(2 * x, 7), -8) for x in range(-8, 8)]


def test_a_compiled_function_calls_it_as_it_is():
    rescale = FloatRescale([0.25])

    def layer(sums):
        return requantize(sums + 1, rescale, zero_point=3) * 2

    sums = torch.arange(-100, 100)
    assert torch.equal(torch.compile(layer, fullgraph=True, backend="aot_eager")(sums), layer(sums))


SUMS = torch.zeros(2, dtype=torch.int32)


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (
            TypeError,
            "sums must be a torch.Tensor, not list",
            lambda: requantize([1], ShiftRescale(0)),  # type: ignore[arg-type]
        ),
        (
            TypeError,
            "sums must be integers from -2147483648 to 2147483647, not float32",
            lambda: requantize(SUMS.float(), ShiftRescale(0)),
        ),
        (
            TypeError,
            "sums must be integers from -2147483648 to 2147483647, not bool",
            lambda: requantize(SUMS.bool(), ShiftRescale(0)),
        ),
        (
            ValueError,
            "sums must be from -2147483648 to 2147483647, not 2147483648",
            lambda: requantize(torch.tensor([2**31]), ShiftRescale(0)),
        ),
        (
            TypeError,
            "rescale must be a FloatRescale, FixedRescale or ShiftRescale, not 0.5",
            lambda: requantize(SUMS, 0.5),  # type: ignore[arg-type]
        ),
        (
            ValueError,
            (
                "output must be one of int8_full, int8_symmetric, uint8, int4_full, "
                "int4_symmetric, not 'int3'"
            ),
            lambda: requantize(SUMS, ShiftRescale(0), "int3"),
        ),
        (
            ValueError,
            "zero_point must be from -7 to 7, not -8",
            lambda: requantize(SUMS, ShiftRescale(0), "int4_symmetric", zero_point=-8),
        ),
        (
            ValueError,
            "zero_point must be from -7 to 7, not -8",
            lambda: requantize(SUMS, ShiftRescale(0), "int4_symmetric", zero_point=SUMS - 8),
        ),
        (
            TypeError,
            "zero_point must be integers from -128 to 127, not float32",
            lambda: requantize(SUMS, ShiftRescale(0), zero_point=SUMS.float()),
        ),
        (
            ValueError,
            "low must be from -128 to 127, not -129",
            lambda: requantize(SUMS, ShiftRescale(0), low=-129),
        ),
        (
            ValueError,
            "high must be from 3 to 127, not 2",
            lambda: requantize(SUMS, ShiftRescale(0), low=3, high=2),
        ),
        (
            ValueError,
            "shift must broadcast to the sums' shape (2,), not (3,)",
            lambda: requantize(SUMS, ShiftRescale([1, 2, 3])),
        ),
    ],
)
def test_refusals(error, message, call):
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        call()
