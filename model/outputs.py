"""Output formats of a dot unit: float32, a narrower float by one final RNE, or from an INT32 sum.

A unit with an INT32 sum returns the sum, a requantised integer or a scaled float (section 8 of
docs/numerics.md).
"""

import re
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .errors import choice, integer
from .formats import BFLOAT16, FLOAT16, FLOAT32, INT32, FloatFormat, IntegerFormat
from .requantize import (
    INTEGERS,
    LARGEST_SHIFT_ALONE,
    LEAST_MULTIPLIER_BITS,
    MULTIPLIER_BITS,
    SHIFT_BITS,
)
from .trace import Trace

MULTIPLY, SHIFT, SCALE = "multiply", "shift", "scale"


@dataclass(frozen=True)
class IntegerOutput:
    """The INT32 sum (`format` None), or the sum as an integer or a float of `format`.

    rescale: ``multiply``, a multiplier and a rounding right shift; ``shift``, only the shift; or
    ``scale`` for floats, the product with a float32. multiplier_bits: width of the unsigned
    multiplier, 4 to 31.
    """

    format: IntegerFormat | FloatFormat | None = None
    rescale: str | None = None
    multiplier_bits: int = MULTIPLIER_BITS

    def __post_init__(self) -> None:
        integer("multiplier_bits", self.multiplier_bits, LEAST_MULTIPLIER_BITS, MULTIPLIER_BITS)
        if self.rescale != MULTIPLY and self.multiplier_bits != MULTIPLIER_BITS:
            raise ValueError(
                f"multiplier_bits must be {MULTIPLIER_BITS} without a multiplier, "
                f"not {self.multiplier_bits}"
            )

    @property
    def name(self) -> str:
        """Text of the output: ``int32``, ``int8_full:multiply:16``, ``float16:scale``."""
        if self.format is None:
            return INT32.name
        narrow = self.multiplier_bits != MULTIPLIER_BITS
        return f"{self.format}:{self.rescale}" + f":{self.multiplier_bits}" * narrow

    @property
    def bits(self) -> int:
        """Width of the result."""
        return INT32.bits if self.format is None else self.format.bits

    @property
    def parameters(self) -> dict[str, int]:
        """Widths of the inputs that the rescaling needs, by name."""
        if self.format is None:
            return {}
        if self.rescale == SCALE:
            return {"result_scale": FLOAT32.bits}
        if self.rescale == SHIFT:
            return {"shift": LARGEST_SHIFT_ALONE.bit_length(), "zero_out": self.format.bits}
        bits = self.multiplier_bits
        return {"multiplier": bits, "shift": SHIFT_BITS, "zero_out": self.format.bits}


OUTPUTS = {f.name: f for f in (FLOAT32, BFLOAT16, FLOAT16)}
INTEGER_OUTPUTS = {
    f.name: f
    for f in (
        IntegerOutput(),
        *(IntegerOutput(fmt, rule) for fmt in INTEGERS.values() for rule in (MULTIPLY, SHIFT)),
        *(IntegerOutput(fmt, SCALE) for fmt in OUTPUTS.values()),
    )
}


def output_format(value: FloatFormat | IntegerOutput | str) -> FloatFormat | IntegerOutput:
    """The output with a name, or `value` itself; ValueError lists the names."""
    if isinstance(value, IntegerOutput):
        return value
    if isinstance(value, FloatFormat) and value in OUTPUTS.values():
        return value
    name = value.strip().lower() if isinstance(value, str) else value
    if isinstance(name, str) and name in INTEGER_OUTPUTS:
        return INTEGER_OUTPUTS[name]
    if isinstance(name, str):
        plain, _, bits = name.rpartition(":")
        if (
            plain.endswith(f":{MULTIPLY}")
            and plain in INTEGER_OUTPUTS
            and re.fullmatch("[0-9]{1,9}", bits)
        ):
            return replace(INTEGER_OUTPUTS[plain], multiplier_bits=int(bits))
    scaled = f"FLOAT:scale (FORMAT {', '.join(INTEGERS)})"
    known = (*OUTPUTS, INT32.name, "FORMAT:multiply[:BITS]", "FORMAT:shift", scaled)
    return OUTPUTS[choice("out", name, known)]


def result_float(out: FloatFormat | IntegerOutput) -> FloatFormat | None:
    """The float format of results; None where they are integers."""
    fmt = out.format if isinstance(out, IntegerOutput) else out
    return fmt if isinstance(fmt, FloatFormat) else None


def convert(x: NDArray[np.float32], out: FloatFormat) -> NDArray:
    """RNE of float32 `x`, with subnormals; a zero is +0, a NaN is quiet and keeps leading bits."""
    if out == FLOAT32:
        return x
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        narrow = x.astype(out.dtype) + out.dtype.type(0)  # a zero is +0
    assert out.nan_code is not None
    fraction = x.view(np.uint32) % 2**FLOAT32.mantissa_bits
    nan = out.nan_code | fraction >> (FLOAT32.mantissa_bits - out.mantissa_bits)
    bits = np.where(np.isnan(x), nan, narrow.view(np.uint16))
    return bits.astype(np.uint16).view(out.dtype)


def convert_trace(trace: Trace, out: FloatFormat) -> Trace:
    """`trace` with its result in `out`, and with the flags of this conversion."""
    if out == FLOAT32:
        return trace
    result = convert(trace.result, out)
    wide, narrow = trace.result, result.astype(np.float32)
    finite = np.isfinite(wide)
    inexact = finite & (wide != narrow)
    flags = replace(
        trace.flags,
        overflow=trace.flags.overflow | (finite & np.isinf(narrow)),
        underflow=trace.flags.underflow | (inexact & (np.abs(narrow) < out.smallest_normal)),
        inexact=trace.flags.inexact | inexact,
    )
    return replace(trace, result=result, flags=flags)
