"""DotConfig: the one description of a dot unit, for the model, the RTL and the command line."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from numpy.typing import ArrayLike

from ..accumulators import Accumulator, any_operands
from ..accumulators import accumulator as as_accumulator
from ..dot import check_operands, dot
from ..errors import choice, flag, integer
from ..formats import (
    BLOCK_SCALES,
    E4M3,
    E8M0,
    FLOAT32,
    MX_FORMATS,
    ElementFormat,
    FloatFormat,
    IntegerFormat,
    ScaleFormat,
    block_scale_bits,
)
from ..formats.table import Pair, format_pairs, pairs_text
from ..integers import INTEGER_SCALES, check_integers
from ..outputs import IntegerOutput, convert_trace, output_format
from ..pipeline.delays import DEFAULT_DELAYS, DELAYS
from ..pipeline.placement import Pipeline, place, stage_limits
from ..pipeline.sections import dot_sections
from ..pipeline.widths import Widths
from ..schemes.array import MXArray
from ..trace import Trace
from .base import UnitConfig, block_size, stage_count

EVERY_FORMAT = ",".join([*MX_FORMATS, "e5m2xe4m3", "e4m3xe5m2"])
"""Every element format, and the mixed FP8 pairs, in one unit with a mode input."""

MAX_INTERLEAVE = 16


@dataclass(frozen=True, init=False)
class DotConfig(UnitConfig):
    """A validated dot unit.

    ==============  ===========================  ==================================================
    parameter       legal values                 effect
    ==============  ===========================  ==================================================
    `formats`       see `format_pairs`           element formats of a and b; several add a mode
                                                 input and widen lanes to hold every one
    `lanes`         4, 8, 16, 32, 64, 128        block size; area grows linearly; 2 too with a
                                                 machine whose step that is
    `accumulator`   see `accumulator`            the rule, and most of the width behind the lanes
    `stages`        limits depend on the         registers from input to output = latency in
                    accumulator                  cycles; None takes 4 or the nearest legal number
    `out`           float32, bfloat16, float16   a narrower result by one final RNE
    ..              int32, or an integer format  the running value is INT32 (accumulator `int32`),
                    with ``:multiply[:BITS]``    requantised by a multiplier (of 4 to 31 bits, 31)
                    or ``:shift``                and a shift, or by a shift: ``int8_full:shift``
    ..              a float with ``:scale``      the same, times a float32: ``float16:scale``
    `status`        bool                         False leaves the five flag outputs out
    `load_c`        bool                         False leaves `in_c` out: products start at +0
    `scales`        e8m0, e4m3; of integer       of E4M3 the codes without their sign; integer
                    results none, u2 to u8       scales of n bits multiply the block sums; None is
                                                 e8m0, or none for integer results
    `scale_block`   powers of two up to `lanes`  elements under one scale; None is `lanes`, and
                                                 fewer need an accumulator that takes them in turn
    `interleave`    1 to 16                      dot products in flight: with more than one a block
                                                 names its own by a slot, and registers go inside
                                                 loops as anywhere else
    `delays`        asap7, sky130, ihp, gt2n     the process by whose delays registers are placed
    `micro`         bool; not with integers      True adds a micro-exponent of one bit for every two
                                                 elements of a and of b
    `zero_points`   none; of integer results     operands whose zero point is an input, subtracted
                    a, b, ab too                 by correction terms
    ==============  ===========================  ==================================================

    Raises TypeError or ValueError, naming the parameter, its range and the value.
    """

    kind: ClassVar[str] = "dot"
    title: ClassVar[str] = "MX dot-product unit"
    items: ClassVar[str] = "dot products"

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
    interleave: int
    delays: str
    scale_block: int

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
        interleave: int = 1,
        delays: str = DEFAULT_DELAYS,
        scale_block: int | None = None,
    ) -> None:
        pairs = format_pairs(formats)
        rule = as_accumulator(accumulator)
        out = output_format(out)
        block_size("lanes", lanes, rule.least_lanes)
        scale_block = _scale_block(scale_block, lanes, rule.least_lanes)
        rule.check_unit(lanes, scale_block)
        for a, b in pairs:
            rule.check_formats(a, b)
        if scales is None:
            scales = "none" if isinstance(out, IntegerOutput) else E8M0.name
        flag("micro", micro)
        if micro and isinstance(out, IntegerOutput):
            raise ValueError(f"micro must be False for {out.name} results, not True")
        check_integers(pairs, rule, out, scales, zero_points)
        if scales == E4M3.name and not rule.takes_significands:
            raise ValueError(f"scales must be {E8M0} with {rule}, not {scales}")
        flag("status", status)
        flag("load_c", load_c)
        integer("interleave", interleave, 1, MAX_INTERLEAVE)
        choice("delays", delays, DELAYS)
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
            interleave=interleave,
            delays=delays,
            scale_block=scale_block,
        )
        if self.scale_fraction_bits and Widths(self).block_leaves_float32:
            raise ValueError(
                f"scales must be {E8M0} with {rule} and {self.formats_text}, whose "
                f"sums may leave float32, not {scales}"
            )
        limits = self.stage_limits
        vars(self)["stages"] = stage_count(f"stages of accumulator {rule}", stages, limits)

    @property
    def stage_limits(self) -> tuple[int, int]:
        """The fewest and the most stages of such a unit."""
        return stage_limits(dot_sections(self))[0], stage_limits(dot_sections(self, finer=True))[1]

    @property
    def is_cut_finer(self) -> bool:
        """Whether there are more stages than sections, so that these are cut in parts."""
        return self.stages > len(dot_sections(self))

    @cached_property
    def pipeline(self) -> Pipeline:
        """The sections of the datapath and where their registers stand."""
        return place(dot_sections(self, self.is_cut_finer), self.stages, self.interleave)

    @property
    def latency(self) -> int:
        """Cycles from accepting a dot product's last block to its result being valid."""
        return self.pipeline.latency

    @property
    def interval(self) -> int:
        """Cycles between chained blocks of one dot product; above 1 where a loop has registers."""
        return self.pipeline.interval

    @property
    def has_integers(self) -> bool:
        """Whether the running value is an integer and not a float."""
        return isinstance(self.out, IntegerOutput)

    @property
    def scale_bits(self) -> int:
        """Width of each of a block's two scales; 0 when there are none."""
        if self.scales in INTEGER_SCALES:
            return INTEGER_SCALES[self.scales]
        return block_scale_bits(self.scale_format)

    @property
    def scale_format(self) -> ScaleFormat:
        """The format of the scales of a unit with float results."""
        return BLOCK_SCALES[self.scales]

    @property
    def scale_fraction_bits(self) -> int:
        """Fraction bits of a scale's significand; 0 of powers of two, and of integers."""
        return BLOCK_SCALES[self.scales].mantissa_bits if self.scales in BLOCK_SCALES else 0

    @property
    def scale_blocks(self) -> int:
        """Scales of each operand that come with a beat."""
        return self.lanes // self.scale_block

    @property
    def has_own_scales(self) -> bool:
        """Whether scales are not the one E8M0 of a block that most units have."""
        return self.scales != E8M0.name or self.scale_blocks > 1

    @property
    def side_inputs(self) -> dict[str, int]:
        """Widths of the inputs beside elements and scales, by name.

        zero_a, zero_b: of the block's operands, two's complement. multiplier, shift, zero_out: how
        the result is requantised, result_scale (a float32) what it is multiplied by, used with the
        last block. micro_a, micro_b: micro-exponents, the
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
        fmt = out.format if isinstance(out, IntegerOutput) else None
        return isinstance(fmt, IntegerFormat) and fmt.lowest < 0

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
    def slot_bits(self) -> int:
        """Width of the number of a dot product in flight; 0 when there is one at a time."""
        return (self.interleave - 1).bit_length()

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
        extra += f" interleave {self.interleave}" if self.interleave > 1 else ""
        extra += "" if self.delays == DEFAULT_DELAYS else f" delays {self.delays}"
        if self.has_integers:
            extra += "" if self.scales == "none" else f" scales {self.scales}"
            extra += "" if self.zero_points == "none" else f" zero-points {self.zero_points}"
        else:
            extra += "" if self.scales == E8M0.name else f" scales {self.scales}"
        extra += f" scale-block {self.scale_block}" if self.scale_blocks > 1 else ""
        return f"{self.formats_text} {self.accumulator} x{self.lanes} stages {self.stages}{extra}"

    @property
    def name(self) -> str:
        """See `UnitConfig.name`."""
        formats = self.formats_text
        formats = "all" if formats == EVERY_FORMAT else formats.replace(",", "+")
        rule = str(self.accumulator).replace(":", "_")
        parts = [rule, formats, f"x{self.lanes}", f"s{self.stages}"]
        parts += [] if self.out == FLOAT32 else [self.out.name.replace(":", "_")]
        if self.has_integers:
            parts += [f"scales_{self.scales}"] * (self.scales != "none")
            parts += [f"zero_{self.zero_points}"] * (self.zero_points != "none")
        else:
            parts += [f"scales_{self.scales}"] * (self.scales != E8M0.name)
        parts += [f"k{self.scale_block}"] * (self.scale_blocks > 1)
        parts += ["micro"] * self.micro
        parts += [f"i{self.interleave}"] * (self.interleave > 1)
        parts += [f"delays_{self.delays}"] * (self.delays != DEFAULT_DELAYS)
        parts += ["nostatus"] * (not self.status) + ["noc"] * (not self.load_c)
        return "-".join(parts)

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
            "interleave": self.interleave,
            "delays": self.delays,
            "scale_block": self.scale_block,
        }

    @property
    def formats_text(self) -> str:
        """The formats as `format_pairs` reads them."""
        return pairs_text(self.formats)

    def dot(
        self,
        a: MXArray,
        b: MXArray,
        c: ArrayLike | None = None,
        stages: bool = False,
        micro: tuple[ArrayLike, ArrayLike] | None = None,
    ) -> Trace:
        """What this unit computes for blocks of `scale_block` elements, `lanes` at a time: results
        in `out`, with flags.

        a, b, c, micro as for `dot`, with scales in the unit's format; ValueError when the operands
        do not fit the unit. A unit with integer results computes `integer_dot` (integers.py).
        """
        if isinstance(self.out, IntegerOutput):
            raise ValueError(f"out must be a float to multiply MXArrays, not {self.out.name}")
        check_operands(a, b, self.accumulator)
        block = self.scale_block
        if a.block_size != block:
            raise ValueError(f"block_size of a must be the unit's {block}, not {a.block_size}")
        if a.shape[-1] % self.lanes:
            raise ValueError(
                f"length of a must be a multiple of the unit's {self.lanes}, not {a.shape[-1]}"
            )
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
        options = {"stages": stages, "micro": micro, "scale_format": self.scale_format}
        with any_operands():  # a unit of the caller's own
            trace = dot(a, b, self.accumulator, c, trace=True, **options)
        return convert_trace(trace, self.out)


def _scale_block(value: object, lanes: int, least: int) -> int:
    """`value`, or the lanes, if it is a power of two up to these; else ValueError."""
    if value is None:
        return lanes
    block = block_size("scale_block", value, least)
    if block > lanes:
        raise ValueError(f"scale_block must be at most the lanes, {lanes}, not {block}")
    return block
