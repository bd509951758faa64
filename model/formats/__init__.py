"""The formats of numbers as data: of elements, scales, results and running values.

Every format has a `name`, `bits`, `significand_bits` with `mantissa_bits` behind the leading one,
exponents from `emin` to `emax`, the `smallest` positive and the `largest_finite` value, `nan_code`
(None where it has none), the `dtype` in which NumPy keeps it, `exact` values of what is stored, and
a way to `encode`.

    floating.py  a sign, an exponent and a mantissa
    integer.py   integers times a power of two
    power.py     powers of two alone
    table.py     the formats by name: to add one, add a row
"""

from .codes import LONGEST_CODE, ROUNDINGS, Specials, Triple, read_only
from .floating import FloatFormat
from .integer import IntegerFormat, UnsignedFormat, sign_magnitude
from .power import PowerFormat
from .table import (
    BF16,
    BFLOAT16,
    BLOCK_SCALES,
    E1M0,
    E2M1,
    E2M3,
    E3M2,
    E4M3,
    E4M3FNUZ,
    E5M2,
    E5M2FNUZ,
    E8M0,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    FORMATS,
    FP16,
    INT3,
    INT4,
    INT4_FULL,
    INT4_SYMMETRIC,
    INT5,
    INT8,
    INT8_FULL,
    INT8_SYMMETRIC,
    INT32,
    MX_FORMATS,
    SCALE_FORMATS,
    TF32,
    UINT8,
    ElementFormat,
    ScaleFormat,
    block_scale_bits,
    element_format,
    flushed,
    is_scale_format,
    scale_format,
)

__all__ = [
    "BF16",
    "BFLOAT16",
    "BLOCK_SCALES",
    "E1M0",
    "E2M1",
    "E2M3",
    "E3M2",
    "E4M3",
    "E4M3FNUZ",
    "E5M2",
    "E5M2FNUZ",
    "E8M0",
    "FLOAT16",
    "FLOAT32",
    "FLOAT64",
    "FORMATS",
    "FP16",
    "INT3",
    "INT4",
    "INT4_FULL",
    "INT4_SYMMETRIC",
    "INT5",
    "INT8",
    "INT8_FULL",
    "INT8_SYMMETRIC",
    "INT32",
    "LONGEST_CODE",
    "MX_FORMATS",
    "ROUNDINGS",
    "SCALE_FORMATS",
    "TF32",
    "UINT8",
    "ElementFormat",
    "FloatFormat",
    "IntegerFormat",
    "PowerFormat",
    "ScaleFormat",
    "Specials",
    "Triple",
    "UnsignedFormat",
    "block_scale_bits",
    "element_format",
    "flushed",
    "is_scale_format",
    "read_only",
    "scale_format",
    "sign_magnitude",
]
