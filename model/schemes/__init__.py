"""mxdot.model.schemes: block-scaling schemes under one description (docs/numerics.md, 6 and 7)."""

from ..formats import (
    INT4_FULL,
    INT4_SYMMETRIC,
    INT8_FULL,
    INT8_SYMMETRIC,
    UINT8,
    IntegerFormat,
    sign_magnitude,
)
from .array import ScaledArray
from .calibrate import CALIBRATORS, calibrate
from .files import load, save
from .grouping import CHANNEL, TENSOR, Granularity, block, tile
from .integer import IntegerSums, integer_sums, largest_length
from .limits import Limits
from .packing import PackedArray, pack, unpack
from .products import matmul
from .quantize import quantize
from .scales import (
    BFLOAT16_SCALE,
    E1M0_SCALE,
    E4M3_SCALE,
    E8M0_SCALE,
    FLOAT16_SCALE,
    FLOAT32_SCALE,
    FloatScale,
    IntegerScale,
    PowerScale,
)
from .scheme import Level, Scheme
from .storage import Storage, bits_per_element, storage
from .table import SCHEMES, scheme

__all__ = [
    "BFLOAT16_SCALE",
    "CALIBRATORS",
    "CHANNEL",
    "E1M0_SCALE",
    "E4M3_SCALE",
    "E8M0_SCALE",
    "FLOAT16_SCALE",
    "FLOAT32_SCALE",
    "INT4_FULL",
    "INT4_SYMMETRIC",
    "INT8_FULL",
    "INT8_SYMMETRIC",
    "SCHEMES",
    "TENSOR",
    "UINT8",
    "FloatScale",
    "Granularity",
    "IntegerFormat",
    "IntegerScale",
    "IntegerSums",
    "Level",
    "Limits",
    "PackedArray",
    "PowerScale",
    "ScaledArray",
    "Scheme",
    "Storage",
    "bits_per_element",
    "block",
    "calibrate",
    "integer_sums",
    "largest_length",
    "load",
    "matmul",
    "pack",
    "quantize",
    "save",
    "scheme",
    "sign_magnitude",
    "storage",
    "tile",
    "unpack",
]
