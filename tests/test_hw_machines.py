"""What AMD's machines do at the ends of their rules (docs/numerics.md), on the RTL, in literal
numbers: results and flags."""

import numpy as np
import pytest

from cases import Cases
from compare import generator
from mxdot.model import MACHINES, DotConfig, MXArray, format_pairs
from mxdot.model.trace import FLAG_NAMES
from unit_bench import Run, drive, evaluate, join, products

INF, NAN = float("inf"), float("nan")
TINY = 2.0**-126
LOST, OVER, UNDER = {"inexact"}, {"overflow", "inexact"}, {"underflow", "inexact"}


def unit(name: str) -> DotConfig:
    """The machine's own, of its last operands."""
    machine = MACHINES[name]
    return DotConfig(machine.operands[-1], accumulator=machine, **machine.own_unit)


def computed(name: str, facts: list) -> list[tuple[float, set[str]]]:
    """Result and flags for each (a, b, c, ...); shorter lists end in zeros."""
    config = unit(name)
    ((a_format, b_format),) = config.formats
    parts = []
    for a, b, c, *_ in facts:
        operands = []
        for fmt, values in ((a_format, a), (b_format, b)):
            row = np.array([values + [0.0] * (config.lanes - len(values))])
            scale = np.full((1, 1), 127, np.uint8)
            operands.append(MXArray(fmt.encode(row), scale, fmt, config.lanes))
            np.testing.assert_array_equal(fmt.decode(operands[-1].codes), row)
        a_array, b_array = operands
        parts += products(config, Cases(a_array, b_array, np.array([c], np.float32)))
    run: Run = evaluate(config, drive(join(config, parts), generator("facts", name)))
    run.check()
    values = run.got["result"].astype(np.uint32).view(np.float32).tolist()
    raised = [{f for f in FLAG_NAMES if run.got[f][i]} for i in range(len(facts))]
    return list(zip(values, raised, strict=True))


def check(name: str, facts: list) -> None:
    for (value, raised), (a, b, c, want, flags) in zip(computed(name, facts), facts, strict=True):
        np.testing.assert_equal(value, want, err_msg=f"{name}: {a} x {b} + {c}")
        assert raised == flags | ({"invalid"} if np.isnan(want) else set()), (a, b, c)


BELOW_ONE = float(np.float32(1 - 2.0**-24))


def test_cdna3_cuts_sum_and_c_downwards():
    one, ulp = [1.0], 2.0**-23
    check(
        "cdna3-fp16",
        [
            # c comes to the grid of 2^-24 below the products.
            (one, one, -(2.0**-60), BELOW_ONE, LOST),
            (one, one, 2.0**-60, 1.0, LOST),
            (one, one, -(2.0**-24), BELOW_ONE, set()),
            # The sum of products comes to that of 2^-31 below c, products to 2^-24 below theirs.
            ([-(2.0**-25), -(2.0**-40)], one * 2, 1.0, BELOW_ONE, LOST),
            ([-(2.0**-25)], one, 1.0, 1.0, LOST),
            ([2.0**-24, 2.0**-40], one * 2, 1.0, 1.0, LOST),
            ([2.0**-24, 2.0**-31], one * 2, 1.0, 1 + ulp, LOST),
            ([2.0**-24, 2.0**-32], one * 2, 1.0, 1.0, LOST),
            # Alone c is cut to no grid that it is not on; zeros are +0.
            ([0.0], [0.0], 2.0**-149, 2.0**-149, set()),
            ([0.0], [0.0], -0.0, 0.0, set()),
            ([3.0, 3.0], [1.0, -1.0], 0.0, 0.0, set()),
            # Below the least exponent of c sums come to multiples of 2^-157.
            ([2.0**-100], [2.0**-57], 0.0, 0.0, UNDER),
            ([2.0**-100], [2.0**-49], 0.0, 2.0**-149, set()),
            ([2.0**-100], [-(2.0**-58)], 0.0, 0.0, UNDER),
            ([INF], [0.0], 1.0, NAN, set()),
            ([INF], [-1.0], 1.0, -INF, set()),
            ([1.0], [1.0], NAN, NAN, set()),
        ],
    )  # fmt: skip


def test_a_product_too_large_decides_a_step_of_cdna3():
    huge, large, half = 2.0**127, 2.0**64, 2.0**63
    check(
        "cdna3-fp16",
        [
            ([large], [large], 0.0, INF, OVER),
            ([-large], [large], 1.0, -INF, OVER),
            # The smaller one lies far below the grid of the other, and counts all the same.
            ([huge, large], [huge, -large], 0.0, NAN, OVER),
            ([huge, half], [huge, -large], 0.0, INF, OVER),
            ([-huge, half], [huge, large], 0.0, -INF, OVER),
            # A sum may be too large without such a product; its rounding is then.
            ([large, large], [half, half], 0.0, INF, OVER),
            ([large, large], [half, -half], 0.0, 0.0, set()),
            ([large, large, half], [half, half, -large], 0.0, 2.0**127, set()),
        ],
    )


def test_cdna3_sums_even_and_odd_places_of_fp8_apart():
    check(
        "cdna3-fp8",
        [
            # Both largest products count; the smaller sum comes down to the other's grid.
            ([2.0, 2.0**-7], [2.0**6, -(2.0**-9)], 0.0, 2.0**7 - 2.0**-16, set()),
            ([2.0, 2.0**-7], [2.0**7, -(2.0**-10)], 0.0, 2.0**8 - 2.0**-16, LOST),
            ([2.0, 2.0**-7], [2.0**7, 2.0**-10], 0.0, 2.0**8, LOST),
            # At the same parity it is cut toward zero instead.
            ([2.0, 0.0, 2.0**-7], [2.0**7, 0.0, -(2.0**-10)], 0.0, 2.0**8, LOST),
            # c is left out where it lies more than 25 digits below.
            ([1.0], [1.0], -(2.0**-25), BELOW_ONE, LOST),
            ([1.0], [1.0], -(2.0**-26), 1.0, LOST),
            ([1.0], [1.0], 2.0**-26, 1.0, LOST),
            ([0.0], [1.0], 2.0**-149, 2.0**-149, set()),
        ],
    )


def test_cdna2_has_no_subnormal_numbers():
    half = 2.0**-60
    check(
        "cdna2-bf16",
        [
            # Elements, c, products, sums and results; what was lost is told, but of elements.
            ([2.0**-127], [2.0**10], 0.0, 0.0, set()),
            ([2.0**-127], [INF], 0.0, NAN, set()),
            ([0.0], [0.0], 2.0**-127, 0.0, UNDER),
            ([1.0], [1.0], -(2.0**-149), 1.0, UNDER),
            ([INF], [1.0], 2.0**-149, INF, UNDER),
            ([half], [2.0**-67], 0.0, 0.0, UNDER),
            ([half], [2.0**-66], 0.0, TINY, set()),
            # All ones below 2^-126 round up to it, which is no subnormal number.
            ([half * 1.5, half], [2.0**-66, -(2.0**-66)], 0.0, 0.0, UNDER),
            ([half], [2.0**-66], -1.5 * TINY, 0.0, UNDER),
            ([1.0], [1.0], -1.0, 0.0, set()),
            ([2.0**100], [2.0**100], 0.0, INF, OVER),
        ],
    )


def test_cdna1_rounds_an_exact_sum_once():
    far = 2.0**-133
    check(
        "cdna1-bf16",
        [
            # 2^254, -2^254 and what is left of them: the products lie 520 digits apart.
            ([2.0**127, far], [2.0**127, far], 0.0, INF, OVER),
            ([2.0**60, far], [2.0**60, 2.0**-7], -(2.0**120), 2.0**-140, set()),
            ([1.0, far], [2.0**-24, far], 1.0, 1 + 2.0**-23, LOST),
            ([1.0, far], [2.0**-24, -far], 1.0, 1.0, LOST),
            ([1.0], [2.0**-24], 1.0, 1.0, LOST),
            ([far], [far], 0.0, 0.0, UNDER),
        ],
    )


@pytest.mark.parametrize("name", MACHINES)
def test_every_machine_has_a_unit_of_its_own_step(name):
    machine = MACHINES[name]
    for text in machine.operands:
        config = DotConfig(text, accumulator=machine, **machine.own_unit)
        assert config.formats == format_pairs(text)
        assert config.latency >= 1
