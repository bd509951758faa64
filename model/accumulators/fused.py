"""`fused:F`, in which the scale and c join the alignment, and the presets of real machines."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .. import rounding
from ..datapath import product_bits, tree_delay
from ..formats import FLOAT32
from ..pipeline import Section
from ..products import NO_EXPONENT
from ..rounding import F32, F64
from ..specials import Update, special_class
from ..steps import Step, Steps
from ..trace import Recorder
from ..wide import exact_sum, integers
from ..widths import Widths
from .base import MAX_FRACTION_BITS, Accumulator, truncate


@dataclass(frozen=True)
class Fused(Accumulator):
    """As Aligned, with the scale and c inside the alignment."""

    fraction_bits: int
    syntax = "fused:F"
    examples = ("fused:13", "fused:25")
    summary = "as aligned:F, with the scale and c inside the alignment; RZ result"
    is_fused = True
    takes_floats = True

    def __post_init__(self) -> None:
        self._check("fraction_bits", "F of fused", 0, MAX_FRACTION_BITS)

    @property
    def alignment_bits(self) -> int:
        """Fraction bits that terms and c keep."""
        return self.fraction_bits

    def wider(self, bits: int) -> list[Accumulator]:
        """With `bits` more fraction bits."""
        return [replace(self, fraction_bits=self.fraction_bits + bits)]

    def run(self, steps: Steps, c: F32, record: Recorder) -> F32:
        """Step by step into c, or into partial sums that are promoted."""
        bits, every = (self.fraction_bits, self.step_fraction_bits), self.promotes_every
        if every is None:
            for step in steps.walk(record):
                c = _fuse(step, c, *bits, record)
                record.stage("accumulator", c)
            return c
        partial, taken = np.zeros_like(c), 0
        for step in steps.walk(record):
            partial = _fuse(step, partial, *bits, record)
            record.stage("partial", partial)
            taken += step.size
            if taken >= every or step.is_last:
                c = _promote(c, partial, record)
                partial, taken = np.zeros_like(c), 0
            record.stage("accumulator", c)
        return c

    def sections(self, widths: Widths) -> tuple[Section, ...]:
        """Each step of a block behind the one before."""
        lanes, every = widths.config.lanes, self.promotes_every
        # A partial sum that is promoted after every block has no way round.
        around = every is None or lanes < every
        tree, steps = tree_delay(lanes), self.steps(lanes)
        product = product_bits(widths)
        body = [Section("largest", tree, bits=lanes * product)]
        for i in range(steps):
            left = (lanes - (i + 1) * widths.step_lanes) * product  # of later steps
            terms = (widths.step_lanes + 1) * (widths.term_bits + 1)
            body += [
                Section("join", 870, i, loop=around, bits=left + terms),
                Section("sum", 340 + tree, i, loop=around, bits=left + widths.total_bits),
                Section("round", 850, i, holds=i == steps - 1, loop=around, bits=left + 32),
            ]
        if every is not None:
            body.append(Section("promote", 1500, holds=True, bits=32))
        return tuple(body)


@dataclass(frozen=True, kw_only=True)
class Preset(Fused):
    """A real machine, by name: `fused:fraction_bits` in steps of up to `terms` elements of a block.

    terms: a power of two up to 128. result_bits: fraction bits of each step's result (23: float32;
    fewer are truncated toward zero). nan: the bits of a NaN result. promote: the number of elements
    (a power of two, at least `terms`) after which the partial sum, started from +0, is added to c
    by RNE ("slow accumulation"); None accumulates in c itself. source: where the facts are from.
    """

    name: str
    terms: int
    result_bits: int
    nan: int
    promote: int | None = None
    source: str
    syntax = "preset"

    def __post_init__(self) -> None:
        self._check("terms", f"terms of {self.name}", 1, 128)
        self._check("fraction_bits", f"fraction_bits of {self.name}", 0, MAX_FRACTION_BITS)
        self._check("result_bits", f"result_bits of {self.name}", 0, FLOAT32.mantissa_bits)
        self._check("nan", f"nan of {self.name}", FLOAT32.largest_code + 2, 2**31 - 1)
        if self.promote is not None:
            self._check("promote", f"promote of {self.name}", self.terms, 2**16)
        for field in ("terms", "promote"):
            value = getattr(self, field) or 1
            if value & (value - 1):
                raise ValueError(f"{field} of {self.name} must be a power of two, not {value}")

    @property
    def nan_bits(self) -> int:
        """The float32 bit pattern of every NaN result."""
        return self.nan

    @property
    def step_limit(self) -> int:
        """The machine's step."""
        return self.terms

    @property
    def step_fraction_bits(self) -> int:
        """Fraction bits of the result of each step."""
        return self.result_bits

    @property
    def promotes_every(self) -> int | None:
        """Elements after which a partial sum is added to c."""
        return self.promote

    def wider(self, bits: int) -> list[Accumulator]:
        """A machine is as wide as it is."""
        return []

    @property
    def rule(self) -> str:
        """The rule in one line, for tables."""
        text = f"fused:{self.fraction_bits} in steps of {self.terms} terms"
        if self.result_bits < FLOAT32.mantissa_bits:
            text += f", results RZ to {self.result_bits} fraction bits"
        if self.promote:
            text += f", promoted by a float32 RNE add every {self.promote} elements"
        return text

    def __str__(self) -> str:
        return self.name


def _largest_exponent(c: F64, step: Step) -> NDArray[np.int64]:
    """The largest exponent among c and the products that are not zero, scales included."""
    exponent = np.maximum(np.frexp(c)[1] - 1, FLOAT32.emin)  # subnormals too
    exponent = np.where(c == 0, NO_EXPONENT, exponent)
    largest = np.maximum(exponent, step.largest_unit + step.scale)
    return np.where(largest <= NO_EXPONENT // 2, FLOAT32.emin, largest)  # zeros alone: any


def _fuse(step: Step, c: F32, fraction_bits: int, result_bits: int, record: Recorder) -> F32:
    """One `fused:F` update of c: the scale and c join the alignment."""
    update = Update(c, step.special)
    largest = _largest_exponent(update.c, step)
    shift = fraction_bits - largest
    terms = truncate(step.terms, step.scale + shift, record, update.active)
    aligned_c = truncate(update.c[:, None], shift, record, update.active)[:, 0]
    total = exact_sum(terms, fraction_bits + step.term_bits, 0)
    odd = np.ldexp(total.plus(aligned_c), -shift)
    rounded = rounding.toward_zero(odd, result_bits)
    record.rounded(odd, rounded, update.active)
    record.stage("largest_exponent", largest)
    record.stage("aligned", terms)
    record.stage("aligned_c", aligned_c)
    if record.keep_stages:
        record.stage("integer_sum", total.integers(0) + integers(aligned_c))
    return update.result(rounded)


def _promote(c: F32, partial: F32, record: Recorder) -> F32:
    """Add the partial sum to c by RNE."""
    update = Update(c, special_class(partial))
    total = rounding.add_to_odd(update.c, update.finite(partial))
    rounded = rounding.nearest_even(total)
    record.rounded(total, rounded, update.active)
    return update.result(rounded)
