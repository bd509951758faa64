"""Jobs of a matrix unit in Amaranth's simulator: operands, packets, and what is to come of them."""

import numpy as np

from matmul_bench import Bench, data_of, packet
from mxdot.model import DotConfig, MXArray
from mxdot.model.units.matmul.config import MatmulConfig
from mxdot.model.units.matmul.layout import unpack_c
from mxdot.model.units.matmul.registers import COUNTERS
from mxdot.sim.matmul.item import Product, predict

DOT = DotConfig("e2m1", 4, "fixed:24:-6")  # of all dot units the fastest in the simulator
SMALL = MatmulConfig(DOT, rows=2, columns=2, depth=4)
PARTS = ("STEPS", "WAIT_A", "WAIT_B", "WAIT_D", "WAIT_DRAIN", "WAIT_UNIT", "TAIL")


class Job:
    """Random operands of a product, its packets and what is to come of it."""

    def __init__(self, config, m, n, blocks, seed=0, mode=0, use_d=False, scales=None):
        rng = np.random.default_rng(seed)
        lanes = config.dot.lanes
        if scales is None:
            scales = range(120, 134) if config.dot.scales == "e8m0" else range(40, 72)
        pair = config.dot.formats[mode]
        self.config, self.m, self.n, self.mode, self.use_d = config, m, n, mode, use_d
        self.a, self.b = (
            MXArray(
                rng.integers(0, fmt.largest_code + 1, (rows, blocks * lanes)).astype(fmt.dtype),
                rng.choice(scales, (rows, blocks * config.dot.scale_blocks)).astype(np.uint8),
                fmt,
                config.dot.scale_block,
            )
            for fmt, rows in zip(pair, (m, n), strict=True)
        )
        self.d = rng.standard_normal((m, n), np.float32) if use_d else None
        self.tiles = config.tiles(m, n, blocks * lanes)
        job = Product("job", mode, self.a, self.b, self.d)
        self.packets, self.golden = job.packets(config), predict(config, job)

    def offer(self, bench):
        for side, data in self.packets.items():
            bench.send[side] += packet(data, self.config.stream_bytes(side))

    async def start(self, bench):
        await bench.start(*self.tiles, self.mode, int(self.use_d))

    def check(self, beats):
        """The beats are the one packet of this job's results."""
        assert [beat.last for beat in beats] == [False] * (len(beats) - 1) + [True]
        assert all(beat.keep == 2**self.config.c_bytes - 1 for beat in beats[:-1])
        data = data_of(beats)
        # Bytes past the last TKEEP are no holes: the packet is as short as it can be.
        assert len(beats) == -(-len(data) // self.config.c_bytes)
        got = unpack_c(data, self.config, self.m, self.n)
        bits = f"u{self.config.out.bits // 8}"
        np.testing.assert_array_equal(got.view(bits), self.golden.result.view(bits))

    async def run(self, bench):
        """Runs one job; checks results, flags, status and counters."""
        bench.got.clear()
        self.offer(bench)
        await self.start(bench)
        await bench.wait()
        self.check(bench.got)
        assert await bench.status() == {"done"}
        word_, _ = await bench.read("FLAGS")
        assert word_ == self.golden.flags
        counts = {name: await bench.count(name) for name in COUNTERS}
        assert counts["STEPS"] == self.tiles.steps
        assert counts["CYCLES"] == sum(counts[name] for name in PARTS)
        assert not any(counts[f"DISCARDED_{side}"] for side in "ABD")
        assert not any(bench.send.values())
        return counts


def run_jobs(config, jobs, **settings):
    """These jobs one after the other; their counters."""
    counts = []

    async def software(bench):
        counts.extend([await job.run(bench) for job in jobs])

    Bench(config, **settings).run(software)
    return counts
