"""Steps of dot products: the terms that an accumulator takes at once.

These protocols are all that accumulators ask. Two modules implement them:

    codes.py     blocks of codes under E8M0 or E4M3 scales, the inputs of a unit
    operands.py  values of any scheme's operands, each looked up once for many products
"""

from collections.abc import Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..rounding import F64
from ..trace import Recorder

MICRO_DIGITS = 2  # one for each operand


class Step(Protocol):
    """One step of n dot products: t products each, under one scale."""

    @property
    def products(self) -> F64:
        """Products (n, t), special terms as 0."""
        ...

    @property
    def values(self) -> F64:
        """Products (n, t), special terms as NaN and infinities; NaN under a scale of NaN."""
        ...

    @property
    def factor(self) -> F64 | None:
        """Significand g (n,) of the scales g x 2^scale; None where all are 1."""
        ...

    @property
    def terms(self) -> F64:
        """Products x factor, (n, t)."""
        ...

    @property
    def bits(self) -> int:
        """Width of the largest term as a multiple of 2^lsb."""
        ...

    @property
    def lsb(self) -> int:
        """Exponent of the last digit: every term is a multiple of 2^lsb."""
        ...

    @property
    def term_bits(self) -> int:
        """Bound of terms: each is at most 2^term_bits times its unit digit."""
        ...

    @property
    def scale(self) -> NDArray[np.int64]:
        """Exponent s of the scale, (n,)."""
        ...

    @property
    def largest_unit(self) -> NDArray[np.int64]:
        """Largest unit exponent of the products (n,); NO_EXPONENT when all are zero."""
        ...

    def largest_units(self, places: slice) -> NDArray[np.int64]:
        """`largest_unit` of the products at `places`."""
        ...

    @property
    def special(self) -> NDArray[np.uint8]:
        """Class of the special terms of each dot product (n,); 0 where all are finite."""
        ...

    @property
    def size(self) -> int:
        """Number of elements of a block that the step takes."""
        ...

    @property
    def is_last(self) -> bool:
        """Whether the step is the last one of its dot product."""
        ...


class Steps(Protocol):
    """The steps of n dot products."""

    @property
    def n(self) -> int:
        """Number of dot products."""
        ...

    @property
    def exact_sums_fit(self) -> bool:
        """Whether the exact sum of any block is one float64."""
        ...

    def walk(self, record: Recorder) -> Iterator[Step]: ...
