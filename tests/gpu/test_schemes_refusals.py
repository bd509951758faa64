"""Refusals of schemes on tensors, in one line that names the argument."""

import re

import numpy as np
import pytest
import torch

from devices import with_parts
from mxdot.gpu import schemes
from mxdot.gpu.schemes import ScaledTensor, quantize
from mxdot.model.schemes import Limits
from refused_products import Library, refused_products

ONES = torch.ones(4, 32)


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (TypeError, "x must be a torch.Tensor, not ndarray", lambda: quantize(np.ones(32), "mx9")),  # type: ignore[arg-type]
        (
            ValueError,
            r"rng must be a torch.Generator or uint32 words of shape \(4, 32\) .*, not None",
            lambda: quantize(ONES, "mx9", rounding="stochastic"),
        ),
        (
            ValueError,
            r"limits must have shape \(1, 1\), not \(\)",
            lambda: quantize(ONES, "int8_tensor", limits=Limits(-1.0, 1.0)),
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
