"""Operands of products from files: values that are quantised, or codes with their scales."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..model import (
    BF16,
    E4M3,
    E8M0,
    FP16,
    INT8,
    Accumulator,
    ElementFormat,
    Machine,
    MXArray,
    quantize,
    unscaled,
)
from ..model.blocks import as_float32
from ..model.formats import BLOCK_SCALES, code_format
from ..model.formats.table import format_pairs, pairs_text
from ..util.data.tensors import array_names, load_array

Pair = tuple[ElementFormat, ElementFormat]
NATIVE = {"float16": FP16, "bfloat16": BF16}
"""Formats of operands that have the type of an array."""
_SCALE_TYPES = {fmt.narrow: name for name, fmt in BLOCK_SCALES.items()}
"""Formats of scales by the type of an array."""


@dataclass(frozen=True)
class Source:
    """An array of a file with two axes, (rows, K)."""

    name: str
    array: NDArray
    is_vector: bool

    @property
    def format(self) -> ElementFormat | None:
        """Format of codes whose type says it; None for values, and for codes without a name."""
        return code_format(self.array)

    @property
    def is_unnamed(self) -> bool:
        """True for codes without the name of their format: integers, or bytes."""
        return self.array.dtype.kind in "ui" or self._is_bytes

    @property
    def is_codes(self) -> bool:
        return self.format is not None or self.is_unnamed

    @property
    def _is_bytes(self) -> bool:
        return self.array.dtype.type is np.void  # kind V is also bfloat16's

    def __str__(self) -> str:
        shape = " x ".join(map(str, self.array.shape[self.is_vector :]))
        kind = "bytes" if self._is_bytes else self.array.dtype
        return f"{self.name}, {kind}, {shape}"


@dataclass(frozen=True)
class Scaling:
    """How operands get their scales.

    is_block: scales of blocks by the quantiser; else scales of 1. scales: codes of a file, in
    `format`. block: elements under a scale.
    """

    is_block: bool
    block: int
    rule: str
    scales: NDArray | None = None
    format: str = E8M0.name


def load_sources(files: Sequence[Path], names: Sequence[str]) -> list[Source]:
    """Both operands, of one file or two; ValueError names what is wrong."""
    if len(files) > 2:
        raise ValueError(f"FILE must be one file or two, not {len(files)}")
    if len(names) > 2 or (names and len(names) < len(files)):
        wanted = "2" if len(files) > 1 else "1 or 2"
        raise ValueError(f"name must give {wanted} tensors, not {len(names)}")
    paths = [files[0], files[-1]]
    if not names and len(files) == 1:
        names = array_names(files[0])
        names = names if len(names) == 2 else ()
    chosen = [names[0], names[-1]] if names else [None, None]
    return [load_source(path, name) for path, name in zip(paths, chosen, strict=True)]


def load_source(path: Path, name: str | None = None) -> Source:
    """One array; ValueError unless it has elements on one axis or two."""
    array, _ = load_array(path, name)
    text = str(path) if name is None else f"{path} {name}"
    if array.ndim not in (1, 2) or not array.size:
        raise ValueError(f"{text} must have one axis or two, and elements, not shape {array.shape}")
    return Source(text, np.atleast_2d(array), array.ndim == 1)


def load_scales(path: Path) -> tuple[NDArray, str | None]:
    """Codes of scales, and their format where their type says it; ValueError for other values."""
    source = load_source(path)
    dtype = source.array.dtype
    if dtype.kind in "ui" and dtype != np.int8:
        return source.array, None
    if dtype not in (*_SCALE_TYPES, np.dtype("V1")):
        kinds = " or ".join(BLOCK_SCALES)
        raise ValueError(f"scales of {path} must be codes of {kinds}, or uint8, not {dtype}")
    return source.array.view(np.uint8), _SCALE_TYPES.get(dtype)


def formats_for(
    rule: Accumulator, text: str | None, sources: Sequence[Source], named: Sequence[str] = ()
) -> Pair:
    """Formats of the option, or the first ones of `rule` that fit the arrays; ValueError if none.

    named: names of formats that come first. A machine has the formats of its instructions. Other
    accumulators take any: the arrays', or else E4M3, or INT8 where sums are integers.
    """
    own = [source.format for source in sources]
    if text is not None:
        pairs = list(format_pairs(text))
        if len(pairs) > 1:
            raise ValueError(f"format must be one format or pair, not {text!r}")
    elif isinstance(rule, Machine) and rule.operands:
        pairs = [pair for one in rule.operands for pair in format_pairs(one)]
        pairs += [pair for pair in sorted(rule.pairs, key=str) if pair not in pairs]
    else:
        default = INT8 if rule.takes_integers else E4M3
        a, b = own[0] or own[1] or default, own[1] or own[0] or default
        pairs = [(a, b)]
    fitting = [
        pair
        for pair in pairs
        if all(known in (None, fmt) for known, fmt in zip(own, pair, strict=True))
    ]
    if not fitting:
        held = " x ".join(str(fmt or "values") for fmt in own)
        raise ValueError(f"operands must be {pairs_text(pairs)}, not {held}")
    if text is None and any(source.is_unnamed for source in sources):
        first = next(source for source in sources if source.is_unnamed)
        if len(fitting) > 1 or not isinstance(rule, Machine):
            raise ValueError(f"format must be given for codes in {first}: they have no name")
    fitting.sort(key=lambda pair: sum(fmt.name not in named for fmt in pair))
    native = [NATIVE.get(source.array.dtype.name) for source in sources]
    return next((pair for pair in fitting if pair == tuple(native)), fitting[0])


def operand(source: Source, fmt: ElementFormat, scaling: Scaling) -> tuple[MXArray, str]:
    """The operand with zeros up to whole blocks, and in words how it was made."""
    if source.is_codes:
        return _held(source, fmt, scaling)
    if scaling.scales is not None:
        raise ValueError(f"scales of a file are for codes, and {source} holds values")
    values = as_float32(source.array, source.name)
    if scaling.is_block:
        made = quantize(values, fmt, block_size=scaling.block, scale_rule=scaling.rule, pad=True)
        how = f"E8M0 scales per {scaling.block} by the rule {scaling.rule}"
    else:
        made = unscaled(values, fmt, block_size=scaling.block, pad=True)
        low, high = map(np.float64, fmt.extremes)  # beyond float32 in formats of one's own
        beyond = int(((values < low) | (values > high)).sum())
        how = "scales of 1" + (f", {beyond} saturated or infinite" if beyond else "")
    if NATIVE.get(source.array.dtype.name) == fmt and not scaling.is_block:
        return made, f"{source}: as {fmt}, {how}"
    return made, f"{source}: quantised to {fmt}, nearest even, {how}"


def _held(source: Source, fmt: ElementFormat, scaling: Scaling) -> tuple[MXArray, str]:
    """Codes as they are, under the scales of a file or scales of 1."""
    codes = source.array
    if source.format is None and codes.dtype.itemsize == fmt.dtype.itemsize:
        codes = codes.view(fmt.dtype)
    codes = fmt.check(codes, f"codes of {source.name}")
    padding = -codes.shape[1] % scaling.block
    codes = np.pad(codes, ((0, 0), (0, padding)))
    shape = len(codes), codes.shape[1] // scaling.block
    kind = BLOCK_SCALES[scaling.format]
    if scaling.scales is None:
        one = E8M0.encode(0) if scaling.format == E8M0.name else E4M3.encode(np.float32(1))
        scales, how = np.full(shape, one, np.uint8), "scales of 1"
    else:
        scales = scaling.scales
        if scales.shape != shape:
            raise ValueError(f"scales of {source.name} must have shape {shape}, not {scales.shape}")
        how = f"{kind} scales per {scaling.block} of a file"
    digit = f" (multiples of 2^{fmt.lsb})" if fmt.is_integer else ""
    return MXArray(codes, scales, fmt, scaling.block), f"{source}: codes of {fmt}{digit}, {how}"
