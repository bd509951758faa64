"""Errors of results beside a reference, gathered a part at a time."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]


@dataclass(frozen=True)
class Error:
    """How results differ from a reference, all numbers of both as one vector.

    cosine: of the angle between the two; where one is all zeros, 1 without error and 0 with it.
    sqnr_db: 10 log10(sum reference^2 / sum error^2), infinite without error, and minus infinite
    where only the reference is all zeros. mse: mean squared error, and maximum: the largest
    magnitude of one, in the units of the results.
    """

    cosine: float
    sqnr_db: float
    mse: float
    maximum: float


class SchemeErrors:
    """Sums for an `Error`: `add` parts of results and reference, then `total`.

    name: of what is measured, for messages.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.signal = self.power = self.common = self.noise = self.maximum = 0.0
        self.count = 0

    def add(self, results: F64, reference: F64) -> None:
        """Of any one shape; ValueError, naming whose they are, unless all are finite."""
        for what, part in (("results", results), ("reference", reference)):
            outside = ~np.isfinite(part)
            if outside.any():
                raise ValueError(
                    f"{what} of {self.name} must be finite, not {part[outside].flat[0]}"
                )
        error = results - reference
        self.signal += float(np.square(reference).sum())
        self.power += float(np.square(results).sum())
        self.common += float((results * reference).sum())
        self.noise += float(np.square(error).sum())
        self.maximum = max(self.maximum, float(np.abs(error).max(initial=0.0)))
        self.count += error.size

    def total(self) -> Error:
        """Of everything added, at least one number."""
        if not self.noise:
            sqnr = math.inf
        elif not self.signal:
            sqnr = -math.inf
        else:
            sqnr = 10 * math.log10(self.signal / self.noise)
        norms = math.sqrt(self.signal) * math.sqrt(self.power)
        cosine = self.common / norms if norms else float(not self.noise)
        return Error(cosine, sqnr, self.noise / self.count, self.maximum)
