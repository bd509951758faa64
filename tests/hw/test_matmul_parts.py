"""The parts of the matrix unit by themselves: the gearbox, the ring of steps and others."""

from itertools import product
from math import ceil, gcd
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Module, Signal
from amaranth.sim import Simulator

from compare import FULL
from hw_bench import Evaluator
from mxdot.hw.matmul.array import any_of
from mxdot.hw.matmul.axi import Gearbox
from mxdot.hw.matmul.control import Loop
from mxdot.hw.matmul.results import Drain
from mxdot.hw.matmul.step_buffer import StepBuffer

STREAMS = 24  # side by side, each into a unit of its own


class Packets:
    """Random packets per stream in words of `width` bytes, and the place of each stream in them.

    A packet is a row of `words`: (data, units, last), the last word short.
    """

    def __init__(self, rng, width, unit, cycles):
        self.words, self.bytes = [], []
        for _ in range(STREAMS):
            words, ended = [], []
            while len(words) < cycles:
                length = unit * int(rng.integers(1, 6 * width // unit + 1))
                data = bytes(rng.integers(1, 256, length).astype(np.uint8))
                ended.append(data)
                chunks = [data[i : i + width] for i in range(0, length, width)]
                for i, chunk in enumerate(chunks):
                    value = int.from_bytes(chunk.ljust(width, b"\xff"), "little")
                    words.append((value, len(chunk) // unit, i == len(chunks) - 1))
            self.words.append(words)
            self.bytes.append(ended)
        self.at = np.zeros(STREAMS, int)

    def now(self):
        data, units, last = zip(
            *(w[i] for w, i in zip(self.words, self.at, strict=True)), strict=True
        )
        return {
            "data": np.array(data, object),
            "units": np.array(units),
            "last": np.array(last, int),
        }


WIDTHS = list(product([1, 2, 3, 4, 5, 8, 12], [1, 2, 3, 4, 7, 8, 18]))
TIMINGS = [(0.0, 0.0), (0.5, 0.0), (0.0, 0.6), (0.3, 0.3)]


@pytest.mark.parametrize(
    ("width_in", "width_out", "gap", "stall"),
    [
        (*widths, *timing)
        for i, widths in enumerate(WIDTHS)
        for timing in (TIMINGS if FULL else [TIMINGS[i % 4]])
    ],
)
def test_gearbox(width_in, width_out, gap, stall):
    """Every byte of every packet, in order; short last words; nothing is withdrawn."""
    rng = np.random.default_rng(width_in * 100 + width_out)
    unit, cycles = gcd(width_in, width_out), 120
    packets = Packets(rng, width_in, unit, cycles + 1)
    gearbox = Evaluator(Gearbox(width_in, width_out))
    given = [[b""] for _ in range(STREAMS)]  # packets; the last one is under way
    offered = np.zeros(STREAMS, bool)
    held = None
    for _ in range(cycles):
        offered |= rng.random(STREAMS) >= gap
        ready = rng.random(STREAMS) >= stall
        inputs = {"i.payload": packets.now(), "i.valid": offered * 1, "o.ready": ready * 1}
        outputs = gearbox(**inputs)
        valid, word = outputs["o.valid"] == 1, outputs["o.payload"]
        if held is not None:
            waited, old = held
            assert valid[waited].all()
            assert all(
                (word[name][waited] == old[name][waited]).all() for name in ("units", "last")
            )
        held = valid & ~ready, word
        taken = offered & (outputs["i.ready"] == 1)
        packets.at += taken
        offered &= ~taken
        for stream in np.flatnonzero(valid & ready):
            size = int(word["units"][stream]) * unit
            data = int(word["data"][stream]) & (2 ** (8 * size) - 1)
            given[stream][-1] += data.to_bytes(size, "little")
            assert size == width_out or word["last"][stream]
            if word["last"][stream]:
                given[stream].append(b"")
    for sent, got in zip(packets.bytes, given, strict=True):
        *whole, part = got
        assert whole == sent[: len(whole)]
        assert sent[len(whole)].startswith(part)
    moved = sum(len(b"".join(got)) for got in given) / STREAMS / cycles
    if not gap and not stall:
        assert moved > 0.6 * min(width_in, width_out)  # packets are short here


@pytest.mark.parametrize(
    ("width_in", "width_out"), [(3, 2), (2, 3), (7, 4), (4, 7), (5, 5), (9, 1)]
)
def test_gearbox_has_no_gaps(width_in, width_out):
    """A long packet goes through at the pace of the narrower side."""
    length = width_in * width_out * 20
    data = bytes(np.random.default_rng(0).integers(0, 256, length).astype(np.uint8))
    chunks = [data[i : i + width_in] for i in range(0, length, width_in)]
    gearbox, unit = Evaluator(Gearbox(width_in, width_out)), gcd(width_in, width_out)
    at, got, cycles = 0, b"", 0
    while len(got) < length:
        chunk = chunks[min(at, len(chunks) - 1)]
        payload = {
            "data": np.array([int.from_bytes(chunk, "little")], object),
            "units": width_in // unit,
            "last": int(at == len(chunks) - 1),
        }
        outputs = gearbox(**{"i.payload": payload, "i.valid": int(at < len(chunks)), "o.ready": 1})
        at += int(outputs["i.ready"][0]) and at < len(chunks)
        if outputs["o.valid"][0]:
            size = int(outputs["o.payload"]["units"][0]) * unit
            got += (int(outputs["o.payload"]["data"][0])).to_bytes(width_out, "little")[:size]
        cycles += 1
    assert got == data
    assert cycles <= length / min(width_in, width_out) + ceil(width_out / width_in) + 1


@pytest.mark.parametrize(
    "tiles", [(1, 1, 1), (1, 1, 4), (3, 1, 1), (1, 3, 1), (2, 3, 4), (3, 2, 2)]
)
def test_loop(tiles):
    """The marks of every step, twice over, with pauses."""
    names = ("m_tiles", "n_tiles", "k_blocks")
    loop, rng = Evaluator(Loop()), np.random.default_rng(0)
    for _ in range(2):
        for i, j, k in np.ndindex(tiles):
            last, row_last = k == tiles[2] - 1, j == tiles[1] - 1
            want = [k == 0, last, row_last, last and row_last and i == tiles[0] - 1]
            pause = True
            while pause:
                pause = rng.random() < 0.3
                values = dict(zip(names, np.array(tiles)[:, None], strict=True))
                outputs = loop(tiles=values, advance=np.array([not pause]) * 1)
                got = [outputs[name][0] for name in ("first", "last", "row_last", "ends")]
                assert got == want, (i, j, k)


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_drain(rows):
    """Row 0 first, and the next tile with the last row."""
    drain = Evaluator(Drain(rows, 8))
    for cycle in range(3 * rows + 1):
        tile = sum((16 * (cycle // rows) + r) << 8 * r for r in range(rows))
        payload = np.array([tile], object)
        outputs = drain(**{"i.payload": payload, "i.valid": 1, "o.ready": np.array([1])})
        assert outputs["i.ready"][0] == (cycle % rows == 0)
        assert outputs["o.valid"][0] == (cycle > 0)
        if cycle:
            tile_, row = divmod(cycle - 1, rows)
            assert outputs["o.payload"][0] == 16 * tile_ + row


@pytest.mark.parametrize(("gap", "stall"), [(0.0, 0.0), (0.4, 0.0), (0.0, 0.5), (0.3, 0.3)])
@pytest.mark.parametrize("panel", [1, 2, 3, 4])
@pytest.mark.parametrize("repeats", [1, 2, 3])
def test_ring(panel, repeats, gap, stall):
    """Panels of up to half the ring, each read several times; then words read once."""
    rng = np.random.default_rng(panel)
    words = rng.integers(0, 2**16, 6 * panel).tolist()
    want = [w for i in range(0, len(words), panel) for w in words[i : i + panel] * repeats]
    ring: Any = StepBuffer(16, 8)
    got = []

    async def source(ctx):
        for value in words:
            while rng.random() < gap:
                await ctx.tick()
            ctx.set(ring.i.payload, value)
            ctx.set(ring.i.valid, 1)
            await ctx.tick().until(ring.i.ready)
            ctx.set(ring.i.valid, 0)

    async def marks(ctx):
        """Marks of the words fetched, by their number alone."""
        number = 0
        while True:
            again = number // panel % repeats < repeats - 1
            ctx.set(ring.keep, again)
            ctx.set(ring.rewind, again and number % panel == panel - 1)
            *_, fetch = await ctx.tick().sample(ring.fetch)
            number += fetch

    async def sink(ctx):
        for cycle in range(1000):
            ready = rng.random() >= stall
            ctx.set(ring.o.ready, ready)
            *_, valid, value = await ctx.tick().sample(ring.o.valid, ring.o.payload)
            if valid and ready:
                got.append(value)
            if len(got) == len(want):
                assert gap or stall or cycle <= len(want) + 2
                return
        raise AssertionError("words are missing")

    simulator = Simulator(ring)
    simulator.add_clock(1e-6)
    simulator.add_testbench(source)
    simulator.add_testbench(marks, background=True)
    simulator.add_testbench(sink)
    simulator.run()
    assert got == want


def test_ring_takes_what_it_can_hold():
    """If nothing is taken, it holds one word at the output and `capacity` in the memory; all come
    out.
    """
    ring: Any = StepBuffer(16, 8)
    taken, got = [], []

    async def bench(ctx):
        ctx.set(ring.i.valid, 1)
        for value in range(20):
            ctx.set(ring.i.payload, value)
            *_, ready = await ctx.tick().sample(ring.i.ready)
            if ready:
                taken.append(value)
        ctx.set(ring.i.valid, 0)
        ctx.set(ring.o.ready, 1)
        for _ in range(12):
            *_, valid, value = await ctx.tick().sample(ring.o.valid, ring.o.payload)
            if valid:
                got.append(value)

    simulator = Simulator(ring)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    assert len(taken) == 9
    assert got == taken


def test_flags_of_the_largest_array_are_or_ed():
    flags = [Signal(2, name=f"flags{k}") for k in range(64 * 64)]
    found = Signal(2)
    m = Module()
    m.d.comb += found.eq(any_of(flags))
    seen = []

    async def bench(ctx):
        for raised in (0, 63, 64, 4095):
            ctx.set(flags[raised], 2)
            seen.append(ctx.get(found))
            ctx.set(flags[raised], 0)
            seen.append(ctx.get(found))

    simulator = Simulator(m)
    simulator.add_testbench(bench)
    simulator.run()
    assert seen == [2, 0] * 4
