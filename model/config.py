"""DotConfig: the one description of a dot unit, for the model, the RTL and the command line."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from numpy.typing import ArrayLike

from .accumulators import Accumulator
from .accumulators import accumulator as as_accumulator
from .blocks import MXArray
from .dot import check_operands, dot
from .errors import flag, integer
from .formats import ElementFormat, element_format
from .outputs import FLOAT32, OutputFormat, convert_trace, output_format
from .pipeline import Pipeline, place, sections, stage_limits
from .trace import Trace

Pair = tuple[ElementFormat, ElementFormat]
LANES = (4, 8, 16, 32, 64, 128)
DEFAULT_STAGES = 4


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
    `status`        bool                         False leaves the five flag outputs out
    `load_c`        bool                         False leaves `in_c` out: products start at +0
    ==============  ===========================  ==================================================

    Raises TypeError or ValueError, naming the parameter, its range and the value.
    """

    formats: tuple[Pair, ...]
    lanes: int
    accumulator: Accumulator
    stages: int
    out: OutputFormat
    status: bool
    load_c: bool

    def __init__(
        self,
        formats: str | ElementFormat | Sequence = "e4m3",
        lanes: int = 32,
        accumulator: Accumulator | str = "aligned:13",
        stages: int | None = None,
        out: OutputFormat | str = FLOAT32,
        status: bool = True,
        load_c: bool = True,
    ) -> None:
        pairs = format_pairs(formats)
        rule = as_accumulator(accumulator)
        out = output_format(out)
        if type(lanes) is not int or lanes not in LANES:
            raise ValueError(f"lanes must be one of {', '.join(map(str, LANES))}, not {lanes!r}")
        for a, b in pairs:
            rule.check_formats(a, b)
        parts = sections(rule, lanes, out.name)
        low, high = stage_limits(parts)
        promote = getattr(rule, "promote", None)
        if promote is not None and lanes > promote:
            raise ValueError(f"lanes must be at most {promote} with {rule}, not {lanes}")
        if stages is None:
            stages = min(max(DEFAULT_STAGES, low), high)
        stages = integer(f"stages of accumulator {rule}", stages, low, high)
        flag("status", status)
        flag("load_c", load_c)
        vars(self).update(  # the dataclass is frozen
            formats=pairs,
            lanes=lanes,
            accumulator=rule,
            stages=stages,
            out=out,
            status=status,
            load_c=load_c,
        )

    @cached_property
    def pipeline(self) -> Pipeline:
        """The sections of the datapath and where their registers stand."""
        return place(sections(self.accumulator, self.lanes, self.out.name), self.stages)

    @property
    def latency(self) -> int:
        """Cycles from accepting a dot product's last block to its result being valid."""
        return self.pipeline.latency

    @property
    def interval(self) -> int:
        """Cycles between chained blocks of one dot product; 1 but for pipelined fused loops."""
        return self.pipeline.interval

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
        return f"{self.formats_text} {self.accumulator} x{self.lanes} stages {self.stages}{extra}"

    @property
    def formats_text(self) -> str:
        """The formats as `format_pairs` reads them."""
        return ",".join(a.name if a is b else f"{a.name}x{b.name}" for a, b in self.formats)

    def dot(
        self, a: MXArray, b: MXArray, c: ArrayLike | None = None, stages: bool = False
    ) -> Trace:
        """What this unit computes for blocks of `lanes` elements: results in `out`, with flags.

        a, b, c as for `dot`; ValueError when the operands do not fit the unit.
        """
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
        return convert_trace(dot(a, b, self.accumulator, c, trace=True, stages=stages), self.out)
