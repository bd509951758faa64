"""DotConfig: the one description of a dot unit, for the model, the RTL and the command line."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from numpy.typing import ArrayLike

from .accumulators import Accumulator
from .accumulators import accumulator as as_accumulator
from .blocks import MXArray
from .datapath import dot_sections
from .dot import check_operands, dot
from .errors import choice, flag, integer
from .formats import E8M0, FLOAT32, ElementFormat, FloatFormat, element_format
from .outputs import IntegerOutput, convert_trace, output_format
from .pipeline import Pipeline, place, stage_limits
from .trace import Trace

Pair = tuple[ElementFormat, ElementFormat]
LANES = (4, 8, 16, 32, 64, 128)
DEFAULT_STAGES = 4
INTEGER_SCALES = {"none": 0, **{f"u{bits}": bits for bits in range(2, 9)}}
"""Scales of a unit with integer results, and their bits."""
ZERO_POINTS = ("none", "a", "b", "ab")


def format_pairs(value: "str | ElementFormat | Sequence") -> tuple[Pair, ...]:
    """The format pairs of text or of sequences.

    ``"e4m3"`` is both operands in E4M3, ``"e5m2xe4m3"`` an E5M2 and an E4M3 operand, and
    ``"e4m3,e5m2xe4m3"`` a list, of which the mode input selects one. A sequence holds such items,
    or pairs (a, b) of formats or names: ``[(E5M2, E4M3)]`` is one pair, ``[E5M2, E4M3]`` two modes.
    ValueError for unknown formats, none, or duplicates.
    """
    items = value.split(",") if isinstance(value, str) else value
    items = [items] if isinstance(items, ElementFormat) else items
    if not isinstance(items, Sequence):
        raise TypeError(f"formats must be text or a sequence of format pairs, not {value!r}")
    pairs = tuple(_pair(item) for item in items)
    if not pairs:
        raise ValueError("formats must name at least one format pair, not none")
    if len(set(pairs)) < len(pairs):
        raise ValueError(f"formats must not repeat a pair, as {value!r} does")
    return pairs


def _pair(item: "str | ElementFormat | Sequence") -> Pair:
    if isinstance(item, str):
        item = item.split("x")
    halves = item if isinstance(item, Sequence) else [item]
    if len(halves) not in (1, 2):
        raise ValueError(f"formats must hold formats or pairs of formats, not {item!r}")
    return element_format(halves[0], "formats"), element_format(halves[-1], "formats")


@dataclass(frozen=True, init=False)
class DotConfig:
    """A validated dot unit.

    ==============  ===========================  ==================================================
    parameter       legal values                 effect
    ==============  ===========================  ==================================================
    `formats`       see `format_pairs`           element formats of a and b; several add a mode
                                                 input and widen lanes to hold every one
    `lanes`         4, 8, 16, 32, 64, 128        block size; area grows linearly
    `accumulator`   see `accumulator`            the rule, and most of the width behind the lanes
    `stages`        limits depend on the         registers from input to output = latency in
                    accumulator                  cycles; None takes 4 or the nearest legal number
    `out`           float32, bfloat16, float16   a narrower result by one final RNE
    ..              int32, or an integer format  the running value is INT32 (accumulator `int32`),
                    with ``:multiply`` or        requantised by a multiplier and a shift, or by a
                    ``:shift``                   shift: ``int8_full:shift``
    `status`        bool                         False leaves the five flag outputs out
    `load_c`        bool                         False leaves `in_c` out: products start at +0
    `scales`        e8m0; of integer results     integer scales of n bits multiply the block sums;
                    none, u2 to u8               None is e8m0, or none for integer results
    `micro`         bool; not with integers      True adds a micro-exponent of one bit for every two
                                                 elements of a and of b
    `zero_points`   none; of integer results     operands whose zero point is an input, subtracted
                    a, b, ab too                 by correction terms
    ==============  ===========================  ==================================================

    Raises TypeError or ValueError, naming the parameter, its range and the value.
    """

    formats: tuple[Pair, ...]
    lanes: int
    accumulator: Accumulator
    stages: int
    out: FloatFormat | IntegerOutput
    status: bool
    load_c: bool
    scales: str
    zero_points: str
    micro: bool

    def __init__(
        self,
        formats: str | ElementFormat | Sequence = "e4m3",
        lanes: int = 32,
        accumulator: Accumulator | str = "aligned:13",
        stages: int | None = None,
        out: FloatFormat | IntegerOutput | str = FLOAT32,
        status: bool = True,
        load_c: bool = True,
        scales: str | None = None,
        zero_points: str = "none",
        micro: bool = False,
    ) -> None:
        pairs = format_pairs(formats)
        rule = as_accumulator(accumulator)
        out = output_format(out)
        if type(lanes) is not int or lanes not in LANES:
            raise ValueError(f"lanes must be one of {', '.join(map(str, LANES))}, not {lanes!r}")
        for a, b in pairs:
            rule.check_formats(a, b)
        if scales is None:
            scales = "none" if isinstance(out, IntegerOutput) else E8M0.name
        flag("micro", micro)
        if micro and isinstance(out, IntegerOutput):
            raise ValueError(f"micro must be False for {out.name} results, not True")
        _check_integer(pairs, rule, out, scales, zero_points)
        every = rule.promotes_every
        if every is not None and lanes > every:
            raise ValueError(f"lanes must be at most {every} with {rule}, not {lanes}")
        flag("status", status)
        flag("load_c", load_c)
        vars(self).update(  # the dataclass is frozen
            formats=pairs,
            lanes=lanes,
            accumulator=rule,
            out=out,
            status=status,
            load_c=load_c,
            scales=scales,
            zero_points=zero_points,
            micro=micro,
        )
        low, high = stage_limits(dot_sections(self))
        if stages is None:
            stages = min(max(DEFAULT_STAGES, low), high)
        vars(self)["stages"] = integer(f"stages of accumulator {rule}", stages, low, high)

    @cached_property
    def pipeline(self) -> Pipeline:
        """The sections of the datapath and where their registers stand."""
        return place(dot_sections(self), self.stages)

    @property
    def latency(self) -> int:
        """Cycles from accepting a dot product's last block to its result being valid."""
        return self.pipeline.latency

    @property
    def interval(self) -> int:
        """Cycles between chained blocks of one dot product; above 1 where a loop has registers."""
        return self.pipeline.interval

    @property
    def timing(self) -> str:
        """Latency and interval in words."""
        return f"latency {self.latency}, interval {self.interval}"

    @property
    def has_integers(self) -> bool:
        """Whether running value and result are integers and not floats."""
        return isinstance(self.out, IntegerOutput)

    @property
    def scale_bits(self) -> int:
        """Width of each of a block's two scales; 0 when there are none."""
        return INTEGER_SCALES.get(self.scales, E8M0.bits)

    @property
    def side_inputs(self) -> dict[str, int]:
        """Widths of the inputs beside elements and scales, by name.

        zero_a, zero_b: of the block's operands, two's complement. multiplier, shift, zero_out: how
        the result is requantised, used with the last block. micro_a, micro_b: micro-exponents, the
        first pair's lowest.
        """
        widths = {"zero_a": self.bits_a, "zero_b": self.bits_b}
        inputs = {f"zero_{side}": widths[f"zero_{side}"] for side in self.zero_sides}
        if isinstance(self.out, IntegerOutput):
            inputs |= self.out.parameters
        if self.micro:
            inputs |= dict.fromkeys(("micro_a", "micro_b"), self.lanes // 2)
        return inputs

    def is_signed(self, name: str) -> bool:
        """Whether the side input of this name is two's complement."""
        if name != "zero_out":
            return name in ("zero_a", "zero_b")
        out = self.out
        return isinstance(out, IntegerOutput) and out.format is not None and out.format.lowest < 0

    @property
    def zero_sides(self) -> tuple[str, ...]:
        """The operands that have zero points."""
        return () if self.zero_points == "none" else tuple(self.zero_points)

    @property
    def bits_a(self) -> int:
        """Width of an element of a: the widest of its formats."""
        return max(a.bits for a, _ in self.formats)

    @property
    def bits_b(self) -> int:
        """Width of an element of b."""
        return max(b.bits for _, b in self.formats)

    @property
    def mode_bits(self) -> int:
        """Width of the mode input; 0 when there is one format pair and no such input."""
        return (len(self.formats) - 1).bit_length()

    def __str__(self) -> str:
        """One line that names the unit, and that the command line's options repeat."""
        extra = "" if self.out == FLOAT32 else f" {self.out.name}"
        extra += "" if self.status else " no-status"
        extra += "" if self.load_c else " no-c"
        extra += " micro" if self.micro else ""
        if self.has_integers:
            extra += "" if self.scales == "none" else f" scales {self.scales}"
            extra += "" if self.zero_points == "none" else f" zero-points {self.zero_points}"
        return f"{self.formats_text} {self.accumulator} x{self.lanes} stages {self.stages}{extra}"

    @property
    def arguments(self) -> dict[str, Any]:
        """The constructor's arguments as plain values."""
        return {
            "formats": self.formats_text,
            "lanes": self.lanes,
            "accumulator": str(self.accumulator),
            "stages": self.stages,
            "out": self.out.name,
            "status": self.status,
            "load_c": self.load_c,
            "scales": self.scales,
            "zero_points": self.zero_points,
            "micro": self.micro,
        }

    @property
    def formats_text(self) -> str:
        """The formats as `format_pairs` reads them."""
        return ",".join(a.name if a is b else f"{a.name}x{b.name}" for a, b in self.formats)

    def dot(
        self,
        a: MXArray,
        b: MXArray,
        c: ArrayLike | None = None,
        stages: bool = False,
        micro: tuple[ArrayLike, ArrayLike] | None = None,
    ) -> Trace:
        """What this unit computes for blocks of `lanes` elements: results in `out`, with flags.

        a, b, c, micro as for `dot`; ValueError when the operands do not fit the unit. A unit with
        integer results computes `integer_dot` (integers.py).
        """
        if isinstance(self.out, IntegerOutput):
            raise ValueError(f"out must be a float to multiply MXArrays, not {self.out.name}")
        check_operands(a, b, self.accumulator)
        if a.block_size != self.lanes:
            raise ValueError(f"block_size of a must be the unit's {self.lanes}, not {a.block_size}")
        if (a.format, b.format) not in self.formats:
            raise ValueError(
                f"formats of a and b must be among {self.formats_text}, "
                f"not {a.format.name}x{b.format.name}"
            )
        if c is not None and not self.load_c:
            raise ValueError("c must be None: this unit has no c input")
        if (micro is not None) != self.micro:
            wanted = "those of a and b" if self.micro else "None: this unit has none"
            raise ValueError(f"micro must be {wanted}")
        trace = dot(a, b, self.accumulator, c, trace=True, stages=stages, micro=micro)
        return convert_trace(trace, self.out)


def _check_integer(
    pairs: tuple[Pair, ...],
    rule: Accumulator,
    out: FloatFormat | IntegerOutput,
    scales: str,
    zero_points: str,
) -> None:
    """ValueError unless scales, zero points and output go together."""
    if not isinstance(out, IntegerOutput):
        choice(f"scales of {out.name} results", scales, (E8M0.name,))
        choice(f"zero_points of {out.name} results", zero_points, ("none",))
        return
    if not rule.takes_integers:
        raise ValueError(f"accumulator must be int32 for {out.name} results, not {rule}")
    if len(pairs) > 1:
        names = ", ".join(f"{a.name} x {b.name}" for a, b in pairs)
        raise ValueError(f"formats must be one pair for {out.name} results, not {names}")
    choice(f"scales of {out.name} results", scales, INTEGER_SCALES)
    choice("zero_points", zero_points, ZERO_POINTS)
