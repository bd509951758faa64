"""OCTAV: the clipping scalar of least expected squared error, on arrays of NumPy and of PyTorch.

Sakr et al., Optimal Clipping and Magnitude-aware Differentiation, arXiv:2206.06501.
"""

from ..arrays import Array, cast, known_none, namespace

ITERATIONS = 100  # at most; the fixed point is reached in about ten


def thresholds(values: Array, bits: int, iterations: int = ITERATIONS) -> Array:
    """The fixed point for each row of `values` (groups, elements), from their mean on; float64.

    bits: of an integer element. Zeros do not count; a row of zeros has 0. Sums are float64.
    """
    xp = namespace(values)
    noise = 4.0**-bits / 3
    magnitudes = xp.abs(cast(values, "float64"))
    count = (magnitudes > 0).sum(-1)
    threshold = magnitudes.sum(-1) / xp.where(count == 0, 1, count)
    for _ in range(iterations):
        above = magnitudes > threshold[:, None]
        beyond = above.sum(-1)
        kept = noise * (count - beyond) + beyond
        following = (magnitudes * above).sum(-1) / xp.where(beyond == 0, 1.0, kept)
        moved = (beyond > 0) & (following != threshold)
        if known_none(moved):
            break
        threshold = xp.where(moved, following, threshold)
    return threshold
