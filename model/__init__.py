"""mxdot.model: the numeric contract in NumPy, the golden model of every executor."""

from . import schemes
from .accumulators import (
    PRESETS,
    Accumulator,
    Aligned,
    Exact,
    Fixed,
    Float32,
    Fused,
    Int32,
    Preset,
    accumulator,
)
from .dot import dot
from .formats import (
    BF16,
    E2M1,
    E2M3,
    E3M2,
    E4M3,
    E4M3FNUZ,
    E5M2,
    E5M2FNUZ,
    E8M0,
    FORMATS,
    FP16,
    INT4,
    INT8,
    MX_FORMATS,
    TF32,
    ElementFormat,
    ScaleFormat,
    element_format,
)
from .formats.pairs import format_pairs
from .matmul import matmul
from .packing import pack, unpack
from .quantize import quantize, unscaled
from .schemes.array import MXArray
from .trace import Flags, Trace
from .units import DotConfig, DotQuantizeConfig, MatmulConfig, QuantizeConfig

__all__ = [
    "BF16",
    "E2M1",
    "E2M3",
    "E3M2",
    "E4M3",
    "E4M3FNUZ",
    "E5M2",
    "E5M2FNUZ",
    "E8M0",
    "FORMATS",
    "FP16",
    "INT4",
    "INT8",
    "MX_FORMATS",
    "PRESETS",
    "TF32",
    "Accumulator",
    "Aligned",
    "DotConfig",
    "DotQuantizeConfig",
    "ElementFormat",
    "Exact",
    "Fixed",
    "Flags",
    "Float32",
    "Fused",
    "Int32",
    "MXArray",
    "MatmulConfig",
    "Preset",
    "QuantizeConfig",
    "ScaleFormat",
    "Trace",
    "accumulator",
    "dot",
    "element_format",
    "format_pairs",
    "matmul",
    "pack",
    "quantize",
    "schemes",
    "unpack",
    "unscaled",
]
