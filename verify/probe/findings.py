"""Findings of the experiments about a matrix unit."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Findings:
    """Each is None where it cannot be seen from this unit's results.

    grid: where small terms of one step are cut: ``relative`` (to the largest term), ``absolute``
    (at one place for all) or ``none`` (no term is lost).
    fraction_bits: bits kept below the largest term's unit digit (``relative``), or how many could
    be seen at most (``none``). lsb: exponent of the last place kept (``absolute``).
    cut: ``RZ``, ``RNE``, ``floor`` or ``odd``, of each term.
    order: ``together`` (a step's terms share one alignment), ``pairs`` (a tree of adjacent pairs)
    or ``in turn``. terms: elements of one step.
    largest_from: ``unit digit`` where a product in [2, 4) counts as one in [1, 2), ``leading
    digit`` where it is renormalised. subnormals: of elements: ``unit digit`` where they count as
    the smallest normal exponent, ``leading digit``, or ``flushed``. zero_counts: a zero product
    takes part in the largest exponent by its other factor.
    result_bits: fraction bits of a step's result; 23 where no limit was seen.
    result_rounding: ``RZ``, ``RNE`` or ``odd``.
    c_joins: ``inside`` the alignment or ``after`` the sum; c_rounding: of that addition;
    c_fraction_bits: what is kept of a c alone; c_lowest, c_highest: exponents of the smallest and
    largest power of two that pass as c; overflow: ``infinity``, ``saturate`` or ``wrap``.
    promote: elements after which a partial sum is added to c or to the sum so far.
    rounds: whether a sum is rounded between steps. nan, inf: bits of a NaN and of an infinity (None
    without these elements and c); minus_zero: bits of -0 x 1 summed.
    """

    grid: str
    fraction_bits: int | None
    lsb: int | None
    cut: str | None
    order: str | None
    terms: int | None
    largest_from: str | None
    subnormals: str | None
    zero_counts: bool | None
    result_bits: int | None
    result_rounding: str | None
    c_joins: str | None
    c_rounding: str | None
    c_fraction_bits: int | None
    c_lowest: int | None
    c_highest: int | None
    overflow: str | None
    promote: int | None
    rounds: bool | None
    nan: int | None
    inf: int | None
    minus_zero: int | None
