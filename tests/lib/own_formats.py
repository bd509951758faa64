"""Formats, schemes, rules and an accumulator as users write them, by public names alone."""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from mxdot.model import E2M1, E4M3, E8M0, Aligned, TableFormat, p3109
from mxdot.model.schemes import (
    FLOAT16,
    FLOAT32,
    TENSOR,
    Level,
    PowerFormat,
    Scheme,
    block,
    register_scale_rule,
    sign_magnitude,
)


def nf4():
    """NormalFloat of 4 bits (QLoRA, arXiv:2305.14314): quantiles of the normal distribution."""
    offset = 0.9677083
    upper = [NormalDist().inv_cdf(p) for p in np.linspace(offset, 0.5, 9)[:-1]]
    lower = [-NormalDist().inv_cdf(p) for p in np.linspace(offset, 0.5, 8)[:-1]]
    values = np.sort([*upper, 0, *lower])
    return TableFormat("nf4", (values / values.max()).astype(np.float32))


def nf4_scheme():
    return Scheme("nf4_b64", (nf4(),), (Level(block(64), FLOAT16),), "QLoRA")


def hifloat8_value(code):
    """HiFloat8 (arXiv:2409.16626): a prefix says how many bits the exponent has."""
    for prefix, width in (("11", 4), ("10", 3), ("01", 2), ("001", 1)):
        if f"{code:07b}".startswith(prefix):
            rest = 7 - len(prefix) - width
            field, fraction = code >> rest & 2**width - 1, code & 2**rest - 1
            top = 2 ** (width - 1)
            exponent = (field | top) * (-1 if field & top else 1)
            return (1 + fraction / 2**rest) * 2.0**exponent
    if code & 8:
        return 1 + (code & 7) / 8
    return 2.0 ** (code - 23) if code else 0.0


def hifloat8():
    values = [hifloat8_value(code) for code in range(128)]
    values[0x6F] = np.inf
    return TableFormat("hifloat8", [*values, np.nan, *(-x for x in values[1:])], ties="away")


def hif4():
    """HiFloat4 (arXiv:2602.11287): 64 elements under an E6M2 and 8 + 16 bits."""
    values = [(1 + m / 4) * 2.0 ** (e - 48) for e in range(64) for m in range(4)]
    e6m2 = TableFormat("e6m2", [*values[:-1], np.nan])
    doubles = PowerFormat("e1", bits=1, emin=0, emax=1, bias=0, nan_code=None)
    levels = (
        Level(block(64), e6m2),
        Level(block(8), doubles, "floor"),
        Level(block(4), doubles, "floor"),
    )
    return Scheme("hif4", (sign_magnitude(3),), levels, "HiFloat4")


def ue5m3():
    values = [
        m / 8 * 2.0**-14 if e == 0 else (1 + m / 8) * 2.0 ** (e - 15)
        for e in range(32)
        for m in range(8)
    ]
    return TableFormat("ue5m3", [*values[:-1], np.nan], emin=-14)


def fp4_ue5m3():
    return Scheme("fp4_ue5m3", (E2M1,), (Level(block(16), ue5m3()),), "a proposal")


def without_nan():
    """Scales whose 256 codes are all powers of two."""
    powers = PowerFormat("e8", bits=8, emin=-128, emax=127, bias=128, nan_code=None)
    return Scheme("mxfp8_e8", (E4M3,), (Level(block(32), powers, "floor"),), "own")


def tensor_over_e8m0():
    """A float32 scale that brings the largest magnitude to the largest element."""

    def to_element(amax, room, element):
        return amax / (0 * room + element.largest_finite)

    register_scale_rule("to_element", to_element)
    levels = Level(TENSOR, FLOAT32, "to_element"), Level(block(32), E8M0, "floor")
    return Scheme("mxfp8_tensor", (E4M3,), levels, "own")


def own_rule():
    """A scale that lets the upper quarter of each block saturate."""

    def three_quarters(amax, room, element):
        return amax / (room * element.largest_finite) * 0.75

    register_scale_rule("three_quarters", three_quarters)
    return Scheme("fp8_clipped", (E4M3,), (Level(block(32), FLOAT32, "three_quarters"),), "own")


def four_over_six():
    """NVFP4 whose blocks reach to 6 or to 4, whichever errs less."""
    levels = Level(TENSOR, FLOAT32, "amax256"), Level(block(16), E4M3, "four_over_six")
    return Scheme("nvfp4_4over6", (E2M1,), levels, "arXiv:2512.02010")


def unsigned_p3109():
    element = p3109(8, 3, signed=False)
    return Scheme("p3109_unsigned", (element,), (Level(block(32), E8M0, "floor"),), "P3109")


@dataclass(frozen=True)
class Doubled(Aligned):
    """Twice what `aligned:F` gives."""

    syntax = "doubled:F"

    def run(self, steps, c, record):
        return super().run(steps, c, record) * np.float32(2)


SCHEME_MAKERS = (
    nf4_scheme,
    hif4,
    fp4_ue5m3,
    without_nan,
    tensor_over_e8m0,
    own_rule,
    four_over_six,
    unsigned_p3109,
)
MAKERS = (nf4, hifloat8_value, hifloat8, ue5m3, *SCHEME_MAKERS, Doubled)
