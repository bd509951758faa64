"""Rules of AMD's matrix cores: exact steps (CDNA1), trees (CDNA2), sums cut downwards (CDNA3)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from .. import rounding
from ..errors import choice
from ..formats import FLOAT32, FloatFormat
from ..pipeline.placement import Section
from ..pipeline.sections import product_bits, tree_delay
from ..pipeline.widths import FlooredWidths, Widths
from ..products import NO_EXPONENT
from ..rounding import F32, F64
from ..specials import NEGATIVE_INF, POSITIVE_INF, Update
from ..steps import Step, Steps
from ..trace import Recorder
from ..wide import exact_sum
from .base import RUNNING, truncate
from .exact import Exact
from .float32 import Float32
from .machine import Machine


@dataclass(frozen=True, kw_only=True)
class ExactMachine(Machine, Exact):
    """Steps of `terms` elements, each added to c exactly, with one rounding.

    result: name of the format of c and of results.
    """

    result: str = FLOAT32.name
    takes_floats = False

    def __post_init__(self) -> None:
        Machine.__post_init__(self)
        choice(f"result of {self.name}", self.result, RUNNING)

    @property
    def running(self) -> FloatFormat:
        return RUNNING[self.result]

    @property
    def rule(self) -> str:
        text = f"exact in steps of {self.terms} terms"
        return text if self.running == FLOAT32 else f"{text}, results RNE to {self.running}"


@dataclass(frozen=True, kw_only=True)
class TreeMachine(Machine, Float32):
    """Steps of `terms` elements, each the tree of `float32` added to c, without subnormal numbers.

    Subnormal elements, a subnormal c and subnormal results of roundings count as zeros.
    """

    takes_significands = False
    overflow_meets_c = True

    @property
    def flushes(self) -> bool:
        """Whether subnormal numbers count as zeros."""
        return True

    @property
    def rule(self) -> str:
        return f"float32 in steps of {self.terms} terms, subnormal numbers flushed"


@dataclass(frozen=True, kw_only=True)
class FlooredMachine(Machine):
    """Steps of `terms` elements whose sum and c are cut downwards before they are added by RNE.

    fraction_bits: bits that products keep below the largest product, by RZ, and that c keeps.
    sum_bits: fraction bits that the sum with c keeps, cut downwards before RNE; the products' sum
    has one more before the addition. halves: elements at even and at odd places are summed apart,
    each sum aligned to its own largest product. A c whose exponent is more than fraction_bits + 1
    below the largest is then left out.
    """

    fraction_bits: int
    sum_bits: int
    halves: bool = False
    is_fused = True
    least_exponent: ClassVar[int] = FLOAT32.emin  # the sections of `Fused` read it
    rounds_to_nearest: ClassVar[bool] = True
    summary = "terms cut F bits below the largest, their sum and c downwards; RNE result"

    @property
    def alignment_bits(self) -> int:
        """Fraction bits that terms keep below the largest."""
        return self.fraction_bits

    @property
    def grid_bits(self) -> int:
        """Fraction bits of the grid on which the products' sum and c are added."""
        return self.sum_bits + 1

    @property
    def parts(self) -> int:
        """2 for even and odd places, else 1."""
        return 2 if self.halves else 1

    def term_widths(self, widths: Widths) -> FlooredWidths:
        """Widths that include the sum with c."""
        return FlooredWidths(widths.config, self.grid_bits)

    def sections(self, widths: Widths) -> tuple[Section, ...]:
        """Sums of products, which do not wait for c, then one addition to c per step."""
        terms, lanes = self.term_widths(widths), widths.config.lanes
        steps, parts = widths.steps, len(widths.parts)
        sums = terms.aligned_sum_bits + 1 + widths.exponent_bits
        tree = tree_delay(lanes // parts)
        before = [
            Section("largest", tree, bits=lanes * product_bits(widths)),
            Section("truncate", 380, bits=lanes * (terms.term_bits + 1)),
            Section("gather", 540 + tree, bits=parts * sums),
        ]
        if self.halves:
            before.append(Section("halves", 1250, bits=steps * sums))
        loop = []
        for i in range(steps):
            left = (steps - i - 1) * sums  # of later steps
            loop += [
                Section("join", 830, i, loop=True, bits=left + 2 * terms.total_bits),
                Section("sum", 400, i, loop=True, bits=left + terms.total_bits),
                Section("round", 930, i, holds=i == steps - 1, loop=True, bits=left + 32),
            ]
        return (*before, *loop)

    @property
    def rule(self) -> str:
        text = f"floored:{self.fraction_bits}:{self.sum_bits} in steps of {self.terms} terms"
        return f"{text}, even and odd places apart" if self.halves else text

    def run(self, steps: Steps, c: F32, record: Recorder) -> F32:
        for step in steps.walk(record):
            c = self._added(step, c, record)
            record.stage("accumulator", c)
        return c

    def _added(self, step: Step, c: F32, record: Recorder) -> F32:
        too_large = _too_large(step)
        finite = Update(c, step.special).active
        # A product that is too large meets special values as the infinity that it is.
        update = Update(c, step.special | too_large)
        total, largest = self._sum(step, record, update.active)
        exponent = np.maximum(np.frexp(update.c)[1] - 1, FLOAT32.emin)
        exponent = np.where(update.c == 0, FLOAT32.emin, exponent)
        left_out = np.zeros_like(update.active)
        if self.halves:
            left_out = exponent < largest - self.fraction_bits - 1
        largest = np.maximum(largest, exponent)
        with np.errstate(under="ignore"):
            parts = [
                _floored(total, self.grid_bits - largest, record, update.active),
                _floored(update.c, self.fraction_bits - largest, record, update.active),
            ]
        parts[1] = np.where(left_out, 0.0, parts[1])
        units = parts[0] + parts[1] * 2.0 ** (self.grid_bits - self.fraction_bits)
        if record.keep_stages:
            record.stage("largest_exponent", largest)
            record.stage("integer_sum", units.astype(np.int64))
        exact = np.ldexp(units, largest - self.grid_bits)
        shift = self.sum_bits - np.maximum(np.frexp(exact)[1] - 1, FLOAT32.emin)
        exact = np.ldexp(_floored(exact, shift, record, update.active), -shift)
        result = rounding.nearest_even(exact)
        record.rounded(exact, result, update.active)
        record.overflowed(finite & (too_large != 0))
        return update.result(result)

    def _sum(
        self, step: Step, record: Recorder, active: NDArray[np.bool_]
    ) -> tuple[F64, NDArray[np.int64]]:
        """Sum of the aligned products, scales included, and the exponent of its grid."""
        sums = [
            self._aligned(step, slice(i, None, self.parts), record, active)
            for i in range(self.parts)
        ]
        if not self.halves:
            return sums[0]
        largest = np.maximum(sums[0][1], sums[1][1])
        shift = self.fraction_bits - largest
        units = sum(_floored(total, shift, record, active) for total, _ in sums)
        record.stage("halves", np.asarray(units))
        return np.ldexp(units, -shift), largest

    def _aligned(
        self, step: Step, places: slice, record: Recorder, active: NDArray[np.bool_]
    ) -> tuple[F64, NDArray[np.int64]]:
        largest = step.largest_units(places)
        nothing = largest == NO_EXPONENT
        shift = np.where(nothing, 0, self.fraction_bits - largest - step.scale)
        terms = truncate(step.terms[:, places], step.scale + shift, record, active)
        total = exact_sum(terms, self.fraction_bits + step.term_bits, 0).rounded_to_odd()
        record.stage("aligned_terms", terms)
        record.stage("gather", total)
        lowest = 2 * FLOAT32.lsb  # below every c
        return np.ldexp(total, -shift), np.where(nothing, lowest, largest + step.scale)


def _floored(
    x: F64, exponent: NDArray[np.int64], record: Recorder, active: NDArray[np.bool_]
) -> F64:
    """floor(x x 2^exponent)."""
    scaled = np.ldexp(x, exponent)
    floored = np.floor(scaled)
    record.truncated((floored != scaled) & active)
    return floored


def _too_large(step: Step) -> NDArray[np.uint8]:
    """Class of the infinities that finite products of 2^128 and more become; 0 without any."""
    classes = np.zeros(len(step.scale), np.uint8)
    if step.largest_unit.max(initial=0) + step.scale.max(initial=0) + step.term_bits < FLOAT32.emax:
        return classes
    products = np.ldexp(step.terms, step.scale[:, None])
    classes[(products >= rounding.TOO_LARGE).any(axis=-1)] |= POSITIVE_INF
    classes[(products <= -rounding.TOO_LARGE).any(axis=-1)] |= NEGATIVE_INF
    return classes
