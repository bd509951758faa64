"""Simpler blocks to quantise: with fewer values that are not zero, and plainer ones.

A block is what `item.plain` makes: its mode, rule, number, outer scale, and for each beat the
packed values and random words.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ...model import QuantizeConfig
from ...model.formats import FLOAT32
from ..engine.subsets import fewer_ones, parts

Block = dict[str, Any]

VALUES, WORDS = 0, 1  # places in a beat


def simpler(config: QuantizeConfig, block: Block) -> Iterator[Block]:
    """Blocks with less in them, one or several steps away."""
    values = _values(config, block)
    used = [i for i, bits in enumerate(values) if bits]
    for kept in parts(used):
        yield _with_values(config, block, {i: values[i] for i in kept})
    yield {**block, "beats": [[beat[VALUES], 0] for beat in block["beats"]]}
    if config.outer_bits:
        yield {**block, "outer": _one_outer(config)}
    sign = 1 << config.source.bits - 1
    one = int(np.ones(1, config.source.dtype).view(f"u{config.source.bits // 8}")[0])
    for i in used:
        for bits in {one, values[i] & ~sign, *fewer_ones(values[i])} - {values[i], 0}:
            yield _with_values(config, block, {**{k: values[k] for k in used}, i: bits})


def complexity(config: QuantizeConfig, block: Mapping[str, Any]) -> tuple[int, ...]:
    """(values not zero, outer scale other than one, ones of random words, ones of values)."""
    values = _values(config, block)
    outer = config.outer_bits > 0 and block["outer"] != _one_outer(config)
    words = sum(beat[WORDS].bit_count() for beat in block["beats"])
    ones = sum(bits.bit_count() for bits in values)
    return sum(bits != 0 for bits in values), int(outer), words, ones


def _values(config: QuantizeConfig, block: Mapping[str, Any]) -> list[int]:
    width = config.source.bits
    beats = (beat[VALUES] for beat in block["beats"])
    return [word >> width * i & 2**width - 1 for word in beats for i in range(config.lanes)]


def _with_values(config: QuantizeConfig, block: Block, values: Mapping[int, int]) -> Block:
    """These values by their places, zeros in all others."""
    beats = [[0, beat[WORDS]] for beat in block["beats"]]
    for i, bits in values.items():
        beat, lane = divmod(i, config.lanes)
        beats[beat][VALUES] |= bits << config.source.bits * lane
    return {**block, "beats": beats}


def _one_outer(config: QuantizeConfig) -> int:
    assert config.outer_bits == FLOAT32.bits
    return int(np.ones(1, np.float32).view(np.uint32)[0])
