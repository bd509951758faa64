"""Deliberately wrong models for test_bench_catches.py, imported inside the simulator."""

import os
from dataclasses import replace

import numpy as np

from mxdot.model import DotConfig
from mxdot.sim.item import Batch, Outcome, predict


def one_bit_less(config: DotConfig, batch: Batch) -> Outcome:
    """Products aligned to 12 fraction bits where the unit has 13."""
    return predict(replace(config, accumulator="aligned:12"), batch)


def subnormals_flushed(config: DotConfig, batch: Batch) -> Outcome:
    """Subnormal elements of a read as zero."""
    fmt = config.formats[batch.mode][0]
    subnormal = np.abs(fmt.values) < 2.0**fmt.emin
    return predict(config, replace(batch, a=np.where(subnormal[batch.a], np.uint8(0), batch.a)))


def dies(config: DotConfig, batch: Batch) -> Outcome:
    """Takes the whole simulator down."""
    os._exit(3)
