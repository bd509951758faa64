"""Dot products of MX arrays, bit for bit as docs/numerics.md states."""

from dataclasses import replace
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .accumulators import Accumulator, accumulator, check_known, warn_of_operands
from .arrays import chunks
from .blocks import running_value
from .errors import choice, flag
from .formats import BLOCK_SCALES, E8M0, ScaleFormat, block_scale_bits, flushed
from .products import Pair
from .quantize import block_of, held_codes
from .rounding import F32
from .schemes.array import MXArray
from .schemes.integer import check_length
from .schemes.products import with_nan
from .steps.codes import CodeSteps
from .trace import Flags, Recorder, Trace

CHUNK_STEP = 2**17  # products of one step at once: their temporaries stay in the cache
CHUNK_CODES = 2**26  # codes of one operand at once


@overload
def dot(
    a: MXArray | NDArray,
    b: MXArray | NDArray,
    accumulator: Accumulator | str,
    c: ArrayLike | None = None,
    *,
    micro: tuple[ArrayLike, ArrayLike] | None = None,
    scale_format: ScaleFormat | str = E8M0,
) -> F32: ...
@overload
def dot(
    a: MXArray | NDArray,
    b: MXArray | NDArray,
    accumulator: Accumulator | str,
    c: ArrayLike | None = None,
    *,
    trace: Literal[True],
    stages: bool = True,
    micro: tuple[ArrayLike, ArrayLike] | None = None,
    scale_format: ScaleFormat | str = E8M0,
) -> Trace: ...
def dot(
    a: MXArray | NDArray,
    b: MXArray | NDArray,
    accumulator: Accumulator | str,
    c: ArrayLike | None = None,
    *,
    trace: bool = False,
    stages: bool = True,
    micro: tuple[ArrayLike, ArrayLike] | None = None,
    scale_format: ScaleFormat | str = E8M0,
) -> F32 | Trace:
    """Dot products over the last axis of `a` and `b`.

    a, b: MXArrays of one shape and block size, blocked along the last axis; element formats may
    differ. An FP8, FP6 or FP4 array of ml_dtypes holds codes under scales of 1, in blocks of the
    other operand's size or 32. accumulator: an object or its text. c: running values, floats that
    are float32, broadcastable to the leading shape; None for +0. micro: micro-exponents of a and b,
    integers 0 or 1 in the arrays' shape with half the last axis; each multiplies two neighbouring
    elements by 2^-micro (section 7 of docs/numerics.md). scale_format: format of the arrays'
    scales, e8m0 or e4m3; E4M3 codes have no sign, 0 to 127.
    Returns float32 of the leading shape. With `trace` returns a Trace with status flags, and with
    intermediates unless `stages` is False.
    Raises TypeError or ValueError, naming the argument, before any work.
    """
    flag("trace", trace)
    flag("stages", stages)
    x, y = as_operands(a, b, scale_format)
    rule = check_operands(x, y, accumulator)
    warn_of_operands(rule, [(x.format, y.format)])
    if x.shape != y.shape:
        raise ValueError(f"a and b must have equal shapes, not {x.shape} and {y.shape}")
    lead = x.shape[:-1]
    start = running_value(c, lead)
    rows = np.arange(start.size)
    shifts = None if micro is None else _shifts(x, micro)
    kind = check_scales(x, y, scale_format)
    return by_codes(rule, x, y, rows, rows, start, lead, trace, stages, shifts, kind)


def as_operands(a: Any, b: Any, scale_format: ScaleFormat | str) -> tuple[Any, Any]:
    """`a` and `b`, where codes of ml_dtypes become MXArrays with scales in `scale_format`."""
    block = block_of(a, b)
    fmt = BLOCK_SCALES.get(str(scale_format), E8M0)
    return held_codes(a, block, fmt), held_codes(b, block, fmt)


def check_scales(a: MXArray, b: MXArray, scale_format: ScaleFormat | str) -> ScaleFormat:
    """The format `scale_format`; ValueError unless the scales of both arrays are its codes."""
    fmt = BLOCK_SCALES[choice("scale_format", str(scale_format), BLOCK_SCALES)]
    for name, array in (("a", a), ("b", b)):
        check_scale_codes(name, array, fmt)
    return fmt


def check_scale_codes(name: str, array: MXArray, fmt: ScaleFormat) -> None:
    """ValueError, with the array's name, unless its scales are codes of `fmt`."""
    top = 2 ** block_scale_bits(fmt) - 1
    if (array.scales > top).any():
        wrong = array.scales.max()
        raise ValueError(f"scales of {name} must be {fmt} codes from 0 to {top}, not {wrong}")


def check_operands(a: MXArray, b: MXArray, value: Accumulator | str) -> Accumulator:
    """The accumulator of `value`, if it takes `a` and `b`; TypeError or ValueError if not."""
    rule = check_known(accumulator(value))
    for name, array in (("a", a), ("b", b)):
        if not isinstance(array, MXArray):
            raise TypeError(f"{name} must be an MXArray, not {type(array).__name__}")
        if array.axis not in (-1, array.codes.ndim - 1):
            raise ValueError(f"axis of {name} must be the last axis, not {array.axis}")
    if a.block_size != b.block_size:
        raise ValueError(
            f"block_size of a and b must be equal, not {a.block_size} and {b.block_size}"
        )
    rule.check_formats(a.format, b.format)
    if rule.takes_integers:
        check_length(a.scheme, b.scheme, a.block_size)
    return rule


def _flat(x: MXArray) -> tuple[NDArray, NDArray[np.uint8]]:
    """Codes (n, blocks, k) and scales (n, blocks)."""
    codes, scales = x.blocks_last()
    n = int(np.prod(codes.shape[:-2], dtype=np.int64))
    return codes.reshape(n, *codes.shape[-2:]), scales.reshape(n, scales.shape[-1])


def _shifts(x: MXArray, micro: tuple[ArrayLike, ArrayLike]) -> NDArray[np.int64]:
    """Micro-exponents of products (n, blocks, k), from those of both operands."""
    try:
        a, b = micro
    except (TypeError, ValueError):
        raise TypeError(f"micro must be two arrays, of a and of b, not {micro!r}") from None
    if x.block_size % 2:
        raise ValueError(f"block_size must be even for micro-exponents, not {x.block_size}")
    shape = (*x.shape[:-1], x.shape[-1] // 2)
    total = np.zeros(shape, np.int64)
    for name, value in (("a", a), ("b", b)):
        bits = np.asarray(value)
        is_bit = bits.dtype.kind in "iu" and ((bits == 0) | (bits == 1)).all()
        if not is_bit or bits.shape != shape:
            raise ValueError(
                f"micro of {name} must be 0 or 1 of shape {shape}, not {bits.dtype} {bits.shape}"
            )
        total += bits
    return np.repeat(total, 2, axis=-1).reshape(-1, x.shape[-1] // x.block_size, x.block_size)


def by_codes(
    rule: Accumulator,
    a: MXArray,
    b: MXArray,
    rows_a: NDArray[np.int64],
    rows_b: NDArray[np.int64],
    c: F32,
    lead: tuple[int, ...],
    trace: bool,
    stages: bool,
    shifts: NDArray[np.int64] | None = None,
    scale_format: ScaleFormat = E8M0,
) -> F32 | Trace:
    """Products of the rows `rows_a` of `a` and `rows_b` of `b`, a chunk at a time.

    c: float32, one per product. lead: shape of the result. trace, stages: see `dot`. shifts,
    scale_format: see `CodeSteps`.
    """
    codes_a, scales_a = _flat(a)
    codes_b, scales_b = _flat(b)
    formats = Pair(*(flushed(x.format) if rule.flushes else x.format for x in (a, b)))
    terms, sizes = rule.step_terms(a.block_size), rule.step_sizes(a.block_size)
    order = rule.order(a.block_size)
    if order is not None:
        codes_a, codes_b = codes_a[..., order], codes_b[..., order]
        shifts = None if shifts is None else shifts[..., order]
    parts = []
    rows = list(chunks(c.size, (CHUNK_STEP, terms), (CHUNK_CODES, a.shape[-1])))
    for part in rows or [slice(None)]:
        at_a, at_b = rows_a[part], rows_b[part]
        codes = codes_a[at_a], codes_b[at_b]
        moved = None if shifts is None else shifts[at_a]
        scales = scales_a[at_a], scales_b[at_b]
        steps = CodeSteps(formats, *codes, *scales, sizes, moved, scale_format)
        record = Recorder(at_a.shape, flags=trace, keep_stages=trace and stages)
        result = rule.run(steps, c[part], record)
        parts.append(record.trace(with_nan(result, rule)))
    if not trace:
        return np.concatenate([p.result for p in parts]).reshape(lead)
    return _join(parts, lead)


def _join(parts: list[Trace], lead: tuple[int, ...]) -> Trace:
    """One Trace of shape `lead` from the traces of its chunks."""

    def merge(arrays: list[NDArray]) -> NDArray:
        whole = np.concatenate(arrays)
        return whole.reshape((*lead, *whole.shape[1:]))

    first = parts[0]
    return replace(
        first,
        result=merge([p.result for p in parts]),
        flags=Flags(*(merge([getattr(p.flags, f) for p in parts]) for f in Flags.__annotations__)),
        stages={name: merge([p.stages[name] for p in parts]) for name in first.stages},
    )
