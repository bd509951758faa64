"""The rule of `fixed:W:L`: a W-bit two's-complement register in units of 2^L.

A register of up to 51 bits whose block sums fit one float64 is a float64; any other (a Kulisch
register, or E5M2 x E5M2) is a row of 32-bit limbs in int64, lowest first, the highest signed.
"""

from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from ...model.accumulators import Fixed
from ...model.accumulators.fixed import FLOAT64_WIDTH
from ...model.arrays import exponent as exponent64
from ...model.arrays import power as power64
from ...model.rounding import add_to_odd, nearest_even
from ...model.wide import WideSum, exact_sum_fits
from ..tensors.formats import FLOAT32_FRACTION
from .steps import Steps

LIMB = 32
MASK = (1 << LIMB) - 1


def run_fixed(rule: Fixed, steps: Steps, c: Tensor) -> Tensor:
    """The float32 results of registers that start at `c` and take the block sums in turn.

    Special terms, c among them, are summed outside the register and decide the result.
    """
    wide = c.to(torch.float64)
    special = torch.where(wide.isfinite(), 0.0, wide)
    start = torch.where(wide.isfinite(), wide, 0.0)
    if rule.width <= FLOAT64_WIDTH and exact_sum_fits(steps.bits, steps.longest):
        register = Float64Register(rule, start)
    else:
        bits = max(FLOAT32_FRACTION + 1, steps.bits + (steps.longest - 1).bit_length())
        register = LimbRegister(rule, steps.lsb, bits, start)
    for step in steps.walk():
        total = step.sum()
        finite = total.high.isfinite()
        special = special + torch.where(finite, 0.0, total.high)
        high = torch.where(finite, total.high, 0.0)
        register.add(WideSum(high, total.low, total.whole), step.scale)
    half = rule.lsb // 2  # in two factors: 2^-1024 is no normal float64
    exact = register.rounded_to_odd() * 2.0**half * 2.0 ** (rule.lsb - half)
    result = nearest_even(exact)
    return torch.where(special == 0, result, special.to(torch.float32))


class Float64Register:
    """Registers that start at RZ(`start` x 2^-L), limited."""

    def __init__(self, rule: Fixed, start: Tensor) -> None:
        self.rule = rule
        self.value = torch.zeros_like(start)
        self.add(WideSum(start), torch.zeros_like(start, dtype=torch.int32))

    def add(self, total: WideSum, scale: Tensor) -> None:
        """Add RZ(total x 2^(scale - L))."""
        # Far outside the register's range the exact distance no longer matters.
        exponent = (scale - self.rule.lsb).clamp(-400, 200)
        addend = (total.high * power64(exponent)).trunc_()
        size = 2.0**self.rule.width
        low, high = -size / 2, size / 2 - 1
        if self.rule.overflow == "saturate":
            self.value = (self.value + addend).clamp(low, high)
        else:
            self.value = (self.value + addend.fmod(size) - low).remainder(size) + low

    def rounded_to_odd(self) -> Tensor:
        """The registers' integers as float64."""
        return self.value


class LimbRegister:
    """`Float64Register` in 32-bit limbs; block sums are multiples of 2^`lsb` of up to `bits` bits.

    value: int64 (limbs, m, n).
    """

    def __init__(self, rule: Fixed, lsb: int, bits: int, start: Tensor) -> None:
        self.rule, self.lsb = rule, lsb
        self.sum_limbs = bits // LIMB + 1  # of a block sum, 2^bits among them
        count = -(-rule.width // LIMB)
        self.value = start.new_zeros((count, *start.shape), dtype=torch.int64)
        # c = significand x 2^exponent, the significand an integer of 24 bits
        exponent = exponent64(start.abs()) - FLOAT32_FRACTION
        exponent = torch.where(start == 0, 0, exponent)
        magnitude = start.new_zeros((self.sum_limbs, *start.shape), dtype=torch.int64)
        magnitude[0] = (start.abs() * power64(-exponent)).to(torch.int64)
        self._add(magnitude, start < 0, exponent - rule.lsb)

    def add(self, total: WideSum, scale: Tensor) -> None:
        """Add RZ(total x 2^(scale - L))."""
        magnitude = _magnitude(total, self.lsb, self.sum_limbs)
        self._add(magnitude, total.high < 0, scale + (self.lsb - self.rule.lsb))

    def _add(self, magnitude: Tensor, negative: Tensor, exponent: Tensor) -> None:
        """Add RZ(magnitude x 2^exponent), or subtract it where `negative`."""
        addend, too_large = _place(magnitude, exponent, len(self.value))
        total = self.value + torch.where(negative, -addend, addend)
        _carry(total)
        top = total[-1]
        sign_bit = (self.rule.width - 1) % LIMB  # of the highest limb
        if self.rule.overflow == "wrap":
            half = 1 << sign_bit
            top.copy_(((top + half) & (2 * half - 1)) - half)
        else:
            beyond = torch.bitwise_right_shift(top, sign_bit)  # 0 or -1 inside the range
            below = torch.where(too_large, negative, beyond < -1)
            above = torch.where(too_large, ~negative, beyond > 0)
            total.masked_fill_(below, 0).masked_fill_(above, MASK)
            top.masked_fill_(below, -1 << sign_bit).masked_fill_(above, (1 << sign_bit) - 1)
        self.value = total

    def rounded_to_odd(self) -> Tensor:
        """The registers' integers as float64, rounded to odd at 53 bits."""
        negative = self.value[-1] < 0
        magnitude = torch.where(negative, -self.value, self.value)
        _carry(magnitude)
        # Upwards: what a lower limb lost stays in its last, odd bit.
        odd = torch.zeros_like(negative, dtype=torch.float64)
        for i, limb in enumerate(magnitude):
            odd = add_to_odd(limb.to(torch.float64) * 2.0 ** (LIMB * i), odd)
        return torch.where(negative, -odd, odd)


def _carry(values: Tensor) -> None:
    """Bring all limbs but the highest into 0 to 2^32 - 1, in place."""
    for lower, upper in pairwise(values):
        upper += torch.bitwise_right_shift(lower, LIMB)
        lower &= MASK


def _magnitude(total: WideSum, lsb: int, limbs: int) -> Tensor:
    """|total| in units of 2^lsb as limbs (limbs, m, n)."""
    magnitude = _limbs(total.high.abs(), lsb, limbs)
    if total.low is not None:
        magnitude += _limbs(torch.where(total.high < 0, -total.low, total.low), lsb, limbs)
        _carry(magnitude)
    if total.whole is not None:
        units = abs(total.whole.sums) * 2 ** (total.whole.lsb - lsb)
        digits = np.stack([units // 2 ** (LIMB * i) & MASK for i in range(limbs)]).astype(np.int64)
        rows = torch.tensor(total.whole.rows, device=magnitude.device)
        magnitude[:, rows] = torch.tensor(digits, device=magnitude.device)
    return magnitude


def _limbs(x: Tensor, lsb: int, limbs: int) -> Tensor:
    """Multiples of 2^lsb as limbs (limbs, m, n), of the sign of each."""
    remainder = x * 2.0**-lsb
    parts = remainder.new_empty((limbs, *remainder.shape), dtype=torch.int64)
    for i in reversed(range(limbs)):
        weight = 2.0 ** (LIMB * i)
        limb = (remainder * (1 / weight)).trunc_()
        parts[i] = limb.to(torch.int64)
        remainder = remainder - limb * weight
    return parts


def _place(magnitude: Tensor, exponent: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """RZ(magnitude x 2^exponent) as `count` limbs, and whether there is more above them."""
    exponent = exponent.to(torch.int64).clamp(-LIMB * (len(magnitude) + 1), LIMB * (count + 1))
    offset, shift = torch.bitwise_right_shift(exponent, 5), exponent & (LIMB - 1)
    empty = torch.zeros_like(magnitude[:1])
    shifted = torch.cat([torch.bitwise_left_shift(magnitude, shift), empty])
    _carry(shifted)
    places = torch.arange(len(shifted), device=shifted.device)[:, None, None] + offset
    too_large = ((shifted != 0) & (places >= count)).any(dim=0)
    padded = torch.cat([empty, shifted, empty])
    source = torch.arange(count, device=shifted.device)[:, None, None] - offset + 1
    return padded.gather(0, source.clamp(0, len(padded) - 1)), too_large
