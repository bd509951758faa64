"""Real tensors as blocks: the values of two arrays of a file, row by row."""

import numpy as np

from ...util.data.tensors import load_values
from ..engine.job import UnitJob
from .item import Batch
from .stimulus import Target, batch

BLOCKS = 5000  # unless all are asked for


def tensor_traffic(job: UnitJob) -> list[Batch]:
    """The job's tensors in every format and scale rule; all of their blocks, or 5,000 at random.

    Values are rounded to the unit's source; a row's last block is filled with zeros.
    """
    if job.tensors is None:
        return []
    config, rng = job.config, job.rng("tensors")
    x = np.concatenate(load_values(job.tensors, job.tensor_names))
    x = np.pad(x, ((0, 0), (0, -x.shape[1] % config.block))).reshape(-1, config.block)
    choices = config.modes * len(config.scale_rules)
    if not job.all_tensors and len(x) * choices > BLOCKS:
        x = rng.choice(x, max(1, BLOCKS // choices), replace=False)
    bits = Target(config, config.formats[0]).nearest(x)
    return [
        batch(config, rng, mode, rule, bits, "tensors")
        for mode in range(config.modes)
        for rule in range(len(config.scale_rules))
    ]
