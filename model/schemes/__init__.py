"""mxdot.model.schemes: block-scaling schemes under one description (docs/numerics.md, 6 and 7)."""

from ..formats import (
    BFLOAT16,
    E1M0,
    E4M3,
    E8M0,
    FLOAT16,
    FLOAT32,
    INT4_FULL,
    INT4_SYMMETRIC,
    INT8_FULL,
    INT8_SYMMETRIC,
    UINT8,
    FloatFormat,
    IntegerFormat,
    PowerFormat,
    TableFormat,
    UnsignedFormat,
    sign_magnitude,
)
from ..matmul import matmul
from ..rounding import quotient
from .array import ScaledArray
from .calibrate import CALIBRATORS, calibrate
from .files import load, save
from .grouping import CHANNEL, TENSOR, Granularity, block, tile
from .integer import IntegerSums, integer_sums, largest_length
from .quantize import Limits, quantize
from .rules import ScaleRule, register_scale_rule
from .scheme import Level, Scheme
from .storage import PackedArray, Storage, bits_per_element, pack, storage, unpack
from .table import SCHEMES, register_scheme, scheme

__all__ = [
    "BFLOAT16",
    "CALIBRATORS",
    "CHANNEL",
    "E1M0",
    "E4M3",
    "E8M0",
    "FLOAT16",
    "FLOAT32",
    "INT4_FULL",
    "INT4_SYMMETRIC",
    "INT8_FULL",
    "INT8_SYMMETRIC",
    "SCHEMES",
    "TENSOR",
    "UINT8",
    "FloatFormat",
    "Granularity",
    "IntegerFormat",
    "IntegerSums",
    "Level",
    "Limits",
    "PackedArray",
    "PowerFormat",
    "ScaleRule",
    "ScaledArray",
    "Scheme",
    "Storage",
    "TableFormat",
    "UnsignedFormat",
    "bits_per_element",
    "block",
    "calibrate",
    "integer_sums",
    "largest_length",
    "load",
    "matmul",
    "pack",
    "quantize",
    "quotient",
    "register_scale_rule",
    "register_scheme",
    "save",
    "scheme",
    "sign_magnitude",
    "storage",
    "tile",
    "unpack",
]
