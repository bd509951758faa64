"""QuantizeConfig: the one description of a quantiser, for model, RTL and command line."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import lfsr
from ..errors import choice, integer
from ..formats import MX_FORMATS, ROUNDINGS, ElementFormat, FloatFormat, element_format
from ..outputs import OUTPUTS
from ..pipeline import Pipeline, Section, place, stage_limits
from ..quantize import NONFINITE, SCALE_RULES, quantize
from ..schemes.array import MXArray
from .base import UnitConfig, block_size, stage_count

RANDOM = ("stream", "lfsr")
STOCHASTIC = "stochastic"
MOST_BITS = 8  # of an element


@dataclass(frozen=True, init=False)
class QuantizeConfig(UnitConfig):
    """A validated quantiser: blocks of floats to MX codes and one E8M0 scale.

    ==============  ===========================  ==================================================
    parameter       legal values                 effect
    ==============  ===========================  ==================================================
    `formats`       element formats              several add a mode input, which selects one
    `block`         4, 8, 16, 32, 64, 128        elements of a block; area grows linearly
    `source`        float32, bfloat16, float16   the values' type, and the width of the comparators
    `scale_rule`    floor, ceil, even            several add an input, which selects one
    `rounding`      nearest_even, toward_zero,   stochastic adds 32 fraction bits and an adder to
                    stochastic                   each lane
    `nonfinite`     poison, element              what NaN and infinity become
    `beats`         1, 2, 4, ... `block`         transfers of a block, each of block / beats values;
                                                 more than one add a buffer of two blocks
    `random`        stream, lfsr                 random words come with the values, or from a shift
                                                 register inside (stochastic only)
    `seed`          1 to 2^32 - 1                the shift register's state after a reset
    `stages`        limits depend on `block`     registers from input to output = latency in cycles;
                    and `beats`                  None takes 4 or the nearest legal number
    ==============  ===========================  ==================================================

    `formats` and `scale_rule` are a name, or several as text with commas or as a sequence. Raises
    TypeError or ValueError, naming the parameter, its range and the value.
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

    def __init__(
        self,
        formats: str | ElementFormat | Sequence = "e4m3",
        block: int = 32,
        source: FloatFormat | str = "float32",
        scale_rule: str | Sequence[str] = "floor",
        rounding: str = "nearest_even",
        nonfinite: str = "poison",
        beats: int = 1,
        random: str = "stream",
        seed: int = lfsr.DEFAULT_SEED,
        stages: int | None = None,
    ) -> None:
        chosen = tuple(element_format(item, "formats") for item in _items("formats", formats))
        for fmt in chosen:
            if fmt.bits > MOST_BITS:
                raise ValueError(
                    f"formats of a quantiser must have at most {MOST_BITS} bits, not those of {fmt}"
                )
        rules = tuple(
            choice("scale_rule", r, SCALE_RULES) for r in _items("scale_rule", scale_rule)
        )
        block_size("block", block)
        source = source.name if isinstance(source, FloatFormat) else source
        source = OUTPUTS[choice("source", source, OUTPUTS)]
        choice("rounding", rounding, ROUNDINGS)
        choice("nonfinite", nonfinite, NONFINITE)
        choice("random", random, RANDOM)
        if random == "lfsr" and rounding != STOCHASTIC:
            raise ValueError(f"random must be stream with rounding {rounding}, not lfsr")
        allowed = [2**i for i in range(block.bit_length())]
        if type(beats) is not int or beats not in allowed:
            known = ", ".join(map(str, allowed))
            raise ValueError(f"beats of blocks of {block} must be one of {known}, not {beats!r}")
        seed = integer("seed", seed, 1, 2**lfsr.WORD_BITS - 1)
        limits = 1, stage_limits(_sections(block // beats, beats))[1]
        stages = stage_count(f"stages of blocks of {block} in {beats} beats", stages, limits)
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
            stages=stages,
        )

    @cached_property
    def pipeline(self) -> Pipeline:
        """The sections of the datapath and where their registers stand."""
        return place(_sections(self.lanes, self.beats), self.stages)

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
        """Width of the mode input; 0 when there is one format and no such input."""
        return (len(self.formats) - 1).bit_length()

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
        }

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
    ) -> MXArray:
        """What this unit computes for the blocks of `x` along the last axis, by `quantize`.

        x: values of the unit's source. words: uint32, one for each value, for stochastic rounding;
        None takes those that the shift register has after a reset. mode, rule: indices into
        `formats` and `scale_rules`. TypeError or ValueError when the values do not fit the unit.
        """
        x = np.asarray(x)
        if x.dtype != self.source.dtype:
            raise TypeError(f"x must be {self.source.name}, the unit's source, not {x.dtype}")
        integer("mode", mode, 0, len(self.formats) - 1)
        integer("rule", rule, 0, len(self.scale_rules) - 1)
        if words is None and self.is_stochastic and not self.word_bits:
            words = self.random_words(x.size // self.block).reshape(x.shape)
        return quantize(
            x,
            self.formats[mode],
            block_size=self.block,
            scale_rule=self.scale_rules[rule],
            rounding=self.rounding,
            nonfinite=self.nonfinite,
            rng=words,
        )


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


def _sections(lanes: int, beats: int) -> tuple[Section, ...]:
    """The datapath: `lanes` values a beat. Delays are rough gate levels of a quantiser alone."""
    levels = (lanes - 1).bit_length()
    return (
        Section("classify", 5),
        *(Section("largest", 12, i + 1) for i in range(levels)),
        *([Section("collect", 14, holds=True)] if beats > 1 else []),
        Section("scale", 14),
        Section("align", 26),
        Section("encode", 20),
    )
