"""The presets as data, one row each: a real machine, with the source of its facts.

They are the machines of the default comparison and the regression; machines.py has the others.
"""

from dataclasses import replace

from ..formats import FLOAT32
from .base import NAN_NVIDIA
from .fused import Preset
from .machine import CHECKED, FP8, MEASURED, MX

_HOPPER = Preset(
    name="hopper",
    terms=32,
    fraction_bits=13,
    result_bits=13,
    nan=NAN_NVIDIA,
    operands=FP8,
    source="H100/H200 FP8 wgmma, measured on an H200",
    status=MEASURED,
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
            operands=("fp16",),
            source="H100/H200 FP16 wgmma and mma.sync, measured on an H200",
            status=MEASURED,
        ),
        replace(
            _HOPPER,
            name="ada",
            terms=16,
            source="Ada FP8, checked against 20,000 published results of Ada GPUs",
            status=CHECKED,
        ),
        Preset(
            name="blackwell",
            terms=32,
            fraction_bits=25,
            result_bits=FLOAT32.mantissa_bits,
            nan=NAN_NVIDIA,
            operands=MX,
            mixed=True,
            source="Blackwell tcgen05, block-scaled `kind::mxf8f6f4` and unscaled FP8; neither "
            "`kind::mxf4nvf4` nor the B200's `mma.sync` (published bit-level studies)",
        ),
    )
}
