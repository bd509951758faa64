"""Operands and checks that tests of encode share with other tests."""

import numpy as np

from mxdot.model import FORMATS


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
