"""The output formats of a dot unit: float32, or a narrower float by one final RNE."""

from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from .errors import choice
from .trace import Trace


@dataclass(frozen=True)
class OutputFormat:
    """An IEEE-like float of 1 + exponent_bits + fraction_bits bits."""

    name: str
    exponent_bits: int
    fraction_bits: int
    dtype: np.dtype

    @property
    def bits(self) -> int:
        """Width of the result."""
        return 1 + self.exponent_bits + self.fraction_bits

    @property
    def emin(self) -> int:
        """Exponent of the smallest normal value."""
        return 2 - 2 ** (self.exponent_bits - 1)


FLOAT32 = OutputFormat("float32", 8, 23, np.dtype(np.float32))
BFLOAT16 = OutputFormat("bfloat16", 8, 7, np.dtype(ml_dtypes.bfloat16))
FLOAT16 = OutputFormat("float16", 5, 10, np.dtype(np.float16))
OUTPUTS = {f.name: f for f in (FLOAT32, BFLOAT16, FLOAT16)}


def output_format(value: OutputFormat | str) -> OutputFormat:
    """The OutputFormat of a name or of itself; ValueError lists the known names."""
    if isinstance(value, OutputFormat):
        return value
    name = value.strip().lower() if isinstance(value, str) else value
    return OUTPUTS[choice("out", name, OUTPUTS)]


def convert(x: NDArray[np.float32], out: OutputFormat) -> NDArray:
    """RNE of float32 `x`, subnormals kept, a zero +0; a NaN quiet, with its leading bits."""
    if out == FLOAT32:
        return x
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        narrow = x.astype(out.dtype) + out.dtype.type(0)  # a zero is +0
    fraction = (x.view(np.uint32) & 0x7FFFFF) >> (23 - out.fraction_bits)
    quiet_nan = (2 ** (out.exponent_bits + 1) - 1) << (out.fraction_bits - 1)
    bits = np.where(np.isnan(x), quiet_nan | fraction, narrow.view(np.uint16))
    return bits.astype(np.uint16).view(out.dtype)


def convert_trace(trace: Trace, out: OutputFormat) -> Trace:
    """`trace` with its result in `out`, the conversion's flags added to the sum's."""
    if out == FLOAT32:
        return trace
    result = convert(trace.result, out)
    wide, narrow = trace.result, result.astype(np.float32)
    finite = np.isfinite(wide)
    lost = finite & (wide != narrow)
    flags = replace(
        trace.flags,
        overflow=trace.flags.overflow | (finite & np.isinf(narrow)),
        underflow=trace.flags.underflow | (lost & (np.abs(narrow) < 2.0**out.emin)),
        inexact=trace.flags.inexact | lost,
    )
    return replace(trace, result=result, flags=flags)
