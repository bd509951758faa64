"""DotConfig: the one description of a dot unit; and what units with dot units inside share."""

from functools import cached_property
from operator import attrgetter
from typing import Any, ClassVar, Self

from numpy.typing import ArrayLike, NDArray

from ..accumulators import KINDS, MACHINES, PRESETS, Accumulator, any_operands
from ..accumulators import accumulator as as_accumulator
from ..dot import check_operands, dot
from ..formats import (
    BLOCK_SCALES,
    E4M3,
    E8M0,
    FLOAT32,
    FORMATS,
    MX_FORMATS,
    FloatFormat,
    IntegerFormat,
    ScaleFormat,
    block_scale_bits,
    unit_format,
)
from ..formats.table import Pair, format_pairs, pairs_text
from ..integers import INTEGER_SCALES, ZERO_POINTS, check_integers
from ..outputs import IntegerOutput, convert_trace, output_format
from ..pipeline.delays import DEFAULT_DELAYS, DELAYS
from ..pipeline.placement import Pipeline, place, stage_limits
from ..pipeline.sections import dot_sections
from ..pipeline.widths import Widths
from ..quantize import held_codes
from ..schemes.array import MXArray
from ..trace import Trace
from .base import LANES, UnitConfig, block_size, stage_count
from .options import Option, option, options_of, resolved, unit

EVERY_FORMAT = ",".join([*MX_FORMATS, "e5m2xe4m3", "e4m3xe5m2"])
"""Every element format, and the mixed FP8 pairs, in one unit with a mode input."""

MAX_INTERLEAVE = 16
_SCALES = ("scales", "zero_points", "scale_block")
_SWITCHES = ("status", "load_c")


@unit
class DotConfig(UnitConfig):
    """A validated dot unit.

    Raises TypeError or ValueError, naming the parameter, its range and the value.
    """

    kind: ClassVar[str] = "dot"
    title: ClassVar[str] = "MX dot-product unit"
    items: ClassVar[str] = "dot products"

    formats: tuple[Pair, ...] = option(
        default="e4m3",
        flag="--format",
        metavar="F[,F...]",
        converter=format_pairs,
        plain=pairs_text,
        help=f"element formats: {', '.join(FORMATS)}, pairs such as e5m2xe4m3, or a list that the "
        "mode input selects from, with lanes as wide as the widest",
    )
    lanes: int = option(
        default=32,
        choices=LANES,
        joint=True,
        help="block size, a power of two from 4 to 128; 2 too with machines whose steps have 2 "
        "elements",
    )
    accumulator: Accumulator = option(
        default="aligned:13",
        metavar="A",
        converter=as_accumulator,
        plain=str,
        help=f"{', '.join(kind.syntax for kind in KINDS.values())}; a preset: "
        f"{', '.join(PRESETS)}; or another of `mxdot machines`: "
        f"{', '.join(name for name in MACHINES if name not in PRESETS)}",
    )
    stages: int = option(
        default=None,
        parse=int,
        converter=resolved,
        joint=True,
        default_text="4 or the nearest possible",
        help="registers from input to output, and so latency; limits depend on the accumulator",
    )
    out: FloatFormat | IntegerOutput = option(
        default=FLOAT32.name,
        flag="--result",
        metavar="FORMAT",
        converter=output_format,
        plain=attrgetter("name"),
        words="{}",
        part="{}",
        help="float32, bfloat16, float16; of int32 sums int32, FLOAT:scale, INT:shift, "
        "INT:multiply[:BITS] by a multiplier of BITS (4 to 31, default 31) and a shift; INT is "
        "int8_full, int8_symmetric, uint8, int4_full or int4_symmetric",
    )
    status: bool = option(default=True, flag="--no-status", help="leave the five flag outputs out")
    load_c: bool = option(
        default=True, flag="--no-c", help="leave the input in_c out: products start at +0"
    )
    scales: str = option(
        default=None,
        metavar="FORMAT",
        converter=resolved,
        choices=(*BLOCK_SCALES, *INTEGER_SCALES),
        joint=True,
        default_text="e8m0, or none for integer results",
        help="scales of blocks; e8m0 or e4m3 (its codes without their sign), and for integer "
        "results none or u2 to u8, which multiply the block sums",
    )
    zero_points: str = option(
        default="none",
        metavar="OPERANDS",
        choices=ZERO_POINTS,
        joint=True,
        part="zero_{}",
        help="operands whose zero point is an input, for integer results: a, b, ab",
    )
    micro: bool = option(
        default=False,
        help="a micro-exponent of one bit for every two elements of a and of b, for float results",
    )
    interleave: int = option(
        default=1,
        limits=(1, MAX_INTERLEAVE),
        part="i{}",
        help="dot products in flight, 1 to 16, whose blocks take turns in a loop and name their "
        "own by a slot",
    )
    delays: str = option(
        default=DEFAULT_DELAYS,
        metavar="P",
        choices=tuple(DELAYS),
        help=f"process by whose delays registers are placed: {', '.join(DELAYS)}",
    )
    target: str = option(
        default="asic",
        choices=("asic", "fpga"),
        metavar="T",
        part="{}",
        help="asic: adders and multipliers of full adders; fpga: Verilog's operators, for carry "
        "chains, DSP blocks, and synthesis that chooses its own adders",
    )
    scale_block: int = option(
        default=None,
        parse=int,
        converter=resolved,
        choices=LANES,
        joint=True,
        default_text="the lanes",
        part="k{}",
        help="elements under one scale, a power of two from 4 to the lanes; fewer than those with "
        "fused:F and machines",
    )
    gate_idle: bool = option(
        default=False,
        help="gates at the inputs, so that the datapath reads zeros without in_valid: less power "
        "while a unit waits and its operands change",
    )

    def _resolve(self) -> None:
        rule, out = self.accumulator, self.out
        block_size("lanes", self.lanes, rule.least_lanes)
        scale_block = _scale_block(self.scale_block, self.lanes, rule.least_lanes)
        rule.check_unit(self.lanes, scale_block)
        for a, b in self.formats:
            rule.check_formats(unit_format(a), unit_format(b))
        scales = self.default_of("scales") if self.scales is None else self.scales
        if self.micro and isinstance(out, IntegerOutput):
            raise ValueError(f"micro must be False for {out.name} results, not True")
        check_integers(self.formats, rule, out, scales, self.zero_points)
        if scales == E4M3.name and not rule.takes_significands:
            raise ValueError(f"scales must be {E8M0} with {rule}, not {scales}")
        vars(self).update(scales=scales, scale_block=scale_block)  # the dataclass is frozen
        if self.scale_fraction_bits and Widths(self).block_leaves_float32:
            raise ValueError(
                f"scales must be {E8M0} with {rule} and {self.formats_text}, whose "
                f"sums may leave float32, not {scales}"
            )
        name = f"stages of accumulator {rule}"
        if isinstance(out, IntegerOutput):
            name += f" with result {out.name}"
        vars(self)["stages"] = stage_count(name, self.stages, self.stage_limits)

    def default_of(self, name: str) -> Any:
        if name == "scales":
            return "none" if self.has_integers else E8M0.name
        return self.lanes if name == "scale_block" else super().default_of(name)

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
        """Widths of the inputs other than elements and scales, by name.

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
        options = self.words_of(self._ordered(_SWITCHES, _SCALES))
        return f"{self.formats_text} {self.accumulator} x{self.lanes} stages {self.stages}{options}"

    @property
    def name(self) -> str:
        formats = self.formats_text
        formats = "all" if formats == EVERY_FORMAT else formats.replace(",", "+")
        rule = str(self.accumulator).replace(":", "_")
        parts = [rule, formats, f"x{self.lanes}", f"s{self.stages}"]
        return "-".join([*parts, *self.parts_of(self.named_options())])

    @classmethod
    def named_options(cls) -> tuple[str, ...]:
        """Options after `stages`, in the order in which names and commands have them."""
        return cls._ordered(_SCALES, _SWITCHES)

    @classmethod
    def _ordered(cls, first: tuple[str, ...], last: tuple[str, ...]) -> tuple[str, ...]:
        _, _, _, _, out, *others = cls.options()
        return (out, *first, *(name for name in others if name not in (*first, *last)), *last)

    @property
    def formats_text(self) -> str:
        """The formats as `format_pairs` reads them."""
        return pairs_text(self.formats)

    def dot(
        self,
        a: MXArray | NDArray,
        b: MXArray | NDArray,
        c: ArrayLike | None = None,
        stages: bool = False,
        micro: tuple[ArrayLike, ArrayLike] | None = None,
    ) -> Trace:
        """Multiply blocks of `scale_block` elements, `lanes` at a time, with the unit's bits.

        Returns results in `out`, with flags.

        a, b, c, micro as for `dot`, with scales in the unit's format; ValueError when the operands
        do not fit the unit. A unit with integer results computes `integer_dot` (integers.py).
        """
        if isinstance(self.out, IntegerOutput):
            raise ValueError(f"out must be a float to multiply MXArrays, not {self.out.name}")
        block = self.scale_block
        x, y = (held_codes(side, block, self.scale_format) for side in (a, b))
        check_operands(x, y, self.accumulator)
        if x.block_size != block:
            raise ValueError(f"block_size of a must be the unit's {block}, not {x.block_size}")
        if x.shape[-1] % self.lanes:
            raise ValueError(
                f"length of a must be a multiple of the unit's {self.lanes}, not {x.shape[-1]}"
            )
        if (x.format, y.format) not in self.formats:
            raise ValueError(
                f"formats of a and b must be among {self.formats_text}, "
                f"not {x.format.name}x{y.format.name}"
            )
        if c is not None and not self.load_c:
            raise ValueError("c must be None: this unit has no c input")
        if (micro is not None) != self.micro:
            wanted = "those of a and b" if self.micro else "None: this unit has none"
            raise ValueError(f"micro must be {wanted}")
        options = {"stages": stages, "micro": micro, "scale_format": self.scale_format}
        with any_operands():  # a unit of the caller's own
            trace = dot(x, y, self.accumulator, c, trace=True, **options)
        return convert_trace(trace, self.out)


def _scale_block(value: object, lanes: int, least: int) -> int:
    """`value`, or the lanes, if it is a power of two up to these; else ValueError."""
    if value is None:
        return lanes
    block = block_size("scale_block", value, least)
    if block > lanes:
        raise ValueError(f"scale_block must be at most the lanes, {lanes}, not {block}")
    return block


class ComposedUnitConfig(UnitConfig):
    """Configuration of a unit with dot units inside, all of them like `dot`."""

    dot: DotConfig
    own_dot_keywords: ClassVar[tuple[str, ...]] = ()
    """Options of the dot units that the unit itself decides."""

    @property
    def interval(self) -> int:
        """Cycles between chained blocks of one dot product."""
        return self.dot.interval

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of `of` as plain values, with those of `dot` as a dict."""
        return {"dot": self.dot.arguments, **super().arguments}

    @classmethod
    def of(cls, **arguments: Any) -> Self:
        return cls(**{**arguments, "dot": DotConfig(**arguments["dot"])})

    @classmethod
    def options(cls) -> dict[str, Option]:
        """Options of the dot units, then the unit's own."""
        of_dot = {**options_of(DotConfig)}
        for name in cls.own_dot_keywords:
            del of_dot[name]
        return of_dot | super().options()

    @classmethod
    def of_options(cls, **values: Any) -> Self:
        of_dot = {name: values.pop(name) for name in options_of(DotConfig) if name in values}
        return cls.of(dot=of_dot, **values)
