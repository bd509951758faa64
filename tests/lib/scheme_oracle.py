"""Schemes of the model against the rational oracle."""

from fractions import Fraction

import numpy as np

from compare import FULL, repeat_command
from mxdot.model import element_format
from mxdot.model.schemes import ScaledArray, matmul, quantize
from rational import schemes as oracle
from scheme_cases import shrunk


class NumPyBackend:
    """The model, for the tests of scheme_suite: the oracle is slow, so matrices are small."""

    rows = 8
    weight_only_shape = (4, 4, 16)
    every_text = FULL

    def sizes(self, scheme):
        """The schemes to quantise by and the shape of their matrices."""
        return [(shrunk(scheme), (8, 16))]

    def quantize(self, x, scheme, **options):
        return quantize(x, scheme, **options)

    def check(self, matrix, scheme, words=None, **options):
        check(matrix, scheme, words=words, **options)

    def check_product(self, a, b, text, c, lanes=128):
        """A product of two ScaledArrays, or of floats and a ScaledArray."""
        got = matmul(a, b, text, c, lanes=lanes).view(np.uint32)
        if isinstance(a, ScaledArray):
            left, want = a.scheme, oracle.matmul(a, b, text, c, lanes)
        else:
            with np.errstate(over="ignore"):
                rounded = b.dequantize().astype(a.dtype)
            left, want = a.dtype, oracle.weight_only(a, rounded, text, c, lanes)
        context = f"{left} x {b.scheme}, {text}, lanes {lanes}, repeat {repeat_command()}"
        np.testing.assert_array_equal(got, want, context)

    def product(self, a, b, text, lanes):
        return matmul(a, b, text, lanes=lanes)


def values_of(level, stored):
    """Exact scales, None for NaN, from what is stored: read by name, not by `decode`."""
    name = level.format.name
    if name == "e4m3":
        codes = stored.tolist()
        fmt = element_format("e4m3").values.tolist()
        return [[None if c == 0x7F else Fraction(fmt[c]) for c in row] for row in codes]
    if name == "e8m0":
        return [
            [None if c == 255 else oracle.pow2(c - 127) for c in row] for row in stored.tolist()
        ]
    if name == "e1m0":
        return [[oracle.pow2(-c) for c in row] for row in stored.tolist()]
    rows = stored.astype(np.float64).tolist()
    return [[None if s != s else Fraction(s) for s in row] for row in rows]


def check(matrix, scheme, rounding="nearest_even", nonfinite="poison", words=None):
    """A float32 matrix gives the oracle's codes, scales, zero points, selectors and values."""
    got = quantize(matrix, scheme, rounding=rounding, nonfinite=nonfinite, rng=words)
    rows = None if words is None else words.tolist()
    want = oracle.quantize(matrix.tolist(), scheme, None, rounding, nonfinite, rows)
    context = f"\n{scheme} {rounding} {nonfinite}\n{matrix.view(np.uint32).tolist()}"
    context += f"\nrepeat {repeat_command()}"
    for i, (level, stored) in enumerate(zip(scheme.levels, got.scales, strict=True)):
        assert values_of(level, stored) == want.scales[i], f"scales of level {i}{context}"
    for part in ("zero_points", "selectors"):
        stored = getattr(got, part)
        assert (None if stored is None else stored.tolist()) == getattr(want, part), part + context
    assert got.codes.tolist() == want.codes, f"codes{context}"
    bits = [[oracle.dequantized_bits(v) for v in row] for row in want.values]
    dequantized = got.dequantize() + np.float32(0)  # one zero
    assert dequantized.view(np.uint32).tolist() == bits, f"values{context}"
