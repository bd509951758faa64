"""QuantizeConfig: the one description of a quantiser, for model, RTL and command line."""

from collections.abc import Sequence
from functools import cached_property
from math import prod
from operator import attrgetter
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import lfsr
from ..blocks import as_float32, check_axis, scale_shape
from ..errors import choice, integer
from ..formats import (
    BLOCK_SCALES,
    E1M0,
    E4M3,
    E8M0,
    FLOAT32,
    MX_FORMATS,
    ROUNDINGS,
    ElementFormat,
    FloatFormat,
    ScaleFormat,
    block_scale_bits,
)
from ..outputs import OUTPUTS
from ..pipeline.placement import Pipeline, place, stage_limits
from ..pipeline.sections import quantize_sections
from ..quantize import NONFINITE, SCALE_RULES, quantize
from ..schemes.array import ScaledArray
from ..schemes.grouping import block as block_of
from ..schemes.quantize import CHUNK, quantized_within, random_words
from ..schemes.scheme import Level, Scheme
from .base import LANES, UnitConfig, stage_count
from .options import option, resolved, unit
from .quantize_formats import SHORT_FORMATS, check_micro, check_select, quantized_format

RANDOM = ("stream", "lfsr")
SEEDS = 1, 2**lfsr.WORD_BITS - 1
STOCHASTIC = "stochastic"
AMAX = "amax"
PAIR = 2
"""Elements that share a micro-exponent."""
_SHOWN = ("beats", "seed", "scales", "micro", "select")


def _items(name: str, value: Any) -> Sequence:
    """The items of one, of text with commas or of a sequence, none of them twice."""
    items = value.split(",") if isinstance(value, str) else value
    items = [items] if isinstance(items, ElementFormat) else items
    if not isinstance(items, Sequence) or not items:
        raise TypeError(f"{name} must be a name or several, not {value!r}")
    items = [item.strip() if isinstance(item, str) else item for item in items]
    if any(item in items[:i] for i, item in enumerate(items)):
        raise ValueError(f"{name} must not repeat one, as {value!r} does")
    return items


def _formats(value: str | ElementFormat | Sequence) -> tuple[ElementFormat, ...]:
    return tuple(map(quantized_format, _items("formats", value)))


def _formats_text(formats: Sequence[ElementFormat]) -> str:
    return ",".join(fmt.name for fmt in formats)


def _source(value: FloatFormat | str) -> FloatFormat:
    name = value.name if isinstance(value, FloatFormat) else value
    return OUTPUTS[choice("source", name, OUTPUTS)]


def _rules(value: str | Sequence[str] | None) -> str:
    return cast("str", value)  # the configuration makes it one text


def number(text: str) -> int:
    """An integer, hexadecimal with 0x."""
    return int(text, 0)


def _seed(value: int) -> int:
    return integer("seed of the shift register (lfsr-seed)", value, *SEEDS)


@unit
class QuantizeConfig(UnitConfig):
    """A validated quantiser: blocks of floats to codes and one scale.

    `formats` and `scale_rule` are a name, or several as text with commas or as a sequence. Raises
    TypeError or ValueError, naming the parameter, its range and the value.
    """

    kind: ClassVar[str] = "quantize"
    title: ClassVar[str] = "MX quantiser"
    items: ClassVar[str] = "blocks"

    formats: tuple[ElementFormat, ...] = option(
        default="e4m3",
        flag="--format",
        metavar="F[,F...]",
        converter=_formats,
        plain=_formats_text,
        help=f"element formats: {', '.join(SHORT_FORMATS)}, sm3 to sm8, int8_symmetric, "
        "int4_symmetric, or a list that the mode input (or --select) selects from",
    )
    block: int = option(
        default=32, choices=LANES, help="elements of a block, a power of two from 4 to 128"
    )
    source: FloatFormat = option(
        default=FLOAT32.name,
        metavar="FORMAT",
        converter=_source,
        plain=attrgetter("name"),
        help=f"values, and the width of the comparators: {', '.join(OUTPUTS)}",
    )
    scale_rule: str = option(
        default=None,
        metavar="R",
        converter=_rules,
        joint=True,
        default_text="floor, or amax with E4M3 scales",
        help=f"{', '.join(SCALE_RULES)}; in a quantiser alone also a list that an input selects "
        "from; E4M3 scales have amax",
    )
    rounding: str = option(
        default=ROUNDINGS[0], metavar="R", choices=tuple(ROUNDINGS), help=", ".join(ROUNDINGS)
    )
    nonfinite: str = option(
        default=NONFINITE[0],
        metavar="POLICY",
        choices=tuple(NONFINITE),
        help=f"what NaN and infinity become: {', '.join(NONFINITE)}",
    )
    beats: int = option(
        default=1,
        joint=True,
        part="b{}",
        help="transfers of a block: a power of two up to the block, with --micro half of it",
    )
    random: str = option(
        default=RANDOM[0],
        metavar="FROM",
        choices=RANDOM,
        help="words of stochastic rounding: stream, with the values, or lfsr, a shift register",
    )
    seed: int = option(
        default=lfsr.DEFAULT_SEED,
        flag="--lfsr-seed",
        parse=number,
        converter=_seed,
        default_text=f"{lfsr.DEFAULT_SEED:#x}",
        limits=SEEDS,
        words="lfsr {:#x}",
        part="lfsr_{:x}",
        help="state of the shift register after a reset, 1 to 2^32 - 1",
    )
    stages: int = option(
        default=None,
        parse=int,
        converter=resolved,
        joint=True,
        default_text="4 or the nearest possible",
        help="registers from input to output, and so latency: 1 to 4 + log2(lanes); one more with "
        "several beats, as many more as there are digits with E4M3 scales, 3 + log2(lanes) more "
        "with --select",
    )
    scales: str = option(
        default=E8M0.name,
        metavar="FORMAT",
        choices=tuple(BLOCK_SCALES),
        help="scales of blocks; e8m0, or e4m3 (its codes without their sign) under an outer "
        "float32 scale, an input, with dividers and without stochastic rounding",
    )
    micro: bool = option(
        default=False,
        help="a micro-exponent of one bit for every two elements, which are integers; not with "
        "E4M3 scales",
    )
    select: int | None = option(
        default=None,
        parse=int,
        joint=True,
        default_text="the input in_mode chooses",
        help="digits of the errors by which a quantiser chooses each block's format, 2 to 16; "
        "out_mode takes the place of in_mode; for formats of equal width, E8M0 scales and one beat",
    )

    def _resolve(self) -> None:
        allowed_rules = SCALE_RULES if self.scales == E8M0.name else (AMAX,)
        rule = allowed_rules[0] if self.scale_rule is None else self.scale_rule
        rules = [choice("scale_rule", r, allowed_rules) for r in _items("scale_rule", rule)]
        vars(self)["scale_rule"] = ",".join(rules)  # the dataclass is frozen
        if self.random == "lfsr" and self.rounding != STOCHASTIC:
            raise ValueError(f"random must be stream with rounding {self.rounding}, not lfsr")
        if self.divides and self.rounding == STOCHASTIC:
            others = " or ".join(name for name in ROUNDINGS if name != STOCHASTIC)
            raise ValueError(f"rounding with {self.scales} scales must be {others}, not stochastic")
        check_micro(self.micro, self.scales, self.formats)
        block, beats = self.block, self.beats
        allowed = [2**i for i in range((block // PAIR if self.micro else block).bit_length())]
        if type(beats) is not int or beats not in allowed:
            known = ", ".join(map(str, allowed))
            raise ValueError(f"beats of blocks of {block} must be one of {known}, not {beats!r}")
        check_select(self.select, self.formats, self.scales, self.micro, beats)
        limits = 1, stage_limits(quantize_sections(self))[1]
        name = f"stages of blocks of {block} in {beats} beats"
        vars(self)["stages"] = stage_count(name, self.stages, limits)

    def is_shown(self, name: str) -> bool:
        return self.random == "lfsr" if name == "seed" else super().is_shown(name)

    @cached_property
    def scale_rules(self) -> tuple[str, ...]:
        """Scale rules; several add an input, which selects one."""
        return tuple(self.scale_rule.split(","))

    @cached_property
    def pipeline(self) -> Pipeline:
        """The sections of the datapath and where their registers stand."""
        return place(quantize_sections(self), self.stages)

    @property
    def latency(self) -> int:
        """Cycles from accepting a block's last beat to the first beat of its codes being valid."""
        return self.stages

    @property
    def interval(self) -> int:
        """Cycles between blocks."""
        return self.beats

    @property
    def lanes(self) -> int:
        """Values of a beat."""
        return self.block // self.beats

    @property
    def bits(self) -> int:
        """Width of a code: the widest format's."""
        return max(fmt.bits for fmt in self.formats)

    @property
    def mode_bits(self) -> int:
        """Width of the mode input; 0 without one, with one format or with `select`."""
        return 0 if self.select is not None else (len(self.formats) - 1).bit_length()

    @property
    def selector_bits(self) -> int:
        """Width of the output that says which format was chosen; 0 when there is none."""
        return 0 if self.select is None else (len(self.formats) - 1).bit_length()

    @property
    def modes(self) -> int:
        """From how many formats the mode input selects: one where there is no such input."""
        return len(self.formats) if self.select is None else 1

    @cached_property
    def with_mode(self) -> "QuantizeConfig":
        """The unit whose format is chosen outside."""
        return QuantizeConfig(**{**self.arguments, "stages": None, "select": None})

    @cached_property
    def alternatives(self) -> tuple["QuantizeConfig", ...]:
        """The unit of each format alone."""
        arguments = self.with_mode.arguments
        return tuple(QuantizeConfig(**{**arguments, "formats": fmt}) for fmt in self.formats)

    @property
    def rule_bits(self) -> int:
        """Width of the input that selects the scale rule; 0 when there is one."""
        return (len(self.scale_rules) - 1).bit_length()

    @property
    def is_stochastic(self) -> bool:
        """Whether rounding takes random words."""
        return self.rounding == STOCHASTIC

    @property
    def word_bits(self) -> int:
        """Width of the random word that comes with each value; 0 when none does."""
        return lfsr.WORD_BITS if self.is_stochastic and self.random == "stream" else 0

    @property
    def scale_format(self) -> ScaleFormat:
        """The format of the blocks' scales."""
        return BLOCK_SCALES[self.scales]

    @property
    def scale_bits(self) -> int:
        """Width of a block's scale."""
        return block_scale_bits(self.scale_format)

    @property
    def divides(self) -> bool:
        """Whether scales and elements are quotients, and a scale of all blocks is an input."""
        return self.scales == E4M3.name

    @property
    def outer_bits(self) -> int:
        """Width of the scale of all blocks; 0 when there is none."""
        return FLOAT32.bits if self.divides else 0

    @property
    def micro_bits(self) -> int:
        """Micro-exponents of a beat, one bit each; 0 when there are none."""
        return self.lanes // PAIR if self.micro else 0

    @property
    def quotient_digits(self) -> int:
        """Digits of an element's quotient: its significand's, and one that decides the rounding."""
        guard = self.rounding != "toward_zero"
        return 1 + max(fmt.mantissa_bits for fmt in self.formats) + guard

    @property
    def formats_text(self) -> str:
        """The formats, separated by commas."""
        return _formats_text(self.formats)

    def __str__(self) -> str:
        """One line that names the unit, and that the command line's options repeat."""
        return (
            f"quantize {self.source.name} to {self.formats_text} x{self.block} {self.scale_rule} "
            f"{self.rounding} {self.nonfinite} stages {self.stages}{self.words_of(_SHOWN)}"
        )

    @property
    def name(self) -> str:
        every = self.formats_text == ",".join(MX_FORMATS)
        parts = [
            "quantize",
            "all" if every else self.formats_text.replace(",", "+"),
            f"x{self.block}",
            f"s{self.stages}",
            self.source.name,
            "+".join(self.scale_rules),
            self.rounding,
            self.nonfinite,
        ]
        return "-".join([*parts, *self.parts_of(_SHOWN)])

    def scheme(self, mode: int = 0, rule: int = 0) -> Scheme:
        """The scheme of the unit's blocks: with E4M3 scales each has an outer one of its own."""
        blocks = block_of(self.block)
        formats = self.formats[mode : mode + 1] if self.select is None else self.formats
        if self.divides:
            levels = [Level(blocks, FLOAT32), Level(blocks, E4M3)]
        else:
            levels = [Level(blocks, E8M0, self.scale_rules[rule])]
            levels += [Level(block_of(PAIR), E1M0, "floor")] * self.micro
        names = [*(fmt.name for fmt in formats), *(level.format.name for level in levels)]
        name = "_".join(names) + ("" if self.select is None else f":e{self.select}")
        source = f"a {self.title}"
        return Scheme(name, formats, tuple(levels), source, error_digits=self.select)

    def random_words(self, blocks: int, first: int = 0) -> NDArray[np.uint32]:
        """Words (blocks, block) of the shift register; `first` blocks came since the reset."""
        beats = lfsr.words(self.seed, self.lanes, blocks * self.beats, first * self.beats)
        return beats.reshape(blocks, self.block)

    def quantize(
        self,
        x: ArrayLike,
        words: NDArray[np.uint32] | None = None,
        mode: int = 0,
        rule: int = 0,
        outer: ArrayLike | None = None,
    ) -> ScaledArray:
        """Quantise the blocks of `x` along the last axis, bit for bit as the unit does.

        Returns an MXArray for MX formats under E8M0 scales alone, else a ScaledArray of `scheme`,
        with selectors if the unit has `select`.

        x: values of the unit's source. words: uint32, one for each value, for stochastic rounding;
        None takes those that the shift register has after a reset. mode, rule: indices into
        `formats` and `scale_rules`. outer: with E4M3 scales float32, one for each block or one for
        all; a scale that is not positive and finite becomes NaN, and its blocks are poisoned.
        TypeError or ValueError when the values do not fit the unit.
        """
        x = np.asarray(x)
        if x.dtype != self.source.dtype:
            raise TypeError(f"x must be {self.source.name}, the unit's source, not {x.dtype}")
        integer("mode", mode, 0, self.modes - 1)
        integer("rule", rule, 0, len(self.scale_rules) - 1)
        check_axis(x.shape, -1)
        grid = scale_shape(x.shape, -1, self.block)
        scales = None if outer is None and not self.divides else self._outer(outer, grid)
        if words is None and self.is_stochastic and not self.word_bits:
            words = self.random_words(x.size // self.block).reshape(x.shape)
        scheme = self.scheme(mode, rule)
        if self.select is None and len(scheme.levels) == 1 and scheme.elements[0].is_mx:
            return quantize(
                x,
                self.formats[mode],
                block_size=self.block,
                scale_rule=self.scale_rules[rule],
                rounding=self.rounding,
                nonfinite=self.nonfinite,
                rng=words,
            )
        random = random_words(words, x.shape) if self.is_stochastic else None
        policies = (self.rounding, self.nonfinite, random, CHUNK)
        if scales is None:
            parts = quantized_within(as_float32(x), scheme, -1, None, *policies)
            return ScaledArray.of_valid_parts(scheme, *parts, -1)
        poisoned = ~(np.isfinite(scales) & (scales > 0))
        # The limit that makes this scale: exact in float64, and so is the quotient.
        high = np.where(poisoned, 1.0, scales.astype(np.float64))
        high = high.reshape(prod(grid[:-1]), grid[-1])
        high = high * scheme.room(0, scheme.elements[0])
        parts = quantized_within(as_float32(x), scheme, -1, (-high, high), *policies)
        parts.codes[np.repeat(poisoned, self.block, axis=-1)] = 0
        parts.scales[0][poisoned] = np.nan
        parts.scales[1][poisoned] = E4M3.nan_code
        return ScaledArray.of_valid_parts(scheme, *parts, -1)

    def _outer(self, outer: ArrayLike | None, grid: tuple[int, ...]) -> NDArray[np.float32]:
        """`outer` as an array of one for each block."""
        if outer is None or not self.divides:
            wanted = "a float32 for each block" if self.divides else "None: this unit has none"
            raise ValueError(f"outer must be {wanted}, not {outer}")
        scales = np.asarray(outer)
        if scales.dtype != np.float32 or scales.shape not in ((), grid):
            raise ValueError(
                f"outer must be float32 of shape {grid} or a scalar, "
                f"not {scales.dtype} of shape {scales.shape}"
            )
        return np.broadcast_to(scales, grid)
