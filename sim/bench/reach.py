"""Traffic that reaches every goal of coverage, whatever the seed and the count."""

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

ROUNDS = 16
MORE = 1000
"""Items of a round."""


def reaching(
    config: Any,
    item: ModuleType,
    features: ModuleType,
    batches: Sequence[Any],
    more: Callable[[int], Sequence[Any]],
) -> list[Any]:
    """`batches`, and of the traffic of further rounds the items that hit a goal which is missed.

    item, features: the kind's item.py and features.py. more: the traffic of a round, about `MORE`
    items.
    """
    goals = features.goals(config)
    missed = {(name, wanted) for name, bins in goals.items() for wanted in bins}
    made = list(batches)
    for batch in batches:
        for row in _hits(config, item, features, batch):
            missed -= row
    for number in range(ROUNDS):
        if not missed:
            break
        for batch in more(number):
            rows = []
            for place, row in enumerate(_hits(config, item, features, batch)):
                if row & missed:
                    missed -= row
                    rows.append(place)
            if rows:
                made.append(batch.take(np.array(rows)))
    return made


def _hits(config: Any, item: ModuleType, features: ModuleType, batch: Any) -> list[set[Any]]:
    """(feature, bin) that each item hits by the golden model."""
    found: list[set[Any]] = [set() for _ in range(len(batch))]
    for name, hits in features.hits(config, batch, item.predict(config, batch)).items():
        for row, bins in zip(found, hits, strict=True):
            row |= {(name, one) for one in bins}
    return found
