"""Blocks of dot products as data: what sequences make, pins carry and models predict.

The dot products are those of sim/dot/item.py; their results are blocks of sim/quantize/.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...model import DotQuantizeConfig
from ..dot import item as dot
from ..quantize import item as quantize


@dataclass(frozen=True)
class Batch:
    """n blocks of dot products, of any modes and numbers of blocks.

    products: batches of dot products, numbered through. order: numbers of each block's dot
    products, (n, block). number: blocks since the reset, (n,), for words of the shift register.
    """

    products: Sequence[dot.Batch]
    order: NDArray[np.int64]
    number: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.order)

    def take(self, rows: NDArray | slice) -> "Batch":
        """The blocks of these rows."""
        return replace(self, order=self.order[rows], number=self.number[rows])


@dataclass(frozen=True)
class Block:
    """One block as pins carry it; `number` counts blocks since the reset."""

    products: tuple[dot.Product, ...]
    number: int = 0


@dataclass(frozen=True)
class DotQuantizeResults:
    """The dot unit's results of each batch of products, the blocks of these results, and codes."""

    products: Sequence[dot.DotResults]
    blocks: quantize.Batch
    codes: quantize.QuantizeResults


def predict(config: DotQuantizeConfig, batch: Batch) -> DotQuantizeResults:
    """The golden model's results and codes for `batch`."""
    products = [dot.predict(config.dot, part) for part in batch.products]
    bits = np.concatenate([outcome.result for outcome in products])[batch.order]
    blocks = result_blocks(bits, batch.number)
    return DotQuantizeResults(products, blocks, quantize.predict(config.quantizer, blocks))


def result_blocks(bits: NDArray[np.uint32], number: NDArray[np.int64]) -> quantize.Batch:
    """Blocks of results (n, block) as the quantiser takes them."""
    return quantize.Batch(0, 0, bits, np.zeros_like(bits), number, bits[:, 0] * 0)


def blocks(config: DotQuantizeConfig, batch: Batch) -> list[Block]:
    """The blocks of `batch` as pins carry them."""
    products: dict[int, dot.Product] = {}
    first = 0
    for part in batch.products:
        rows = np.unique(batch.order[(batch.order >= first) & (batch.order < first + len(part))])
        made = dot.products(config.dot, part.take(rows - first))
        products |= zip(rows.tolist(), made, strict=True)
        first += len(part)
    return [
        Block(tuple(products[i] for i in row), number)
        for row, number in zip(batch.order.tolist(), batch.number.tolist(), strict=True)
    ]


def batch_of(config: DotQuantizeConfig, items: Iterable[Block]) -> Batch:
    """The batch of blocks."""
    items = list(items)
    products = [product for item in items for product in item.products]
    groups: dict[tuple[int, int], list[int]] = {}
    for i, product in enumerate(products):
        groups.setdefault((product.mode, len(product.blocks)), []).append(i)
    parts = [dot.batch_of(config.dot, [products[i] for i in rows]) for rows in groups.values()]
    order = np.argsort([i for rows in groups.values() for i in rows])
    number = np.array([item.number for item in items], np.int64)
    return Batch(parts, order.reshape(len(items), -1), number)


def plain(block: Block) -> dict[str, Any]:
    """The block as plain values of JSON."""
    return {"number": block.number, "products": [dot.plain(p) for p in block.products]}


def block_of(values: Mapping[str, Any]) -> Block:
    """The block that `plain` made."""
    return Block(tuple(map(dot.product_of, values["products"])), values["number"])
