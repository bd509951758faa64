"""Operands and checks that tests of formats share with other tests."""

import ml_dtypes
import numpy as np

from mxdot.model import FORMATS

FLOATS = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1", "fp16", "bf16")


ML_DTYPES = {
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
    "e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "fp16": np.float16,
    "bf16": ml_dtypes.bfloat16,
}


def all_codes(name):
    return np.arange(2 ** FORMATS[name].bits, dtype=FORMATS[name].dtype)
