"""All machines by name, one row each, with the source of its facts.

Presets are the machines of the default comparison and of the regression. Where sources disagree, a
row's note says so. Public models: MMA-Sim (arXiv:2511.10909), and Khattak and Mikaitis
(arXiv:2512.07004), with published results of GPUs.
"""

from dataclasses import replace
from typing import Any

from ..formats import FLOAT16, FLOAT32
from .amd import ExactMachine, FlooredMachine, TreeMachine
from .base import NAN_DEFAULT, NAN_NVIDIA
from .chains import ChainMachine
from .fused import Preset
from .group_sums import GroupSums
from .machine import CHECKED, FP8, MEASURED, MODELLED, MX, Machine

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
            block_scales=True,
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
            least=-133,
            block_scales=True,
            source="Blackwell tcgen05, block-scaled `kind::mxf8f6f4` and unscaled FP8; neither "
            "`kind::mxf4nvf4` nor the B200's `mma.sync` (published bit-level studies)",
        ),
    )
}


MMA_SIM = "MMA-Sim 2.1.1"
MODELS = f"{MMA_SIM}; Khattak and Mikaitis"


def _nvidia(name: str, terms: int, fraction_bits: int, source: str, **row: Any) -> Preset:
    row = {"nan": NAN_NVIDIA, **row}
    return Preset(name=name, terms=terms, fraction_bits=fraction_bits, source=source, **row)


def _float16(row: Preset, name: str, source: str, least: int | None, **others: Any) -> Preset:
    """The machine of `row` with float16 for c and result, and its `least` exponent."""
    narrow: dict[str, Any] = {
        "result": "float16",
        "result_bits": 23,
        "block_scales": False,
        "note": "",
    }
    return replace(row, name=name, source=source, least=least, **narrow | others)


_VOLTA = _nvidia("volta", 4, 23, f"V100 FP16 ({MODELS})", operands=("fp16",), status=CHECKED)
_AMPERE = _nvidia("ampere", 8, 24, f"A100, A2 FP16 ({MODELS})", operands=("fp16",), status=CHECKED)
_AMPERE_BF16 = replace(
    _AMPERE, name="ampere-bf16", operands=("bf16",), least=-132, source=f"A100, A2 BF16 ({MODELS})"
)
_AMPERE_TF32 = replace(
    _AMPERE_BF16,
    name="ampere-tf32",
    terms=4,
    operands=("tf32",),
    source=f"A100, A2 TF32 ({MODELS})",
)
_HOPPER_FP16 = PRESETS["hopper-fp16"]
_HOPPER_BF16 = replace(
    _HOPPER_FP16,
    name="hopper-bf16",
    operands=("bf16",),
    least=-133,
    source="H100/H200 BF16 wgmma and mma.sync, measured on an H200",
)
_HOPPER_TF32 = replace(
    _HOPPER_BF16,
    name="hopper-tf32",
    terms=8,
    operands=("tf32",),
    source="H100/H200 TF32 wgmma and mma.sync, measured on an H200",
)
_HOPPER_MMA = replace(
    _HOPPER_FP16,
    name="hopper-mma",
    operands=FP8,
    permuted=True,
    source="H100/H200 FP8 mma.sync, measured on an H200",
    note="compiled to FP16 instructions",
)
_BLACKWELL_FP16 = replace(
    _HOPPER_FP16, name="blackwell-fp16", source=f"B200 FP16 ({MODELS})", status=CHECKED
)
_BLACKWELL_MMA = replace(
    PRESETS["blackwell"],
    name="blackwell-mma",
    operands=FP8,
    mixed=False,
    block_scales=False,
    promote=32,
    least=None,
    source="B200 FP8 mma.sync (published results of B200 GPUs)",
    status=CHECKED,
    note="Khattak and Mikaitis have c inside the step",
)
_HOPPER_MMA_FLOAT16 = _float16(
    _HOPPER_MMA,
    "hopper-mma-float16",
    "H100/H200 FP8 mma.sync, float16 result (published results of both GPUs)",
    -21,
    promote=32,
    status=CHECKED,
    note="Khattak and Mikaitis have one step of 32 terms, c inside",
)
_MXF4NVF4 = GroupSums(
    name="blackwell-mxf4nvf4",
    terms=16,
    fraction_bits=35,
    together=64,
    least=-139,
    nan=NAN_NVIDIA,
    operands=("e2m1",),
    block_scales=True,
    source=f"B200 `kind::mxf4nvf4`, scales UE8M0 per 32 or UE4M3 per 16 ({MMA_SIM})",
    note="a group counts by its scales, unless its products or its scales are all zero",
)
_RTX50 = replace(
    PRESETS["blackwell"],
    name="rtx50",
    source=f"RTX 50 mma.sync `kind::f8f6f4` and `kind::mxf8f6f4` ({MMA_SIM})",
)


def _rtx50(row: Preset, name: str, what: str) -> Preset:
    """The RTX 50's row with the rule of `row`."""
    return replace(row, name=name, source=f"RTX 50 {what} ({MMA_SIM})", status=MODELLED, note="")


_TURING = replace(_AMPERE, name="turing", source=f"T4, RTX 20 FP16 ({MMA_SIM})", status=MODELLED)
_CDNA = f"mfma ({MODELS})"
_CDNA1 = ExactMachine(
    name="cdna1-fp16", terms=4, nan=NAN_DEFAULT, operands=("fp16",), source=f"CDNA1 FP16 {_CDNA}"
)
_ARM = ExactMachine(
    name="arm-fp8-mmla",
    terms=8,
    nan=NAN_DEFAULT,
    operands=FP8,
    source="Arm FMMLA of FEAT_F8F32MM (Arm Architecture Reference Manual, A64 instructions)",
    note="the scale of the products stands for 2^-LSCALE; default rounding and NaN, OSM of 0",
)
_ARM_FLOAT16 = replace(
    _ARM,
    name="arm-fp8-mmla-float16",
    terms=4,
    result=FLOAT16.name,
    note="the products' scale stands for 2^-LSCALE[3:0]; default rounding and NaN, OSM of 0",
    source="Arm FMMLA of FEAT_F8F16MM (Arm Architecture Reference Manual, A64 instructions)",
)
_CDNA2 = TreeMachine(
    name="cdna2-fp16",
    terms=4,
    nan=NAN_DEFAULT,
    operands=("fp16", "bf16"),
    source=f"CDNA2 FP16, and BF16 of the instructions named `_1k`, {_CDNA}",
)
_CDNA3 = FlooredMachine(
    name="cdna3-fp16",
    terms=8,
    fraction_bits=24,
    sum_bits=31,
    nan=NAN_DEFAULT,
    operands=("fp16", "bf16"),
    source=f"CDNA3 FP16 and BF16 {_CDNA}",
)
_AMX = ChainMachine(
    name="amx-bf16",
    terms=32,
    nan=NAN_DEFAULT,
    operands=("bf16",),
    source="Intel AMX TDPBF16PS (Intel 64 and IA-32 Architectures SDM, pseudo-code)",
    note="a tile of 32 elements a row; a result is tiny after rounding, as elsewhere in the SDM; "
    "the bits of a NaN are this package's",
)
_ROWS: tuple[Machine, ...] = (
    _VOLTA,
    _float16(_VOLTA, "volta-float16", f"V100 FP16, float16 result ({MODELS})", -19),
    _TURING,
    _float16(_TURING, "turing-float16", f"T4, RTX 20 FP16, float16 result ({MMA_SIM})", -20),
    _AMPERE,
    _AMPERE_BF16,
    _AMPERE_TF32,
    _float16(_AMPERE, "ampere-float16", f"A100, A2 FP16, float16 result ({MODELS})", -20),
    replace(_AMPERE, name="ada-fp16", source=f"Ada, L40S FP16 ({MODELS})"),
    replace(_AMPERE_BF16, name="ada-bf16", source=f"Ada, L40S BF16 ({MODELS})"),
    replace(_AMPERE_TF32, name="ada-tf32", source=f"Ada, L40S TF32 ({MODELS})"),
    _float16(_AMPERE, "ada-fp16-float16", f"Ada, L40S FP16, float16 result ({MODELS})", -20),
    _float16(PRESETS["ada"], "ada-float16", f"Ada FP8, float16 result ({MODELS})", -20),
    _HOPPER_BF16,
    _HOPPER_TF32,
    _float16(
        _HOPPER_FP16,
        "hopper-fp16-float16",
        f"H100/H200 FP16, float16 result ({MODELS}; its least exponent measured on an H200)",
        -21,
        status=CHECKED,
        note="a product of 2^-46 breaks a tie of 2^-25, one of 2^-47 does not",
    ),
    _float16(
        PRESETS["hopper"],
        "hopper-float16",
        f"H100/H200 FP8 wgmma, float16 result ({MMA_SIM})",
        -21,
        status=MODELLED,
    ),
    _HOPPER_MMA,
    _HOPPER_MMA_FLOAT16,
    _BLACKWELL_FP16,
    replace(_HOPPER_BF16, name="blackwell-bf16", source=f"B200 BF16 ({MODELS})", status=CHECKED),
    replace(_HOPPER_TF32, name="blackwell-tf32", source=f"B200 TF32 ({MODELS})", status=CHECKED),
    _float16(
        _BLACKWELL_FP16, "blackwell-fp16-float16", f"B200 FP16, float16 result ({MODELS})", -21
    ),
    _float16(
        PRESETS["blackwell"],
        "blackwell-float16",
        f"B200 tcgen05 FP8, float16 result ({MMA_SIM})",
        -21,
        status=MODELLED,
    ),
    _BLACKWELL_MMA,
    replace(
        _HOPPER_MMA_FLOAT16,
        name="blackwell-mma-float16",
        source="B200 FP8 mma.sync, float16 result (published results of B200 GPUs)",
    ),
    _MXF4NVF4,
    _RTX50,
    _float16(
        _RTX50, "rtx50-float16", f"RTX 50 mma.sync `kind::f8f6f4`, float16 result ({MMA_SIM})", -21
    ),
    _rtx50(_HOPPER_FP16, "rtx50-fp16", "FP16"),
    _rtx50(_HOPPER_BF16, "rtx50-bf16", "BF16"),
    _rtx50(_HOPPER_TF32, "rtx50-tf32", "TF32"),
    _float16(
        _rtx50(_HOPPER_FP16, "rtx50-fp16", "FP16"),
        "rtx50-fp16-float16",
        f"RTX 50 FP16, float16 result ({MMA_SIM})",
        -21,
    ),
    replace(
        _MXF4NVF4,
        name="rtx50-mxf4nvf4",
        source="RTX 50 `kind::mxf4` and `kind::mxf4nvf4`, scales UE8M0 per 32, UE8M0 or UE4M3 "
        f"per 16 ({MMA_SIM})",
    ),
    _ARM,
    replace(
        _ARM,
        name="arm-fp8-dot",
        terms=4,
        source="Arm FDOT of FEAT_FP8DOT4 (Arm Architecture Reference Manual, A64 instructions)",
    ),
    _ARM_FLOAT16,
    replace(
        _ARM_FLOAT16,
        name="arm-fp8-dot-float16",
        terms=2,
        source="Arm FDOT of FEAT_FP8DOT2 (Arm Architecture Reference Manual, A64 instructions)",
    ),
    _CDNA1,
    replace(_CDNA1, name="cdna1-bf16", terms=2, operands=("bf16",), source=f"CDNA1 BF16 {_CDNA}"),
    _CDNA2,
    replace(
        _CDNA2,
        name="cdna2-bf16",
        terms=2,
        operands=("bf16",),
        source=f"CDNA2 BF16 of the other instructions, {_CDNA}",
    ),
    _CDNA3,
    replace(_CDNA3, name="cdna3-xf32", terms=4, operands=("tf32",), source=f"CDNA3 XF32 {_CDNA}"),
    replace(
        _CDNA3,
        name="cdna3-fp8",
        terms=16,
        halves=True,
        operands=("e4m3fnuz", "e5m2fnuz", "e4m3fnuzxe5m2fnuz", "e5m2fnuzxe4m3fnuz"),
        source=f"CDNA3 FP8 and BF8 {_CDNA}",
        note="MMA-Sim drops a special c far below the products",
    ),
    _AMX,
    replace(
        _AMX,
        name="avx512-bf16",
        terms=2,
        from_c=True,
        source="AVX512_BF16 VDPBF16PS (Intel 64 and IA-32 Architectures SDM, pseudo-code), "
        "measured on an AMD EPYC",
        status=MEASURED,
        note="the bits of a NaN are this package's",
    ),
)
MACHINES: dict[str, Machine] = {row.name: row for row in (*PRESETS.values(), *_ROWS)}
