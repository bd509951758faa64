"""Dot products of integers in INT32, as a unit with integer results computes them.

Section 8 of docs/numerics.md: zero points, integer scales, the saturating INT32 sum, and its
requantisation to an integer or scaling to a float.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .accumulators import Accumulator
from .blocks import as_float32
from .errors import choice, integer_array
from .formats import BLOCK_SCALES, FLOAT32, ElementFormat, FloatFormat, IntegerFormat
from .formats.table import Pair
from .outputs import INTEGER_OUTPUTS, SCALE, SHIFT, IntegerOutput, convert_trace
from .requantize import (
    HIGHEST,
    LARGEST_SHIFT,
    LARGEST_SHIFT_ALONE,
    LOWEST,
    FixedRescale,
    ShiftRescale,
    requantize_traced,
    rescaled_floats,
)
from .rounding import F32
from .trace import Recorder, Trace

INTEGER_SCALES = {"none": 0, **{f"u{bits}": bits for bits in range(2, 9)}}
"""Scale formats of a unit with integer results, with their bits."""
ZERO_POINTS = ("none", "a", "b", "ab")

Ints = NDArray[np.int64]


class IntegerUnit(Protocol):
    """Facts that `integer_dot` needs of a `DotConfig`, whose module imports this one.

    Fields that the constructor converts are Any: a type checker takes them for descriptors.
    """

    @property
    def out(self) -> Any: ...
    @property
    def formats(self) -> Any: ...
    @property
    def lanes(self) -> int: ...
    @property
    def load_c(self) -> bool: ...
    @property
    def scale_bits(self) -> int: ...
    @property
    def side_inputs(self) -> dict[str, int]: ...


def check_integers(
    pairs: tuple[Pair, ...],
    rule: Accumulator,
    out: FloatFormat | IntegerOutput,
    scales: str,
    zero_points: str,
) -> None:
    """ValueError unless scales, zero points and output go together."""
    if not isinstance(out, IntegerOutput):
        choice(f"scales of {out.name} results", scales, BLOCK_SCALES)
        if zero_points != "none":
            of_sums = INTEGER_OUTPUTS[f"{out.name}:{SCALE}"].name
            raise ValueError(
                f"zero_points of {out.name} results must be none, not {zero_points!r}; "
                f"{of_sums} results, of int32, may have them"
            )
        return
    if not rule.takes_integers:
        raise ValueError(f"accumulator must be int32 for {out.name} results, not {rule}")
    if len(pairs) > 1:
        names = ", ".join(f"{a.name} x {b.name}" for a, b in pairs)
        raise ValueError(f"formats must be one pair for {out.name} results, not {names}")
    choice(f"scales of {out.name} results", scales, INTEGER_SCALES)
    choice("zero_points", zero_points, ZERO_POINTS)


def integer_dot(
    config: IntegerUnit,
    a: NDArray[np.uint8],
    b: NDArray[np.uint8],
    c: ArrayLike = 0,
    *,
    inputs: Mapping[str, ArrayLike] | None = None,
    stages: bool = False,
) -> Trace:
    """Results of the unit `config`, which sums in INT32, for n dot products of `blocks` blocks.

    a, b: uint8 codes (n, blocks, lanes). c: INT32 to start from, (n,) or one for all. inputs: the
    unit's other inputs by name, neither fewer nor more. scale_a, scale_b (unsigned) and zero_a,
    zero_b (integers of the operand's format) broadcast to (n, blocks). multiplier, shift, zero_out
    and result_scale (any float32) broadcast to (n,).
    Returns (n,), int32 or a float of `out`, with flags. `saturated`: the sum left INT32. `inexact`:
    requantising discarded a non-zero bit. `overflow`: it clipped the result. A float has the flags
    of its three roundings. Stages, all int64: product, integer_sum (of the products), addend
    (corrected and scaled), accumulator.
    Raises TypeError or ValueError, naming the argument.
    """
    out = config.out
    if not isinstance(out, IntegerOutput):
        raise ValueError(f"out must be that of an INT32 sum, not {out.name}")
    ((format_a, format_b),) = config.formats
    shape = _check_codes(config, a, b)
    given = _check_inputs(config, dict(inputs or {}), shape)
    start = _full("c", integer_array("c", c, LOWEST, HIGHEST), shape[:1])
    if not config.load_c and start.any():
        raise ValueError("c must be 0: this unit has no c input")
    record = Recorder(shape[:1], keep_stages=stages)
    register = start
    x, y = _integers(format_a, a), _integers(format_b, b)
    for block in range(shape[1]):
        product = x[:, block] * y[:, block]
        zero = [given[name][:, block, None] for name in ("zero_a", "zero_b")]
        scale = given["scale_a"][:, block] * given["scale_b"][:, block]
        addend = ((x[:, block] - zero[0]) * (y[:, block] - zero[1])).sum(axis=-1) * scale
        total = register + addend
        register = np.clip(total, LOWEST, HIGHEST)
        record.saturated |= register != total
        for name, value in (
            ("product", product),
            ("integer_sum", product.sum(axis=-1)),
            ("addend", addend),
            ("accumulator", register),
        ):
            record.stage(name, value)
    if out.format is None:
        return record.trace(register.astype(np.int32))
    if isinstance(out.format, FloatFormat):
        return _scaled(register, given["result_scale"], out.format, record)
    rescale = (
        ShiftRescale(given["shift"])
        if out.rescale == SHIFT
        else FixedRescale(given["multiplier"], given["shift"])
    )
    result = requantize_traced(register, rescale, out.format, zero_point=given["zero_out"])
    record.inexact |= result.inexact
    record.overflow |= result.clipped
    return record.trace(result.integers)


def _scaled(sums: Ints, scale: F32, out: FloatFormat, record: Recorder) -> Trace:
    """RNE_fp32(RNE_fp32(sum) x scale) as a float of `out`; a special scale raises no flags."""
    wide = sums.astype(np.float32)
    product = rescaled_floats(wide, scale)
    usual = np.isfinite(scale)
    exact = wide.astype(np.float64) * np.where(usual, scale, 0)
    record.rounded(sums.astype(np.float64), wide, usual)
    record.rounded(exact, product, usual)
    assert FLOAT32.nan_code is not None
    nan = np.uint32(FLOAT32.nan_code).view(np.float32)
    result = np.where(np.isnan(product), nan, product + np.float32(0))  # a zero is +0
    return convert_trace(record.trace(result), out)


def operand_range(fmt: ElementFormat) -> tuple[int, int]:
    """Least and largest integer of a code of `fmt`."""
    return -(2 ** (fmt.bits - 1)), 2 ** (fmt.bits - 1) - 1


def _integers(fmt: ElementFormat, codes: NDArray[np.uint8]) -> Ints:
    """Integers of `codes`, in units of the format's last digit."""
    sign, magnitude, _ = fmt.triples
    return np.where(sign == 1, -magnitude, magnitude)[codes]


def _check_codes(config: IntegerUnit, a: NDArray, b: NDArray) -> tuple[int, int]:
    """(n, blocks) of the codes."""
    for name, codes, fmt in zip("ab", (a, b), *config.formats, strict=True):
        fmt.check(codes, name)
        if codes.ndim != 3 or codes.shape[2] != config.lanes:
            raise ValueError(f"{name} must be (n, blocks, {config.lanes}), not {codes.shape}")
    if a.shape != b.shape:
        raise ValueError(f"a and b must have equal shapes, not {a.shape} and {b.shape}")
    return a.shape[0], a.shape[1]


def _check_inputs(
    config: IntegerUnit, given: dict[str, ArrayLike], shape: tuple[int, int]
) -> dict[str, NDArray]:
    """Every input at its full shape; scales and zero points that the unit lacks are neutral."""
    scales = ("scale_a", "scale_b") if config.scale_bits else ()
    wanted = [*scales, *config.side_inputs]
    if set(given) != set(wanted):
        names = ", ".join(wanted) or "nothing"
        raise ValueError(f"inputs must be {names}, not {', '.join(given) or 'nothing'}")
    neutral = {"scale_a": 1, "scale_b": 1, "zero_a": 0, "zero_b": 0}
    arrays: dict[str, NDArray] = {n: np.full(shape, value) for n, value in neutral.items()}
    for name in wanted:
        if name == "result_scale":
            array: NDArray = as_float32(given[name], name)
        else:
            array = integer_array(name, given[name], *_limits(config, name))
        arrays[name] = _full(name, array, shape if name in neutral else shape[:1])
    return arrays


def _limits(config: IntegerUnit, name: str) -> tuple[int, int]:
    """Least and largest value of an input."""
    out = config.out
    assert isinstance(out, IntegerOutput)
    zero_points = dict(zip(("zero_a", "zero_b"), *config.formats, strict=True))
    if name in zero_points:
        return operand_range(zero_points[name])
    if name == "zero_out":
        assert isinstance(out.format, IntegerFormat)
        return out.format.lowest, out.format.highest
    if name == "shift":
        return 0, LARGEST_SHIFT_ALONE if out.rescale == SHIFT else LARGEST_SHIFT
    bits = config.scale_bits if name.startswith("scale") else config.side_inputs[name]
    return 0, 2**bits - 1


def _full(name: str, array: NDArray, shape: tuple[int, ...]) -> NDArray:
    try:
        return np.broadcast_to(array, shape)
    except ValueError:
        raise ValueError(f"{name} must broadcast to {shape}, not {array.shape}") from None
