"""Operands and checks that tests of schemes share with other tests."""

from fractions import Fraction

import numpy as np

from compare import repeat_command
from mxdot.model import element_format
from mxdot.model.schemes import (
    quantize,
)
from rational import schemes as oracle


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
