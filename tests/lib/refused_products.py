"""Products of schemes that are refused, for NumPy and PyTorch in the same words."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

X = (2, 128)


@dataclass(frozen=True)
class Library:
    """A library of arrays, as the cases use it; arrays are zeros of shape X by default."""

    schemes: Any
    """mxdot.model.schemes or mxdot.gpu.schemes."""
    array: str
    """Its name for arrays, and for arrays of a scheme."""
    scaled: str
    zeros: Callable[..., Any]
    """(shape, name of the dtype)."""
    replaced: Callable[..., Any]
    """An array of a scheme with some parts replaced, by their names."""

    @property
    def x(self) -> Any:
        return self.zeros(X, "float32")

    def quantized(self, name: str, shape: tuple[int, ...] = X, **options: Any) -> Any:
        return self.schemes.quantize(self.zeros(shape, "float32"), name, **options)

    def filled(self, name: str, **entries: int) -> Any:
        """Every entry of some parts replaced."""
        q = self.quantized(name)
        parts = {part: 0 * getattr(q, part) + entry for part, entry in entries.items()}
        return self.replaced(q, **parts)


def refused_products(on: Library) -> list[tuple[type[Exception], str, Callable[[Any], Any]]]:
    """(error, its whole message, what raises it with x quantised by int8_channel)."""
    integer_sums, matmul = on.schemes.integer_sums, on.schemes.matmul
    return [
        (
            ValueError,
            "INT32 sums take integer elements, not e2m1 of nvfp4",
            lambda q: integer_sums(on.quantized("nvfp4"), q),
        ),
        (
            ValueError,
            "INT32 sums take integer elements, not e4m3 of fp8_e4m3_row",
            lambda q: matmul(on.quantized("fp8_e4m3_row"), q, "int32"),
        ),
        (
            ValueError,
            (
                "INT32 sums take float scales outermost and integer ones inside, "
                "not e8m0 per block 16, floor of mx9"
            ),
            lambda q: integer_sums(q, on.quantized("mx9")),
        ),
        (
            ValueError,
            (
                "K of an INT32 sum of int8_channel x int8_channel must be at most 133144, "
                "not 133145: it could overflow"
            ),
            lambda q: matmul(*2 * [on.quantized("int8_channel", (1, 133145))], "int32"),
        ),
        (
            ValueError,
            "overflow must be one of refuse, wrap, not 'clip'",
            lambda q: integer_sums(q, q, overflow="clip"),
        ),
        (TypeError, f"a must be a {on.scaled}, not {on.array}", lambda q: integer_sums(on.x, q)),
        (
            TypeError,
            f"b must be a {on.scaled}, not {on.array}: quantize makes one of floats",
            lambda q: matmul(q, on.x, "exact"),
        ),
        (
            TypeError,
            "a must be float32, float16, bfloat16 or float64, not int64",
            lambda q: matmul(on.zeros(X, "int64"), q, "exact"),
        ),
        (
            ValueError,
            "accumulator of a weight-only product must be exact, fused:F or a preset, not int32",
            lambda q: matmul(on.x, q, "int32"),
        ),
        (
            ValueError,
            "lanes must be from 1 to 65536, not 0",
            lambda q: matmul(q, q, "exact", lanes=0),
        ),
        (
            ValueError,
            "a and b must have shapes (M, K) and (N, K), not (2, 128) and (2, 64)",
            lambda q: matmul(q, on.quantized("int8_channel", (2, 64)), "exact"),
        ),
        (
            ValueError,
            "a and b must have shapes (M, K) and (N, K), not (128,) and (2, 128)",
            lambda q: matmul(on.x[0], q, "exact"),
        ),
        (
            ValueError,
            "axis of a must be the last axis, not 0",
            lambda q: matmul(on.quantized("int8_channel", axis=0), q, "exact"),
        ),
        (
            ValueError,
            "c must broadcast to shape (2, 2), not (3,)",
            lambda q: matmul(q, q, "exact", on.zeros(3, "float32")),
        ),
        (
            ValueError,
            "c must broadcast to shape (2, 2), not (3,)",
            lambda q: integer_sums(q, q).rescale(on.zeros(3, "float32")),
        ),
        (
            TypeError,
            "c must be float32, float16, bfloat16 or float64, not int64",
            lambda q: integer_sums(q, q).rescale(on.zeros((2, 2), "int64")),
        ),
        (
            ValueError,
            "codes of int8_tensor must stand for numbers of int8_symmetric, not be 0x80",
            lambda q: matmul(on.filled("int8_tensor", codes=0x80), q, "exact"),
        ),
        (
            ValueError,
            "codes of int4_channel must stand for numbers of int4_symmetric, not be 0x10",
            lambda q: matmul(on.filled("int4_channel", codes=0x10), q, "exact"),
        ),
        (
            ValueError,
            "zero_points of int8_affine must be from -128 to 127, not 128",
            lambda q: integer_sums(on.filled("int8_affine", zero_points=128), q),
        ),
        (
            ValueError,
            "zero_points of uint8_affine must be from 0 to 255, not -1",
            lambda q: matmul(on.filled("uint8_affine", zero_points=-1), q, "exact"),
        ),
        (
            ValueError,
            "selectors of mixed4 must be from 0 to 1, not 2",
            lambda q: matmul(on.filled("mixed4", selectors=2), q, "exact"),
        ),
    ]
