"""What schemes on tensors refuse, in one line that names the argument."""

import re

import numpy as np
import pytest
import torch

from devices import with_parts
from mxdot.gpu.schemes import ScaledTensor, integer_sums, matmul, quantize
from mxdot.model import E2M1
from mxdot.model.schemes import FLOAT32, Level, Limits, Scheme, tile

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


SMALL = torch.zeros(2, 128)


def with_entries(name, **entries):
    """SMALL in a scheme, every entry of some parts replaced."""
    x = quantize(SMALL, name)
    parts = {part: torch.full_like(getattr(x, part), e) for part, e in entries.items()}
    return with_parts(x, **parts)


BIG = torch.ones(1, 133145)


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (
            ValueError,
            "overflow must be one of refuse, wrap, not 'clip'",
            lambda q: integer_sums(q, q, overflow="clip"),
        ),
        (
            TypeError,
            "a must be a ScaledTensor, not Tensor",
            lambda q: integer_sums(SMALL, q),  # type: ignore[arg-type]
        ),
        (
            TypeError,
            "b must be a ScaledTensor, not Tensor",
            lambda q: matmul(q, SMALL, "exact"),  # type: ignore[arg-type]
        ),
        (
            TypeError,
            "a must be a torch.Tensor, not ndarray",
            lambda q: matmul(SMALL.numpy(), q, "exact"),  # type: ignore[arg-type]
        ),
        (
            ValueError,
            "c must broadcast to shape (2, 2), not (3,)",
            lambda q: integer_sums(q, q).rescale(torch.zeros(3)),
        ),
        (
            TypeError,
            "c must be float32, float16, bfloat16 or float64, not int64",
            lambda q: integer_sums(q, q).rescale(torch.zeros(2, 2, dtype=torch.int64)),
        ),
        (
            ValueError,
            "lanes must be from 1 to 65536, not 0",
            lambda q: matmul(q, q, "exact", lanes=0),
        ),
        (
            ValueError,
            "a and b must have shapes (M, K) and (N, K), not (2, 128) and (2, 64)",
            lambda q: matmul(q, quantize(SMALL[:, :64], "int8_channel"), "exact"),
        ),
        (
            ValueError,
            "a and b must have shapes (M, K) and (N, K), not (128,) and (2, 128)",
            lambda q: matmul(SMALL[0], q, "exact"),
        ),
        (
            ValueError,
            "axis of a must be the last axis, not 0",
            lambda q: matmul(quantize(SMALL, "int8_channel", axis=0), q, "exact"),
        ),
        (
            ValueError,
            "c must broadcast to shape (2, 2), not (3,)",
            lambda q: matmul(q, q, "exact", torch.zeros(3)),
        ),
        (
            ValueError,
            "INT32 sums take integer elements, not e4m3 of fp8_e4m3_row",
            lambda q: matmul(quantize(SMALL, "fp8_e4m3_row"), q, "int32"),
        ),
        (
            ValueError,
            (
                "INT32 sums take float scales outermost and integer ones inside, not e8m0 per "
                "block 16, floor of mx9"
            ),
            lambda q: integer_sums(q, quantize(SMALL, "mx9")),
        ),
        (
            ValueError,
            (
                "K of an INT32 sum of int8_channel x int8_channel must be at most 133144, not "
                "133145: it could overflow"
            ),
            lambda q: matmul(quantize(BIG, "int8_channel"), quantize(BIG, "int8_channel"), "int32"),
        ),
        (
            ValueError,
            "accumulator of a weight-only product must be exact, fused:F or a preset, not int32",
            lambda q: matmul(SMALL, q, "int32"),
        ),
        (
            ValueError,
            "codes of int8_channel must stand for numbers of int8_symmetric, not be 0x80",
            lambda q: matmul(with_parts(q, codes=torch.full_like(q.codes, 128)), q, "exact"),
        ),
        (
            ValueError,
            "codes of int4_channel must stand for numbers of int4_symmetric, not be 0x10",
            lambda q: matmul(with_entries("int4_channel", codes=16), q, "exact"),
        ),
        (
            ValueError,
            "zero_points of int8_affine must be from -128 to 127, not 128",
            lambda q: integer_sums(with_entries("int8_affine", zero_points=128), q),
        ),
        (
            ValueError,
            "zero_points of uint8_affine must be from 0 to 255, not -1",
            lambda q: matmul(with_entries("uint8_affine", zero_points=-1), q, "exact"),
        ),
        (
            ValueError,
            "selectors of mixed4 must be from 0 to 1, not 2",
            lambda q: matmul(with_entries("mixed4", selectors=2), q, "exact"),
        ),
    ],
)
def test_products(error, message, call):
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        call(quantize(SMALL, "int8_channel"))
