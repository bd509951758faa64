"""Products to multiply: every shape that the unit treats differently, operands of every class."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ...model import ElementFormat, MXArray, quantize
from ...model.matmul_config import MatmulConfig
from ..operands import near_scales, random_c, weighted, wide_scales
from ..tensors import load_tensors
from .product import Product

TILES = ((1, 1), (1, 3), (3, 1), (2, 2))
"""Tiles down and across."""

OPERANDS = {"near": 0.0, "wide": 0.0, "special": 0.01, "zero": 0.0}
"""Kinds of operands, and the weight of infinities and NaN in them; of zeros no flag is raised."""


def block_counts(config: MatmulConfig) -> tuple[int, ...]:
    """Numbers of blocks of K: one, around the depth of the buffers, several chunks."""
    depth = config.depth
    return tuple(dict.fromkeys((1, 2, depth - 1, depth, depth + 1, 2 * depth, 2 * depth + 1)))


def products(config: MatmulConfig, rng: Generator, results: int) -> Iterator[Product]:
    """Products of at least `results` results: every shape first, then shapes at random.

    Sides fill their tiles in every other product and leave them ragged in the others.
    """
    shapes = [(tiles, blocks) for tiles in TILES for blocks in block_counts(config)]
    done = number = 0
    while done < results or number < len(shapes):
        tiles, blocks = shapes[number if number < len(shapes) else rng.integers(len(shapes))]
        sides = [
            count * each - (0 if number % 2 or each == 1 else int(rng.integers(each)))
            for count, each in zip(tiles, (config.rows, config.columns), strict=True)
        ]
        mode = number % len(config.dot.formats)
        kind = list(OPERANDS)[int(rng.integers(len(OPERANDS)))]
        yield random_product(config, rng, mode, sides[0], sides[1], blocks, kind)
        done += sides[0] * sides[1]
        number += 1


def random_product(
    config: MatmulConfig,
    rng: Generator,
    mode: int,
    m: int,
    n: int,
    blocks: int,
    kind: str = "near",
) -> Product:
    """C (m, n) of `blocks` blocks of K, of a kind of OPERANDS; most with a D, if there can be."""
    format_a, format_b = config.dot.formats[mode]
    a = _operand(rng, format_a, m, blocks, config.dot.lanes, kind)
    b = _operand(rng, format_b, n, blocks, config.dot.lanes, kind)
    d = None
    if config.initial_c and kind != "zero" and rng.random() < 2 / 3:
        special = 0.1 if kind == "special" else 0.0
        d = random_c(rng, m * n, special).view(np.float32).reshape(m, n)
    return Product(kind, mode, a, b, d)


def _operand(
    rng: Generator, fmt: ElementFormat, rows: int, blocks: int, lanes: int, kind: str
) -> MXArray:
    codes = weighted(rng, fmt, (rows, blocks * lanes), OPERANDS[kind])
    codes = np.zeros_like(codes) if kind == "zero" else codes
    scales = (near_scales if kind == "near" else wide_scales)(rng, (rows, blocks))
    return MXArray(codes, scales, fmt, lanes)


def real_product(
    config: MatmulConfig,
    mode: int,
    activations: NDArray[np.float32],
    weight: NDArray[np.float32],
    scale_rule: str = "floor",
) -> Product:
    """The linear layer activations (M, K) x weight (N, K)^T in the formats of a mode."""
    a, b = (
        quantize(x, fmt, block_size=config.dot.lanes, pad=True, scale_rule=scale_rule)
        for x, fmt in zip((activations, weight), config.dot.formats[mode], strict=True)
    )
    return Product("real", mode, a, b)


def tensor_product(
    config: MatmulConfig,
    mode: int,
    path: Path,
    names: tuple[str, ...] = (),
    limit: int | None = None,
) -> Product:
    """The layer of two arrays of a file, or of at most `limit` rows of each."""
    x, y = load_tensors(path, names)
    return real_product(config, mode, x[:limit], y[:limit])
