"""The accumulators and presets as data: the one definition that every executor, the command line
and the documentation read. The rules are those of the numeric contract, docs/numerics.md.

To add an accumulator, add a dataclass here, register it in `KINDS`, and give it a rule in
model/rules.py, sections in model/pipeline.py and a datapath in hw/sections/. To add a real machine,
add a row to `PRESETS`.
"""

from dataclasses import dataclass, fields
from typing import ClassVar

from .errors import choice, integer
from .formats import ElementFormat

NAN_DEFAULT = 0x7FC00000
NAN_NVIDIA = 0x7FFFFFFF


@dataclass(frozen=True)
class Accumulator:
    """Base of all accumulators; `str()` gives the text that `accumulator()` parses."""

    keyword: ClassVar[str]

    @property
    def rule(self) -> str:
        """The rule in one line, for tables: the first line of the class's docstring."""
        return (self.__doc__ or "").split("\n")[0]

    @property
    def nan_bits(self) -> int:
        """The float32 bit pattern of every NaN result."""
        return NAN_DEFAULT

    def __str__(self) -> str:
        return ":".join([self.keyword, *(str(getattr(self, f.name)) for f in fields(self))])

    def check_formats(self, a: ElementFormat, b: ElementFormat) -> None:
        """ValueError when the accumulator is not defined for products of these formats."""


@dataclass(frozen=True)
class Exact(Accumulator):
    """c' = RNE(c + 2^s x sum p), one rounding per block."""

    keyword = "exact"


@dataclass(frozen=True)
class Aligned(Accumulator):
    """Terms truncated F bits below the largest product's unit digit; RZ block sum; RNE into c."""

    fraction_bits: int
    keyword = "aligned"

    def __post_init__(self) -> None:
        integer("F of aligned", self.fraction_bits, 0, 64)


@dataclass(frozen=True)
class Fused(Accumulator):
    """As aligned:F, with the scale and c inside the alignment; RZ result."""

    fraction_bits: int
    keyword = "fused"

    def __post_init__(self) -> None:
        integer("F of fused", self.fraction_bits, 0, 64)


@dataclass(frozen=True)
class Fixed(Accumulator):
    """W-bit two's-complement register in units of 2^L; saturates or wraps; RNE result."""

    width: int
    lsb: int
    overflow: str = "saturate"
    keyword = "fixed"

    def __post_init__(self) -> None:
        integer("W of fixed", self.width, 2, 1024)
        integer("L of fixed", self.lsb, -1024, 1023)
        choice("overflow of fixed", self.overflow, ("saturate", "wrap"))

    def __str__(self) -> str:
        text = f"fixed:{self.width}:{self.lsb}"
        return text if self.overflow == "saturate" else f"{text}:wrap"


@dataclass(frozen=True)
class Float32(Accumulator):
    """float32 RNE tree of adjacent pairs inside the block, then RNE into c."""

    keyword = "float32"


@dataclass(frozen=True)
class Int32(Accumulator):
    """Exact 32-bit integer block sum (INT8 x INT8 only), then RNE into c."""

    keyword = "int32"

    def check_formats(self, a: ElementFormat, b: ElementFormat) -> None:
        """ValueError unless both formats are integers."""
        if not (a.is_integer and b.is_integer):
            raise ValueError(
                f"accumulator int32 takes formats int8 x int8 only, not {a.name} x {b.name}"
            )


@dataclass(frozen=True)
class Preset(Accumulator):
    """A real machine: `fused:fraction_bits` applied to steps of up to `terms` elements of a block.

    `result_bits` is the number of fraction bits of each step's result (23: float32; fewer are
    truncated toward zero). `promote` is the number of elements after which the partial sum, started
    from +0, is added to c by RNE ("slow accumulation"); None accumulates in c itself.
    """

    name: str
    terms: int
    fraction_bits: int
    result_bits: int
    nan: int
    promote: int | None
    source: str
    keyword = "preset"

    @property
    def nan_bits(self) -> int:
        """The float32 bit pattern of every NaN result."""
        return self.nan

    @property
    def rule(self) -> str:
        """The rule in one line, for tables."""
        text = f"fused:{self.fraction_bits} in steps of {self.terms} terms"
        if self.result_bits < 23:
            text += f", results RZ to {self.result_bits} fraction bits"
        if self.promote:
            text += f", promoted by a float32 RNE add every {self.promote} elements"
        return text

    def __str__(self) -> str:
        return self.name


PRESETS = {
    p.name: p
    for p in (
        Preset("hopper", 32, 13, 13, NAN_NVIDIA, None, "H100/H200 FP8 wgmma, measured on an H200"),
        Preset(
            "hopper-promoted",
            32,
            13,
            13,
            NAN_NVIDIA,
            128,
            "H100/H200 FP8 wgmma with slow accumulation, measured on an H200",
        ),
        Preset("ada", 16, 13, 13, NAN_NVIDIA, None, "Ada FP8 (published bit-level studies)"),
        Preset(
            "blackwell",
            32,
            25,
            23,
            NAN_NVIDIA,
            None,
            "Blackwell MXFP8/6/4 block-scaled MMA (published bit-level studies)",
        ),
    )
}

KINDS: dict[str, type[Accumulator]] = {
    c.keyword: c for c in (Exact, Aligned, Fused, Fixed, Float32, Int32)
}
SYNTAX = {
    "exact": "exact",
    "aligned": "aligned:F",
    "fused": "fused:F",
    "fixed": "fixed:W:L[:wrap]",
    "float32": "float32",
    "int32": "int32",
}


def accumulator(value: Accumulator | str) -> Accumulator:
    """The accumulator of its text (``"aligned:13"``, ``"fixed:48:-20"``, ``"hopper"``) or itself.

    Raises ValueError naming the text and what is accepted, TypeError for another type.
    """
    if isinstance(value, Accumulator):
        return value
    if not isinstance(value, str):
        raise TypeError(f"accumulator must be an Accumulator or its text, not {value!r}")
    keyword, *arguments = value.strip().lower().split(":")
    if keyword in PRESETS and not arguments:
        return PRESETS[keyword]
    try:
        return KINDS[keyword](*_arguments(keyword, arguments))
    except (KeyError, TypeError):
        accepted = ", ".join([*SYNTAX.values(), *PRESETS])
        raise ValueError(f"accumulator must be one of {accepted}, not {value!r}") from None


def _arguments(keyword: str, texts: list[str]) -> list[int | str]:
    try:
        return [t if keyword == "fixed" and i == 2 else int(t) for i, t in enumerate(texts)]
    except ValueError:
        raise TypeError(f"not integers: {texts}") from None
