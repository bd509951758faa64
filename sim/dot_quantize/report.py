"""The failure report of a block of dot products: results, codes, the operands of one of them."""

import json

import numpy as np

from ...model import DotQuantizeConfig
from ..dot.report import failure_file, operands
from ..engine.job import Failure, UnitJob
from ..quantize.item import values
from ..quantize.report import rounded, what
from .item import batch_of, block_of, predict


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
