"""What is known of an H200's FP8 unit, in literal bits, on the RTL of the preset `hopper`."""

from typing import Any

import numpy as np
import pytest
from amaranth.sim import Simulator

from mxdot.hw import DotUnit
from mxdot.model import E4M3, E5M2, DotConfig

CONFIG = DotConfig("e5m2xe4m3", lanes=32, accumulator="hopper", stages=5)
UNIT_SCALE = 127


def word(codes, bits=8):
    return sum(int(code) << (bits * lane) for lane, code in enumerate(codes))


def hopper(pairs, c=0):
    """Result bits of one block of these products a x b; the other lanes are 0 x 0."""
    a = E5M2.encode([x for x, _ in pairs] + [0.0] * (32 - len(pairs)))
    b = E4M3.encode([y for _, y in pairs] + [0.0] * (32 - len(pairs)))
    for codes, fmt, column in ((a, E5M2, 0), (b, E4M3, 1)):
        values = [pair[column] for pair in pairs]
        np.testing.assert_array_equal(fmt.values[codes][: len(values)], values)
    unit: Any = DotUnit(CONFIG)  # Amaranth makes the ports while it runs
    results = []

    async def bench(ctx):
        payload = unit.i.payload
        ctx.set(payload.a.as_value(), word(a))
        ctx.set(payload.b.as_value(), word(b))
        ctx.set(payload.scale_a, UNIT_SCALE)
        ctx.set(payload.scale_b, UNIT_SCALE)
        ctx.set(payload.c, c)
        ctx.set(payload.first, 1)
        ctx.set(payload.last, 1)
        ctx.set(unit.i.valid, 1)
        ctx.set(unit.o.ready, 1)
        await ctx.tick()
        ctx.set(unit.i.valid, 0)
        (bits,) = await ctx.tick().sample(unit.o.payload.result).until(unit.o.valid)
        results.append(bits)

    simulator = Simulator(unit)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return results[0]


def bits(value):
    return int(np.float32(value).view(np.uint32))


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("pairs", "want"),
    [
        ([(256, 256), (8, 1)], bits(2**16 + 2**3)),
        ([(256, 256), (4, 1)], bits(2**16)),
        ([(256, 256)] + [(7, 1)] * 31, bits(2**16)),
        ([(256, 256)] + [(8, 1)] * 31, bits(2**16 + 248)),
        ([(256, 256)] + [(-7, 1)] * 31, bits(2**16)),
        ([(256, 256)] + [(-8, 1)] * 31, bits(2**16 - 248)),
        ([(-256, 256)] + [(7, 1)] * 31, bits(-(2.0**16))),
        ([(0, 448), (2**-9, 2**-9)], bits(2**-18)),
        ([(-0.0, 1)] * 32, 0),
        ([(NAN, 1)], 0x7FFFFFFF),
        ([(INF, 0)], 0x7FFFFFFF),
        ([(INF, 1), (-INF, 1)], 0x7FFFFFFF),
        ([(INF, 1)], 0x7F800000),
        ([(-INF, 1)], 0xFF800000),
    ],
    ids=str,
)
def test_products(pairs, want):
    assert hopper(pairs) == want


@pytest.mark.parametrize(
    ("c", "want"),
    [
        (bits(1 + 2**-13), bits(1 + 2**-13)),
        (bits(1 + 2**-14), bits(1)),
        (bits(-1 - 2**-14 - 2**-23), bits(-1)),
        (0x3FFFFFFF, 0x3FFFFC00),
        (0x00000001, 0),  # a subnormal, to multiples of 2^-139
        (0x000007FF, 0x00000400),
        (0x80000000, 0),
        (0x7F800000, 0x7F800000),
        (0x7FC00001, 0x7FFFFFFF),
    ],
    ids=hex,
)
def test_c_alone(c, want):
    assert hopper([], c) == want
