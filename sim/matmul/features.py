"""Functional coverage of the matrix unit: shapes, stalls, registers, errors, faults and resets."""

from collections.abc import Iterable, Sequence
from itertools import product as combinations

from ...model.units.matmul.config import MatmulConfig
from ...model.units.matmul.registers import COUNTER_BITS, COUNTERS, REGISTERS
from ..bench.operands import E4M3_CLASSES
from .ends import STATES
from .item import Product
from .stimulus import has_e4m3_scales, job_held_back, scale_bins, shapes, tile_shapes

WAITS = tuple(name for name in COUNTERS if name.startswith(("WAIT", "TAIL")))
ACTIVITIES = ("idle", "busy")
"""States of the unit by STATUS."""
ERRORS = [field.name for field in REGISTERS["STATUS"].fields if field.name not in STATES]


HANDSHAKES = {(1, 0): "waits", (1, 1): "moves", (0, 1): "starves"}
"""Names of (valid, ready) of a stream."""
COUNTER_ENDS = {"half": 2 ** (COUNTER_BITS - 1), "wrap": 2**COUNTER_BITS}
"""Values that a counter reaches with its next event: a one in the highest bit, and 0."""


def goals(
    config: MatmulConfig, faults: Iterable[str], lifted: Iterable[str] = ()
) -> dict[str, Sequence[object]]:
    """The bins of every feature that the unit can hit, and the faults by name.

    lifted: counters that the bench can bring to their ends.
    """
    ends = [(name, end) for name in lifted if _can_count(config, name) for end in COUNTER_ENDS]
    return {
        "tiles": list(tile_shapes(config)),
        "blocks": list(dict.fromkeys(blocks for _, blocks in shapes(config))),
        "side": ["whole tiles", "ragged"][: 1 + (config.rows * config.columns > 1)],
        "mode": list(range(len(config.dot.formats))),
        "initial_c": [False, True][: 1 + config.initial_c],
        **({"scale": [*combinations("ab", E4M3_CLASSES)]} if has_e4m3_scales(config) else {}),
        "stream": [
            (side, shake) for side in (*config.inputs, "c") for shake in HANDSHAKES.values()
        ],
        "counter": [name for name in WAITS if _can_count(config, name)],
        **({"counter_end": ends} if ends else {}),
        "flags": ["none", "some"][: 1 + config.dot.status],
        "read": [(name, activity) for name in REGISTERS for activity in ACTIVITIES],
        "error": [name for name in ERRORS if _can_fail(config, name)],
        "fault": list(faults),
    }


def hits(
    config: MatmulConfig, product: Product, counters: dict[str, int], events: set[tuple[str, str]]
) -> dict[str, set[object]]:
    """The bins that a job hits."""
    tiles = product.tiles(config)
    m, n, _ = product.shape
    whole = (m, n) == (tiles.m_tiles * config.rows, tiles.n_tiles * config.columns)
    return {
        "tiles": {(tiles.m_tiles, tiles.n_tiles)},
        "blocks": {tiles.k_blocks},
        "side": {"whole tiles" if whole else "ragged"},
        "mode": {product.mode},
        "initial_c": {product.d is not None},
        "stream": set(events),
        "counter": {name for name in WAITS if counters[name]},
        **({"scale": scale_bins(product)} if has_e4m3_scales(config) else {}),
    }


def _can_count(config: MatmulConfig, name: str) -> bool:
    if name in ("WAIT_D", "DISCARDED_D"):
        return config.initial_c
    return name != "WAIT_UNIT" or job_held_back(config) is not None


def _can_fail(config: MatmulConfig, error: str) -> bool:
    if error == "bad_option":
        return not config.initial_c
    return config.initial_c or not error.startswith("d_")
