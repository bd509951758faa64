"""Goals of coverage hold what a configuration can reach, and its traffic reaches all of that.

The benches sample what the model makes of their traffic, so that all but the timing can be had
without simulating: here of units drawn at random, with `MXDOT_FULL=1` of many more.
"""

import random
from collections.abc import Callable, Iterable, Mapping
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pyuvm import ConfigDB

import random_units
from compare import FULL, seed
from matrices import every_unit
from mxdot.model import DotConfig, DotQuantizeConfig, QuantizeConfig
from mxdot.model.trace import FLAG_NAMES
from mxdot.sim.bench.context import Context
from mxdot.sim.bench.coverage import Coverage
from mxdot.sim.dot import features, item, stimulus, subject
from mxdot.sim.dot.features import goals
from mxdot.sim.dot.fixed_features import NEGATIVE, POSITIVE, WITHIN
from mxdot.sim.dot.subject import Timeline, capacity
from mxdot.sim.dot_quantize import features as dq_features
from mxdot.sim.dot_quantize import item as dq_item
from mxdot.sim.dot_quantize import stimulus as dq_stimulus
from mxdot.sim.dot_quantize import subject as dq_subject
from mxdot.sim.dot_quantize.subject import TENSOR_BLOCKS
from mxdot.sim.engine import regression_units
from mxdot.sim.engine.job import UnitJob
from mxdot.sim.engine.regression import QUICK_TRAFFIC
from mxdot.sim.quantize import features as q_features
from mxdot.sim.quantize import item as q_item
from mxdot.sim.quantize import subject as q_subject
from mxdot.util.data.tensors import REAL_FILE
from mxdot.verify.soak.random_units import draw

COUNT = 300 if FULL else 6
TRAFFIC = 2000  # as `mxdot sim dot` has it
SOAK_TRAFFIC = 300

EXTREME = [
    DotConfig("e4m3", 4, "fixed:2:-1024"),
    DotConfig("e4m3", 4, "fixed:2:-1024:wrap"),
    DotConfig("e4m3", 4, "fixed:2:1023:wrap", 1),
    DotConfig("e3m2", 16, "fixed:1024:1023:wrap", 2),
    DotConfig("e2m1", 4, "fixed:64:-150", out="float16"),
    DotConfig("e5m2xe4m3", 8, "fixed:2:-22:wrap", out="float16"),
    # Left, or reached at all, by the largest products alone.
    DotConfig("e3m2xint8", 16, "fixed:32:233", out="float16"),
    DotConfig("e2m3", 64, "fixed:2:264:wrap", load_c=False),
    DotConfig("int4xe2m3", 64, "fixed:16:263:wrap"),
    # Cancellation at a depth that only micro-exponents reach.
    DotConfig("e3m2xint8", 4, "aligned:13", micro=True),
    DotConfig("int4xe2m1,int4,int3,e2m1xint4", 4, "aligned:13", micro=True),
    DotConfig("bf16xint4", 8, "volta-float16", out="float16"),
    # INT32 without c, out of reach and within.
    DotConfig("int8xint4", 64, "int32", out="int32", load_c=False, scales="u5"),
    DotConfig("int8", 8, "int32", out="int8_full:shift", load_c=False, scales="u8"),
]
SHORT_SCALES = [
    *[("e2m1", f"fused:{bits}", "float16", False) for bits in (0, 2, 4)],
    *[("e2m1", rule, "float16", False) for rule in ("aligned:0", "aligned:1", "fused:1")],
    *[("e3m2", rule, "float16", False) for rule in ("fused:8", "fused:9", "aligned:3")],
    *[("e4m3", rule, "float16", False) for rule in ("fused:0", "aligned:0")],
    ("e2m3", "aligned:1", "float16", False),
    ("int8", "fused:1:float16", "float16", False),
    ("int8xe3m2", "aligned:1", "float16", False),
    ("int4", "fused:1", "bfloat16", True),
    ("e5m2", "fused:0", "float32", True),
    *[("tf32", rule, "float32", True) for rule in ("ampere-bf16", "hopper", "fused:1")],
    *[("bf16", rule, "float32", True) for rule in ("fused:0", "fused:1")],
    ("bf16", "ampere-bf16", "bfloat16", True),
    ("bf16xint4", "fused:3", "bfloat16", True),
    ("bf16xint4", "fused:6", "float32", False),
]
"""Under E4M3 scales: what is left of the least product under the least of them, or too little."""
EXTREME += [
    DotConfig(formats, 8, rule, out=out, load_c=load_c, scales="e4m3")
    for formats, rule, out, load_c in SHORT_SCALES
]
EXTREME += [
    DotConfig("e2m1", 64, "blackwell-mxf4nvf4", out="float16", load_c=c, scales="e4m3",
              scale_block=16)
    for c in (True, False)
]  # fmt: skip
QUANTIZERS = [
    QuantizeConfig("int8", 128, scale_rule="floor,ceil,even", beats=128),
    # Only int8 is saturated by `ceil`.
    QuantizeConfig("int8,e4m3", 16, scale_rule="ceil"),
    # `twice` reaches no largest element, except where E8M0 ends.
    *(
        QuantizeConfig("e2m3,e2m1,e4m3", 8, source, "twice", "toward_zero")
        for source in ("bfloat16", "float16")
    ),
    QuantizeConfig("int8,e3m2", 4, scale_rule="twice"),
    # Many formats of few blocks each.
    QuantizeConfig("e2m1", 16, scales="e4m3"),
    QuantizeConfig("e4m3,int8,e3m2", 4, "float16", nonfinite="element", scales="e4m3"),
    QuantizeConfig("e2m1", 128, "bfloat16", rounding="toward_zero", scales="e4m3"),
    QuantizeConfig("sm8,sm3", 16, scale_rule="floor,ceil,even", micro=True),
    QuantizeConfig("sm5,int4", 4, "float16", nonfinite="element", micro=True),
    QuantizeConfig("e2m3,int4,e5m2,e3m2,e4m3,int8,e2m1", 4, "float16", "floor,ceil,even"),
    QuantizeConfig("e2m1,int4_symmetric", 32, "bfloat16", "even", select=16),
    QuantizeConfig("e4m3,e5m2,int8", 16, "float16", rounding="toward_zero", select=8),
    QuantizeConfig("e5m2fnuz,int8_symmetric", 4, scale_rule="even", nonfinite="element", select=7),
    # Products of few digits have no ties, or one, between E4M3 scales.
    *(QuantizeConfig(fmt, 4, "bfloat16", scales="e4m3") for fmt in ("sm6", "sm7", "sm8")),
    # Every pair has room for its micro-exponent.
    QuantizeConfig("sm8", 4, "float16", "twice", micro=True),
    QuantizeConfig("int3", 4, "float16", "twice", "toward_zero"),
    # The first format has all values of the second that errors tell apart.
    QuantizeConfig("e5m2,e5m2fnuz", 8, scale_rule="ceil", select=12),
    QuantizeConfig("e4m3,e5m2fnuz", 4, rounding="toward_zero", select=5),
    QuantizeConfig("e4m3fnuz,e5m2", 8, scale_rule="even,twice", nonfinite="element", select=6),
    QuantizeConfig("e2m1,sm4", 4, "float16", "twice", nonfinite="element", select=8),
    # A later format is better for few values.
    QuantizeConfig("e2m1,sm4", 4, "float16", "twice", "stochastic", select=4),
    QuantizeConfig("e4m3fnuz,e4m3", 4, "bfloat16", nonfinite="element", select=9),
    QuantizeConfig("e4m3,e4m3fnuz", 4, "float32", "twice", nonfinite="element", select=7),
    QuantizeConfig("e5m2fnuz,e5m2", 4, scale_rule="floor,ceil", nonfinite="element", select=15),
    QuantizeConfig("sm8", 4, "float16", "ceil", micro=True),
    QuantizeConfig("int8", 4, "float16", scales="e4m3"),
]
DOT_QUANTIZERS = [
    DotQuantizeConfig(DotConfig()),
    DotQuantizeConfig(DotConfig(accumulator="exact", load_c=False)),
    DotQuantizeConfig(DotConfig("int8", 4, micro=True), "int4", 4),
]


def union(hits: Iterable) -> dict[str, set]:
    """The bins of each feature that any item of any batch hits."""
    seen: dict[str, set] = {}
    for batch in hits:
        for name, rows in batch.items():
            seen.setdefault(name, set()).update(*rows)
    return seen


def wanted(goals_of: Mapping) -> dict[str, set]:
    return {name: set(bins) for name, bins in goals_of.items()}


def seen_of_dot(config: DotConfig, seed: int, count: int) -> dict[str, set]:
    batches = item.concatenate(stimulus.traffic(config, np.random.default_rng(seed), count))
    return union(features.hits(config, b, item.predict(config, b)) for b in batches)


def seen_of_quantizer(config: QuantizeConfig, seed: int, count: int) -> dict[str, set]:
    batches = q_subject.batches(UnitJob("unit", config, seed, Path("unused"), count))
    return union(q_features.hits(config, b, q_item.predict(config, b)) for b in batches)


def seen_of_dot_quantizer(config: DotQuantizeConfig, seed: int, count: int) -> dict[str, set]:
    job = UnitJob("unit", config, seed, Path("unused"), tensors=REAL_FILE)
    batch = dq_stimulus.traffic(job, "traffic", count, TENSOR_BLOCKS)
    return union([dq_features.hits(config, batch, dq_item.predict(config, batch))])


KINDS: dict[type, tuple[Callable, Callable]] = {
    DotConfig: (seen_of_dot, goals),
    QuantizeConfig: (seen_of_quantizer, q_features.goals),
    DotQuantizeConfig: (seen_of_dot_quantizer, dq_features.goals),
}
"""Reader of a record, and goals, per kind of unit with one stream in and one out."""
SUBJECTS = {
    DotConfig: (subject.batches, features, item),
    QuantizeConfig: (q_subject.batches, q_features, q_item),
    DotQuantizeConfig: (dq_subject.batches, dq_features, dq_item),
}
REGRESSION = [u.config for u in regression_units.default_matrix() if type(u.config) in KINDS]
SEEDS = 12
OTHERS = [u.config for u in every_unit() if type(u.config) in KINDS and u.config not in REGRESSION]


@pytest.mark.parametrize(
    ("config", "number"),
    [*product(REGRESSION, range(SEEDS)), *product(OTHERS, [0])]
    if FULL
    else [(c, 0) for i, c in enumerate(REGRESSION) if i % 6 == 0 or not isinstance(c, DotConfig)],
    ids=str,
)
def test_units_of_the_regression_reach_their_goals(config, number):
    """The fewest items that the regression sends reach all goals for any seed, and nothing else.

    A dot unit with a quantiser also hits bins of few blocks, which are no goals."""
    seen_of, goals_of = KINDS[type(config)]
    seen = seen_of(config, seed() + number, QUICK_TRAFFIC)
    for name, bins in goals_of(config).items():
        assert set(bins) <= seen[name], name
    if not isinstance(config, DotQuantizeConfig):
        assert seen == wanted(goals_of(config))


@pytest.mark.parametrize(
    "config",
    [
        *EXTREME,
        *random_units.units(random_units.dot, 2 * COUNT),
        *random_units.units(random_units.integer, COUNT),
    ],
    ids=str,
)
def test_dot_units_reach_their_goals_and_nothing_else(config):
    assert seen_of_dot(config, seed(), TRAFFIC) == wanted(goals(config))


def interleaved(number: int) -> DotConfig:
    """A small unit with any number of registers."""
    rng = random.Random(number)
    rule = rng.choice(["aligned:13", "fused:13", "exact", "hopper-promoted", "ada"])
    low, high = DotConfig("e2m1", 4, rule).stage_limits
    return DotConfig("e2m1", 4, rule, rng.randint(low, high), interleave=rng.choice([2, 3, 5, 16]))


def seen_of_slots(config: DotConfig) -> dict[str, set]:
    """Blocks are accepted when the timeline says so, with gaps; every third bundle is cut, but for
    those in which no result is taken while there is room: at times as many as fill the unit."""
    rng = np.random.default_rng(seed())
    batches = item.concatenate(stimulus.traffic(config, rng, 1500))
    products = [product for batch in batches for product in item.products(config, batch)]
    slot, now, seen = 0, 0, []
    held = 2 * (capacity(config) // config.interleave + 1)
    line, watcher = (
        Timeline(config, lambda: slot),
        subject.Slots(lambda: slot, subject.slot_goals(config)),
    )
    for number, bundle in enumerate(item.bundles(products, config.interleave, rng)):
        stalled = number // held % 4 == 0
        cut = number % 3 == 0 and not stalled
        for place, step in bundle.order[: rng.integers(len(bundle.order)) if cut else None]:
            slot, blocks = bundle.products[place].slot, len(bundle.products[place].blocks)
            first, last = step == 0, step == blocks - 1
            now, before = now + (1 if rng.random() < 0.8 else 3), now
            while not line.must_accept(now, first):
                seen.append(watcher.wait(first, line.lacks_room(now, first)))
                if line.full(now) and line.due[0] <= now:
                    line.take(now)
                now += 1
            while line.due and line.due[0] <= now and not stalled:
                line.take(line.due[0])
            line.accept(now, first, last)
            seen.append(watcher.accept(first, last, now == before + 1))
        if cut:
            line.reset()
            watcher.reset()
    return union({name: [bins] for name, bins in found.items()} for found in seen)


@pytest.mark.parametrize(
    "config",
    [
        DotConfig("e2m1", 32, "fused:13", 2, interleave=2),
        DotConfig("e2m1", 32, "fused:13", 1, interleave=3),
        *map(interleaved, range(COUNT)),
    ],
    ids=str,
)
def test_products_in_flight_together_reach_their_goals_and_nothing_else(config):
    assert seen_of_slots(config) == wanted(subject.slot_goals(config))


def test_a_block_whose_slot_is_not_ready_does_not_wait_for_room_alone():
    """A product begins, then the unit is full: its next block is early, and then lacks room."""
    slot, now = 1, 0
    line = Timeline(DotConfig("e2m1", 4, "aligned:13", 9, interleave=3), lambda: slot)
    for place, last in [*[(1, True)] * (line.capacity - 1), (0, False), (1, True)]:
        slot, now = place, now + 1
        line.accept(now, True, last)
    slot, ready = 0, now - 1 + line.interval
    assert now + 1 < ready
    for later in range(now + 1, ready + 3):
        assert line.lacks_room(later, True)
        assert line.lacks_room(later, False) == (later >= ready)


@pytest.mark.parametrize(
    "config", [*QUANTIZERS, *random_units.units(random_units.quantizer, COUNT)], ids=str
)
def test_quantizers_reach_their_goals_and_nothing_else(config):
    assert seen_of_quantizer(config, seed(), TRAFFIC) == wanted(q_features.goals(config))


@pytest.mark.parametrize("kind", ["dot", "quantize", "dot-quantize"])
def test_units_of_soaks_reach_their_goals(kind):
    for number in range(COUNT):
        config, _ = draw(kind, number)
        batches, features, item = SUBJECTS[type(config)]
        made = batches(UnitJob(config.name, config, seed(), Path("unused"), SOAK_TRAFFIC))
        seen = union(features.hits(config, batch, item.predict(config, batch)) for batch in made)
        missed = {name: bins - seen[name] for name, bins in wanted(features.goals(config)).items()}
        assert not any(missed.values()), (number, str(config))


@pytest.mark.parametrize(
    "config",
    [*DOT_QUANTIZERS, *random_units.units(random_units.dot_quantizer, COUNT // 2)],
    ids=str,
)
def test_dot_units_with_a_quantizer_reach_their_goals(config):
    seen = seen_of_dot_quantizer(config, seed(), TRAFFIC)
    for name, bins in dq_features.goals(config).items():
        assert set(bins) <= seen[name], name


LITTLE = [
    QuantizeConfig("int8", 128, "bfloat16", "floor,ceil,even", beats=128),
    DotConfig("int8", 4, "int32", 5, "float16:scale", zero_points="a"),
    *QUANTIZERS,
    *DOT_QUANTIZERS,
    *REGRESSION[:: 1 if FULL else 6],
]


@pytest.mark.parametrize(
    ("config", "count"), [(LITTLE[0], 300), *((config, 1) for config in LITTLE)], ids=str
)
def test_little_traffic_reaches_every_goal(config, count):
    """The bench sends all that its goals need, for any number of items."""
    batches, features, item = SUBJECTS[type(config)]
    for number in (5, 1069, seed()) if count > 1 else (seed(),):
        job = UnitJob(config.name, config, number, Path("unused"), count, tensors=REAL_FILE)
        seen = union(features.hits(config, b, item.predict(config, b)) for b in batches(job))
        for name, bins in features.goals(config).items():
            assert set(bins) <= seen[name], name


def test_a_feature_that_leaves_out_an_item_is_an_error(tmp_path):
    subject: Any = SimpleNamespace(
        job=UnitJob("unit", DotConfig("e2m1", 4, "exact"), 1, tmp_path),
        items="dot products",
        goals=lambda: {"format": [1], "result": [1]},
        event_goals=dict,
        hits=lambda batch, outcome: {"format": [{1}] * 3, "result": [{1}] * 2},
    )
    context = Context(subject)
    ConfigDB().set(None, "*", "context", context)
    coverage = Coverage("coverage", None)
    coverage.build_phase()
    coverage.batches.analysis_export.write(([1, 2, 3], None))
    coverage.check_phase()
    assert context.report.errors == ["coverage of result: 2 of 3 dot products"]


@pytest.mark.parametrize(
    ("rule", "out", "results", "raised", "saturation"),
    [
        # Between 2^-20 and 2^27.
        ("fixed:48:-20", "float32", "normal", "inexact saturated", [WITHIN, POSITIVE, NEGATIVE]),
        ("fixed:48:-20", "float16", "normal inf subnormal", "inexact overflow saturated",
         [WITHIN, POSITIVE, NEGATIVE]),
        # Everything that enters is whole turns of it.
        ("fixed:2:-1024:wrap", "float32", "", "saturated", [WITHIN]),
        # It holds what float32 takes for zero.
        ("fixed:2:-1024", "float32", "", "inexact underflow saturated", [WITHIN]),
        # -2^-126 and 2^-127.
        ("fixed:2:-127", "float32", "normal subnormal", "inexact saturated",
         [WITHIN, POSITIVE, NEGATIVE]),
        # -2^-149 and 2^-150, of which the latter is zero.
        ("fixed:2:-150", "float32", "subnormal", "inexact underflow saturated",
         [WITHIN, NEGATIVE]),
        # Multiples of 2^200.
        ("fixed:16:200", "float32", "inf", "inexact overflow saturated",
         [WITHIN, POSITIVE, NEGATIVE]),
        # Four products of up to 448^2 x 2^254 are 2^273.6 at most.
        ("fixed:2:273", "float32", "inf", "inexact overflow saturated", [WITHIN, POSITIVE]),
        ("fixed:3:273", "float32", "inf", "inexact overflow", [WITHIN]),
        ("fixed:3:274", "float32", "", "inexact", [WITHIN]),
    ],
)  # fmt: skip
def test_what_a_register_can_do(rule, out, results, raised, saturation):
    bins = goals(DotConfig("e4m3", 4, rule, out=out, load_c=False))
    assert set(bins["result"]) == {"zero", "nan", *results.split()}
    flags = {name for name in FLAG_NAMES if (name, True) in bins["flags"]}
    assert flags == {"invalid", *raised.split()}
    assert bins["saturation"] == saturation


@pytest.mark.parametrize(
    ("accumulator", "lane", "leader"),
    [("ada", 15, "products beside c"), ("ada", 16, "c"), ("fused:13", 16, "products beside c")],
)
def test_c_leads_over_the_lanes_of_the_first_step(accumulator, lane, leader):
    """c is 4, the only product 256; `ada` aligns 16 lanes at a time."""
    config = DotConfig("e4m3", 32, accumulator)
    codes, scales = np.zeros((1, 1, 32), np.uint8), np.full((1, 1), 127, np.uint8)
    codes[0, 0, lane] = 0x58
    c = np.array([4], np.float32).view(np.uint32)
    batch = item.Batch(0, codes, codes, scales, scales, c)
    bins = features.hits(config, batch, item.predict(config, batch))
    assert bins["largest_exponent"] == [{leader}]
