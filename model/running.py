"""The running value that products start from."""

import numpy as np
from numpy.typing import ArrayLike

from .blocks import as_float32
from .rounding import F32


def running_value(c: ArrayLike | None, lead: tuple[int, ...]) -> F32:
    """`c` broadcast to `lead`, flattened; -0 counts as +0."""
    size = int(np.prod(lead, dtype=np.int64))
    if c is None:
        return np.zeros(size, np.float32)
    values = as_float32(c, "c")
    try:
        values = np.broadcast_to(values, lead)
    except ValueError:
        raise ValueError(f"c must broadcast to shape {lead}, not {values.shape}") from None
    return np.where(values == 0, np.float32(0), values).reshape(size)
