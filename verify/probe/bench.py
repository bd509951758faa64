"""Asks a unit about rows that are written as values: `{place: product}`, every other product 0."""

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...model.formats import FLOAT32, ElementFormat
from ...model.products import unit_exponents
from .black_boxes import MatrixUnit

Row = Mapping[int, float | tuple[float, float]]
"""Place in the row: the product's value, or the values of both elements."""

EXPONENTS = range(-64, 64)  # of the products of every format
LONGEST = 256  # elements of the rows that look for terms and promotion
LONGEST_CODE = 8  # of formats whose products are all asked about
HALF_ULP = FLOAT32.significand_bits  # below the leading digit of a float32


class Vocabulary:
    """Products that rows are written with: of every pair of codes, or of chosen ones of long codes.

    values: float64 and unit_exponents: int16, of every pair.
    """

    def __init__(self, a: ElementFormat, b: ElementFormat) -> None:
        self._a, self._b = _chosen(a), _chosen(b)
        with np.errstate(invalid="ignore"):
            self.values = np.outer(a.values[self._a], b.values[self._b]).reshape(-1)
        units = (unit_exponents(fmt)[codes] for fmt, codes in ((a, self._a), (b, self._b)))
        self.unit_exponents = np.add.outer(*units).reshape(-1)

    def codes(self, index: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return self._a[index // len(self._b)], self._b[index % len(self._b)]


def _chosen(fmt: ElementFormat) -> NDArray[np.int64]:
    """All codes of up to 8 bits; of longer ones the values 1 and 1.5 times powers of two."""
    codes = np.arange(1 << fmt.bits)
    if fmt.bits <= LONGEST_CODE:
        return codes
    with np.errstate(invalid="ignore"):
        fraction, exponent = np.frexp(fmt.values)
    near = (exponent > EXPONENTS.start) & (exponent < EXPONENTS.stop)
    return codes[near & np.isin(np.abs(fraction), (0.5, 0.75))]


def _check_elements(a: ElementFormat, b: ElementFormat) -> None:
    big, half = 2.0**a.emax, 2.0 ** (a.emin - 1)
    needed = [0.0, big, -big, *([] if a.is_integer else [half, -half])]
    for fmt, values in ((a, needed), (b, [0.0, 1.0, 2.0**b.emax])):
        for value in values:
            if value not in fmt.values:
                raise ValueError(f"format must have the element {value:g} for a probe, not {fmt}")


class Bench:
    """A unit, and what its formats can ask of it; ValueError for formats that can ask too little.

    Results are float64 of the float32 that the unit gives; `bits` gives the bits themselves.
    """

    def __init__(self, unit: MatrixUnit) -> None:
        _check_elements(*unit.formats)
        self.unit = unit
        self.table = Vocabulary(*unit.formats)
        self.short = unit.multiple * -(-4 // unit.multiple)
        self.long = unit.multiple * -(-LONGEST // unit.multiple)

    @cached_property
    def _pair_of(self) -> dict[float, int]:
        """Table index for each finite product value; normal operands and products in [1, 2) first.

        A product's unit digit is then its leading digit wherever that is possible.
        """
        table = self.table
        values = table.values
        finite = np.flatnonzero(np.isfinite(values) & (values != 0))
        a, b = table.codes(finite)
        subnormal = sum(
            (np.abs(fmt.values[codes]) < 2.0**fmt.emin).astype(int)
            for fmt, codes in zip(self.unit.formats, (a, b), strict=True)
        )
        leading = np.frexp(values[finite])[1] - 1
        carried = table.unit_exponents[finite] != leading
        best = finite[np.argsort(2 * subnormal + carried, kind="stable")]
        unique, first = np.unique(values[best], return_index=True)
        return dict(zip(unique.tolist(), best[first].tolist(), strict=True))

    @cached_property
    def _codes_of(self) -> dict[float, tuple[int, int]]:
        """The codes of both elements for each product value."""
        a, b = self.table.codes(np.array(list(self._pair_of.values())))
        return dict(zip(self._pair_of, zip(a.tolist(), b.tolist(), strict=True), strict=True))

    @cached_property
    def clean(self) -> list[int]:
        """The e for which 2^e is a product whose unit digit is its leading digit."""
        units = self.table.unit_exponents
        return [e for e in EXPONENTS if self.has(2.0**e) and units[self._pair_of[2.0**e]] == e]

    @cached_property
    def bottom(self) -> int:
        """The smallest e for which 2^e is a product."""
        return min(e for e in EXPONENTS if self.has(2.0**e))

    @property
    def top(self) -> int:
        """The largest e of `clean`."""
        return self.clean[-1]

    def has(self, value: float) -> bool:
        """Whether `value` is a product of two elements."""
        return value in self._pair_of

    def _codes(self, product: float | tuple[float, float]) -> tuple[int, int]:
        if isinstance(product, tuple):
            a, b = (
                int(np.flatnonzero(fmt.values == value)[0])
                for fmt, value in zip(self.unit.formats, product, strict=True)
            )
            return a, b
        return self._codes_of[product]

    def bits(
        self, rows: Sequence[Row], c: Sequence[float] | None = None, length: int | None = None
    ) -> NDArray[np.uint32]:
        """The unit's bits (n,) for `rows` of `length` elements, started from `c`."""
        length = length or self.short
        a, b = (np.zeros((len(rows), length), fmt.dtype) for fmt in self.unit.formats)
        for i, row in enumerate(rows):
            for place, product in row.items():
                a[i, place], b[i, place] = self._codes(product)
        start = None if c is None else np.asarray(c, np.float32)
        return self.unit(a, b, start)

    def __call__(
        self, rows: Sequence[Row], c: Sequence[float] | None = None, length: int | None = None
    ) -> NDArray[np.float64]:
        """Results of `bits` as values."""
        return self.bits(rows, c, length).view(np.float32).astype(np.float64)


def leading(flags: NDArray[np.bool_]) -> int:
    """Length of the run of true flags at the beginning."""
    flags = np.asarray(flags, bool)
    return int(np.argmin(flags)) if not flags.all() else len(flags)
