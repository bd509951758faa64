"""Layouts of quantised weights: the stored tensors of one weight to a ScaledArray.

Codes and scales keep their bits. A zero scale, which libraries write for blocks of zeros, becomes
the smallest scale over codes of zero: the values are the same. Scales of bfloat16 become float32.
"""

from collections.abc import Callable, Mapping
from math import gcd
from typing import NamedTuple

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ..errors import integer
from ..formats import (
    E2M1,
    E4M3,
    E5M2,
    E8M0,
    FLOAT16,
    FLOAT32,
    INT4_FULL,
    INT8_FULL,
    ElementFormat,
    FloatFormat,
    IntegerFormat,
    PowerFormat,
    ScaleFormat,
)
from ..schemes import SCHEMES, Level, ScaledArray, Scheme
from ..schemes.grouping import CHANNEL, TENSOR, Granularity, block, tile

Parts = Mapping[str, NDArray]
ELEMENTS = {
    np.dtype(ml_dtypes.float8_e4m3fn): E4M3,
    np.dtype(ml_dtypes.float8_e5m2): E5M2,
}
INTEGERS: dict[int, IntegerFormat] = {4: INT4_FULL, 8: INT8_FULL}
E8M0_DTYPE = np.dtype(ml_dtypes.float8_e8m0fnu)
BFLOAT16_DTYPE = np.dtype(ml_dtypes.bfloat16)
FLOATS = (np.float16, np.float32, BFLOAT16_DTYPE)
TORCHAO = ("._weight_qdata", "._weight_scale", "._weight_zero_point")
"""Ends of the names of torchao's tensors of integers."""
AWQ_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)
"""Place in a 32-bit word of each of 8 neighbours, in AWQ's layout."""


# Parts of every layout ----------------------------------------------------------------------------


def _array(
    elements: ElementFormat,
    codes: NDArray,
    scales: list[NDArray],
    levels: list[tuple[Granularity, ScaleFormat]],
    source: str,
    zero_points: NDArray | None = None,
) -> ScaledArray:
    """The array of a scheme by these levels, the package's own row where it has one."""
    rules = ["floor" if isinstance(fmt, PowerFormat) else "amax" for _, fmt in levels]
    made = tuple(
        Level(groups, fmt, rule) for (groups, fmt), rule in zip(levels, rules, strict=True)
    )
    scheme = _known(elements, made, zero_points is not None) or Scheme(
        f"{elements}_{source}", (elements,), made, source, zero_points is not None
    )
    codes, scales, zero_points = _without_zero_scales(scheme, codes, scales, zero_points)
    return ScaledArray(scheme, codes, tuple(scales), zero_points)


def _known(elements: ElementFormat, levels: tuple[Level, ...], zero_point: bool) -> Scheme | None:
    for row in SCHEMES.values():
        if (row.elements, row.levels, row.zero_point) == ((elements,), levels, zero_point):
            return row
    return None


def _without_zero_scales(
    scheme: Scheme, codes: NDArray, scales: list[NDArray], zero_points: NDArray | None
) -> tuple[NDArray, list[NDArray], NDArray | None]:
    """Codes of zero under the smallest scale where a scale of the last level is zero."""
    level, stored = scheme.levels[-1], scales[-1]
    fmt = level.format
    if not isinstance(fmt, FloatFormat):
        return codes, scales, zero_points
    zero = fmt.exact(stored) == 0
    if not zero.any():
        return codes, scales, zero_points
    within = zero
    for axis in range(codes.ndim):
        within = within.repeat(codes.shape[axis] // zero.shape[axis], axis=axis)
    smallest = stored.dtype.type(1) if stored.dtype == np.uint8 else stored.dtype.type(fmt.smallest)
    scales = [*scales[:-1], np.where(zero, smallest, stored)]
    if zero_points is not None:
        zero_points = np.where(zero, np.int32(0), zero_points)
    return np.where(within, codes.dtype.type(0), codes), scales, zero_points


def _need(layout: str, parts: Parts, *names: str) -> list[NDArray]:
    """The named tensors; ValueError naming one that is missing."""
    for name in names:
        if name not in parts:
            raise ValueError(f"tensors of a {layout} weight must have {name!r}, not {[*parts]}")
    return [np.asarray(parts[name]) for name in names]


def _float_scale(name: str, scale: NDArray) -> tuple[NDArray, FloatFormat]:
    """A scale as FLOAT16 if it is float16, else as FLOAT32; TypeError unless it is a float."""
    if scale.dtype == np.float16:
        return scale, FLOAT16
    if scale.dtype in FLOATS:
        return scale.astype(np.float32), FLOAT32
    raise TypeError(f"{name} must be float32, float16 or bfloat16, not {scale.dtype}")


def _exponents(name: str, scale: NDArray) -> NDArray[np.uint8]:
    """E8M0 codes; TypeError for numbers, which are no exponents."""
    if scale.dtype == np.uint8 or scale.dtype == E8M0_DTYPE:
        return scale.view(np.uint8)
    raise TypeError(f"{name} must hold E8M0 codes, uint8 or float8_e8m0fnu, not {scale.dtype}")


def _e4m3_scale(name: str, scale: NDArray) -> NDArray[np.uint8]:
    """E4M3 codes of positive scales."""
    if scale.dtype != np.dtype(ml_dtypes.float8_e4m3fn) and scale.dtype != np.uint8:
        raise TypeError(f"{name} must be float8_e4m3fn, not {scale.dtype}")
    return scale.view(np.uint8)


def _nibbles(packed: NDArray) -> NDArray[np.uint8]:
    """Two codes per byte of the last axis, the first one in the low half."""
    if packed.dtype != np.uint8:
        raise TypeError(f"packed codes must have dtype uint8, not {packed.dtype}")
    low, high = packed & np.uint8(15), packed >> np.uint8(4)
    return np.stack([low, high], axis=-1, dtype=np.uint8).reshape(*packed.shape[:-1], -1)


def _words(packed: NDArray, bits: int, axis: int) -> NDArray[np.uint8]:
    """Unsigned numbers of 4 or 8 bits in 32-bit words along `axis`, the first in the low bits."""
    if packed.dtype not in (np.int32, np.uint32):
        raise TypeError(f"packed codes must have dtype int32, not {packed.dtype}")
    if packed.ndim != 2:
        raise ValueError(f"packed codes must have 2 axes, not shape {packed.shape}")
    words = np.ascontiguousarray(np.moveaxis(packed, axis, -1))
    return np.moveaxis(_of_bytes(words.view(np.uint8), bits), -1, axis)


def _dense_words(packed: NDArray, bits: int, columns: int) -> NDArray[np.uint8]:
    """`columns` unsigned numbers of `bits`, 4 or 8, per row, without gaps."""
    rows = packed.view(np.uint8).reshape(packed.shape[0], -1)
    return _of_bytes(rows, bits)[:, :columns]


def _word_count(numbers: int, bits: int) -> int:
    """32-bit words of numbers without gaps."""
    return -(-numbers * bits // 32)


def _of_bytes(stored: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    return _nibbles(stored) if bits == 4 else stored


def _integer_codes(numbers: NDArray[np.uint8], fmt: IntegerFormat) -> NDArray[np.uint8]:
    """Two's complement codes of unsigned numbers that count from the lowest one."""
    largest = 2**fmt.bits - 1
    return (numbers + np.uint8(fmt.lowest & largest)) & np.uint8(largest)


def _zero_points(numbers: NDArray[np.uint8], fmt: IntegerFormat) -> NDArray[np.int32]:
    """Zero points of unsigned numbers that count from the lowest one."""
    return numbers.astype(np.int32) + fmt.lowest


def _groups(scales: NDArray, codes: NDArray) -> Granularity:
    """Granularity of scales of rows in blocks; of channels for one block per row."""
    count = scales.shape[-1]
    if scales.ndim != codes.ndim or codes.shape[-1] % max(count, 1):
        raise ValueError(
            f"scales of codes {codes.shape} must have whole groups per row, not shape "
            f"{scales.shape}"
        )
    return CHANNEL if count == 1 else block(codes.shape[-1] // count)


def _tiles(codes: NDArray, scales: NDArray, rows: int, columns: int) -> tuple[NDArray, Granularity]:
    """Scales of tiles, in smaller tiles where these do not divide the matrix.

    The last tiles of an odd shape are cut: tiles of the common divisors repeat the scales exactly.
    """
    height, width = codes.shape
    want = -(-height // rows), -(-width // columns)
    if scales.shape != want:
        raise ValueError(
            f"scales of codes {codes.shape} must have shape {want}, not {scales.shape}"
        )
    small = gcd(height, rows), gcd(width, columns)
    at_row = np.arange(0, height, small[0]) // rows
    at_column = np.arange(0, width, small[1]) // columns
    return scales[at_row[:, None], at_column[None, :]], tile(*small)


# Layouts ------------------------------------------------------------------------------------------


def mxfp4_blocks(blocks: NDArray, scales: NDArray) -> ScaledArray:
    """gpt-oss: uint8 `blocks` (..., rows, groups, 16), E8M0 `scales` (..., rows, groups)."""
    codes = _nibbles(blocks)
    codes = codes.reshape(*codes.shape[:-2], codes.shape[-2] * codes.shape[-1])
    return _array(E2M1, codes, [_exponents("scales", scales)], [(block(32), E8M0)], "mxfp4")


def mx_elements(
    codes: NDArray, scales: NDArray, elements: ElementFormat, block_size: int = 32
) -> ScaledArray:
    """Codes of one format, one per byte, in blocks of a row under E8M0 scales."""
    if codes.dtype in ELEMENTS:
        codes = codes.view(np.uint8)
    levels: list[tuple[Granularity, ScaleFormat]] = [(block(block_size), E8M0)]
    return _array(elements, codes, [_exponents("scales", scales)], levels, f"mx_b{block_size}")


def deepseek_fp8(
    weight: NDArray, scale_inv: NDArray, rows: int = 128, columns: int = 128
) -> ScaledArray:
    """DeepSeek-V3: FP8 `weight` and the scale of each tile, float32 or E8M0 (V3.1 on).

    The scale multiplies, in spite of its name. Any number of rows and columns.
    """
    if weight.dtype not in ELEMENTS:
        known = ", ".join(map(str, ELEMENTS))
        raise TypeError(f"weight must be one of {known}, not {weight.dtype}")
    elements, codes = ELEMENTS[weight.dtype], weight.view(np.uint8)
    if scale_inv.dtype in (np.uint8, E8M0_DTYPE):
        fmt: ScaleFormat = E8M0
        stored = _exponents("weight_scale_inv", scale_inv)
    else:
        stored, fmt = _float_scale("weight_scale_inv", scale_inv)
    stored, groups = _tiles(codes, stored, rows, columns)
    return _array(elements, codes, [stored], [(groups, fmt)], f"{rows}x{columns}")


def nvfp4_packed(packed: NDArray, scale: NDArray, global_scale: NDArray) -> ScaledArray:
    """compressed-tensors NVFP4: the global scale divides; the tensor scale here is RNE(1 / it)."""
    inverse = np.float32(1) / np.asarray(global_scale, np.float32).reshape(())
    return _nvfp4(packed, scale, inverse, "nvfp4-pack-quantized")


def modelopt_nvfp4(packed: NDArray, scale: NDArray, scale_2: NDArray) -> ScaledArray:
    """ModelOpt NVFP4: E4M3 `scale` per 16 elements, and `scale_2` for the tensor."""
    tensor = np.asarray(scale_2, np.float32).reshape(())
    return _nvfp4(packed, scale, tensor, "modelopt")


def modelopt_int4(packed: NDArray, scale: NDArray) -> ScaledArray:
    """ModelOpt INT4: bytes of the codes of two neighbouring rows, the first one in the low half."""
    codes = np.ascontiguousarray(_nibbles(packed.swapaxes(-1, -2)).swapaxes(-1, -2))
    return _int4(codes, scale, "modelopt")


def _int4(codes: NDArray, scale: NDArray, source: str) -> ScaledArray:
    """Codes of signed integers under float scales of groups of a row."""
    stored, fmt = _float_scale("weight_scale", scale)
    levels: list[tuple[Granularity, ScaleFormat]] = [(_groups(stored, codes), fmt)]
    return _array(INT4_FULL, codes, [stored], levels, source)


def _nvfp4(packed: NDArray, scale: NDArray, tensor: NDArray, source: str) -> ScaledArray:
    codes, stored = _nibbles(packed), _e4m3_scale("weight_scale", scale)
    outer = tensor.reshape((1,) * codes.ndim)
    levels: list[tuple[Granularity, ScaleFormat]]
    levels = [(TENSOR, FLOAT32), (_groups(stored, codes), E4M3)]
    return _array(E2M1, codes, [outer, stored], levels, source)


def pack_quantized(
    packed: NDArray,
    scale: NDArray,
    columns: int,
    bits: int = 4,
    zero_point: NDArray | None = None,
) -> ScaledArray:
    """compressed-tensors integers in 32-bit words; zero points are packed along the rows."""
    fmt = INTEGERS[integer("bits", bits, 4, 8)] if bits in INTEGERS else _no_bits(bits)
    count = _word_count(columns, bits)
    if packed.ndim != 2 or packed.shape[1] != count:
        raise ValueError(
            f"weight_packed of {bits} bits and {columns} columns must have shape (rows, {count}), "
            f"not {packed.shape}"
        )
    codes = _integer_codes(_dense_words(packed, bits, columns), fmt)
    stored, scale_format = _float_scale("weight_scale", scale)
    zeros = None
    if zero_point is not None:
        transposed = np.ascontiguousarray(zero_point.T)
        zeros = _zero_points(_dense_words(transposed, bits, len(codes)).T, fmt)
        _check_zeros("weight_zero_point", zeros, stored)
    levels: list[tuple[Granularity, ScaleFormat]] = [(_groups(stored, codes), scale_format)]
    return _array(fmt, codes, [stored], levels, "pack-quantized", _int32(zeros))


def int_quantized(
    weight: NDArray, scale: NDArray, zero_point: NDArray | None = None, bits: int = 8
) -> ScaledArray:
    """compressed-tensors INT8, and FP8: a code per byte, a scale per tensor, row or group.

    bits: 4 for integers from -8 to 7, one per byte.
    """
    fmt = INTEGERS[bits] if bits in INTEGERS else _no_bits(bits)
    elements: ElementFormat = ELEMENTS.get(weight.dtype, fmt)
    if elements == fmt and weight.dtype != np.int8:
        raise TypeError(f"weight must be int8, or FP8, not {weight.dtype}")
    if elements == fmt and not fmt.lowest <= weight.min() <= weight.max() <= fmt.highest:
        raise ValueError(f"weight must be from {fmt.lowest} to {fmt.highest}, not beyond")
    codes = weight.view(np.uint8) & np.uint8(2**elements.bits - 1)
    stored, fmt = _float_scale("weight_scale", scale)
    groups = TENSOR if stored.size == 1 else CHANNEL
    if stored.ndim == codes.ndim and stored.size > 1:
        groups = _groups(stored, codes)
    shape = (1,) * codes.ndim if groups == TENSOR else (*codes.shape[:-1], -1)
    if zero_point is not None and zero_point.dtype.kind not in "iu":
        raise TypeError(f"zero_point must hold integers, not {zero_point.dtype}")
    zeros = None if zero_point is None else zero_point.reshape(shape)
    levels: list[tuple[Granularity, ScaleFormat]] = [(groups, fmt)]
    return _array(elements, codes, [stored.reshape(shape)], levels, "quantized", _int32(zeros))


def gptq(
    qweight: NDArray,
    qzeros: NDArray,
    scales: NDArray,
    g_idx: NDArray | None = None,
    bits: int = 4,
    stored_zero: int = 1,
) -> ScaledArray:
    """GPTQ: words along the input; a zero point is stored less `stored_zero` (0 in version 2).

    Version 1 subtracts from whole words, so a zero point of 0 borrows from its neighbour, and the
    sum here undoes it. g_idx: the group of each input. Groups in the order of activations
    (desc_act) repeat their scales for each element.
    """
    fmt = INTEGERS[bits] if bits in INTEGERS else _no_bits(bits)
    numbers = _words(qweight, bits, 0)
    if qzeros.dtype in (np.int32, np.uint32):
        ones = stored_zero * (0xFFFFFFFF // (2**bits - 1))
        qzeros = qzeros.view(np.uint32) + np.uint32(ones)
    zeros = _zero_points(_words(qzeros, bits, 1), fmt)
    _check_zeros("qzeros", zeros, scales)
    if g_idx is not None:
        groups = len(scales)
        if g_idx.shape != (len(numbers),) or not 0 <= g_idx.min() <= g_idx.max() < groups:
            raise ValueError(f"g_idx must have a group from 0 to {groups - 1} for each input")
        if not np.array_equal(g_idx, np.arange(len(numbers)) // max(len(numbers) // groups, 1)):
            zeros, scales = zeros[g_idx], scales[g_idx]
    return _transposed(numbers, zeros, scales, fmt, "gptq")


def awq(qweight: NDArray, qzeros: NDArray, scales: NDArray, bits: int = 4) -> ScaledArray:
    """AWQ: words along the output, with neighbours in the order `AWQ_ORDER`."""
    fmt = INTEGERS[bits] if bits in INTEGERS else _no_bits(bits)

    def ordered(packed: NDArray) -> NDArray:
        numbers = _words(packed, bits, 1)
        order = AWQ_ORDER if bits == 4 else tuple(range(32 // bits))
        cut = numbers.reshape(len(numbers), -1, len(order))
        return cut[:, :, order].reshape(numbers.shape)

    zeros = _zero_points(ordered(qzeros), fmt)
    _check_zeros("qzeros", zeros, scales)
    return _transposed(ordered(qweight), zeros, scales, fmt, "awq")


def _check_zeros(name: str, zeros: NDArray, scales: NDArray) -> None:
    """ValueError unless there is one zero point for each scale."""
    if zeros.shape != scales.shape:
        raise ValueError(
            f"{name} must hold one zero point for each of scales {scales.shape}, not {zeros.shape}"
        )


def _transposed(
    numbers: NDArray, zeros: NDArray, scales: NDArray, fmt: IntegerFormat, source: str
) -> ScaledArray:
    """A weight (outputs, inputs) of numbers (inputs, outputs); zeros, scales (groups, outputs)."""
    codes = np.ascontiguousarray(_integer_codes(numbers, fmt).T)
    stored, scale_format = _float_scale("scales", np.ascontiguousarray(scales.T))
    levels: list[tuple[Granularity, ScaleFormat]] = [(_groups(stored, codes), scale_format)]
    return _array(fmt, codes, [stored], levels, source, _int32(zeros.T))


def torchao_int4(qdata: NDArray, scale: NDArray, zero_point: NDArray) -> ScaledArray:
    """torchao INT4 of two layouts, scales and zero points (groups, rows).

    Int4Tensor: bytes of two signed codes, with any leading axes. Its zero points are numbers that
    it adds after scaling, so they must be zero. Int4PlainInt32Tensor: 32-bit words of unsigned
    codes, zero points of int8.
    """
    if qdata.ndim < 2 or (qdata.dtype == np.int32 and qdata.ndim > 2):
        raise ValueError(f"qdata must have 2 axes (more if it is int8), not shape {qdata.shape}")
    if scale.shape != zero_point.shape or not _groups_by_rows(qdata, scale):
        raise ValueError(
            f"scale and zero_point of qdata {qdata.shape} must have shape (..., groups, rows), not "
            f"{scale.shape} and {zero_point.shape}"
        )
    if qdata.dtype == np.int32:
        if zero_point.dtype != np.int8:
            raise TypeError(f"zero_point of words must be int8, not {zero_point.dtype}")
        zeros = _zero_points(zero_point, INT4_FULL)
        return _transposed(_words(qdata, 4, 1).T, zeros, scale, INT4_FULL, "int4")
    if qdata.dtype not in (np.int8, np.uint8):
        raise TypeError(f"qdata must be int8 or int32, not {qdata.dtype}")
    if zero_point.astype(np.float32).any():
        raise ValueError("zero_point must be zero: an Int4Tensor adds others after scaling")
    return _int4(
        _nibbles(qdata.view(np.uint8)), np.ascontiguousarray(scale.swapaxes(-1, -2)), "int4"
    )


def _groups_by_rows(qdata: NDArray, scale: NDArray) -> bool:
    """Whether scales have shape (..., groups, rows)."""
    return qdata.ndim > 1 and (
        scale.ndim == qdata.ndim and (*scale.shape[:-2], scale.shape[-1]) == qdata.shape[:-1]
    )


def gguf_q8_0(blocks: NDArray) -> ScaledArray:
    """GGUF Q8_0: (..., groups, 34) bytes, a float16 scale and 32 codes of int8 each."""
    scale = np.ascontiguousarray(blocks[..., :2]).view(np.float16)[..., 0]
    codes = np.ascontiguousarray(blocks[..., 2:]).reshape(*blocks.shape[:-2], -1)
    return _array(INT8_FULL, codes, [scale], [(block(32), FLOAT16)], "q8_0")


def gguf_mxfp4(blocks: NDArray) -> ScaledArray:
    """GGUF MXFP4: (..., groups, 17) bytes, an E8M0 scale; low halves hold the first 16 codes."""
    scale, packed = np.ascontiguousarray(blocks[..., 0]), blocks[..., 1:]
    codes = np.concatenate([packed & 15, packed >> 4], axis=-1)
    codes = codes.reshape(*blocks.shape[:-2], -1)
    return _array(E2M1, codes, [scale], [(block(32), E8M0)], "mxfp4")


def _int32(zeros: NDArray | None) -> NDArray[np.int32] | None:
    return None if zeros is None else np.ascontiguousarray(zeros.astype(np.int32))


def _no_bits(bits: int) -> IntegerFormat:
    raise ValueError(f"bits must be one of {', '.join(map(str, INTEGERS))}, not {bits}")


# Tensors of a checkpoint --------------------------------------------------------------------------


class Layout(NamedTuple):
    """A layout of checkpoints.

    suffixes: ends of the names of a weight's tensors, the first one its codes. optional: further
    ends. accepts: whether the tensors, and the model's `quantization_config`, are of this layout.
    read: their ScaledArray. classes: torchao's classes of this layout. A file that names the class
    of a weight decides instead of `accepts`.
    """

    suffixes: tuple[str, ...]
    accepts: Callable[[Parts, Mapping], bool]
    read: Callable[[Parts, Mapping], ScaledArray]
    optional: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()

    def takes(self, parts: Parts, config: Mapping, kind: str | None) -> bool:
        """Whether a weight is of this layout; kind: the class that the file names."""
        if kind is not None and self.classes:
            return kind in self.classes
        return self.accepts(parts, config)


def _method(config: Mapping) -> str:
    return str(config.get("quant_method", "")).lower()


def _packed_bits(config: Mapping) -> list[int]:
    """Bits of the weights in each group of a configuration of compressed-tensors."""
    groups = config.get("config_groups", {}).values()
    return [int(bits) for g in groups if (bits := (g.get("weights") or {}).get("num_bits"))]


def _block_shape(config: Mapping) -> tuple[int, int]:
    rows, columns = config.get("weight_block_size", (128, 128))
    return int(rows), int(columns)


def _read_packed(parts: Parts, config: Mapping) -> ScaledArray:
    packed, scale, shape = _need(
        "pack-quantized", parts, "weight_packed", "weight_scale", "weight_shape"
    )
    _check_order(parts.get("weight_g_idx"))
    columns, known = int(shape[-1]), _packed_bits(config) or [*INTEGERS]
    fitting = [bits for bits in known if _word_count(columns, bits) == packed.shape[-1]]
    bits = (fitting or known)[0]
    return pack_quantized(packed, scale, columns, bits, parts.get("weight_zero_point"))


def _check_order(g_idx: NDArray | None) -> None:
    if g_idx is not None:
        raise ValueError("weight_g_idx must be missing: groups must hold neighbours of a row")


GPTQ_STORED_ZERO = {"gptq": 1, "gptq_v2": 0}
"""Number that each version of GPTQ subtracts from zero points, by its name in config.json."""


def _version(config: Mapping, default: str, *known: str) -> str:
    """The packing that config.json names; ValueError unless it is known."""
    names = [config[key] for key in ("checkpoint_format", "version", "format") if key in config]
    name = str(names[0]).lower() if names else default
    if name not in known:
        raise ValueError(f"format in config.json must be {' or '.join(known)}, not {name!r}")
    return name


def _read_gptq(parts: Parts, config: Mapping) -> ScaledArray:
    stored_zero = GPTQ_STORED_ZERO[_version(config, "gptq", *GPTQ_STORED_ZERO)]
    codes, zeros, scales = _need("gptq", parts, "qweight", "qzeros", "scales")
    bits = int(config.get("bits", 4))
    if config.get("desc_act") and "g_idx" not in parts:
        raise ValueError("tensors of a gptq weight with desc_act must have 'g_idx', not lack it")
    return gptq(codes, zeros, scales, parts.get("g_idx"), bits, stored_zero)


def _read_awq(parts: Parts, config: Mapping) -> ScaledArray:
    _version(config, "gemm", "gemm")
    codes, zeros, scales = _need("awq", parts, "qweight", "qzeros", "scales")
    return awq(codes, zeros, scales, int(config.get("bits", 4)))


def _torchao_mx(codes: NDArray, scales: NDArray) -> ScaledArray:
    elements = ELEMENTS.get(codes.dtype, E2M1)
    codes = codes if codes.dtype in ELEMENTS else _nibbles(codes)
    return mx_elements(codes, scales, elements, codes.shape[-1] // scales.shape[-1])


def _rows_or_tiles(
    weight: NDArray, scale: NDArray, zero_point: NDArray | None, g_idx: NDArray | None
) -> ScaledArray:
    """INT8 or FP8; ModelOpt's tiles of 128 x 128 have scales (rows, 1, columns, 1)."""
    _check_order(g_idx)
    if scale.ndim == 4 and scale.shape[1] == scale.shape[3] == 1:
        return deepseek_fp8(weight, scale[:, 0, :, 0])
    return int_quantized(weight, scale, zero_point)


def _int4_alone(weight: NDArray, scale: NDArray, scale_2: NDArray | None) -> ScaledArray:
    """ModelOpt INT4; ValueError for W4A8."""
    if scale_2 is not None:
        raise ValueError(
            "weight_scale_2 of INT4 codes must be missing: W4A8 rounds their values again to FP8"
        )
    return modelopt_int4(weight, scale)


def _is_int4(qdata: NDArray, scale: NDArray, zero_point: NDArray) -> bool:
    """Whether tensors of no named class are INT4; ValueError if they can be INT8 too."""
    if qdata.dtype == np.int32:
        return True
    if zero_point.dtype == np.int8 or not _groups_by_rows(qdata, scale):
        return False
    if scale.shape[:-1] == qdata.shape[:-1]:
        raise ValueError(
            f"scales {scale.shape} of qdata {qdata.shape} fit INT4 and INT8: the file's metadata "
            "must name torchao's class"
        )
    return True


def _is_awq(parts: Parts, config: Mapping) -> bool:
    if method := _method(config):
        return method == "awq"
    return parts["qweight"].shape[1] != parts["scales"].shape[1]


def _holds_pairs_of_rows(weight: NDArray, scale: NDArray) -> bool:
    """Whether bytes hold the codes of two rows, as float scales for twice the rows tell."""
    rows = (*weight.shape[:-2], 2 * weight.shape[-2]) if weight.ndim > 1 else ()
    return weight.dtype == np.uint8 and scale.dtype in FLOATS and scale.shape[:-1] == rows


def _takes(read: Callable[..., ScaledArray], *suffixes: str) -> Callable[..., ScaledArray]:
    """The reader that hands these tensors to `read`, None for one that is missing."""
    return lambda parts, config: read(*map(parts.get, suffixes))


LAYOUTS: dict[str, Layout] = {
    "gpt-oss mxfp4": Layout(
        ("_blocks", "_scales"),
        lambda parts, config: parts["_blocks"].dtype == np.uint8,
        _takes(mxfp4_blocks, "_blocks", "_scales"),
    ),
    "deepseek fp8": Layout(
        (".weight", ".weight_scale_inv"),
        lambda parts, config: parts[".weight"].dtype in ELEMENTS,
        lambda parts, config: deepseek_fp8(
            parts[".weight"], parts[".weight_scale_inv"], *_block_shape(config)
        ),
    ),
    "nvfp4-pack-quantized": Layout(
        (".weight_packed", ".weight_scale", ".weight_global_scale"),
        lambda parts, config: True,
        _takes(nvfp4_packed, ".weight_packed", ".weight_scale", ".weight_global_scale"),
    ),
    "pack-quantized": Layout(
        (".weight_packed", ".weight_scale", ".weight_shape"),
        lambda parts, config: parts[".weight_packed"].dtype == np.int32,
        lambda parts, config: _read_packed(_local(parts), config),
        (".weight_zero_point", ".weight_g_idx"),
    ),
    "mxfp4-pack-quantized": Layout(
        (".weight_packed", ".weight_scale"),
        lambda parts, config: parts[".weight_scale"].dtype == np.uint8,
        lambda parts, config: mx_elements(
            _nibbles(parts[".weight_packed"]), parts[".weight_scale"], E2M1
        ),
    ),
    "modelopt int4": Layout(
        (".weight", ".weight_scale"),
        lambda parts, config: _holds_pairs_of_rows(parts[".weight"], parts[".weight_scale"]),
        _takes(_int4_alone, ".weight", ".weight_scale", ".weight_scale_2"),
        (".weight_scale_2",),
    ),
    "modelopt nvfp4": Layout(
        (".weight", ".weight_scale", ".weight_scale_2"),
        lambda parts, config: parts[".weight"].dtype == np.uint8,
        _takes(modelopt_nvfp4, ".weight", ".weight_scale", ".weight_scale_2"),
    ),
    "modelopt mxfp4": Layout(
        (".weight", ".weight_scale"),
        lambda parts, config: parts[".weight"].dtype == parts[".weight_scale"].dtype == np.uint8,
        lambda parts, config: mx_elements(_nibbles(parts[".weight"]), parts[".weight_scale"], E2M1),
    ),
    "mxfp8-quantized": Layout(
        (".weight", ".weight_scale"),
        lambda parts, config: (
            parts[".weight"].dtype in ELEMENTS and parts[".weight_scale"].dtype == np.uint8
        ),
        lambda parts, config: mx_elements(
            parts[".weight"], parts[".weight_scale"], ELEMENTS[parts[".weight"].dtype]
        ),
    ),
    "int-quantized": Layout(
        (".weight", ".weight_scale"),
        lambda parts, config: parts[".weight"].dtype in (np.int8, *ELEMENTS),
        _takes(_rows_or_tiles, ".weight", ".weight_scale", ".weight_zero_point", ".weight_g_idx"),
        (".weight_zero_point", ".weight_g_idx"),
    ),
    "torchao nvfp4": Layout(
        TORCHAO[:2],
        lambda parts, config: parts["._weight_scale"].dtype == np.dtype(ml_dtypes.float8_e4m3fn),
        lambda parts, config: modelopt_nvfp4(
            parts["._weight_qdata"],
            parts["._weight_scale"],
            parts.get("._weight_per_tensor_scale", np.ones((), np.float32)),
        ),
        ("._weight_per_tensor_scale",),
        classes=("NVFP4Tensor",),
    ),
    "torchao mx": Layout(
        TORCHAO[:2],
        lambda parts, config: parts["._weight_scale"].dtype == E8M0_DTYPE,
        _takes(_torchao_mx, *TORCHAO[:2]),
        classes=("MXTensor",),
    ),
    "torchao int4": Layout(
        TORCHAO,
        lambda parts, config: _is_int4(*map(parts.__getitem__, TORCHAO)),
        _takes(torchao_int4, *TORCHAO),
        classes=("Int4Tensor", "Int4PlainInt32Tensor"),
    ),
    "torchao integers": Layout(
        TORCHAO,
        lambda parts, config: (
            parts["._weight_qdata"].shape[-1] % parts["._weight_scale"].shape[-1] == 0
            and parts["._weight_zero_point"].dtype == np.int8
        ),
        _takes(int_quantized, *TORCHAO),
        classes=("IntxUnpackedToInt8Tensor", "Int8Tensor"),
    ),
    "torchao fp8": Layout(
        TORCHAO[:2],
        lambda parts, config: parts["._weight_qdata"].dtype in ELEMENTS,
        _takes(int_quantized, *TORCHAO[:2]),
        classes=("Float8Tensor",),
    ),
    "awq": Layout(
        (".qweight", ".qzeros", ".scales"),
        lambda parts, config: _is_awq(_local(parts), config),
        lambda parts, config: _read_awq(_local(parts), config),
    ),
    "gptq": Layout(
        (".qweight", ".qzeros", ".scales"),
        lambda parts, config: True,
        lambda parts, config: _read_gptq(_local(parts), config),
        (".g_idx",),
    ),
}
"""Layouts of safetensors files by name, the most specific of a set of tensors first."""


def _local(parts: Parts) -> Parts:
    """Parts without the dot before their names."""
    return {name.removeprefix("."): part for name, part in parts.items()}
