"""Features of dot products in a unit with INT32 sums, and their goals."""

import numpy as np
from numpy.typing import NDArray

from ...model import DotConfig
from ...model.formats import FLOAT32, IntegerFormat
from ...model.integers import HIGHEST, LOWEST, operand_range
from ...model.outputs import IntegerOutput, result_float
from ...model.requantize import LARGEST_SHIFT
from ...model.trace import FLAG_NAMES
from ..bench.operands import Bins, Hits
from .integer_stimulus import LONGEST_CHAIN, extreme_terms
from .item import Batch, DotResults

FLAGS = ("inexact", "overflow", "saturated")
"""Flags that units with integer results raise."""


def _range(config: DotConfig, name: str) -> tuple[int, int]:
    """The least and the largest legal value of an input or of the result."""
    out = config.out
    assert isinstance(out, IntegerOutput)
    if name in ("zero_a", "zero_b"):
        return operand_range(config.formats[0][name == "zero_b"])
    if name in ("result", "zero_out") and isinstance(out.format, IntegerFormat):
        return out.format.lowest, out.format.highest
    if name in ("result", "c"):
        return LOWEST, HIGHEST
    if name in ("scale_a", "scale_b"):
        return 0, 2**config.scale_bits - 1
    high = 2 ** config.side_inputs[name] - 1
    return 0, min(high, LARGEST_SHIFT) if name == "shift" else high


def _names(config: DotConfig, name: str) -> dict[str, tuple[int, int]]:
    """The classes of a value, each from a least to a largest integer."""
    low, high = _range(config, name)
    negative = {"lowest": (low, low), "negative": (low + 1, -1)} if low else {}
    return {**negative, "zero": (0, 0), "positive": (1, high - 1), "highest": (high, high)}


def _watched(config: DotConfig) -> list[str]:
    """Values that are integers."""
    scales = ["scale_a", "scale_b"] if config.scale_bits else []
    result = ["result"] * (result_float(config.out) is None)
    sides = [name for name in config.side_inputs if name != "result_scale"]
    return [*result, *["c"] * config.load_c, *scales, *sides]


def _flags(config: DotConfig) -> tuple[str, ...]:
    return FLAGS if result_float(config.out) is None else FLAG_NAMES


def goals(config: DotConfig) -> dict[str, Bins]:
    """The bins that `config` can hit, of the features of units with INT32 sums."""
    out = config.out
    assert isinstance(out, IntegerOutput)
    bins: dict[str, Bins] = {name: list(_names(config, name)) for name in _watched(config)}
    lowest, highest = _reaches_ends(config)
    if out.format is None:
        reached = {"lowest": lowest, "highest": highest}
        bins["result"] = [name for name in _names(config, "result") if reached.get(name, True)]
    if config.status:
        flags = _flags(config)
        raises = dict.fromkeys(flags, out.format is not None)  # by requantising
        raises["saturated"] = lowest or highest
        if out.format == FLOAT32:  # products of integers are multiples of the scale's last digit
            raises["underflow"] = False
        bins["flags"] = [(name, r) for name in flags for r in (False, True)[: 1 + raises[name]]]
    return bins


def _reaches_ends(config: DotConfig) -> tuple[bool, bool]:
    """Two booleans: sums get to the least, and to the largest INT32.

    c may be there. Without c, the longest dot products that are sent decide.
    """
    if config.load_c:
        return True, True
    least, largest = extreme_terms(config)
    times = LONGEST_CHAIN * config.lanes * max(2**config.scale_bits - 1, 1) ** 2
    return least.value * times <= LOWEST, largest.value * times >= HIGHEST


def hits(config: DotConfig, batch: Batch, outcome: DotResults) -> dict[str, Hits]:
    """The bins of each of these features that each dot product of `batch` hits."""
    hits_of: dict[str, Hits] = {}
    for name in _watched(config):
        hits_of[name] = _classes(config, name, _values(config, batch, outcome, name))
    if config.status:
        hits_of["flags"] = [
            {(name, bool(flags >> FLAG_NAMES.index(name) & 1)) for name in _flags(config)}
            for flags in outcome.flags.tolist()
        ]
    return hits_of


def _values(config: DotConfig, batch: Batch, outcome: DotResults, name: str) -> NDArray[np.int64]:
    """(n, values) of a feature: of every block, or of the block that counts."""
    if name == "result":
        bits, width = outcome.result[:, None].astype(np.int64), config.out.bits
        signed = _range(config, name)[0] < 0
    elif name == "c":
        return batch.c.view(np.int32).astype(np.int64)[:, None]
    elif name in ("scale_a", "scale_b"):
        return getattr(batch, name).astype(np.int64)
    else:
        bits, width = batch.side[name].astype(np.int64), config.side_inputs[name]
        bits = bits if name in ("zero_a", "zero_b") else bits[:, -1:]
        signed = config.is_signed(name)
    return bits - ((bits >> (width - 1)) << width) if signed else bits


def _classes(config: DotConfig, name: str, values: NDArray[np.int64]) -> Hits:
    labels: Hits = [set() for _ in values]
    for label, (low, high) in _names(config, name).items():
        for row in np.flatnonzero(((values >= low) & (values <= high)).any(axis=1)):
            labels[row].add(label)
    return labels
