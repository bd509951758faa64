"""What every accumulator answers, and the loop of those that add a block's sum to a float32."""

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
from ..specials import Update
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

    examples: texts that tables and the full regression take.
    sums_exactly: whether a block's products are summed on one grid that holds all of them.
    is_fused: whether the running value takes part in the alignment of the terms.
    takes_integers: whether the block sum is an INT32: the formats are integers, and so may be the
    results. takes_floats: whether it is defined for products of float32 numbers too.
    is_wide: whether the adders of a block hold every digit of its sum, or add whole floats: such
    units are large.
    sums_groups: whether groups are summed exactly and count in the alignment by their scales.
    takes_significands: whether a unit takes scales that are no powers of two.
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
        """The format of the running value, and so of the result, whose bits are a float32's."""
        return FLOAT32

    @property
    def flushes(self) -> bool:
        """Whether subnormal numbers, elements' and float32's, count as zeros."""
        return False

    def flushed(self, x: Array) -> Array:
        """float32 `x`, subnormal numbers as zeros where the rule has none."""
        if not self.flushes:
            return x
        xp = namespace(x)
        return xp.where(xp.abs(x) < FLOAT32.smallest_normal, 0.0, x)

    @property
    def alignment_bits(self) -> int | None:
        """Fraction bits that terms keep below the largest unit digit; None where none is cut."""
        return None

    @property
    def register(self) -> FixedRegister | None:
        """The fixed-point register that holds the running value; None where it is a float32."""
        return None

    @property
    def step_limit(self) -> int | None:
        """The most elements of a block that are taken at once; None where it is the whole block."""
        return None

    @property
    def parts(self) -> int:
        """Into how many, place by place in turn, the elements of a step fall before they have a
        largest exponent."""
        return 1

    def step_terms(self, block: int) -> int:
        """Elements that are taken at once, of blocks of `block`."""
        return block if self.step_limit is None else min(self.step_limit, block)

    def steps(self, lanes: int) -> int:
        """Steps in which a block of `lanes` elements is taken."""
        return len(self.step_sizes(lanes))

    def updates(self, lanes: int, scale_block: int) -> int:
        """How often a unit of `lanes` lanes, blocks of `scale_block` elements, changes c a beat."""
        return lanes // scale_block * self.steps(scale_block)

    @property
    def least_lanes(self) -> int:
        """The fewest lanes of a unit."""
        return 4

    @property
    def most_lanes(self) -> int | None:
        """The most lanes of a unit, where less than there are: a beat is no more than one partial
        sum, and no more than one step of a sum that has no c in it."""
        return self.promotes_every if self.is_fused else self.step_limit

    def check_unit(self, lanes: int, scale_block: int) -> None:
        """ValueError unless there is a unit of so many lanes, blocks of `scale_block` elements."""
        most = self.most_lanes
        if most is not None and lanes > most:
            raise ValueError(f"lanes must be at most {most} with {self}, not {lanes}")
        if scale_block < lanes and not self.is_fused:
            raise ValueError(
                f"scale_block must be the lanes with {self}, {lanes}, not {scale_block}"
            )

    def term_widths(self, widths: Widths) -> Widths:
        """Widths of what a unit aligns with c, where that is not its products."""
        return widths

    def step_sizes(self, block: int) -> tuple[int, ...]:
        """The elements of each step of a block of `block`."""
        terms = self.step_terms(block)
        return tuple(min(terms, block - start) for start in range(0, block, terms))

    def order(self, block: int) -> NDArray[np.int64] | None:
        """The places of a block in the order in which steps take them; None for one by one."""
        return None

    @property
    def step_fraction_bits(self) -> int:
        """Fraction bits of the result of each step."""
        return self.running.mantissa_bits

    @property
    def promotes_every(self) -> int | None:
        """Elements after which a partial sum is added to c; None where c itself runs."""
        return None

    def wider(self, bits: int) -> "list[Accumulator]":
        """The same rule with `bits` more to keep, at each end that it has; none without a width.

        ValueError beyond the end of what there is.
        """
        return []

    def check_formats(self, a: ElementFormat, b: ElementFormat) -> None:
        """ValueError when the accumulator is not defined for products of these formats."""

    def run(self, steps: Steps, c: F32, record: Recorder) -> F32:
        """The float32 results of n dot products that start at `c` (section 4 of the contract)."""
        raise NotImplementedError

    def sections(self, widths: Widths) -> tuple[Section, ...]:
        """The sections of a unit's datapath behind the block's products.

        Behind the block's sum, where `sums_exactly`.
        """
        raise NotImplementedError

    def started(self, c: F32, record: Recorder) -> F32:
        """`c` as a running value: RNE to its format."""
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
        """Make a field a Python int in its range; TypeError or ValueError calls it `name`."""
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
        """Fraction bits that terms keep."""
        return self.fraction_bits

    @property
    def running(self) -> FloatFormat:
        """That of `result`."""
        return RUNNING[self.result]

    def wider(self, bits: int) -> list[Accumulator]:
        """With `bits` more fraction bits."""
        return [replace(self, fraction_bits=self.fraction_bits + bits)]

    def __str__(self) -> str:
        text = f"{self.keyword}:{self.fraction_bits}"
        return text if self.running == FLOAT32 else f"{text}:{self.result}"


BlockSum = Callable[[Step, NDArray[np.bool_]], WideSum]


def add_blocks(
    rule: Accumulator, block_sum: BlockSum, steps: Steps, c: F32, record: Recorder
) -> F32:
    """Add 2^s x block to c by RNE, block by block.

    block_sum(step, active): g x the sums of a block; bits that it loses count where `active`.
    """
    c = rule.started(c, record)
    for step in steps.walk(record):
        update = Update(c, step.special)
        block = block_sum(step, update.active)
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
    """g x the float32 result of a block, exact; factor: g, None where it is 1."""
    if factor is None:
        return WideSum(block)
    with np.errstate(invalid="ignore"):  # a block that overflowed
        return WideSum(*rounding.clear_special_error(*rounding.two_product(block, factor)))


def truncate(terms: F64, exponent: NDArray[np.int64], record: Recorder, active: NDArray) -> F64:
    """RZ(terms x 2^exponent) to integers; bits lost are flagged where `active`."""
    scaled = terms * np.ldexp(1.0, exponent)[..., None]
    truncated = np.trunc(scaled)
    if record.flags:
        record.truncated((truncated != scaled).any(axis=-1) & active)
    return truncated
