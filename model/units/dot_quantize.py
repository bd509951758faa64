"""DotQuantizeConfig: a dot unit whose results leave as MX blocks."""

from dataclasses import replace
from functools import cached_property
from typing import ClassVar

from numpy.typing import ArrayLike

from ..formats import FloatFormat
from ..schemes.array import MXArray
from .dot import ComposedUnitConfig, DotConfig
from .options import option, resolved, shared, unit
from .quantize import STOCHASTIC, QuantizeConfig


@unit
class DotQuantizeConfig(ComposedUnitConfig):
    """A validated dot unit followed by a quantiser.

    Every `block` results in order make a block of `format`, from float32 or the narrower float that
    the dot unit gives. Random words are those of the quantiser's shift register. Raises TypeError
    or ValueError like `DotConfig` and `QuantizeConfig`.

    dot: a dot unit with float results; its flags are left out.
    """

    kind: ClassVar[str] = "dot-quantize"
    title: ClassVar[str] = "MX dot-product unit with a quantiser"
    items: ClassVar[str] = "requantised blocks"
    own_dot_keywords: ClassVar[tuple[str, ...]] = ("status", "interleave")

    dot: DotConfig
    format: str = option(
        default="e4m3", flag="--to", metavar="F", help="element format of the results' blocks"
    )
    block: int = shared(QuantizeConfig, "block")
    scale_rule: str = shared(QuantizeConfig, "scale_rule")
    rounding: str = shared(QuantizeConfig, "rounding")
    nonfinite: str = shared(QuantizeConfig, "nonfinite")
    seed: int = shared(QuantizeConfig, "seed")
    quantizer_stages: int = option(
        default=None, parse=int, converter=resolved, joint=True, help="the quantiser's registers"
    )

    def _resolve(self) -> None:
        dot = self.dot
        if not isinstance(dot.out, FloatFormat):
            raise ValueError(f"out of dot must be a float to be quantised, not {dot.out.name}")
        quantizer = self.quantizer
        for name, count in (
            ("format", len(quantizer.formats)),
            ("scale_rule", len(quantizer.scale_rules)),
        ):
            if count > 1:
                raise ValueError(f"{name} after a dot unit must be one, not {count}")
        for fmt in quantizer.formats:
            if not fmt.is_mx:
                raise ValueError(f"format after a dot unit must be one of MX, not {fmt}")
        if dot.interleave > 1:
            raise ValueError(f"interleave in a {self.kind} unit must be 1, not {dot.interleave}")
        vars(self).update(  # the dataclass is frozen
            dot=replace(dot, status=False),
            format=quantizer.formats_text,
            scale_rule=quantizer.scale_rule,
            quantizer_stages=quantizer.stages,
        )

    @cached_property
    def quantizer(self) -> QuantizeConfig:
        """The quantiser of the results."""
        assert isinstance(self.dot.out, FloatFormat)  # others are refused
        return QuantizeConfig(
            self.format,
            self.block,
            self.dot.out,
            self.scale_rule,
            self.rounding,
            self.nonfinite,
            beats=self.block,
            random="lfsr" if self.rounding == STOCHASTIC else "stream",
            seed=self.seed,
            stages=self.quantizer_stages,
        )

    @property
    def latency(self) -> int:
        """Cycles from the last block of a block's last dot product to its first code."""
        return self.dot.latency + self.quantizer.latency

    def __str__(self) -> str:
        """One line that names the unit."""
        return f"{self.dot}, {self.quantizer}"

    @property
    def name(self) -> str:
        quantizer = self.quantizer
        parts = ["dot-quantize", self.dot.name.replace("-nostatus", ""), "to"]
        parts += [quantizer.formats_text, f"x{quantizer.block}", f"s{quantizer.stages}"]
        parts += [*quantizer.scale_rules]
        parts += [quantizer.rounding] * (quantizer.rounding == "toward_zero")
        parts += [quantizer.nonfinite] * (quantizer.nonfinite != "poison")
        parts += [f"lfsr_{quantizer.seed:x}"] * quantizer.is_stochastic
        return "-".join(parts)

    def compute(self, a: MXArray, b: MXArray, c: ArrayLike | None = None) -> MXArray:
        """The blocks of the results of `DotConfig.dot`: n dot products in order, from a reset on.

        n must be a multiple of `block`.
        """
        made = self.quantizer.quantize(self.dot.dot(a, b, c).result)
        assert isinstance(made, MXArray)  # of MX formats under E8M0 scales alone
        return made
