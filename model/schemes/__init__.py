"""mxdot.model.schemes: every block-scaling scheme under one description (docs/numerics.md, 6)."""

from .array import ScaledArray
from .calibrate import CALIBRATORS, calibrate
from .elements import (
    INT4_FULL,
    INT4_SYMMETRIC,
    INT8_FULL,
    INT8_SYMMETRIC,
    UINT8,
    IntegerFormat,
    sign_magnitude,
)
from .grouping import CHANNEL, TENSOR, Granularity, block, tile
from .limits import Limits
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
    "Level",
    "Limits",
    "PowerScale",
    "ScaledArray",
    "Scheme",
    "Storage",
    "bits_per_element",
    "block",
    "calibrate",
    "quantize",
    "scheme",
    "sign_magnitude",
    "storage",
    "tile",
]
