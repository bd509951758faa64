"""Simpler dot products: with fewer lanes that are not zero, fewer blocks, plain c, scales, codes.

A product is what `item.plain` makes: its mode, c, slot, and for each block the packed a and b, the
scales and the unit's side inputs.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...model import E8M0, DotConfig
from ...model.formats import E4M3
from ..engine.subsets import fewer_ones, parts

Product = dict[str, Any]
Lane = tuple[int, int]
"""A block and a lane of it."""

ONE_C = 0x3F800000
FIRST_SCALE, FIRST_SIDE = 2, 4  # places in a block


def simpler(config: DotConfig, product: Product) -> Iterator[Product]:
    """Dot products with less in them, one or several steps away."""
    yield from _fewer_blocks(product)
    yield from _fewer_lanes(config, product)
    yield from _plainer_c(config, product)
    yield from _plainer_scales(config, product)
    yield from _plainer_codes(config, product)


def complexity(config: DotConfig, product: Mapping[str, Any]) -> tuple[int, ...]:
    """(lanes not zero, blocks, c, scales that are not one and side inputs, ones of codes)."""
    blocks, c = product["blocks"], product["c"]
    one = _one_scale(config)
    ones = _ones(config, product["mode"])
    scales = sum(scale != one for block in blocks for scale in block[FIRST_SCALE:FIRST_SIDE])
    sides = sum(bits != 0 for block in blocks for bits in block[FIRST_SIDE:])
    codes = 0
    for lane in _used(config, product):
        pair = _codes(config, product, lane)
        codes += sum((code ^ one).bit_count() for code, one in zip(pair, ones, strict=True))
    return len(_used(config, product)), len(blocks), c.bit_count(), scales + sides, codes


def _fewer_blocks(product: Product) -> Iterator[Product]:
    blocks = product["blocks"]
    for kept in parts(range(len(blocks))):
        if kept:
            yield {**product, "blocks": [blocks[i] for i in kept]}


def _fewer_lanes(config: DotConfig, product: Product) -> Iterator[Product]:
    """Zeros in the lanes of all blocks, and in those of each."""
    used = _used(config, product)
    lanes = sorted({lane for _, lane in used})
    for kept in parts(lanes):
        yield _with_lanes(config, product, [at for at in used if at[1] in kept])
    if len(product["blocks"]) > 1:
        for kept in parts(used):
            yield _with_lanes(config, product, kept)


def _plainer_c(config: DotConfig, product: Product) -> Iterator[Product]:
    c = product["c"]
    one = 1 if config.has_integers else ONE_C
    yield from ({**product, "c": bits} for bits in (0, one, *fewer_ones(c)) if bits != c)


def _plainer_scales(config: DotConfig, product: Product) -> Iterator[Product]:
    """Scales of one, side inputs of zero: all, those of a block, each."""
    blocks, one = product["blocks"], _one_scale(config)
    plain = [[*block[:FIRST_SCALE], one, one, *(0 for _ in block[FIRST_SIDE:])] for block in blocks]
    yield {**product, "blocks": plain}
    for i, block in enumerate(blocks):
        for place in range(FIRST_SCALE, len(block)):
            changed = [list(other) for other in blocks]
            changed[i][place] = plain[i][place]
            yield {**product, "blocks": changed}


def _plainer_codes(config: DotConfig, product: Product) -> Iterator[Product]:
    """The code of one, or one with fewer bits, in the place of each that is not zero."""
    ones = _ones(config, product["mode"])
    for lane in _used(config, product):
        for side, code in enumerate(_codes(config, product, lane)):
            for other in {ones[side], *fewer_ones(code), 0} - {code}:
                yield _with_code(config, product, lane, side, other)


def _used(config: DotConfig, product: Mapping[str, Any]) -> list[Lane]:
    """Lanes with an element that is not zero."""
    places = ((i, k) for i in range(len(product["blocks"])) for k in range(config.lanes))
    return [lane for lane in places if any(_codes(config, product, lane))]


def _codes(config: DotConfig, product: Mapping[str, Any], lane: Lane) -> tuple[int, int]:
    block = product["blocks"][lane[0]]
    bits = config.bits_a, config.bits_b
    a, b = (block[i] >> bits[i] * lane[1] & 2 ** bits[i] - 1 for i in (0, 1))
    return a, b


def _with_lanes(config: DotConfig, product: Product, kept: Sequence[Lane]) -> Product:
    """Zeros in every other lane."""
    blocks = [[0, 0, *block[FIRST_SCALE:]] for block in product["blocks"]]
    for lane in kept:
        for side, code in enumerate(_codes(config, product, lane)):
            width = (config.bits_a, config.bits_b)[side]
            blocks[lane[0]][side] |= code << width * lane[1]
    return {**product, "blocks": blocks}


def _with_code(config: DotConfig, product: Product, lane: Lane, side: int, code: int) -> Product:
    blocks = [list(block) for block in product["blocks"]]
    place = (config.bits_a, config.bits_b)[side] * lane[1]
    blocks[lane[0]][side] ^= (_codes(config, product, lane)[side] ^ code) << place
    return {**product, "blocks": blocks}


def _one_scale(config: DotConfig) -> int:
    """The packed scales of a block that are all one; of integers, for any width."""
    if config.has_integers:
        return min(1, config.scale_bits)
    code = E8M0.bias if config.scales == E8M0.name else int(E4M3.encode(np.ones(1))[0])
    return sum(code << config.scale_bits * i for i in range(config.scale_blocks))


def _ones(config: DotConfig, mode: int) -> tuple[int, int]:
    """The codes of one, or what is nearest to it, of a and b."""
    a, b = (int(fmt.encode(np.ones(1))[0]) for fmt in config.formats[mode])
    return a, b
