"""Features of blocks of dot products: those of the dot unit, and of the quantiser after it.

A block hits the bins of each of its dot products, and those of their results in the quantiser.
"""

from collections.abc import Mapping, Sequence

from ...model import DotQuantizeConfig
from ..dot import features as dot
from ..quantize import features as quantize
from .item import Batch, DotQuantizeResults


def goals(config: DotQuantizeConfig) -> dict[str, Sequence[object]]:
    """The bins of every feature that `config` can hit.

    Values go through the dot unit as c, with products of zero. Where they come out with too few
    digits, in a narrower range, or not at all, the quantiser has few goals. Bins that few blocks
    hit are left to the quantiser alone.
    """
    bins, results = dot.goals(config.dot), quantize.goals(config.quantizer)
    carried_bits, (fmt,) = dot.carried_bits(config.dot), config.quantizer.formats
    source, running = config.quantizer.source, config.dot.accumulator.running
    fraction_bits = source.mantissa_bits
    if carried_bits < min(fmt.mantissa_bits + 2, fraction_bits) or running.emax < source.emax:
        finite = {"normal", "subnormal"} & set(bins["result"])
        blocks = ["finite" if finite else "zeros only"]
        return {**bins, "format_rule": results["format_rule"], "block": blocks}
    largest = ["largest"] * (carried_bits >= fraction_bits)
    results["value"] = [*bins["result"], *largest]
    for name, seldom in (("scale", "one"), ("range", quantize.ENDS[0])):
        results[name] = [label for label in results[name] if label != seldom]
    return {**bins, **results}


def hits(
    config: DotQuantizeConfig, batch: Batch, outcome: DotQuantizeResults
) -> Mapping[str, list[set[object]]]:
    """The bins of every feature that each block of `batch` hits."""
    parts = [
        dot.hits(config.dot, products, made)
        for products, made in zip(batch.products, outcome.products, strict=True)
    ]
    order = batch.order.tolist()
    hits_of = {}
    for name in parts[0]:
        rows = [bins for part in parts for bins in part[name]]
        hits_of[name] = [set().union(*(rows[i] for i in block)) for block in order]
    return {**hits_of, **quantize.hits(config.quantizer, outcome.blocks, outcome.codes)}
