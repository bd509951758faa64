"""A priori error bounds: how far an accumulator's result can be from the exact dot product.

They follow from the rules and the operands alone; no accumulator is run. Notation, for step j (a
block, or a preset's part of one) of one dot product:

    p_i      the step's exact terms, scales included; T_j = sum |p_i|; b_j = sum p_i
    S_j      the exact sum of the steps up to j
    E_j      the bound on |c_j - S_j| after step j; E = 0 before the first
    u        2^-24: RNE to float32 errs by at most u |x| (2^-150 for a subnormal x)
    g        the grid of an alignment, 2^(emax - F)
    lost(g)  sum of min(|p_i|, g) over the terms with a digit below g: truncating such a term to
             multiples of g takes away less than g and no more than the term; others lose nothing

    exact, int32   E_j = E_{j-1} + u (|S_j| + E_{j-1}) + 2^-150
    aligned:F      d_j = lost(g) + 2^-23 (|b_j| + lost(g)), the second part (RZ of D) only where
                   T_j >= 2^24 g, and e = E_{j-1} + d_j;  E_j = e + u (|S_j| + e) + 2^-150
    rvbna:N:G      as aligned with F = 23 + G, where each term with a digit below g loses up to g
                   in either direction; D and c + D are rounded to odd: 2^-23 and 2^-149
    float32        as aligned, with d_j of the tree: d of a node = d_left + d_right
                   + u (|exact sum| + d_left + d_right)
    fused:F        emax covers c: |c| <= C = |S_{j-1}| + E_{j-1}, so emax <= max(U_i + s, floor
                   log2 C, -126, the machine's least), without c where C = 0.
                   With e = E_{j-1} + lost(g) + min(C, g):
                   E_j = e + 2^-r (|S_j| + e) + 2^(-126 - r), for the RZ result of r fraction bits
    promotion      the partial sums' E as for fused from 0; E_j = E_{j-1} + E_partial, then RNE
    fixed:W:L      E_j = E_{j-1} + min(|b_j|, 2^L) where a term has a digit below 2^L; one RNE at
                   the end. Holds while the register does not leave its range

|S_j| is computed in float64, with its own rounding error added. The bounds hold for finite
operands and for results that neither overflow nor saturate.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...model import (
    E8M0,
    Accumulator,
    Aligned,
    BFloat16,
    BulkNormalized,
    ElementFormat,
    Exact,
    Fixed,
    Float16,
    Float32,
    Fused,
    Int32,
    MXArray,
    Preset,
)
from ...model.accumulators import FixedRegister, by_kind
from ...model.formats import FLOAT32, FloatFormat
from .metrics import F64

I16 = NDArray[np.int16]
NEVER = 2**13  # beyond every exponent: a zero product has no digits


def unit_exponents(fmt: ElementFormat) -> I16:
    """Exponent of the unit digit of every code: the value's exponent, at least emin."""
    _, significand, exponent = fmt.triples
    return np.where(significand == 0, fmt.emin, exponent + fmt.mantissa_bits).astype(np.int16)


@dataclass(frozen=True)
class Terms:
    """Terms of n dot products in steps of t, scales included; arrays are (n, steps, t).

    values: a_i x b_i x 2^s. unit: U_i + s, -NEVER for a zero product. digit: the exponent of the
    last digit, E_i + s, NEVER for a zero product: a term is a multiple of 2^digit.
    """

    values: F64
    unit: I16
    digit: I16

    @cached_property
    def magnitudes(self) -> F64:
        """Absolute values of `values`."""
        return np.abs(self.values)

    @cached_property
    def sums(self) -> F64:
        """Sum of each step (n, steps), in float64."""
        return self.values.sum(axis=-1)

    @cached_property
    def absolute_sums(self) -> F64:
        """Sum of absolute values of each step (n, steps)."""
        return self.magnitudes.sum(axis=-1)

    @cached_property
    def totals(self) -> F64:
        """Sum of all absolute values (n,): the scale of errors."""
        return self.absolute_sums.sum(axis=-1)

    def running(self, first: int = 0, stop: int | None = None) -> F64:
        """Upper bounds of the exact |sum of steps first..j| for every j before `stop`."""
        rounding = 2.0**-52 * self.values.shape[1] * self.values.shape[2]
        absolute = np.cumsum(self.absolute_sums[:, first:stop], axis=1)
        return np.abs(np.cumsum(self.sums[:, first:stop], axis=1)) + rounding * absolute

    def in_steps(self, size: int) -> "Terms":
        """Cut each step into steps of `size` or fewer terms, with zeros appended."""
        n, steps, t = self.values.shape
        if size >= t:
            return self
        shape = (n, steps * -(-t // size), size)
        fill = ((0, 0), (0, 0), (0, -t % size))
        return Terms(
            np.pad(self.values, fill).reshape(shape),
            np.pad(self.unit, fill, constant_values=-NEVER).reshape(shape),
            np.pad(self.digit, fill, constant_values=NEVER).reshape(shape),
        )


def terms_of(a: MXArray, b: MXArray) -> Terms:
    """Terms of the dot products of the rows of `a` and `b` (n, K), one step per block.

    ValueError when a term is not finite.
    """
    codes_a, scale_a = a.blocks_last()
    codes_b, scale_b = b.blocks_last()
    scale = scale_a.astype(np.int16) + scale_b - np.int16(2 * E8M0.bias)
    with np.errstate(invalid="ignore"):
        values = a.format.values[codes_a] * b.format.values[codes_b]
    nan_scale = (scale_a == E8M0.nan_code) | (scale_b == E8M0.nan_code)
    if nan_scale.any() or not np.isfinite(values).all():
        raise ValueError("operands must be finite, not NaN or infinite")
    values *= np.ldexp(1.0, scale)[..., None]
    unit = unit_exponents(a.format)[codes_a] + unit_exponents(b.format)[codes_b]
    unit += scale[..., None]
    digit = unit - np.int16(a.format.mantissa_bits + b.format.mantissa_bits)
    zero = values == 0
    never = np.int16(NEVER)
    return Terms(values, np.where(zero, -never, unit), np.where(zero, never, digit))


Bools = NDArray[np.bool_]
U = 2.0**-FLOAT32.significand_bits  # unit roundoff of float32
FRACTION_BITS = FLOAT32.mantissa_bits
SLACK = 1 + 2.0**-30  # the bounds are themselves computed in float64


def bound(rule: Accumulator, terms: Terms) -> F64:
    """Bounds on |result - exact| of the dot products of `terms` (n,), c starting at 0."""
    return by_kind(BOUNDS, rule, "BOUNDS of compare/accuracy/bounds.py")(rule, terms) * SLACK


def has_bound(rule: Accumulator) -> bool:
    """True where there is a bound; for machines, for `fused:F` in steps of neighbours."""
    if isinstance(rule, Preset) and rule.permuted:
        return False
    return type(rule) in BOUNDS


def can_overflow(rule: Accumulator, limit: F64, terms: Terms) -> Bools:
    """True for results that may be infinite, given bounds `limit` (n,): a necessary condition."""
    return terms.totals + limit >= rule.running.largest_finite


def can_saturate(rule: FixedRegister, terms: Terms) -> Bools:
    """True for registers that may leave their range (n,): a necessary condition."""
    lost = terms.values.shape[1] * 2.0**rule.lsb
    return (terms.totals + lost) * SLACK >= (2.0 ** (rule.width - 1) - 1) * 2.0**rule.lsb


def _nearest(error: F64, running: F64, fmt: FloatFormat = FLOAT32) -> F64:
    """Error after c = RNE(a value that is `error` away from the exact `running`)."""
    return error + 2.0**-fmt.significand_bits * (running + error) + fmt.smallest / 2


def _odd(error: F64, running: F64, fmt: FloatFormat = FLOAT32) -> F64:
    """Error after c = a value that is `error` away from the exact `running`, rounded to odd."""
    return error + 2.0**-fmt.mantissa_bits * (running + error) + fmt.smallest


def _chain(
    rule: Accumulator, terms: Terms, block_errors: F64, rounded: Callable[..., F64] = _nearest
) -> F64:
    """Blocks with these errors (n, steps), added to c one after the other, each sum `rounded`."""
    error, running = np.zeros(len(block_errors)), terms.running()
    for j in range(block_errors.shape[1]):
        error = rounded(error + block_errors[:, j], running[:, j], rule.running)
    return error


def _lost(magnitudes: F64, digit: np.ndarray, log2_grid: np.ndarray) -> F64:
    """lost(g) over the last axis; log2_grid has the shape of the rest."""
    grid = np.ldexp(1.0, log2_grid)[..., None]
    cut = np.minimum(magnitudes, grid)
    return np.where(digit < log2_grid[..., None], cut, 0.0).sum(axis=-1)


def _exact(rule: Accumulator, terms: Terms) -> F64:
    return _chain(rule, terms, np.zeros_like(terms.sums))


def _aligned(rule: Aligned, terms: Terms) -> F64:
    log2_grid = terms.unit.max(axis=-1) - np.int16(rule.fraction_bits)
    lost = _lost(terms.magnitudes, terms.digit, log2_grid)
    wide = terms.absolute_sums >= np.ldexp(1.0, log2_grid + FRACTION_BITS + 1)
    rounded = np.where(wide, 2 * U * (np.abs(terms.sums) + 2.0**-40 * terms.absolute_sums), 0.0)
    return _chain(rule, terms, lost + rounded + 2 * U * lost)


def _bulk(rule: BulkNormalized, terms: Terms) -> F64:
    terms = terms.in_steps(rule.step_terms(terms.values.shape[-1]))
    log2_grid = terms.unit.max(axis=-1).astype(np.int64) - rule.alignment_bits
    cut = terms.digit < log2_grid[..., None]
    lost = np.where(cut, np.ldexp(1.0, log2_grid)[..., None], 0.0).sum(axis=-1)
    rounded = 2 * U * ((1 + 2.0**-40) * terms.absolute_sums + lost) + FLOAT32.smallest
    return _chain(rule, terms, lost + rounded, _odd)


def _float32(rule: Float32, terms: Terms) -> F64:
    sums, errors = terms.values, np.zeros_like(terms.values)
    while sums.shape[-1] > 1:
        paired = sums.shape[-1] // 2 * 2
        odd_sum, odd_error = sums[..., paired:], errors[..., paired:]
        both = sums[..., 0:paired:2] + sums[..., 1:paired:2]
        error = errors[..., 0:paired:2] + errors[..., 1:paired:2]
        error += U * (np.abs(both) + error)
        sums = np.concatenate([both, odd_sum], axis=-1)
        errors = np.concatenate([error, odd_error], axis=-1)
    return _chain(rule, terms, errors[..., 0])


def _fixed(rule: Fixed, terms: Terms) -> F64:
    below = (terms.digit < rule.lsb).any(axis=-1)
    largest = np.abs(terms.sums) + 2.0**-40 * terms.absolute_sums
    lost = np.where(below, np.minimum(largest, 2.0**rule.lsb), 0.0)
    return _nearest(lost.sum(axis=-1), terms.running()[:, -1])


def _fused(rule: Fused, terms: Terms) -> F64:
    block, every = terms.values.shape[-1], rule.promotes_every
    taken = rule.step_terms(block)
    terms = terms.in_steps(taken)
    steps = terms.sums.shape[1]
    if every is None:
        return _fused_steps(rule, terms, 0, steps)
    error, running = np.zeros(len(terms.sums)), terms.running()
    first = 0
    for stop in _promotions(block, taken, every, steps):
        partial = _fused_steps(rule, terms, first, stop)
        error = _nearest(error + partial, running[:, stop - 1], rule.running)
        first = stop
    return error


def _promotions(block: int, terms: int, promote: int, steps: int) -> list[int]:
    """Numbers of steps after which a partial sum is promoted; the last is `steps`."""
    lengths = [min(terms, block - i) for i in range(0, block, terms)]
    stops, taken = [], 0
    for j in range(steps):
        taken += lengths[j % len(lengths)]
        if taken >= promote or j == steps - 1:
            stops.append(j + 1)
            taken = 0
    return stops


def _fused_steps(rule: Fused, terms: Terms, first: int, stop: int) -> F64:
    result_bits, emin = rule.step_fraction_bits, rule.running.emin
    running = terms.running(first, stop)
    largest = terms.unit[:, first:stop].max(axis=-1).astype(np.int64)
    error = previous = np.zeros(len(running))
    for j in range(stop - first):
        reach = previous + error
        exponent = np.maximum(np.frexp(reach)[1] - 1, emin)
        exponent = np.where(reach == 0, largest[:, j], exponent)
        exponent = np.maximum(exponent, largest[:, j])
        if rule.least_exponent is not None:
            exponent = np.maximum(exponent, rule.least_exponent)
        log2_grid = exponent - rule.fraction_bits
        lost = _lost(terms.magnitudes[:, first + j], terms.digit[:, first + j], log2_grid)
        error = error + lost + np.minimum(reach, np.ldexp(1.0, log2_grid))
        previous = running[:, j]
        error += 2.0**-result_bits * (previous + error)
        error += 2.0 ** (emin - result_bits)
    return error


BOUNDS: dict[type[Accumulator], Callable[..., F64]] = {
    Exact: _exact,
    Int32: _exact,
    Aligned: _aligned,
    BulkNormalized: _bulk,
    Fused: _fused,
    Preset: _fused,
    Fixed: _fixed,
    Float32: _float32,
    Float16: _float32,
    BFloat16: _float32,
}
