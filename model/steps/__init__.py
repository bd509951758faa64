"""The terms of n dot products, cut into the steps in which an accumulator takes them.

Accumulators ask for no more than these protocols; two kinds of steps have them:

    codes.py     blocks of codes under E8M0 or E4M3 scales: what a unit is given
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
    """What an accumulator takes of n dot products at once: t products each, under one scale."""

    @property
    def products(self) -> F64:
        """(n, t), special terms as 0."""
        ...

    @property
    def factor(self) -> F64 | None:
        """The scales' significand g (n,), as in g x 2^scale; None where all of them are 1."""
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
        """Every term is a multiple of 2^lsb."""
        ...

    @property
    def term_bits(self) -> int:
        """Every term is at most 2^term_bits of its unit digit."""
        ...

    @property
    def scale(self) -> NDArray[np.int64]:
        """The exponent s of the scale; (n,)."""
        ...

    @property
    def largest_unit(self) -> NDArray[np.int64]:
        """The largest unit exponent of the products (n,); NO_EXPONENT when all are zero."""
        ...

    def largest_units(self, places: slice) -> NDArray[np.int64]:
        """`largest_unit` of some of the products."""
        ...

    @property
    def special(self) -> NDArray[np.uint8]:
        """The class of special terms of each dot product (n,), 0 where all are finite."""
        ...

    @property
    def size(self) -> int:
        """Elements that the step stands for."""
        ...

    @property
    def is_last(self) -> bool:
        """Whether it is the last of its dot product."""
        ...


class Steps(Protocol):
    """The steps of n dot products."""

    @property
    def n(self) -> int:
        """Dot products."""
        ...

    @property
    def exact_sums_fit(self) -> bool:
        """Whether the exact sum of any block is one float64."""
        ...

    def walk(self, record: Recorder) -> Iterator[Step]:
        """The steps in order."""
        ...
