"""The terms of n dot products, cut into the steps in which an accumulator takes them."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .formats import E8M0
from .products import ProductTable
from .rounding import F32, F64
from .specials import NAN, special_class, special_value
from .trace import Recorder


@dataclass(frozen=True)
class Steps:
    """Code pairs of n dot products cut into steps of t terms, and each step's scale codes.

    index: (n, steps, t) into the table; scale_a, scale_b: uint8 (n, steps). lengths: elements in
    each step of a block, in order (a shorter last one is filled with zero products).
    """

    table: ProductTable
    index: NDArray[np.uint16]
    scale_a: NDArray[np.uint8]
    scale_b: NDArray[np.uint8]
    lengths: tuple[int, ...]

    @property
    def count(self) -> int:
        """Steps of each dot product."""
        return self.index.shape[1]

    @property
    def n(self) -> int:
        """Dot products."""
        return self.index.shape[0]

    @cached_property
    def scale(self) -> NDArray[np.int64]:
        """The exponents s of both scales added, in [-254, 254]; (n, steps)."""
        return self.scale_a.astype(np.int64) + self.scale_b.astype(np.int64) - 2 * E8M0.bias

    @cached_property
    def products(self) -> F64:
        """(n, steps, t), NaN for special terms."""
        return self.table.values[self.index]

    @cached_property
    def special(self) -> NDArray[np.uint8] | None:
        """Bits NAN, POSITIVE_INF, NEGATIVE_INF of each step (n, steps); None if there are none."""
        nan_scale = (self.scale_a == E8M0.nan_code) | (self.scale_b == E8M0.nan_code)
        terms = np.isnan(self.products.sum(axis=-1))
        if not (nan_scale.any() or terms.any()):
            return None
        classes = np.where(nan_scale, np.uint8(NAN), np.uint8(0))
        found = self.table.specials[self.index[terms]]
        classes[terms] |= np.bitwise_or.reduce(found, axis=-1)
        return classes

    @cached_property
    def finite_products(self) -> F64:
        """(n, steps, t) with special terms as 0."""
        return self.products if self.special is None else np.nan_to_num(self.products, nan=0.0)

    def special_of(self, j: int) -> NDArray[np.uint8]:
        """Column `j` of `special`, 0 where nothing is."""
        return np.zeros(self.n, np.uint8) if self.special is None else self.special[:, j]

    def walk(self, record: Recorder) -> Iterator[int]:
        """Step numbers, recording the stages that every accumulator shares."""
        for j in range(self.count):
            if record.keep_stages:
                index = self.index[:, j]
                record.stage("product", self.table.significands[index])
                record.stage("product_exponent", self.table.exponents[index])
                record.stage("unit_exponent", self.table.unit_exponents[index].astype(np.int64))
                record.stage("scale", self.scale[:, j])
            yield j


class Update:
    """One step's c -> c': special terms decide where there are any, arithmetic elsewhere."""

    def __init__(self, c: F32, classes: NDArray[np.uint8]) -> None:
        self.classes = classes | special_class(c)
        self.active = self.classes == 0
        self.all_active = bool(self.active.all())
        self.c = self.finite(c)

    def finite(self, values: F32) -> F64:
        """`values` as float64, 0 where special terms decide."""
        kept = values if self.all_active else np.where(self.active, values, np.float32(0))
        return kept.astype(np.float64)

    def result(self, computed: F32) -> F32:
        """The c' of the step: `computed` from finite terms, or what the special terms give."""
        if self.all_active:
            return computed
        return np.where(self.active, computed, special_value(self.classes))
