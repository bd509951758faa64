"""The interface of accumulators, and the loop that adds block sums to a float32."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from .. import rounding
from ..arrays import Array, namespace
from ..errors import choice, integer
from ..formats import BFLOAT16, FLOAT16, FLOAT32, ElementFormat, FloatFormat
from ..pipeline.placement import Section
from ..pipeline.widths import Widths
from ..rounding import F32, F64
from ..specials import Update, special_class
from ..steps import Step, Steps
from ..trace import Recorder
from ..wide import WideSum

NAN_DEFAULT = 0x7FC00000
NAN_NVIDIA = 0x7FFFFFFF
MAX_FRACTION_BITS = 64
RUNNING = {fmt.name: fmt for fmt in (FLOAT32, FLOAT16, BFLOAT16)}
"""Formats of running values, by name."""


class FixedRegister(Protocol):
    """A two's-complement register for the running value; the fields of `Fixed`."""

    @property
    def width(self) -> int: ...
    @property
    def lsb(self) -> int: ...
    @property
    def overflow(self) -> str: ...


@dataclass(frozen=True)
class Accumulator:
    """Base of all accumulators; `str()` gives the text that `accumulator()` parses.

    examples: texts for tables and for the full regression.
    sums_exactly: a block's products are summed on one grid that holds all of them.
    is_fused: the running value takes part in the alignment of the terms.
    takes_integers: the block sum is an INT32; formats are integers, and results may be.
    takes_floats: the rule is defined for products of float32 numbers too.
    is_wide: the unit is large; its adders hold every digit of a block's sum, or add whole floats.
    sums_groups: groups are summed exactly and count in the alignment by their scales.
    takes_significands: a unit takes scales that are not powers of two.
    overflow_meets_c: a block that overflows meets a special c as an infinity; elsewhere c decides.
    rounds_up: an aligned term may be the multiple of its grid above the product.
    """

    syntax: ClassVar[str]
    summary: ClassVar[str]
    examples: ClassVar[tuple[str, ...]]
    sums_exactly: ClassVar[bool] = False
    is_fused: ClassVar[bool] = False
    takes_integers: ClassVar[bool] = False
    takes_floats: ClassVar[bool] = False
    is_wide: ClassVar[bool] = False
    sums_groups: ClassVar[bool] = False
    takes_significands: ClassVar[bool] = False
    overflow_meets_c: ClassVar[bool] = False
    rounds_up: ClassVar[bool] = False

    @property
    def rule(self) -> str:
        """The rule in one line, for tables."""
        return self.summary

    @property
    def nan_bits(self) -> int:
        """The float32 bit pattern of every NaN result."""
        return NAN_DEFAULT

    @property
    def keyword(self) -> str:
        """The first word of the text."""
        return self.syntax.split(":")[0]

    def __str__(self) -> str:
        return ":".join([self.keyword, *(str(getattr(self, f.name)) for f in fields(self))])

    @property
    def running(self) -> FloatFormat:
        """Format of the running value and of the result, which is kept as a float32."""
        return FLOAT32

    @property
    def flushes(self) -> bool:
        """Whether subnormal elements and subnormal float32 numbers count as zeros."""
        return False

    def flushed(self, x: Array) -> Array:
        """float32 `x`, with zeros for subnormal numbers where the rule flushes them."""
        if not self.flushes:
            return x
        xp = namespace(x)
        return xp.where(xp.abs(x) < FLOAT32.smallest_normal, 0.0, x)

    @property
    def alignment_bits(self) -> int | None:
        """Fraction bits that terms keep below the largest unit digit; None for all."""
        return None

    @property
    def register(self) -> FixedRegister | None:
        """Fixed-point register of the running value; None where it is a float32."""
        return None

    @property
    def step_limit(self) -> int | None:
        """The most elements of a block per step; None for the whole block."""
        return None

    @property
    def parts(self) -> int:
        """Number of parts of a step with a largest exponent each; places alternate among them."""
        return 1

    def step_terms(self, block: int) -> int:
        """Elements of a step, in blocks of `block`."""
        return block if self.step_limit is None else min(self.step_limit, block)

    def steps(self, lanes: int) -> int:
        """Number of steps of a block of `lanes` elements."""
        return len(self.step_sizes(lanes))

    def updates(self, lanes: int, scale_block: int) -> int:
        """Number of changes of c per beat, in a unit with blocks of `scale_block` elements."""
        return lanes // scale_block * self.steps(scale_block)

    @property
    def least_lanes(self) -> int:
        """The fewest lanes of a unit."""
        return 4

    @property
    def most_lanes(self) -> int | None:
        """The most lanes of a unit; None for no limit of its own.

        A beat is at most one partial sum, or one step where c takes no part in the sum.
        """
        return self.promotes_every if self.is_fused else self.step_limit

    def check_unit(self, lanes: int, scale_block: int) -> None:
        """ValueError unless a unit can have `lanes` lanes and blocks of `scale_block` elements."""
        most = self.most_lanes
        if most is not None and lanes > most:
            raise ValueError(f"lanes must be at most {most} with {self}, not {lanes}")
        if scale_block < lanes and not self.is_fused:
            raise ValueError(
                f"scale_block must be the lanes with {self}, {lanes}, not {scale_block}"
            )

    def term_widths(self, widths: Widths) -> Widths:
        """Widths of the terms that a unit aligns with c; products unless overridden."""
        return widths

    def step_sizes(self, block: int) -> tuple[int, ...]:
        """Elements of each step of a block of `block`."""
        terms = self.step_terms(block)
        return tuple(min(terms, block - start) for start in range(0, block, terms))

    def order(self, block: int) -> NDArray[np.int64] | None:
        """Places of a block in the order of the steps; None for ascending places."""
        return None

    @property
    def step_fraction_bits(self) -> int:
        """Fraction bits of the result of each step."""
        return self.running.mantissa_bits

    @property
    def promotes_every(self) -> int | None:
        """Elements after which a partial sum is added to c; None without partial sums."""
        return None

    def wider(self, bits: int) -> "list[Accumulator]":
        """The same rule with `bits` more, at each end of its width; empty for a rule without one.

        Raises ValueError beyond the largest width.
        """
        return []

    def check_formats(self, a: ElementFormat, b: ElementFormat) -> None:
        """ValueError when the accumulator is not defined for products of these formats."""

    def run(self, steps: Steps, c: F32, record: Recorder) -> F32:
        """Float32 results of n dot products that start at `c` (section 4 of docs/numerics.md)."""
        raise NotImplementedError

    def sections(self, widths: Widths) -> tuple[Section, ...]:
        """Sections of a unit after the block's products, or after its sum where `sums_exactly`."""
        raise NotImplementedError

    def started(self, c: F32, record: Recorder) -> F32:
        """`c` as a running value, by RNE to its format."""
        if self.running == FLOAT32 and not self.flushes:
            return c
        with np.errstate(invalid="ignore"):  # a signalling NaN
            exact = c.astype(np.float64)
        rounded = self.rounded(exact)
        record.rounded(exact, rounded, np.isfinite(c), self.running)
        return rounded

    def rounded(self, total: Array) -> F32:
        """RNE of float64 `total` to the running value's format."""
        return self.flushed(rounding.nearest_even(total, self.running))

    def _check(self, field: str, name: str, low: int, high: int) -> None:
        """Make a field a Python int; TypeError or ValueError, with `name`, outside its range."""
        vars(self)[field] = integer(name, getattr(self, field), low, high)


@dataclass(frozen=True)
class Narrowable(Accumulator):
    """An accumulator whose running value may be narrower: `result` is a name of `RUNNING`."""

    fraction_bits: int
    result: str = FLOAT32.name

    def __post_init__(self) -> None:
        name = self.keyword
        self._check("fraction_bits", f"F of {name}", 0, MAX_FRACTION_BITS)
        if not isinstance(self.result, str):
            raise TypeError(f"result of {name} must be the name of a format, not {self.result!r}")
        choice(f"result of {name}", self.result, RUNNING)

    @property
    def alignment_bits(self) -> int:
        return self.fraction_bits

    @property
    def running(self) -> FloatFormat:
        return RUNNING[self.result]

    def wider(self, bits: int) -> list[Accumulator]:
        return [replace(self, fraction_bits=self.fraction_bits + bits)]

    def __str__(self) -> str:
        text = f"{self.keyword}:{self.fraction_bits}"
        return text if self.running == FLOAT32 else f"{text}:{self.result}"


BlockSum = Callable[[Step, NDArray[np.bool_]], WideSum]


def add_blocks(
    rule: Accumulator, block_sum: BlockSum, steps: Steps, c: F32, record: Recorder
) -> F32:
    """Add 2^s x block to c by RNE, block by block.

    block_sum(step, active): g x the sums of a block; it records lost bits where `active`.
    """
    c = rule.started(c, record)
    for step in steps.walk(record):
        update = Update(c, step.special)
        block = block_sum(step, update.active)
        if rule.overflow_meets_c:
            overflow = special_class(block.high.astype(np.float32))
            update = Update(c, np.where(step.special == 0, overflow, step.special))
        if record.keep_stages:
            record.stage("block_result", block.rounded_to_odd())
        with np.errstate(invalid="ignore"):  # a block that overflowed
            total = block.scaled(step.scale).plus(update.c)
        rounded = rule.rounded(total)
        record.rounded(total, rounded, update.active, rule.running)
        c = update.result(rounded)
        record.stage("accumulator", c)
    return c


def times_factor(block: Array, factor: Array | None) -> WideSum:
    """Exact product of g and the float32 result of a block. factor: g; None for 1."""
    if factor is None:
        return WideSum(block)
    with np.errstate(invalid="ignore"):  # a block that overflowed
        return WideSum(*rounding.clear_special_error(*rounding.two_product(block, factor)))


def truncate(
    terms: F64,
    exponent: NDArray[np.int64],
    record: Recorder,
    active: NDArray,
    cut: Callable[[F64], F64] | None = None,
) -> F64:
    """RZ(terms x 2^exponent) as integers; records lost bits where `active`. cut: in place of RZ."""
    scaled = terms * np.ldexp(1.0, exponent)[..., None]
    truncated = np.trunc(scaled) if cut is None else cut(scaled)
    if record.flags:
        record.truncated((truncated != scaled).any(axis=-1) & active)
    return truncated
