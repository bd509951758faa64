"""Failures of blocks of dot products: simpler ones that still fail, and the report."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ...model import DotQuantizeConfig
from ..dot import failures as dot
from ..dot.failures import failure_file, operands
from ..engine.job import Failure, UnitJob
from ..engine.stream_unit import parts
from ..quantize.failures import rounded, what
from ..quantize.item import values
from .item import batch_of, block_of, predict

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
    """Number of products that are not nothing, then the sums of the products' complexities."""
    products = block["products"]
    each = [dot.complexity(config.dot, product) for product in products]
    used = sum(product != _nothing(product) for product in products)
    return used, *(sum(numbers) for numbers in zip(*each, strict=True))


def _nothing(product: Mapping[str, Any]) -> dict[str, Any]:
    """One block of zeros under the scales and side inputs of the first, and a c of zero."""
    return {**product, "c": 0, "blocks": [[0, 0, *product["blocks"][0][2:]]]}


def describe_failure(job: UnitJob, failure: Failure) -> str:
    """The report of one block that came out wrong; a file has all of its operands."""
    config: DotQuantizeConfig = job.config
    quantizer, file = config.quantizer, failure_file(job)
    file.write_text(json.dumps(failure.item) + "\n")
    results = predict(config, batch_of(config, [block_of(failure.item)])).blocks
    bits = " ".join(f"{word:0{quantizer.source.bits // 4}x}" for word in results.bits[0].tolist())
    differing = [got[0] != want[0] for got, want in zip(failure.got, failure.want, strict=True)]
    if failure.got[0][1] == failure.want[0][1] and any(differing):
        place, why = differing.index(True), "the first whose code differs"
    else:
        place = int(np.abs(values(quantizer, results.bits[0])).argmax())
        why = "the largest"
    details = [
        f"block {failure.item['number']} after the reset; the golden model's results:",
        f"results {bits}",
        *rounded(quantizer, results, failure),
        f"dot product {place} of the block, {why} (all of them: {file}):",
        *operands(config.dot, failure.item["products"][place], file),
    ]
    return job.report(f"{failure.where}: {what(quantizer, failure)}", details)
