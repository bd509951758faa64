"""Simpler blocks of dot products: some of them simpler, or nothing."""

from collections.abc import Iterator, Mapping
from typing import Any

from ...model import DotQuantizeConfig
from ..dot import simplify as dot
from ..engine.subsets import parts

Block = dict[str, Any]


def simpler(config: DotQuantizeConfig, block: Block) -> Iterator[Block]:
    """Blocks with less in them, one or several steps away."""
    products = block["products"]
    nothing = [_nothing(product) for product in products]
    used = [i for i, product in enumerate(products) if product != nothing[i]]
    for kept in parts(used):
        chosen = [products[i] if i in kept else nothing[i] for i in range(len(products))]
        yield {**block, "products": chosen}
    for i in used:
        for product in dot.simpler(config.dot, products[i]):
            yield {**block, "products": [*products[:i], product, *products[i + 1 :]]}


def complexity(config: DotQuantizeConfig, block: Mapping[str, Any]) -> tuple[int, ...]:
    """Sums of those of the products, after how many there are that are not nothing."""
    products = block["products"]
    each = [dot.complexity(config.dot, product) for product in products]
    used = sum(product != _nothing(product) for product in products)
    return used, *(sum(numbers) for numbers in zip(*each, strict=True))


def _nothing(product: Mapping[str, Any]) -> dict[str, Any]:
    """One block of zeros under the scales and side inputs of the first, and a c of zero."""
    return {**product, "c": 0, "blocks": [[0, 0, *product["blocks"][0][2:]]]}
