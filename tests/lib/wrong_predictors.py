"""Deliberately wrong models for the tests of the benches, imported inside the simulator."""

import os
from dataclasses import replace
from typing import Any

import numpy as np

from mxdot.model import DotConfig, DotQuantizeConfig, QuantizeConfig
from mxdot.model.units.matmul.config import MatmulConfig
from mxdot.model.units.matmul.layout import Golden
from mxdot.sim.dot.item import Batch, DotResults, predict
from mxdot.sim.dot_quantize import item as chains
from mxdot.sim.matmul.item import Product
from mxdot.sim.matmul.item import predict as predict_matmul
from mxdot.sim.quantize import item as blocks


def one_bit_less(config: DotConfig, batch: Batch) -> DotResults:
    """Products aligned to 12 fraction bits where the unit has 13."""
    return predict(replace(config, accumulator="aligned:12:float16"), batch)


def subnormals_flushed(config: DotConfig, batch: Batch) -> DotResults:
    """Subnormal elements of a read as zero."""
    fmt = config.formats[batch.mode][0]
    subnormal = np.abs(fmt.values) < 2.0**fmt.emin
    return predict(config, replace(batch, a=np.where(subnormal[batch.a], np.uint8(0), batch.a)))


def scale_rounded_up(config: QuantizeConfig, batch: blocks.Batch) -> blocks.QuantizeResults:
    """Scales by the rule `ceil` where the unit has `floor`."""
    arguments: dict[str, Any] = {**config.arguments, "scale_rule": "ceil"}
    return blocks.predict(QuantizeConfig(**arguments), batch)


def words_of_the_next_block(
    config: DotQuantizeConfig, batch: chains.Batch
) -> chains.DotQuantizeResults:
    """Random words of one block later."""
    return chains.predict(config, replace(batch, number=batch.number + 1))


def dies(config: DotConfig, batch: Batch) -> DotResults:
    """Takes the whole simulator down."""
    os._exit(3)


def one_product_off(config: MatmulConfig, product: Product) -> Golden:
    """The lowest bit of C[0, 0] the other way round."""
    want = predict_matmul(config, product)
    bits = want.result.view(f"u{want.result.itemsize}").copy()
    bits[0, 0] ^= 1
    return want._replace(result=bits.view(want.result.dtype))
