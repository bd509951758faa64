"""DotQuantizeConfig: a dot unit whose results leave as MX blocks."""

from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import ArrayLike

from .. import lfsr
from ..formats import FloatFormat
from ..schemes.array import MXArray
from .composed import ComposedUnitConfig
from .dot import DotConfig
from .quantize import STOCHASTIC, QuantizeConfig


@dataclass(frozen=True, init=False)
class DotQuantizeConfig(ComposedUnitConfig):
    """A validated dot unit with a quantiser behind it.

    dot: a dot unit with float results; its flags are left out. Every `block` results in order make
    a block of `format`, as float32 or as the narrower float that the dot unit gives; scale_rule,
    rounding, nonfinite, seed, and quantizer_stages (its `stages`) are those of `QuantizeConfig`,
    random words those of its shift register. Raises TypeError or ValueError like these two.
    """

    kind: ClassVar[str] = "dot-quantize"
    title: ClassVar[str] = "MX dot-product unit with a quantiser"
    items: ClassVar[str] = "requantised blocks"
    own_dot_keywords: ClassVar[tuple[str, ...]] = ("status", "interleave")

    dot: DotConfig
    quantizer: QuantizeConfig

    def __init__(
        self,
        dot: DotConfig,
        format: str = "e4m3",  # noqa: A002  # as MXArray calls it
        block: int = 32,
        scale_rule: str = "floor",
        rounding: str = "nearest_even",
        nonfinite: str = "poison",
        seed: int = lfsr.DEFAULT_SEED,
        quantizer_stages: int | None = None,
    ) -> None:
        if not isinstance(dot.out, FloatFormat):
            raise ValueError(f"out of dot must be a float to be quantised, not {dot.out.name}")
        quantizer = QuantizeConfig(
            format,
            block,
            dot.out,
            scale_rule,
            rounding,
            nonfinite,
            beats=block,
            random="lfsr" if rounding == STOCHASTIC else "stream",
            seed=seed,
            stages=quantizer_stages,
        )
        for name, count in (
            ("format", len(quantizer.formats)),
            ("scale_rule", len(quantizer.scale_rules)),
        ):
            if count > 1:
                raise ValueError(f"{name} behind a dot unit must be one, not {count}")
        for fmt in quantizer.formats:
            if not fmt.is_mx:
                raise ValueError(f"format behind a dot unit must be one of MX, not {fmt}")
        if dot.interleave > 1:
            raise ValueError(f"interleave in a {self.kind} unit must be 1, not {dot.interleave}")
        arguments: dict[str, Any] = {**dot.arguments, "status": False}
        vars(self).update(dot=DotConfig(**arguments), quantizer=quantizer)  # frozen

    @property
    def latency(self) -> int:
        """Cycles from the last block of a block's last dot product to its first code."""
        return self.dot.latency + self.quantizer.latency

    def __str__(self) -> str:
        """One line that names the unit."""
        return f"{self.dot}, {self.quantizer}"

    @property
    def name(self) -> str:
        """See `UnitConfig.name`."""
        quantizer = self.quantizer
        parts = ["dot-quantize", self.dot.name.replace("-nostatus", ""), "to"]
        parts += [quantizer.formats_text, f"x{quantizer.block}", f"s{quantizer.stages}"]
        parts += [*quantizer.scale_rules]
        parts += [quantizer.rounding] * (quantizer.rounding == "toward_zero")
        parts += [quantizer.nonfinite] * (quantizer.nonfinite != "poison")
        parts += [f"lfsr_{quantizer.seed:x}"] * quantizer.is_stochastic
        return "-".join(parts)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of `of` as plain values."""
        names = ("block", "scale_rule", "rounding", "nonfinite", "seed")
        chosen = self.quantizer.arguments
        return {
            "dot": self.dot.arguments,
            "format": self.quantizer.formats_text,
            **{name: chosen[name] for name in names},
            "quantizer_stages": self.quantizer.stages,
        }

    def compute(self, a: MXArray, b: MXArray, c: ArrayLike | None = None) -> MXArray:
        """The blocks of the results of `DotConfig.dot`: n dot products in order, from a reset on.

        n must be a multiple of `block`.
        """
        made = self.quantizer.quantize(self.dot.dot(a, b, c).result)
        assert isinstance(made, MXArray)  # of MX formats under E8M0 scales alone
        return made
