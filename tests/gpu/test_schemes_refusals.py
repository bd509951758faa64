"""Refusals of schemes on tensors: one line that names the argument."""

import re

import numpy as np
import pytest
import torch

from devices import with_parts
from mxdot.gpu import schemes
from mxdot.gpu.schemes import ScaledTensor, quantize
from mxdot.model import E2M1
from mxdot.model.schemes import FLOAT32, Level, Limits, Scheme, tile
from refused_products import Library, refused_products

ONES = torch.ones(4, 32)


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (TypeError, "x must be a torch.Tensor, not ndarray", lambda: quantize(np.ones(32), "mx9")),  # type: ignore[arg-type]
        (
            TypeError,
            "x must be float32, float16, bfloat16 or float64, not int32",
            lambda: quantize(ONES.int(), "mx9"),
        ),
        (
            ValueError,
            "x of dtype float64 must hold float32 values, not 0.1",
            lambda: quantize(ONES.double() * 0.1, "mx9"),
        ),
        (
            ValueError,
            r"x must hold at least one value, not have shape \(0, 32\)",
            lambda: quantize(ONES[:0], "mx9"),
        ),
        (ValueError, "scheme must be one of mxfp8_e4m3, .*", lambda: quantize(ONES, "mx7")),
        (TypeError, "scheme must be a Scheme or its name, not 8", lambda: quantize(ONES, 8)),  # type: ignore[arg-type]
        (ValueError, "axis must be from -2 to 1, not 2", lambda: quantize(ONES, "mx9", axis=2)),
        (
            ValueError,
            "row length must be a multiple of 16 for block 16, not 20",
            lambda: quantize(ONES[:, :20], "mx9"),
        ),
        (
            ValueError,
            "row count must be a multiple of 2 for tile 2 x 8, not 3",
            lambda: quantize(
                torch.ones(4, 3, 8), Scheme("t", (E2M1,), (Level(tile(2, 8), FLOAT32),), "")
            ),
        ),
        (
            TypeError,
            "limits must be Limits or None, not float",
            lambda: quantize(ONES, "int8_tensor", limits=1.0),  # type: ignore[arg-type]
        ),
        (
            ValueError,
            r"limits must have shape \(1, 1\), not \(4, 1\)",
            lambda: quantize(ONES, "int8_tensor", limits=Limits(np.zeros((4, 1)), np.ones((4, 1)))),
        ),
        (
            ValueError,
            "nonfinite must be one of poison, element, not 'drop'",
            lambda: quantize(ONES, "mx9", nonfinite="drop"),
        ),
        (
            ValueError,
            r"rng must be a torch.Generator or uint32 words of shape \(4, 32\) .*, not None",
            lambda: quantize(ONES, "mx9", rounding="stochastic"),
        ),
        (
            TypeError,
            "x must be a ScaledArray, not Tensor",
            lambda: ScaledTensor.from_model(ONES),  # type: ignore[arg-type]
        ),
        (
            TypeError,
            "dtype must be float32, float16, bfloat16 or float64, not int8",
            lambda: quantize(ONES, "mx9").dequantize(torch.int8),
        ),
    ],
)
def test_quantisation(error, message, call):
    with pytest.raises(error, match=f"^{message}$"):
        call()


def zeros(shape, dtype):
    return torch.zeros(shape, dtype=getattr(torch, dtype))


TORCH = Library(schemes, "Tensor", "ScaledTensor", zeros, with_parts)


@pytest.mark.parametrize(("error", "message", "call"), refused_products(TORCH))
def test_products(error, message, call):
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        call(TORCH.quantized("int8_channel"))


def test_an_array_of_numpy():
    with pytest.raises(TypeError, match=r"^a must be a torch\.Tensor, not ndarray$"):
        schemes.matmul(ONES.numpy(), quantize(ONES, "int8_channel"), "exact")  # type: ignore[arg-type]
