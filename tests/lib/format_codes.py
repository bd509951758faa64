"""Codes of element formats, and values at which their rounding changes."""

import ml_dtypes
import numpy as np

from mxdot.model import FORMATS

FLOATS = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1", "fp16", "bf16")

ML_DTYPES = {
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
    "e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "fp16": np.float16,
    "bf16": ml_dtypes.bfloat16,
}


def all_codes(name):
    return np.arange(2 ** FORMATS[name].bits, dtype=FORMATS[name].dtype)


def boundaries(name):
    """Every value, every midpoint of two neighbours, and the float64 next to each of them."""
    fmt = FORMATS[name]
    values = np.unique(fmt.values[np.isfinite(fmt.values)])
    if fmt.bits > 8:  # some of them, both ends and neighbours among them
        every = np.arange(len(values))
        ends = np.minimum(every, every[::-1]) < 20
        middle = np.abs(every - len(values) // 2) < 20
        values = values[ends | middle | (every % (len(values) // 200) < 2)]
    midpoints = (values[:-1] + values[1:]) / 2  # exact in float64
    quarters = (values[:-1] + midpoints) / 2
    beyond = fmt.largest_finite * np.array([1 + 2**-10, 1.01, 1.06, 1.1, 1.13, 1.2, 2, 1e5, 1e269])
    points = np.concatenate([values, midpoints, quarters, beyond, -beyond, [5e-324, -5e-324, -0.0]])
    return np.concatenate([points, np.nextafter(points, np.inf), np.nextafter(points, -np.inf)])
