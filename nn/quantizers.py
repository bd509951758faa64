"""Quantisation of a linear layer's operands: one interface for MX, schemes and neither.

A matrix (rows, K) of one role becomes values, which ordinary products multiply, or codes, which
`multiply.py` does by an accumulator. `transposed` says that the matrix is the transpose of what the
role is: MX blocks run along the axis that is summed over in any case, groups of a scheme along the
features or that axis. `limit` holds magnitudes in place of the extremes of the outermost groups of
a scheme, float32 of the shape of their scales.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import lcm
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..gpu import schemes
from ..gpu.names import scheme_name
from ..gpu.ops.quantize import quantize
from ..gpu.ops.quantize_both import both
from ..gpu.ops.quantize_regrouped import quantize_regrouped
from ..gpu.ops.quantized_values import quantized_values
from ..gpu.ops.regroup import Regrouped, regroup
from ..gpu.ops.unscaled import unscaled
from ..gpu.schemes import PackedWeights, ScaledTensor
from ..gpu.schemes.quantized_values import scheme_values
from ..gpu.tensors.formats import exponent32, power32
from ..gpu.tensors.mx import MXTensor
from ..gpu.tensors.packed import PackedTensor, pack_rows_of, unpack_rows_of
from ..model.formats import E8M0, FORMATS, ElementFormat
from ..model.formats.codes import Specials, round_to_integers
from ..model.schemes import Limits, Scheme
from ..model.schemes.scales import shared_exponent
from .hadamard import Hadamard

Codes = MXTensor | ScaledTensor | PackedTensor | PackedWeights
Operand = Codes | Regrouped | Tensor


class Quantizer(Protocol):
    """Quantisation of a float32, float16 or bfloat16 matrix (rows, K) of a role."""

    def values(
        self,
        x: Tensor,
        transposed: bool,
        limit: Tensor | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> Tensor:
        """Values after quantisation: (rows, K), or K filled up with zeros. Values of codes are
        rounded to float32 and then to `dtype`; without a format the type of `x` stays."""
        ...

    def codes(self, x: Tensor, limit: Tensor | None = None) -> Operand:
        """Codes, with rows and K filled up with zeros to whole groups."""
        ...

    def both(
        self, x: Tensor, fast: bool, mix: Hadamard | None = None, limit: Tensor | None = None
    ) -> tuple[Operand, list[Tensor]]:
        """`values(x)` for a fast product, else `codes(x)`; and contiguous tensors from which
        `transpose` makes the other operand, transformed by `mix`."""
        ...

    def transpose(
        self, kept: list[Tensor], rows: int, columns: int, mix: Hadamard | None = None
    ) -> Operand:
        """The transpose of the matrix (rows, columns) that `both` kept, for `multiply`."""
        ...


@dataclass(frozen=True)
class Unquantized:
    """The precision there is; K is filled up to a multiple of `columns`."""

    columns: int

    def values(
        self,
        x: Tensor,
        transposed: bool,
        limit: Tensor | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> Tensor:
        return self.codes(x)

    def codes(self, x: Tensor, limit: Tensor | None = None) -> Tensor:
        padding = -x.shape[1] % self.columns
        return pad(x, (0, padding)) if padding else x

    def both(
        self, x: Tensor, fast: bool, mix: Hadamard | None = None, limit: Tensor | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        return self.codes(x), [x]

    def transpose(
        self, kept: list[Tensor], rows: int, columns: int, mix: Hadamard | None = None
    ) -> Tensor:
        return self.codes(mixed(kept[0].T, mix))


@dataclass(frozen=True)
class UnscaledQuantizer:
    """A 16-bit format or TF32, by its name, without scales; K is filled up to whole blocks."""

    format: str
    block_size: int

    def values(
        self,
        x: Tensor,
        transposed: bool,
        limit: Tensor | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> Tensor:
        return self.codes(x).dequantize(dtype)

    def codes(self, x: Tensor, limit: Tensor | None = None) -> MXTensor:
        return unscaled(x, self.format, self.block_size)

    def both(
        self, x: Tensor, fast: bool, mix: Hadamard | None = None, limit: Tensor | None = None
    ) -> tuple[Operand, list[Tensor]]:
        return self.values(x, False) if fast else self.codes(x), [x]

    def transpose(
        self, kept: list[Tensor], rows: int, columns: int, mix: Hadamard | None = None
    ) -> MXTensor:
        return self.codes(mixed(kept[0].T, mix))


@dataclass(frozen=True)
class MXQuantizer:
    """MX blocks of a format, by its name, along K."""

    format: str
    block_size: int
    scale_rule: str
    rounding: str

    def __post_init__(self) -> None:
        # Found once: torch.compile would compile again where it is there.
        _ = FORMATS[self.format].largest_finite

    def values(
        self,
        x: Tensor,
        transposed: bool,
        limit: Tensor | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> Tensor:
        rules, words = (self.format, self.block_size, self.scale_rule), self._random_words(x)
        whole = not x.shape[1] % self.block_size
        if x.is_cuda and whole and self.rounding == "nearest_even":
            if x.is_contiguous():
                return quantized_values(x, *rules, dtype)
            if not torch.compiler.is_compiling():  # two kernels, where plain PyTorch takes many
                return self.codes(x).dequantize(dtype)
        return fake_quantize(x, *rules, self.rounding, words).to(dtype)

    def codes(self, x: Tensor, limit: Tensor | None = None) -> MXTensor:
        words = self._random_words(x)
        return quantize(
            x,
            self.format,
            block_size=self.block_size,
            scale_rule=self.scale_rule,
            rounding=self.rounding,
            rng=None if words is None else words.to(torch.uint32),
            pad=True,
        )

    def regrouped(self, x: Tensor) -> Regrouped:
        """`regroup(codes(x))`, for the FP8 units."""
        if self.rounding != "nearest_even":
            return regroup(self.codes(x))
        return quantize_regrouped(x, self.format, self.block_size, self.scale_rule)

    def both(
        self, x: Tensor, fast: bool, mix: Hadamard | None = None, limit: Tensor | None = None
    ) -> tuple[Operand, list[Tensor]]:
        """Both of one look at `x`; kept are codes and scales of its transpose."""
        fmt, size, (rows, columns) = FORMATS[self.format], self.block_size, x.shape
        if mix is not None:
            turned = self.codes(mix(x.T))
            kept = [pack_rows_of(turned.codes, fmt.bits), turned.scales]
            return self.values(x, False) if fast else self.codes(x), kept
        whole = pad(x, (0, -columns % size, 0, -rows % size))
        rules = self.format, size, self.scale_rule, self.rounding, "poison"
        # Tensors, not containers: the compiler keeps no views for the backward pass.
        codes, scales, *across = both(whole, *rules, None, None, True, None)
        along = MXTensor.of_valid_codes(codes[:rows], scales[:rows], fmt, size, 1)
        kept = [pack_rows_of(across[0], fmt.bits), across[1]]
        return along.dequantize() if fast else along, kept

    def transpose(
        self, kept: list[Tensor], rows: int, columns: int, mix: Hadamard | None = None
    ) -> MXTensor:
        packed, scales = kept
        fmt, length = FORMATS[self.format], scales.shape[1] * self.block_size
        codes = unpack_rows_of(packed, fmt.bits, length)[:columns]
        return MXTensor.of_valid_codes(codes, scales[:columns], fmt, self.block_size, 1)

    def _random_words(self, x: Tensor) -> Tensor | None:
        """Words from 0 to 2^32 - 1, int64, one per element of `x` filled up to whole blocks."""
        if self.rounding != "stochastic":
            return None
        rows, length = x.shape
        return random_words(x, (rows, length + -length % self.block_size))


@dataclass(frozen=True)
class SchemeQuantizer:
    """A scheme; K of codes is a multiple of `columns`.

    once: groups run along the features, so that the transpose has the same values; else along K.
    limits: of the one outermost scale, in place of the extremes of each matrix.
    """

    scheme: Scheme
    columns: int
    limits: Limits | None = None
    rounding: str = "nearest_even"
    once: bool = True
    text: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._name_scheme()

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._name_scheme()  # in this process

    def _name_scheme(self) -> None:
        # Made once: torch.compile would not trace what makes it.
        object.__setattr__(self, "text", scheme_name(self.scheme))

    def values(
        self,
        x: Tensor,
        transposed: bool,
        limit: Tensor | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> Tensor:
        if transposed and self.once:
            return self.values(x.T, False, limit, dtype).T
        if x.is_cuda and self.limits is limit is None and self.rounding == "nearest_even":
            return scheme_values(whole_groups(x, self.scheme, self.columns), self.text, dtype)[
                : x.shape[0], : x.shape[1]
            ]
        return self._values(self.codes(x, limit), *x.shape, dtype)

    def codes(self, x: Tensor, limit: Tensor | None = None) -> ScaledTensor:
        whole, rng = whole_groups(x, self.scheme, self.columns), None
        if self.rounding == "stochastic":
            rng, whole = random_words(whole, (2,)), whole.contiguous()  # a seed and an offset
        limits = self.limits if limit is None else limit
        return schemes.quantize(whole, self.text, limits=limits, rounding=self.rounding, rng=rng)

    def both(
        self, x: Tensor, fast: bool, mix: Hadamard | None = None, limit: Tensor | None = None
    ) -> tuple[Operand, list[Tensor]]:
        made = self.codes(x, limit)
        turned = made if self.once else self.codes(mixed(x.T, mix), limit)
        codes, *others = turned.parts()
        kept = [pack_rows_of(codes, self.scheme.elements[0].bits), *others]
        return self._values(made, *x.shape) if fast else made, kept

    def transpose(
        self, kept: list[Tensor], rows: int, columns: int, mix: Hadamard | None = None
    ) -> Operand:
        packed, *others = kept
        length = columns
        if not self.once:
            length = rows if mix is None else mix.length(rows)
        length += _missing(length, self.columns)
        codes = unpack_rows_of(packed, self.scheme.elements[0].bits, length)
        made = ScaledTensor.of_parts(self.text, [codes, *others], 1)
        return self._values(made, rows, columns).T if self.once else made

    def _values(
        self, codes: ScaledTensor, rows: int, columns: int, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        return codes.dequantize(dtype)[:rows, :columns]


def mixed(x: Tensor, mix: Hadamard | None) -> Tensor:
    """`mix(x)`, where there is one."""
    return x if mix is None else mix(x)


def random_words(x: Tensor, shape: Sequence[int]) -> Tensor:
    """Words from 0 to 2^32 - 1 of PyTorch's default generator, int64, on the device of `x`."""
    return torch.randint_like(x.new_empty(tuple(shape), dtype=torch.int64), 0, 2**32)


def whole_groups(x: Tensor, scheme: Scheme, columns: int) -> Tensor:
    """A matrix filled up with zeros to whole groups of rows, and to a multiple of `columns`."""
    rows = lcm(*(level.granularity.rows or 1 for level in scheme.levels))
    below, right = _missing(x.shape[0], rows), _missing(x.shape[1], columns)
    if right or below:
        return pad(x, (0, right, 0, below))
    # A compiler copies for a pad of nothing. Kernels take a matrix without gaps, or its transpose.
    return x if x.is_contiguous() or x.t().is_contiguous() else x.contiguous()


def _missing(size: int, group: int) -> int:
    """Elements that `size` lacks of whole groups; at least one group, for a scale needs one."""
    return max(group - size, -size % group)


def group_columns(*of: Scheme) -> int:
    """The least row length that every group of the schemes divides."""
    return lcm(*(level.granularity.columns or 1 for scheme in of for level in scheme.levels))


# Values without codes ----------------------------------------------------------------------------


def fake_quantize(
    x: Tensor,
    fmt: str,
    block_size: int = 32,
    scale_rule: str = "floor",
    rounding: str = "nearest_even",
    words: Tensor | None = None,
) -> Tensor:
    """`quantize(x, fmt, ..., pad=True).dequantize()` of the last axis, bit for bit, traceable.

    x: float32, float16 or bfloat16 (..., K); a block that holds NaN or Inf becomes NaN.
    words: for ``stochastic`` rounding, int64 from 0 to 2^32 - 1, the shape of the padded `x`.
    Returns float32 (..., K + padding). Arguments are not checked here: `Recipe` has done it.

    A format is given by name, because torch.compile compiles once for each string, where it would
    take the fields of two ElementFormats for variables and trace one graph for both.
    """
    known = FORMATS[fmt]
    x = x.to(torch.float32)
    padding = -x.shape[-1] % block_size
    if padding:
        x = pad(x, (0, padding))
    shape = x.shape
    if not shape[-1]:
        return x  # which DTensor would take for ever to cut
    # Sizes are spelt out: -1 is ambiguous where another axis is empty.
    blocks = x.unflatten(-1, (shape[-1] // block_size, block_size))
    amax = blocks.abs().amax(dim=-1, keepdim=True)
    low, high = E8M0.exponent_range
    exponent = shared_exponent(amax, known, scale_rule).clamp(low, high).to(torch.int32)
    if words is not None:
        words = words.reshape(blocks.shape)
    values = _round(blocks * power32(-exponent), known, rounding, words) * power32(exponent)
    return torch.where(amax.isfinite(), values, torch.nan).reshape(shape)


def _round(values: Tensor, fmt: ElementFormat, rounding: str, words: Tensor | None) -> Tensor:
    """`decode(encode(values, ...))` for scaled values, a third of the work: no codes are made."""
    magnitude = values.abs()
    last_place = exponent32(magnitude).clamp(fmt.emin, fmt.emax) - fmt.mantissa_bits
    integers = round_to_integers(magnitude * power32(-last_place), rounding, words)
    rounded = (integers * power32(last_place)).clamp(max=fmt.largest_finite)
    if fmt.is_integer or fmt.specials is Specials.FNUZ:  # one zero
        return torch.where(values < 0, 0.0 - rounded, rounded)
    return torch.copysign(rounded, values)
