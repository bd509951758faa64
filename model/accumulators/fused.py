"""`fused:F`, which aligns c with the scaled terms, and the presets of real machines."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import rounding
from ..arrays import Array
from ..errors import choice
from ..formats import FLOAT32
from ..pipeline.placement import Section
from ..pipeline.sections import multiplier_delay, product_bits, tree_delay
from ..pipeline.widths import FactorWidths, Widths
from ..products import NO_EXPONENT
from ..rounding import F32, F64
from ..specials import Update, special_class
from ..steps import Step, Steps
from ..trace import Recorder
from ..wide import exact_sum, integers
from .base import MAX_FRACTION_BITS, RUNNING, Narrowable, truncate
from .machine import Machine


@dataclass(frozen=True)
class Fused(Narrowable):
    """Terms with their scale, and c, truncated below the largest of them."""

    syntax = "fused:F[:R]"
    examples = ("fused:13", "fused:25", "fused:13:float16")
    summary = "as aligned:F, with the scale and c inside the alignment; RZ result"
    is_fused = True
    takes_significands = True
    takes_floats = True

    @property
    def least_exponent(self) -> int | None:
        """Lower limit of the largest exponent; None without a limit."""
        return None

    @property
    def rounds_to_nearest(self) -> bool:
        """Whether the result of a step is RNE instead of RZ."""
        return False

    def cut(self, total: Array) -> Array:
        """Result of a step, as float32, from its exact sum or this sum rounded to odd."""
        cut = rounding.nearest_even if self.rounds_to_nearest else rounding.toward_zero_in
        return cut(total, self.running)

    def run(self, steps: Steps, c: F32, record: Recorder) -> F32:
        """Add each step to c, or to a partial sum that is promoted."""
        every, c = self.promotes_every, self.started(c, record)
        if every is None:
            for step in steps.walk(record):
                c = _fuse(self, step, c, record)
                record.stage("accumulator", c)
            return c
        partial, elements = np.zeros_like(c), 0
        for step in steps.walk(record):
            partial = _fuse(self, step, partial, record)
            record.stage("partial", partial)
            elements += step.size
            if elements >= every or step.is_last:
                c = _promote(self, c, partial, record)
                partial, elements = np.zeros_like(c), 0
            record.stage("accumulator", c)
        return c

    def term_widths(self, widths: Widths) -> Widths:
        """Widths of products times the significands of their scales."""
        return FactorWidths(widths.config) if widths.factor_bits else widths

    def sections(self, widths: Widths) -> tuple[Section, ...]:
        """The steps of a block, one after the other."""
        lanes, every = widths.config.lanes, self.promotes_every
        # A partial sum that is promoted after every block has no way round.
        around = every is None or lanes < every
        body = [*fused_sections(widths.terms, lanes, around)]
        if widths.factor_bits:
            delay = multiplier_delay(widths.product_bits, widths.factor_bits)
            body.insert(0, Section("factor", delay, bits=lanes * product_bits(widths.terms)))
        if every is not None:
            body.append(Section("promote", 1500, holds=True, bits=self.running.bits))
        return tuple(body)


def fused_sections(widths: Widths, count: int, around: bool = True) -> tuple[Section, ...]:
    """The alignment of `count` terms with c, step by step. around: c comes round in a loop."""
    tree, steps, product = tree_delay(count), widths.steps, product_bits(widths)
    body = [Section("largest", tree, bits=count * product)]
    for i in range(steps):
        left = (count - (i + 1) * widths.step_lanes) * product  # of later steps
        terms = (widths.step_lanes + 1) * (widths.term_bits + 1)
        result = widths.running.bits
        body += [
            Section("join", 870, i, loop=around, bits=left + terms),
            Section("sum", 340 + tree, i, loop=around, bits=left + widths.total_bits),
            Section("round", 850, i, holds=i == steps - 1, loop=around, bits=left + result),
        ]
    return tuple(body)


@dataclass(frozen=True, kw_only=True)
class Preset(Machine, Fused):
    """A real machine whose steps are `fused:fraction_bits`.

    result_bits: fraction bits of each step's result, by RZ (23: float32); 16-bit results are RNE.
    promote: number of elements (a power of two, at least `terms`) after which a partial sum, from
    +0, is added to c by RNE ("slow accumulation"); None accumulates in c itself. permuted: for each
    32 elements of a block (fewer at its end), a first step takes places 0 1 4 5 8 9 ... 28 29, and
    a second step takes the rest. least: lower limit of the largest exponent; None without a limit.
    """

    result_bits: int = FLOAT32.mantissa_bits
    promote: int | None = None
    permuted: bool = False
    least: int | None = None

    def __post_init__(self) -> None:
        Machine.__post_init__(self)
        self._check("fraction_bits", f"fraction_bits of {self.name}", 0, MAX_FRACTION_BITS)
        self._check("result_bits", f"result_bits of {self.name}", 0, FLOAT32.mantissa_bits)
        choice(f"result of {self.name}", self.result, RUNNING)
        if self.running != FLOAT32 and self.result_bits != FLOAT32.mantissa_bits:
            raise ValueError(
                f"result_bits of {self.name} must be {FLOAT32.mantissa_bits} with {self.running} "
                f"results, not {self.result_bits}"
            )
        if self.promote is not None:
            self._check("promote", f"promote of {self.name}", self.terms, 2**16)
            self._check_power("promote")

    @property
    def least_exponent(self) -> int | None:
        """Lower limit of the largest exponent; None without a limit."""
        return self.least

    @property
    def rounds_to_nearest(self) -> bool:
        """True for 16-bit results."""
        return self.running != FLOAT32

    def cut(self, total: Array) -> Array:
        if self.rounds_to_nearest:
            return super().cut(total)
        return rounding.toward_zero(total, self.result_bits)

    @property
    def own_unit(self) -> dict[str, Any]:
        """Lanes of one step; of two steps where they share their elements."""
        return {"lanes": PERMUTED if self.permuted else self.terms}

    def step_sizes(self, block: int) -> tuple[int, ...]:
        """Numbers of elements in the steps of a block of `block` elements."""
        return tuple(map(len, _permuted(block))) if self.permuted else super().step_sizes(block)

    def order(self, block: int) -> NDArray[np.int64] | None:
        """Places of a block in the order of the steps; None for ascending places."""
        return np.concatenate(_permuted(block)) if self.permuted else None

    @property
    def step_fraction_bits(self) -> int:
        return min(self.result_bits, self.running.mantissa_bits)

    @property
    def promotes_every(self) -> int | None:
        """Elements after which a partial sum is added to c."""
        return self.promote

    @property
    def rule(self) -> str:
        text = f"fused:{self.fraction_bits} in steps of {self.terms} terms"
        text += ", permuted" if self.permuted else ""
        text += "" if self.least is None else f", largest exponent at least {self.least}"
        if self.rounds_to_nearest:
            text += f", results RNE to {self.running}"
        elif self.result_bits < FLOAT32.mantissa_bits:
            text += f", results RZ to {self.result_bits} fraction bits"
        if self.promote:
            text += f", promoted by a {self.running} RNE add every {self.promote} elements"
        return text


PERMUTED = 32
"""Elements of an instruction that permutes places."""


def _permuted(block: int) -> list[NDArray[np.int64]]:
    """Places of each step of a block of `block`."""
    places = np.arange(block)
    early = places % 4 < 2
    group = places // PERMUTED
    steps = [places[(group == g) & half] for g in range(group[-1] + 1) for half in (early, ~early)]
    return [step for step in steps if len(step)]


def _largest_exponent(rule: Fused, c: F64, step: Step) -> NDArray[np.int64]:
    """Largest exponent among c and the products that are not zero, scales included."""
    emin = rule.running.emin
    exponent = np.maximum(np.frexp(c)[1] - 1, emin)  # subnormals too
    exponent = np.where(c == 0, NO_EXPONENT, exponent)
    largest = np.maximum(exponent, step.largest_unit + step.scale)
    if rule.least_exponent is not None:
        return np.maximum(largest, rule.least_exponent)
    return np.where(largest <= NO_EXPONENT // 2, emin, largest)  # only zeros: any


def _fuse(rule: Fused, step: Step, c: F32, record: Recorder) -> F32:
    """Update c by one step of `fused:F`."""
    update = Update(c, step.special)
    largest = _largest_exponent(rule, update.c, step)
    shift = rule.fraction_bits - largest
    terms = truncate(step.terms, step.scale + shift, record, update.active)
    aligned_c = truncate(update.c[:, None], shift, record, update.active)[:, 0]
    total = exact_sum(terms, rule.fraction_bits + step.term_bits, 0)
    odd = np.ldexp(total.plus(aligned_c), -shift)
    rounded = rule.cut(odd)
    record.rounded(odd, rounded, update.active, rule.running)
    record.stage("largest_exponent", largest)
    record.stage("aligned", terms)
    record.stage("aligned_c", aligned_c)
    if record.keep_stages:
        record.stage("integer_sum", total.integers(0) + integers(aligned_c))
    return update.result(rounded)


def _promote(rule: Fused, c: F32, partial: F32, record: Recorder) -> F32:
    """Add the partial sum to c by RNE."""
    update = Update(c, special_class(partial))
    total = rounding.add_to_odd(update.c, update.finite(partial))
    rounded = rule.rounded(total)
    record.rounded(total, rounded, update.active, rule.running)
    return update.result(rounded)
