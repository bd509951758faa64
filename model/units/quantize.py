"""QuantizeConfig: the one description of a quantiser, for model, RTL and command line."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import lfsr
from ..errors import choice, flag, integer
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
from ..quantize import NONFINITE, SCALE_RULES
from ..schemes.array import ScaledArray
from ..schemes.grouping import block as block_of
from ..schemes.scheme import Level, Scheme
from .base import UnitConfig, block_size, stage_count
from .quantize_blocks import quantize_blocks
from .quantize_formats import check_micro, check_select, quantized_format

RANDOM = ("stream", "lfsr")
STOCHASTIC = "stochastic"
AMAX = "amax"
PAIR = 2
"""Elements that share a micro-exponent."""


@dataclass(frozen=True, init=False)
class QuantizeConfig(UnitConfig):
    """A validated quantiser: blocks of floats to codes and one scale.

    ==============  ===========================  ==================================================
    parameter       legal values                 effect
    ==============  ===========================  ==================================================
    `formats`       element formats, sm3 to sm8  several add a mode input, which selects one
    `block`         4, 8, 16, 32, 64, 128        elements of a block; area grows linearly
    `source`        float32, bfloat16, float16   the values' type, and the width of the comparators
    `scale_rule`    floor, ceil, even            several add an input, which selects one
    ..              amax                         that of E4M3 scales
    `rounding`      nearest_even, toward_zero,   stochastic adds 32 fraction bits and an adder to
                    stochastic                   each lane
    `nonfinite`     poison, element              what NaN and infinity become
    `beats`         1, 2, 4, ... `block`, with   transfers of a block, each of block / beats values;
                    `micro` half of it           more than one add a buffer of two blocks
    `random`        stream, lfsr                 random words come with the values, or from a shift
                                                 register inside (stochastic only)
    `seed`          1 to 2^32 - 1                the shift register's state after a reset
    `stages`        limits depend on `block`     registers from input to output = latency in cycles;
                    and `beats`, and on          None takes 4 or the nearest legal number
                    `formats` with E4M3 scales
    `scales`        e8m0, e4m3                   of E4M3 the codes without their sign; it adds an
                                                 input, the float32 scale of all blocks, and
                                                 dividers; not with stochastic rounding
    `micro`         bool                         True adds an exponent of one bit for every two
                                                 elements, which are integers; not with E4M3 scales
    `select`        None, 2 to 16                the unit chooses a block's format, by errors of so
                                                 many digits (section 6 of docs/numerics.md), and
                                                 there is no mode; formats of equally many bits,
                                                 under E8M0 scales alone, in one beat
    ==============  ===========================  ==================================================

    `formats` and `scale_rule` are a name, or several as text with commas or as a sequence; a
    `scale_rule` of None is floor, or amax. Raises TypeError or ValueError, naming the parameter,
    its range and the value.
    """

    kind: ClassVar[str] = "quantize"
    title: ClassVar[str] = "MX quantiser"
    items: ClassVar[str] = "blocks"

    formats: tuple[ElementFormat, ...]
    block: int
    source: FloatFormat
    scale_rules: tuple[str, ...]
    rounding: str
    nonfinite: str
    beats: int
    random: str
    seed: int
    stages: int
    scales: str
    micro: bool
    select: int | None

    def __init__(
        self,
        formats: str | ElementFormat | Sequence = "e4m3",
        block: int = 32,
        source: FloatFormat | str = "float32",
        scale_rule: str | Sequence[str] | None = None,
        rounding: str = "nearest_even",
        nonfinite: str = "poison",
        beats: int = 1,
        random: str = "stream",
        seed: int = lfsr.DEFAULT_SEED,
        stages: int | None = None,
        scales: str = E8M0.name,
        micro: bool = False,
        select: int | None = None,
    ) -> None:
        chosen = tuple(map(quantized_format, _items("formats", formats)))
        choice("scales", scales, BLOCK_SCALES)
        allowed_rules = SCALE_RULES if scales == E8M0.name else (AMAX,)
        scale_rule = allowed_rules[0] if scale_rule is None else scale_rule
        rules = tuple(
            choice("scale_rule", r, allowed_rules) for r in _items("scale_rule", scale_rule)
        )
        block_size("block", block)
        source = source.name if isinstance(source, FloatFormat) else source
        source = OUTPUTS[choice("source", source, OUTPUTS)]
        choice("rounding", rounding, ROUNDINGS)
        choice("nonfinite", nonfinite, NONFINITE)
        choice("random", random, RANDOM)
        if random == "lfsr" and rounding != STOCHASTIC:
            raise ValueError(f"random must be stream with rounding {rounding}, not lfsr")
        if scales == E4M3.name and rounding == STOCHASTIC:
            others = " or ".join(name for name in ROUNDINGS if name != rounding)
            raise ValueError(f"rounding with {scales} scales must be {others}, not {rounding}")
        check_micro(flag("micro", micro), scales, chosen)
        allowed = [2**i for i in range((block // PAIR if micro else block).bit_length())]
        if type(beats) is not int or beats not in allowed:
            known = ", ".join(map(str, allowed))
            raise ValueError(f"beats of blocks of {block} must be one of {known}, not {beats!r}")
        check_select(select, chosen, scales, micro, beats)
        seed = integer("seed", seed, 1, 2**lfsr.WORD_BITS - 1)
        vars(self).update(  # the dataclass is frozen
            formats=chosen,
            block=block,
            source=source,
            scale_rules=rules,
            rounding=rounding,
            nonfinite=nonfinite,
            beats=beats,
            random=random,
            seed=seed,
            scales=scales,
            micro=micro,
            select=select,
        )
        limits = 1, stage_limits(quantize_sections(self))[1]
        stages = stage_count(f"stages of blocks of {block} in {beats} beats", stages, limits)
        vars(self)["stages"] = stages

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
        return ",".join(fmt.name for fmt in self.formats)

    @property
    def rules_text(self) -> str:
        """The scale rules, separated by commas."""
        return ",".join(self.scale_rules)

    def __str__(self) -> str:
        """One line that names the unit, and that the command line's options repeat."""
        extra = "" if self.beats == 1 else f" beats {self.beats}"
        extra += f" lfsr {self.seed:#x}" if self.random == "lfsr" else ""
        extra += f" scales {self.scales}" if self.divides else ""
        extra += " micro" if self.micro else ""
        extra += "" if self.select is None else f" select {self.select}"
        return (
            f"quantize {self.source.name} to {self.formats_text} x{self.block} {self.rules_text} "
            f"{self.rounding} {self.nonfinite} stages {self.stages}{extra}"
        )

    @property
    def name(self) -> str:
        """See `UnitConfig.name`."""
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
        parts += [f"b{self.beats}"] * (self.beats > 1)
        parts += [f"{self.random}_{self.seed:x}"] * (self.random == "lfsr")
        parts += [f"scales_{self.scales}"] * self.divides + ["micro"] * self.micro
        parts += [] if self.select is None else [f"select_{self.select}"]
        return "-".join(parts)

    @property
    def arguments(self) -> dict[str, Any]:
        """The constructor's arguments as plain values."""
        return {
            "formats": self.formats_text,
            "block": self.block,
            "source": self.source.name,
            "scale_rule": self.rules_text,
            "rounding": self.rounding,
            "nonfinite": self.nonfinite,
            "beats": self.beats,
            "random": self.random,
            "seed": self.seed,
            "stages": self.stages,
            "scales": self.scales,
            "micro": self.micro,
            "select": self.select,
        }

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
        """What this unit computes for the blocks of `x` along the last axis: an MXArray of MX
        formats under E8M0 scales alone, else a ScaledArray of `scheme`, which with `select` has
        selectors.

        x: values of the unit's source. words: uint32, one for each value, for stochastic rounding;
        None takes those that the shift register has after a reset. mode, rule: indices into
        `formats` and `scale_rules`. outer: with E4M3 scales float32, one for each block or one for
        all; a block under one that is not positive and finite is poisoned, and that NaN.
        TypeError or ValueError when the values do not fit the unit.
        """
        return quantize_blocks(self, x, words, mode, rule, outer)


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
