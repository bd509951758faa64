"""The fast model equals the exact rational one: every accumulator, every format, bits and flags.

By default at least 3,300 dot products for each kind of accumulator, and as many for each element
format. `MXDOT_FULL=1` takes 100,000 for every combination of both. `MXDOT_SEED=n` draws others.
"""

import pytest

from cases import cases_of_each_class, random_cases
from compare import FULL, check, generator
from mxdot.model import PRESETS, accumulator

PAIRS = [
    *((name, name) for name in ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1", "int8")),
    ("e5m2", "e4m3"),
    ("int8", "e4m3"),
    ("e2m1", "e4m3"),
]

WIDER = [
    ("fp16", "fp16"),
    ("bf16", "bf16"),
    ("tf32", "tf32"),
    ("bf16", "int4"),
    ("fp16", "e2m1"),
    ("e4m3fnuz", "e5m2fnuz"),
]

KINDS = {
    "exact": ["exact"],
    "aligned": [f"aligned:{f}" for f in (13, 0, 4, 8, 25, 50, 64)],
    "fused": [f"fused:{f}" for f in (13, 25, 0, 7, 40, 64)],
    "fixed": [
        "fixed:48:-20",  # saturating, in float64
        "fixed:51:-40",
        "fixed:20:-8:wrap",
        "fixed:12:-4",
        "fixed:51:-30:wrap",
        "fixed:2:0",
        "fixed:52:-24",  # in Python integers from here on
        "fixed:90:-60:wrap",
        "fixed:640:-286",  # a Kulisch register
        "fixed:1024:-1024",
        "fixed:33:1000",
    ],
    "float32": ["float32"],
    "rvbna": ["rvbna:4", "rvbna:2:0", "rvbna:8:6", "rvbna:16:2", "rvbna:32:41"],
    "int32": ["int32"],
    **{name: [name] for name in PRESETS},
}

# (blocks, elements of a block): share in thousandths. Small ones, for the oracle is slow.
SHAPES = {
    (1, 4): 250,
    (2, 4): 160,
    (1, 8): 150,
    (2, 8): 80,
    (4, 4): 70,
    (1, 1): 60,
    (3, 3): 50,
    (1, 3): 50,
    (8, 4): 40,
    (1, 16): 30,
    (5, 1): 20,
    (1, 32): 18,
    (2, 32): 6,
    (1, 48): 4,
    (3, 48): 2,
    (1, 64): 3,
    (3, 64): 2,
    (1, 128): 2,
    (2, 128): 2,
    (8, 32): 1,
}
EACH = 100_000 if FULL else 300
EACH_WIDER = 100_000 if FULL else 100
EACH_INT32 = 100_000 if FULL else 3_300

COMBINATIONS = [
    pytest.param(kind, pair, id=f"{kind}-{'x'.join(pair)}")
    for kind in KINDS
    for pair in ([("int8", "int8")] if kind == "int32" else [*PAIRS, *WIDER])
]


def test_default_counts():
    """Each kind of accumulator and each format has as many cases as the module promises."""
    assert sum(SHAPES.values()) == 1000
    assert len(PAIRS) * EACH + len(WIDER) * EACH_WIDER >= 3_300
    assert (len(KINDS) - 1) * EACH >= 3_300


@pytest.mark.parametrize(("kind", "pair"), COMBINATIONS)
@pytest.mark.contract(
    "C1", "F4", "P5", "A1", "A3", "A7", "A13", "A14", "R1", "R2", "R3", "R4", "R5", "M4"
)
def test_fast_equals_rational(kind, pair):
    rng = generator(kind, pair)
    count = EACH_INT32 if kind == "int32" else EACH_WIDER if pair in WIDER else EACH
    texts, done = KINDS[kind], 0
    for (blocks, k), share in SHAPES.items():
        cases = random_cases(rng, pair, -(-count * share // 1000), blocks, k)
        for i, text in enumerate(texts):  # by turns, so that of the large shapes each has some
            if part := cases[(i - done) % len(texts) :: len(texts)]:
                check(part, text)
        done += len(cases)
    assert done >= count


@pytest.mark.parametrize("text", [texts[0] for texts in KINDS.values()])
@pytest.mark.contract("P4", "A12")
def test_every_class_alone(text):
    """Each class of operands, scales and running values: short runs that name what breaks."""
    pair = ("int8", "int8") if text == "int32" else ("e5m2", "e5m2")
    rng = generator("class", text)
    for cases in cases_of_each_class(rng, pair, 60, 2, 4):
        check(cases, text)


@pytest.mark.parametrize(
    "text", ["exact", "aligned:13", "fused:25", "float32", "rvbna:128", "hopper", "ada"]
)
def test_long_blocks(text):
    """Blocks beyond those of the RTL, and odd ones out on several levels of a tree."""
    rng = generator("long", text)
    for k in (129, 500, 1023):
        check(random_cases(rng, ("e4m3", "e5m2"), 20, 2, k), text)


def test_kinds_are_all_there_is():
    kinds = {accumulator(text).keyword for texts in KINDS.values() for text in texts}
    assert kinds == {"exact", "aligned", "fused", "fixed", "float32", "int32", "rvbna", "preset"}
    assert set(PRESETS) <= set(KINDS)
