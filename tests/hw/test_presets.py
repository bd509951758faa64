"""Facts about real tensor cores (docs/numerics.md) on the RTL, in literal numbers."""

import numpy as np
import pytest

from cases import Cases
from compare import generator, some
from mxdot.model import E4M3, PRESETS, DotConfig, ElementFormat, MXArray
from unit_bench import Run, Work, drive, evaluate, join, products, random_work

HOPPER = DotConfig(formats="e4m3,e5m2", lanes=32, accumulator="hopper")
MIXED = DotConfig("e5m2xe4m3", lanes=32, accumulator="hopper", stages=5)
CLASSES = {"operands": ["wide", "finite", "cancelling", "sparse"], "scales": ["unit", "moderate"]}
UNITS = {"e4m3": (HOPPER, 0), "e5m2": (HOPPER, 1), "e5m2xe4m3": (MIXED, 0)}  # and its mode
every_unit = pytest.mark.parametrize("unit", UNITS)
with_infinities = pytest.mark.parametrize("unit", ["e5m2", "e5m2xe4m3"])
NAN, INF = float("nan"), float("inf")


def one_block(
    a_format: ElementFormat, b_format: ElementFormat, a: list[float], b: list[float], c: float = 0.0
) -> Cases:
    """One dot product of 32 elements with unit scales; shorter lists end in zeros."""
    scale = np.full((1, 1), 127, np.uint8)
    operands = []
    for fmt, values in ((a_format, a), (b_format, b)):
        row = np.array([values + [0.0] * (32 - len(values))])
        operands.append(MXArray(fmt.encode(row), scale, fmt, 32))
        np.testing.assert_array_equal(fmt.decode(operands[-1].codes), row)
    return Cases(operands[0], operands[1], np.array([c], np.float32))


def results(unit: str, blocks: list[tuple[list[float], list[float], float]]) -> list[str]:
    """Result bits, in hex, of products of one block, from a, b and c of each."""
    config, mode = UNITS[unit]
    cases = [one_block(*config.formats[mode], *block) for block in blocks]
    parts = [p for case in cases for p in products(config, case, mode)]
    run: Run = evaluate(config, drive(join(config, parts), generator("facts")))
    run.check()
    return [hex(value) for value in run.got["result"].tolist()]


def bits(x: float) -> int:
    return int(np.float32(x).view(np.uint32))


BIG = [256.0]  # 256 x 256 = 2^16
FACTS = {
    "2^16 + 2^3 keeps the 2^3": ([*BIG, 8], [*BIG, 1], 2**16 + 8),
    "2^16 + 2^2 drops the 2^2": ([*BIG, 4], [*BIG, 1], 2**16),
    "2^16 + 31 x 7": (BIG + [7] * 31, BIG + [1] * 31, 2**16),
    "2^16 + 31 x -7": (BIG + [7] * 31, BIG + [-1] * 31, 2**16),
    "2^16 + 31 x 8": (BIG + [8] * 31, BIG + [1] * 31, 2**16 + 248),
    "2^16 + 31 x -8": (BIG + [-8] * 31, BIG + [1] * 31, 2**16 - 248),
    "-2^16 + 31 x 7": ([-256] + [7] * 31, BIG + [1] * 31, -(2**16)),
    "448 x 0 beside 2^-18": ([448, 2.0**-9], [0, 2.0**-9], 2.0**-18),
    "0 x 448 beside 2^-18": ([0, 2.0**-9], [448, 2.0**-9], 2.0**-18),
    "448 x 448 beside 2^-18": ([448, 2.0**-9], [448, 2.0**-9], 448 * 448),
    "-0 terms": ([-0.0] * 32, [1.0] * 32, 0.0),
    "x - x": ([3.0, 3.0], [1.0, -1.0], 0.0),
}


@every_unit
def test_facts_of_hopper_sums(unit):
    got = results(unit, [(a, b, 0.0) for a, b, _ in FACTS.values()])
    want = [hex(bits(value)) for *_, value in FACTS.values()]
    assert dict(zip(FACTS, got, strict=True)) == dict(zip(FACTS, want, strict=True))


@every_unit
@pytest.mark.contract("P6", "M9")
def test_facts_of_hopper_nan(unit):
    payload = float(np.uint32(0x7FC00001).view(np.float32))
    blocks = [([NAN], [1.0], 0.0), ([], [], NAN), ([], [], payload)]
    assert results(unit, blocks) == ["0x7fffffff"] * 3


@with_infinities
@pytest.mark.contract("M9")
def test_facts_of_hopper_infinities(unit):
    blocks = [([INF], [1.0]), ([-INF], [1.0]), ([INF], [0.0]), ([INF, -INF], [1.0, 1.0])]
    assert results(unit, [(a, b, 0.0) for a, b in blocks]) == [
        "0x7f800000", "0xff800000", "0x7fffffff", "0x7fffffff",
    ]  # fmt: skip


RUNNING = {
    # c alone is cut to 13 fraction bits, toward zero.
    1 + 2.0**-13: 1 + 2.0**-13,
    1 + 2.0**-13 + 2.0**-14: 1 + 2.0**-13,
    1 + 2.0**-14: 1.0,
    2 - 2.0**-23: 2 - 2.0**-13,
    -(1 + 2.0**-14): -1.0,
    -(1 + 2.0**-14 + 2.0**-23): -1.0,
    2.0**-139: 2.0**-139,  # a subnormal c to multiples of 2^-139
    2.0**-139 + 2.0**-149: 2.0**-139,
    2.0**-138 - 2.0**-149: 2.0**-139,
    2.0**-140: 0.0,
    2.0**-149: 0.0,
    -0.0: 0.0,
    INF: INF,
    -INF: -INF,
}


@every_unit
def test_facts_of_hopper_running_values(unit):
    got = results(unit, [([], [], c) for c in RUNNING])
    assert got == [hex(bits(v)) for v in RUNNING.values()]
    # c takes part in the alignment: 2^13 x 1 hides what is below 1.
    assert results(unit, [([0.75, 0.75], [1, 1], 2.0**13)]) == [hex(bits(2.0**13))]


def test_hopper_leaves_the_low_ten_bits_zero():
    work = random_work(HOPPER, generator("low bits"), [1] * 300, **CLASSES)
    run: Run = evaluate(HOPPER, drive(work, generator("drive"), streams=10))
    run.check()
    finite = run.got["invalid"] == 0
    assert not (run.got["result"][finite] & 0x3FF).any()


# Promotion ---------------------------------------------------------------------------------------


def promoted_work(name: str, lanes: int, lengths: list[int]) -> Work:
    config = DotConfig(formats="e4m3,e5m2xe4m3", lanes=lanes, accumulator=name)
    return random_work(config, generator("promoted", lanes), lengths, **CLASSES)


@pytest.mark.parametrize(
    ("name", "lanes"), some([("hopper-promoted", 4), ("hopper-promoted", 32), ("hopper-mx", 8)], 2)
)
def test_promotion_groups(name, lanes):
    """Products shorter than, as long as and longer than 128 (32) elements, in every order: a
    product begins its own group, wherever in one the product before it ended."""
    group = (PRESETS[name].promote or 0) // lanes
    lengths = [1, group - 1, group, group + 1, 2 * group, 2 * group + 1, 3, 5 * group // 2]
    rng = generator("groups", lanes)
    order = [int(v) for _ in range(8) for v in rng.permutation(lengths)]
    work = promoted_work(name, lanes, order)
    for gap, stall in ((0.0, 0.0), (0.2, 0.2)):
        run: Run = evaluate(work.config, drive(work, rng, streams=16, gap=gap, stall=stall))
        run.check()


@pytest.mark.contract("M7")
def test_promotion_happens_after_128_elements():
    """2^13 in c, then ones: in `hopper` they vanish below c's grid; a promoted sum keeps them."""
    lanes, blocks = 4, 64
    results = {}
    for name in ("hopper", "hopper-promoted"):
        config = DotConfig(formats="e4m3", lanes=lanes, accumulator=name)
        half = np.full((1, blocks * lanes), E4M3.encode(0.5), np.uint8)
        scale = np.full((1, blocks), 127, np.uint8)
        ones = MXArray(half, scale, E4M3, lanes)
        cases = Cases(ones, ones, np.array([2.0**14], np.float32))
        run: Run = evaluate(config, drive(join(config, products(config, cases)), generator("c")))
        results[name] = float(run.got["result"].astype(np.uint32).view(np.float32)[0])
    # A block adds 4 x 0.25: each term lies below the grid of 2 that c spans.
    assert results == {"hopper": 2.0**14, "hopper-promoted": 2.0**14 + 0.25 * lanes * blocks}


@pytest.mark.contract("M6")
def test_ada_takes_sixteen_terms_at_a_time():
    """The second step sees the first one's sum, truncated to 13 fraction bits."""
    config = DotConfig(formats="e4m3", lanes=32, accumulator="ada")
    # First 2^16 alone; then 16 terms of 4: each is below the grid of 8, though not their sum.
    late = one_block(E4M3, E4M3, BIG + [0.0] * 15 + [4.0] * 16, BIG + [0.0] * 15 + [1.0] * 16)
    # The other way round the fours are summed before 2^16 comes.
    early = one_block(E4M3, E4M3, [4.0] * 16 + BIG, [1.0] * 16 + BIG)
    work = join(config, products(config, late) + products(config, early))
    run: Run = evaluate(config, drive(work, generator("ada")))
    assert run.got["result"].tolist() == [bits(2**16), bits(2**16 + 64)]


def test_blackwell_keeps_25_fraction_bits_and_rounds_toward_zero():
    config = DotConfig(formats="e4m3", lanes=32, accumulator="blackwell")
    exact = 2.0**16 + 2.0**-7
    blocks = [
        one_block(E4M3, E4M3, [*BIG, 2.0 ** (-7)], [*BIG, 1.0]),
        # 2^-9 is the grid's last digit; what float32 cannot hold (2^-7) is cut after the sum.
        one_block(E4M3, E4M3, BIG + [2.0**-9] * 16, BIG + [1.0] * 16),
        one_block(E4M3, E4M3, BIG + [2.0**-9] * 3, BIG + [1.0] * 3),
        one_block(E4M3, E4M3, BIG + [2.0**-9] * 3, BIG + [-1.0] * 3),
        one_block(E4M3, E4M3, BIG + [2.0**-9] * 31, BIG + [0.5] * 31),
    ]
    work = join(config, [p for block in blocks for p in products(config, block)])
    run: Run = evaluate(config, drive(work, generator("blackwell")))
    below = 2.0**16 - 2.0**-7  # 1.5 units of 2^-8 below 2^16, toward zero
    want = [exact, 2.0**16 + 2.0**-5, 2.0**16, below, 2.0**16]
    assert [hex(v) for v in run.got["result"].tolist()] == [hex(bits(v)) for v in want]
