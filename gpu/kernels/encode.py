"""Triton functions that quantise a tile of blocks: scales, rounding, packing (section 2).

A block's amax is an integer maximum over the bits of the magnitudes, which also finds a NaN or an
infinity; its exponent follows from the bits of amax. A scaled element is exact in float32 wherever
a rounding can see it.
"""

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from ...model.formats import E4M3, E5M2, E8M0, FLOAT32, ROUNDINGS, ElementFormat
from ...model.quantize import NONFINITE, SCALE_RULES
from . import device
from .arithmetic import BIAS32, FRACTION32, HIDDEN32, INFINITY32
from .decode import codes_refusal

if TYPE_CHECKING:
    from ..ops.quantize import Quantization

LARGEST_BLOCK = 256
ELEMENT = 1  # of NONFINITE


class Encoding(NamedTuple):
    """Compile-time parameters of `quantize_tile`, one constexpr.

    m: mantissa bits. largest, largest_code: the largest finite element and its code. ceiling: added
    to the bits of amax for the scale rule ``ceil``. inf_code, nan_code: -1 without one.
    scale_rule, rounding: indices in SCALE_RULES and ROUNDINGS. element: whether NaN and infinities
    stay single elements. convert: whether the GPU's own conversion makes the codes.
    """

    m: int
    emin: int
    emax: int
    bits: int
    integer: bool
    largest: float
    ceiling: int
    largest_code: int
    inf_code: int
    nan_code: int
    scale_rule: int
    rounding: int
    element: bool
    convert: bool


@dataclass(frozen=True)
class Rules:
    """Rules of quantisation, in the words of `mxdot.gpu.quantize`."""

    format: ElementFormat
    block_size: int = 32
    scale_rule: str = "floor"
    rounding: str = "nearest_even"
    nonfinite: str = "poison"

    @classmethod
    def of(cls, request: "Quantization") -> "Rules":
        """The rules of a checked request."""
        return cls(
            request.format,
            request.block_size,
            request.scale_rule,
            request.rounding,
            request.nonfinite,
        )

    def refusal(self, where: torch.device) -> str | None:
        """Why the kernels cannot quantise on the device `where`; None when they can."""
        k = self.block_size
        if k > LARGEST_BLOCK or k & (k - 1):
            return f"block_size must be a power of two up to {LARGEST_BLOCK}, not {k}"
        reason = codes_refusal(self.format)
        if reason is not None:
            return reason
        if self.scale_rule not in SCALE_RULES:
            return f"scale_rule must be one of {', '.join(SCALE_RULES)}, not {self.scale_rule}"
        return device.refusal(where)

    def encoding(self, where: torch.device) -> Encoding:
        """The kernels' constants on the device `where`."""
        return _encoding(self, device.has_fp8_conversion(where))


@cache
def _encoding(rules: Rules, instruction: bool) -> Encoding:
    """instruction: whether the GPU converts float32 to E4M3 and E5M2 by itself."""
    fmt, element = rules.format, rules.nonfinite == NONFINITE[ELEMENT]
    # The conversion saturates, and has another NaN for E5M2.
    converts = instruction and fmt in (E4M3, E5M2) and rules.rounding == "nearest_even"
    return Encoding(
        m=fmt.mantissa_bits,
        emin=fmt.emin,
        emax=fmt.emax,
        bits=fmt.bits,
        integer=fmt.is_integer,
        largest=fmt.largest_finite,
        ceiling=_ceiling(fmt),
        largest_code=fmt.largest_code,
        inf_code=-1 if fmt.inf_code is None else fmt.inf_code,
        nan_code=-1 if fmt.nan_code is None else fmt.nan_code,
        scale_rule=SCALE_RULES.index(rules.scale_rule),
        rounding=ROUNDINGS.index(rules.rounding),
        element=element,
        convert=converts and not (element and fmt.inf_code is not None),
    )


def _ceiling(fmt: ElementFormat) -> int:
    """Addend that carries into the exponent if a significand exceeds the largest element's."""
    largest = fmt.largest_finite * 2.0 ** (FLOAT32.mantissa_bits - fmt.emax)
    return 2**FLOAT32.significand_bits - 1 - int(largest)


def empty_codes(count: int, rules: Rules, packed: bool, x: Tensor) -> Tensor:
    """Room for the codes of `count` elements, flat, on the device of `x`."""
    size = count * rules.format.bits // 8 if packed else count
    return torch.empty(size, dtype=torch.uint8, device=x.device)


def signed(words: Tensor | None, x: Tensor) -> Tensor:
    """Contiguous int32 words; `x` where there are none, which is not read."""
    return x if words is None else words.view(torch.int32).contiguous()


MOST_EXPONENTS = tl.constexpr(3)  # of a format whose code is found as the least of lines
# Added to a number below 2^22, this leaves the nearest integer, even on ties, in the last places.
MAGIC, MAGIC_BITS = tl.constexpr(1.5 * 2.0**23), tl.constexpr(0x4B400000)
SCALE_BIAS, NAN_SCALE = tl.constexpr(E8M0.bias), tl.constexpr(E8M0.nan_code)
# From this exponent of the largest element on, a subnormal amax has the least scale, and no scale
# is above 2^126: amax is below 2^128, and a carry adds at most 1 to its exponent.
FREE_EMAX = tl.constexpr(2)


@triton.jit
def scale_code(amax, ENCODING: tl.constexpr, ANY_EMAX: tl.constexpr = False):
    """The code of the scale, 0 to 254, from the bits of a finite amax."""
    bits, lowered = amax, 0
    if ENCODING.emax < FREE_EMAX or ANY_EMAX:  # a subnormal has its leading digit anywhere
        value = amax.to(tl.float32, bitcast=True)
        small = amax < HIDDEN32
        bits = tl.where(small, value * 18446744073709551616.0, value).to(tl.int32, bitcast=True)
        lowered = tl.where(small, 64, 0)
    if ENCODING.scale_rule == 2:
        # Half of the last place; a carry runs into the exponent.
        bits += HIDDEN32 >> (ENCODING.m + 1)
    elif ENCODING.scale_rule == 1:
        # This carries exactly when amax's significand exceeds the largest finite element's.
        bits += ENCODING.ceiling
    elif ENCODING.scale_rule == 3:
        bits += HIDDEN32
    code = (bits >> FRACTION32) + (SCALE_BIAS - BIAS32 - ENCODING.emax) - lowered
    if ENCODING.emax < FREE_EMAX or ANY_EMAX:
        code = tl.minimum(code, NAN_SCALE - 1)
    return tl.maximum(code, 0)


@triton.jit
def scale_factor(code, ENCODING: tl.constexpr, ANY_EMAX: tl.constexpr = False):
    """1 / scale as float32, of a `scale_code`."""
    factor = (NAN_SCALE - 1 - code) << FRACTION32
    if ENCODING.emax < FREE_EMAX or ANY_EMAX:  # the least is a subnormal
        factor = tl.where(code == NAN_SCALE - 1, HIDDEN32 >> 1, factor)
    return factor.to(tl.float32, bitcast=True)


@triton.jit
def nearest_even_code(size, M: tl.constexpr, EMIN: tl.constexpr, LARGEST: tl.constexpr):
    """Magnitude codes of float32 magnitudes: adding 2^23 last places rounds to one of them."""
    size = tl.minimum(size, LARGEST)
    lowest: tl.constexpr = (EMIN + BIAS32) << FRACTION32
    exponent = tl.maximum(size.to(tl.int32, bitcast=True) & INFINITY32, lowest)
    offset = exponent + ((FRACTION32 - M) << FRACTION32)
    total = size + offset.to(tl.float32, bitcast=True)
    units = total.to(tl.int32, bitcast=True) - offset
    return units + ((exponent - lowest) >> (FRACTION32 - M))


@triton.jit
def _few_exponents_code(size, most, ENCODING: tl.constexpr):
    """`nearest_even_code`, at most `most`, for formats with few exponents.

    A code is the least of one line per exponent over the magnitude; adding 1.5 x 2^23 rounds each.
    """
    base: tl.constexpr = MAGIC
    code = (size * 2.0 ** (ENCODING.m - ENCODING.emin) + base).to(tl.int32, bitcast=True)
    for above in tl.static_range(1, ENCODING.emax - ENCODING.emin + 1):
        line = size * 2.0 ** (ENCODING.m - ENCODING.emin - above) + (base + above * 2**ENCODING.m)
        code = tl.minimum(code, line.to(tl.int32, bitcast=True))
    return tl.minimum(code, most + MAGIC_BITS) - MAGIC_BITS


@triton.jit
def _by_fraction(size, words, ENCODING: tl.constexpr):
    """Codes of float32 magnitudes, limited to the largest, toward zero or by random `words`."""
    bits = size.to(tl.int32, bitcast=True)
    own = (bits >> FRACTION32) - BIAS32
    exponent = tl.maximum(own, ENCODING.emin)
    shift = (
        FRACTION32 - ENCODING.m + exponent - own
    )  # of the significand, to units of the last place
    significand = (bits & (HIDDEN32 - 1)) | HIDDEN32
    units = significand >> tl.minimum(shift, 31)
    if ENCODING.rounding == 2:
        # The fraction in units of 2^-32; both are unsigned, and a carry wraps.
        left = tl.maximum(32 - shift, 0)
        right = tl.minimum(tl.maximum(shift - 32, 0), 31)
        fraction = (significand << left).to(tl.uint32, bitcast=True) >> right.to(tl.uint32)
        total = fraction + words.to(tl.uint32, bitcast=True)
        units += (total < fraction).to(tl.int32)
    return tl.minimum(units + ((exponent - ENCODING.emin) << ENCODING.m), ENCODING.largest_code)


_CONVERT = """{
.reg .b16 low, high;
.reg .b32 codes;
cvt.rn.satfinite.FORMATx2.f32 low, $2, $1;
cvt.rn.satfinite.FORMATx2.f32 high, $4, $3;
mov.b32 codes, {low, high};
and.b32 $0, codes, $5;
}"""
TO_E4M3 = tl.constexpr(_CONVERT.replace("FORMAT", "e4m3"))
TO_E5M2 = tl.constexpr(_CONVERT.replace("FORMAT", "e5m2"))


@triton.jit
def _convert(y, kept, M: tl.constexpr):
    """uint8 codes of float32 `y` by the GPU's conversion: nearest-even, saturating.

    kept: uint8, the bits of a code that are kept.
    """
    asm: tl.constexpr = TO_E4M3 if M == 3 else TO_E5M2
    return tl.inline_asm_elementwise(
        asm, "=r,f,f,f,f,r", [y, kept], dtype=tl.uint8, is_pure=True, pack=4
    )


@triton.jit
def quantize_tile(
    x,
    words,
    AXIS: tl.constexpr,
    ENCODING: tl.constexpr,
    ANY_EMAX: tl.constexpr = False,
):
    """uint8 (codes, scales) of float32 `x`, whose AXIS is one block; scales keep it, of length 1.

    words: int32 random bits for stochastic rounding, else anything. ANY_EMAX: the scale as it is
    found for any format, with the same bits and more instructions.
    """
    bits = x.to(tl.int32, bitcast=True)
    magnitude = bits & 0x7FFFFFFF
    largest = tl.max(magnitude, axis=AXIS, keep_dims=True)
    if ENCODING.element:
        poisoned = largest > (INFINITY32 if ENCODING.nan_code < 0 else 0x7FFFFFFF)
        finite = tl.where(magnitude < INFINITY32, magnitude, 0)
        amax = tl.max(finite, axis=AXIS, keep_dims=True)
    else:
        poisoned = largest >= INFINITY32
        # The scale of a poisoned block is not seen, but its bits must not overflow.
        amax = tl.where(poisoned, 0, largest) if ENCODING.scale_rule or ANY_EMAX else largest
    scale = scale_code(amax, ENCODING, ANY_EMAX)
    factor = scale_factor(scale, ENCODING, ANY_EMAX)
    if ENCODING.convert:
        codes = _convert(x * factor, tl.where(poisoned, 0, 255).to(tl.uint8), ENCODING.m)
    else:
        few: tl.constexpr = (
            ENCODING.rounding == 0 and ENCODING.emax - ENCODING.emin < MOST_EXPONENTS
        )
        # With few exponents a poisoned block is seen to by what its codes are at most.
        y = (x if few else tl.where(poisoned, 0.0, x)) * factor
        size = tl.abs(y)
        sign = 1 << (ENCODING.bits - 1)
        if few:
            sign = tl.where(poisoned, 0, sign)
            most = tl.where(poisoned, 0, ENCODING.largest_code)
            code = _few_exponents_code(size, most, ENCODING)
        elif ENCODING.rounding == 0:
            code = nearest_even_code(size, ENCODING.m, ENCODING.emin, ENCODING.largest)
        else:
            code = _by_fraction(size, words, ENCODING)
        y_bits = y.to(tl.int32, bitcast=True)
        if ENCODING.element and ENCODING.inf_code >= 0:
            code = tl.where((y_bits & 0x7FFFFFFF) == INFINITY32, ENCODING.inf_code, code)
        if ENCODING.integer:
            code = tl.where(y_bits < 0, -code, code) & ((1 << ENCODING.bits) - 1)
        elif ENCODING.nan_code == 1 << (ENCODING.bits - 1):  # that of -0
            code = tl.where((y_bits < 0) & (code != 0), code | ENCODING.nan_code, code)
        else:
            code |= (y_bits >> 31) & sign
        if ENCODING.element and ENCODING.nan_code >= 0:
            code = tl.where((y_bits & 0x7FFFFFFF) > INFINITY32, ENCODING.nan_code, code)
        codes = code.to(tl.uint8)
    return codes, tl.where(poisoned, NAN_SCALE, scale).to(tl.uint8)


@triton.jit
def store_codes(out, codes, row, column, rows, columns, BITS: tl.constexpr, PACKED: tl.constexpr):
    """Store a tile (R, C) of codes at (row, column) of `out` (rows, columns), dense when PACKED."""
    R: tl.constexpr = codes.shape[0]
    C: tl.constexpr = codes.shape[1]
    i = row + tl.arange(0, R)
    if PACKED and BITS == 4:
        low, high = tl.split(codes.reshape((R, C // 2, 2)))
        j = column // 2 + tl.arange(0, C // 2)
        inside = (i < rows)[:, None] & (j < columns // 2)[None, :]
        at = i.to(tl.int64)[:, None] * (columns // 2) + j[None, :]
        tl.store(out + at, low | (high << 4), mask=inside)
    elif PACKED and BITS == 6:
        even, odd = tl.split(codes.to(tl.int32).reshape((R, C // 4, 2, 2)))
        low, high = tl.split(even | (odd << 6))
        word = low | (high << 12)
        j = column // 4 + tl.arange(0, C // 4)
        inside = (i < rows)[:, None] & (j < columns // 4)[None, :]
        at = i.to(tl.int64)[:, None] * (columns // 4 * 3) + 3 * j[None, :]
        for byte in tl.static_range(3):
            tl.store(out + at + byte, (word >> (8 * byte)).to(tl.uint8), mask=inside)
    elif PACKED and BITS < 8:  # eight codes are as many bytes as a code has bits
        even, odd = tl.split(codes.to(tl.int64).reshape((R, C // 8, 2, 2, 2)))
        low, high = tl.split(even | (odd << BITS))
        first, last = tl.split(low | (high << (2 * BITS)))
        word = first | (last << (4 * BITS))
        j = column // 8 + tl.arange(0, C // 8)
        inside = (i < rows)[:, None] & (j < columns // 8)[None, :]
        at = i.to(tl.int64)[:, None] * (columns // 8 * BITS) + BITS * j[None, :]
        for byte in tl.static_range(BITS):
            tl.store(out + at + byte, (word >> (8 * byte)).to(tl.uint8), mask=inside)
    else:
        j = column + tl.arange(0, C)
        inside = (i < rows)[:, None] & (j < columns)[None, :]
        at = i.to(tl.int64)[:, None] * columns + j[None, :]
        tl.store(out + at, codes, mask=inside)
