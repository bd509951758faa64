"""The accumulators and presets as data: the one definition that every executor, the command line
and the documentation read. The rules are those of the numeric contract, docs/numerics.md.

To add an accumulator, add a dataclass here, register it in `KINDS`, and give it a rule in
model/rules.py, sections in model/datapath.py and a datapath in hw/dot/. To add a real machine,
add a row to `PRESETS`.
"""

import re
from dataclasses import dataclass, fields, replace
from typing import ClassVar

from .errors import choice, integer
from .formats import FLOAT32, ElementFormat

NAN_DEFAULT = FLOAT32.nan_code
NAN_NVIDIA = 0x7FFFFFFF
MAX_FRACTION_BITS = 64


@dataclass(frozen=True)
class Accumulator:
    """Base of all accumulators; `str()` gives the text that `accumulator()` parses."""

    syntax: ClassVar[str]
    summary: ClassVar[str]

    @property
    def rule(self) -> str:
        """The rule in one line, for tables."""
        return self.summary

    @property
    def nan_bits(self) -> int:
        """The float32 bit pattern of every NaN result."""
        return NAN_DEFAULT

    @property
    def keyword(self) -> str:
        """The first word of the text."""
        return self.syntax.split(":")[0]

    def __str__(self) -> str:
        return ":".join([self.keyword, *(str(getattr(self, f.name)) for f in fields(self))])

    def check_formats(self, a: ElementFormat, b: ElementFormat) -> None:
        """ValueError when the accumulator is not defined for products of these formats."""

    def steps(self, lanes: int) -> int:
        """Steps in which a block of `lanes` elements is taken."""
        return 1

    def _check(self, field: str, name: str, low: int, high: int) -> None:
        """Make a field a Python int in its range; TypeError or ValueError calls it `name`."""
        vars(self)[field] = integer(name, getattr(self, field), low, high)


@dataclass(frozen=True)
class Exact(Accumulator):
    """An exact block sum, added to c with one rounding."""

    syntax = "exact"
    summary = "c' = RNE(c + 2^s x sum p), one rounding per block"


@dataclass(frozen=True)
class Aligned(Accumulator):
    """Terms truncated `fraction_bits` (0 to 64) below the largest product's unit digit."""

    fraction_bits: int
    syntax = "aligned:F"
    summary = "terms cut F bits below the largest product's unit digit; RZ block sum; RNE into c"

    def __post_init__(self) -> None:
        self._check("fraction_bits", "F of aligned", 0, MAX_FRACTION_BITS)


@dataclass(frozen=True)
class Fused(Accumulator):
    """As Aligned, with the scale and c inside the alignment."""

    fraction_bits: int
    syntax = "fused:F"
    summary = "as aligned:F, with the scale and c inside the alignment; RZ result"

    def __post_init__(self) -> None:
        self._check("fraction_bits", "F of fused", 0, MAX_FRACTION_BITS)


@dataclass(frozen=True)
class Fixed(Accumulator):
    """A `width`-bit (2 to 1024) register in units of 2^`lsb` (-1024 to 1023).

    `overflow` is ``saturate`` or ``wrap``.
    """

    width: int
    lsb: int
    overflow: str = "saturate"
    syntax = "fixed:W:L[:wrap]"
    summary = "W-bit two's-complement register in units of 2^L; saturates or wraps; RNE result"

    def __post_init__(self) -> None:
        self._check("width", "W of fixed", 2, 1024)
        self._check("lsb", "L of fixed", -1024, 1023)
        choice("overflow of fixed", self.overflow, ("saturate", "wrap"))

    def __str__(self) -> str:
        text = f"fixed:{self.width}:{self.lsb}"
        return text if self.overflow == "saturate" else f"{text}:wrap"


@dataclass(frozen=True)
class Float32(Accumulator):
    """A tree of float32 additions."""

    syntax = "float32"
    summary = "float32 RNE tree of adjacent pairs inside the block; RNE into c"


@dataclass(frozen=True)
class Int32(Accumulator):
    """The exact integer sum of a block of INT8 products."""

    syntax = "int32"
    summary = "exact 32-bit integer block sum (integer formats only); RNE into c"

    def check_formats(self, a: ElementFormat, b: ElementFormat) -> None:
        """ValueError unless both formats are integers."""
        if not (a.is_integer and b.is_integer):
            raise ValueError(
                f"accumulator int32 takes integer formats only, not {a.name} x {b.name}"
            )


@dataclass(frozen=True, kw_only=True)
class Preset(Accumulator):
    """A real machine: `fused:fraction_bits` applied to steps of up to `terms` elements of a block.

    terms: a power of two up to 128. result_bits: fraction bits of each step's result (23: float32;
    fewer are truncated toward zero). nan: the bits of a NaN result. promote: the number of elements
    (a power of two, at least `terms`) after which the partial sum, started from +0, is added to c
    by RNE ("slow accumulation"); None accumulates in c itself. source: where the facts are from.
    """

    name: str
    terms: int
    fraction_bits: int
    result_bits: int
    nan: int
    promote: int | None = None
    source: str
    syntax = "preset"

    def __post_init__(self) -> None:
        self._check("terms", f"terms of {self.name}", 1, 128)
        self._check("fraction_bits", f"fraction_bits of {self.name}", 0, MAX_FRACTION_BITS)
        self._check("result_bits", f"result_bits of {self.name}", 0, FLOAT32.mantissa_bits)
        self._check("nan", f"nan of {self.name}", FLOAT32.largest_code + 2, 2**31 - 1)
        if self.promote is not None:
            self._check("promote", f"promote of {self.name}", self.terms, 2**16)
        for field in ("terms", "promote"):
            value = getattr(self, field) or 1
            if value & (value - 1):
                raise ValueError(f"{field} of {self.name} must be a power of two, not {value}")

    @property
    def nan_bits(self) -> int:
        """The float32 bit pattern of every NaN result."""
        return self.nan

    def steps(self, lanes: int) -> int:
        """Steps in which a block of `lanes` elements is taken."""
        return -(-lanes // self.terms)

    @property
    def rule(self) -> str:
        """The rule in one line, for tables."""
        text = f"fused:{self.fraction_bits} in steps of {self.terms} terms"
        if self.result_bits < FLOAT32.mantissa_bits:
            text += f", results RZ to {self.result_bits} fraction bits"
        if self.promote:
            text += f", promoted by a float32 RNE add every {self.promote} elements"
        return text

    def __str__(self) -> str:
        return self.name


_HOPPER = Preset(
    name="hopper",
    terms=32,
    fraction_bits=13,
    result_bits=13,
    nan=NAN_NVIDIA,
    source="H100/H200 FP8 wgmma, measured on an H200",
)
PRESETS = {
    preset.name: preset
    for preset in (
        _HOPPER,
        replace(
            _HOPPER,
            name="hopper-promoted",
            promote=128,
            source="H100/H200 FP8 wgmma with slow accumulation, measured on an H200",
        ),
        replace(
            _HOPPER,
            name="hopper-mx",
            promote=32,
            source="H100/H200 FP8 wgmma from 0 for each 32 elements, measured on an H200",
        ),
        Preset(
            name="hopper-fp16",
            terms=16,
            fraction_bits=25,
            result_bits=FLOAT32.mantissa_bits,
            nan=NAN_NVIDIA,
            source="H100/H200 FP16 wgmma and mma.sync, measured on an H200 with E5M2 values",
        ),
        replace(
            _HOPPER,
            name="ada",
            terms=16,
            source="Ada FP8, checked against 20,000 published results of Ada GPUs",
        ),
        Preset(
            name="blackwell",
            terms=32,
            fraction_bits=25,
            result_bits=FLOAT32.mantissa_bits,
            nan=NAN_NVIDIA,
            source="Blackwell tcgen05, block-scaled `kind::mxf8f6f4` and unscaled FP8; neither "
            "`kind::mxf4nvf4` nor the B200's `mma.sync` (published bit-level studies)",
        ),
    )
}
KINDS: dict[str, type[Accumulator]] = {
    kind.syntax.split(":")[0]: kind for kind in (Exact, Aligned, Fused, Fixed, Float32, Int32)
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
        accepted = ", ".join([*(kind.syntax for kind in KINDS.values()), *PRESETS])
        raise ValueError(f"accumulator must be one of {accepted}, not {value!r}") from None


def _arguments(keyword: str, texts: list[str]) -> list[int | str]:
    for number in texts[:2]:
        if not re.fullmatch(r"-?[0-9]+", number):
            raise TypeError(f"{number!r} is no integer")
    return [*map(int, texts[:2]), *texts[2:]]
