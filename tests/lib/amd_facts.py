"""Results of the machines of AMD, Arm and Intel at the ends of their rules, in literal numbers.

Each fact is (a, b, c, result, flags) of one step, under scales of 1; shorter lists end in zeros.
"""

import numpy as np

from cases import Cases
from mxdot.model import MACHINES, ElementFormat, MXArray, format_pairs

Fact = tuple[list[float], list[float], float, float, set[str]]

INF, NAN = float("inf"), float("nan")
TINY, BELOW_ONE = 2.0**-126, 1 - 2.0**-24
LOST, OVER, UNDER = {"inexact"}, {"overflow", "inexact"}, {"underflow", "inexact"}
ONE, ULP = [1.0], 2.0**-23
HUGE, LARGE, ROOT = 2.0**127, 2.0**64, 2.0**63
SMALL, FAR = 2.0**-60, 2.0**-133
FAINT = (2.0**-140, 2.0**-140)  # c, and the result

FACTS: dict[str, tuple[str, list[Fact]]] = {
    "CDNA3 cuts sum and c downwards": (
        "cdna3-fp16",
        [
            # c comes to the grid of 2^-24 below the products.
            (ONE, ONE, -(2.0**-60), BELOW_ONE, LOST),
            (ONE, ONE, 2.0**-60, 1.0, LOST),
            (ONE, ONE, -(2.0**-24), BELOW_ONE, set()),
            # The sum of products comes to that of 2^-31 below c, products to 2^-24 below theirs.
            ([-(2.0**-25), -(2.0**-40)], ONE * 2, 1.0, BELOW_ONE, LOST),
            ([-(2.0**-25)], ONE, 1.0, 1.0, LOST),
            ([2.0**-24, 2.0**-40], ONE * 2, 1.0, 1.0, LOST),
            ([2.0**-24, 2.0**-31], ONE * 2, 1.0, 1 + ULP, LOST),
            ([2.0**-24, 2.0**-32], ONE * 2, 1.0, 1.0, LOST),
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
    ),
    "a product too large decides a step of CDNA3": (
        "cdna3-fp16",
        [
            ([LARGE], [LARGE], 0.0, INF, OVER),
            ([-LARGE], [LARGE], 1.0, -INF, OVER),
            # The smaller one lies far below the grid of the other, and counts all the same.
            ([HUGE, LARGE], [HUGE, -LARGE], 0.0, NAN, OVER),
            ([HUGE, ROOT], [HUGE, -LARGE], 0.0, INF, OVER),
            ([-HUGE, ROOT], [HUGE, LARGE], 0.0, -INF, OVER),
            # A sum may be too large without such a product; its rounding is then.
            ([LARGE, LARGE], [ROOT, ROOT], 0.0, INF, OVER),
            ([LARGE, LARGE], [ROOT, -ROOT], 0.0, 0.0, set()),
            ([LARGE, LARGE, ROOT], [ROOT, ROOT, -LARGE], 0.0, 2.0**127, set()),
        ],
    ),
    "CDNA3 sums even and odd places of FP8 apart": (
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
    ),
    "CDNA2 has no subnormal numbers": (
        "cdna2-bf16",
        [
            # Elements, c, products, sums and results; what was lost is told, but of elements.
            ([2.0**-127], [2.0**10], 0.0, 0.0, set()),
            ([2.0**-127], [INF], 0.0, NAN, set()),
            ([0.0], [0.0], 2.0**-127, 0.0, UNDER),
            ([1.0], [1.0], -(2.0**-149), 1.0, UNDER),
            ([INF], [1.0], 2.0**-149, INF, UNDER),
            ([SMALL], [2.0**-67], 0.0, 0.0, UNDER),
            ([SMALL], [2.0**-66], 0.0, TINY, set()),
            # All ones below 2^-126 round up to it, which is no subnormal number.
            ([SMALL * 1.5, SMALL], [2.0**-66, -(2.0**-66)], 0.0, 0.0, UNDER),
            ([SMALL], [2.0**-66], -1.5 * TINY, 0.0, UNDER),
            ([1.0], [1.0], -1.0, 0.0, set()),
            ([2.0**100], [2.0**100], 0.0, INF, OVER),
        ],
    ),
    "CDNA1 rounds an exact sum once": (
        "cdna1-bf16",
        [
            # 2^254, -2^254 and what is left of them: the products lie 520 digits apart.
            ([2.0**127, FAR], [2.0**127, FAR], 0.0, INF, OVER),
            ([2.0**60, FAR], [2.0**60, 2.0**-7], -(2.0**120), 2.0**-140, set()),
            ([1.0, FAR], [2.0**-24, FAR], 1.0, 1 + 2.0**-23, LOST),
            ([1.0, FAR], [2.0**-24, -FAR], 1.0, 1.0, LOST),
            ([1.0], [2.0**-24], 1.0, 1.0, LOST),
            ([FAR], [FAR], 0.0, 0.0, UNDER),
        ],
    ),
    "AMX has a chain of even and one of odd places": (
        "amx-bf16",
        [
            # Each chain rounds after every product, their sum after that, then c's.
            ([1.0, 0.0, 2.0**-24, 0.0, 2.0**-24], ONE * 5, 0.0, 1.0, LOST),
            ([1.0, 2.0**-24, 0.0, 2.0**-24], ONE * 4, 0.0, 1 + ULP, set()),
            ([2.0**-24, 2.0**-24], ONE * 2, 1.0, 1 + ULP, set()),
            ([1.0, 2.0**-24], ONE * 2, 2.0**-24, 1.0, LOST),
            # Elements, c and results below 2^-126 are zeros.
            ([2.0**-127], [2.0**10], 0.0, 0.0, set()),
            ([0.0], [0.0], 2.0**-127, 0.0, UNDER),
            ([TINY], [0.5], 0.0, 0.0, UNDER),
            ([TINY, -TINY], [1.0, 2.0**-8], 0.0, TINY, UNDER),
            ([SMALL, -SMALL], [2.0**-66, 2.0**-90], 0.0, TINY, UNDER),
            # An overflow of one chain stays, and meets the other chain, and c.
            ([HUGE, 0.0, -HUGE], [2.0, 0.0, 2.0], 0.0, INF, OVER),
            ([HUGE, HUGE], [2.0, -2.0], 0.0, NAN, OVER),
            ([HUGE], [2.0], -INF, NAN, set()),
            ([HUGE, 0.0, -INF], [2.0, 0.0, 1.0], 0.0, NAN, set()),
            ([-INF, 0.0, HUGE], [1.0, 0.0, 2.0], 0.0, -INF, set()),
        ],
    ),
    "AVX512 takes the second element of a pair first": (
        "avx512-bf16",
        [
            ([2.0**-24, 1.0], ONE * 2, 2.0**-24, 1.0, LOST),
            ([1.0, 2.0**-24], ONE * 2, 2.0**-24, 1 + ULP, set()),
            ([HUGE, HUGE], [2.0, -2.0], 0.0, -INF, OVER),
            ([2.0**-127, 1.0], [INF, 1.0], 0.0, NAN, set()),
            # A result that rounds up to 2^-126 with an exponent of any size is no zero.
            ([-(2.0**-75)], [2.0**-76], TINY, TINY, LOST),
            ([-(2.0**-75)], [2.0**-75], TINY, 0.0, UNDER),
        ],
    ),
    "Arm rounds an exact sum to float16 once": (
        "arm-fp8-dot-float16",
        [
            ([1.0, 2.0**-6], [1.0, 2.0**-5], 0.0, 1.0, LOST),
            ([1.0, 2.0**-6], [1.0, 1.125 * 2.0**-5], 0.0, 1 + 2.0**-10, LOST),
            ([1.0, 2.0**-9], [1.0, 2.0**-9], 2.0**-11, 1 + 2.0**-10, LOST),
            ([2.0**-9], [2.0**-9], 0.0, 2.0**-18, set()),
            ([0.0], [0.0], 1 + 2.0**-11, 1.0, LOST),
            ([256.0], [256.0], 0.0, INF, OVER),
            ([256.0, 16.0], [256.0, -2.0], 0.0, 65504.0, set()),
            ([256.0], [256.0], -INF, -INF, set()),
        ],
    ),
    "CDNA1 keeps every digit of four products": (
        "cdna1-fp16",
        [
            # 2^30 and 2^-48 leave c alone, which lies far below both.
            ([2.0**15, 2.0**-24] * 2, [2.0**15, 2.0**-24, -(2.0**15), -(2.0**-24)], *FAINT, set()),
            ([2.0**15, 2.0**-24, 2.0**15], [2.0**15, 2.0**-24, -(2.0**15)], 0.0, 2.0**-48, set()),
            ([2.0**15, 2.0**-24], [2.0**15, 2.0**-24], -(2.0**30), 2.0**-48, set()),
            ([1.0, 2.0**-24], [2.0**-24, 2.0**-24], 1.0, 1 + ULP, LOST),
            ([1.0, 2.0**-24], [2.0**-24, -(2.0**-24)], 1.0, 1.0, LOST),
            ([INF, 1.0], [1.0, 1.0], 1.0, INF, set()),
        ],
    ),
}  # fmt: skip


def cases_of(name: str, facts: list[Fact], size: int) -> Cases:
    """The facts in blocks of `size`, a step or more, of the machine's last operands."""
    a, b, c, *_ = zip(*facts, strict=True)
    ((a_format, b_format),) = format_pairs(MACHINES[name].operands[-1])
    x, y = (_blocks(rows, fmt, size) for rows, fmt in ((a, a_format), (b, b_format)))
    return Cases(x, y, np.array(c, np.float32))


def _blocks(rows: tuple[list[float], ...], fmt: ElementFormat, size: int) -> MXArray:
    values = np.array([row + [0.0] * (size - len(row)) for row in rows])
    codes, scales = fmt.encode(values), np.full((len(rows), 1), 127, np.uint8)
    np.testing.assert_array_equal(fmt.decode(codes), values)
    return MXArray(codes, scales, fmt, size)
