"""Drives DotUnits: products in, results with their cycles out, gaps and stalls and resets between.

A driver is a generator: it yields the inputs of a cycle and is sent that cycle's outputs, for any
number of streams side by side, each into a unit of its own. `evaluate` runs it on the netlist,
with as many streams as one likes; `simulate` runs it in Amaranth's simulator, with one.
"""

from collections.abc import Generator, Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
from amaranth.hdl import ClockDomain, Module
from amaranth.sim import Simulator
from numpy.typing import NDArray

from cases import RUNNING, Cases, random_cases, under_e4m3
from hw_bench import Evaluator, assert_same, pack, shape_of, unpack
from mxdot.hw import DotUnit
from mxdot.hw.verilog import uncollected
from mxdot.model import DotConfig
from mxdot.model.trace import FLAG_NAMES
from netlist import wiring_value

Product = tuple[dict[str, NDArray], dict[str, NDArray]]  # blocks and wants, as of Work
Driver = Generator[dict[str, Any], dict[str, Any], Any]


@dataclass(frozen=True)
class Work:
    """Dot products in order. `blocks`: the fields of the unit's payload, (blocks, ...) each.

    `start`: each product's first block, and the number of blocks at the end. `want`: what the
    model says, result bits and flags of each product.
    """

    config: DotConfig
    blocks: dict[str, NDArray]
    start: NDArray[np.int64]
    want: dict[str, NDArray]

    def __len__(self) -> int:
        return len(self.start) - 1


def random_work(
    config: DotConfig, rng: np.random.Generator, lengths: Iterable[int], **classes: Any
) -> Work:
    """A product of each of these numbers of blocks, in random modes; `classes` of random_cases."""
    lengths = np.asarray(list(lengths))
    modes = rng.integers(0, len(config.formats), len(lengths))
    classes.setdefault("running", RUNNING if config.load_c else ["zero"])
    parts: list[Product | None] = [None] * len(lengths)
    for mode, length in sorted(set(zip(modes.tolist(), lengths.tolist(), strict=True))):
        places = np.flatnonzero((modes == mode) & (lengths == length))
        pair = config.formats[mode]
        blocks = length * config.scale_blocks
        cases = random_cases(rng, pair, len(places), blocks, config.scale_block, **classes)
        if config.scales == "e4m3":
            cases = under_e4m3(rng, cases)
        if not config.load_c:
            cases = replace(cases, c=np.zeros_like(cases.c))
        for place, part in zip(places, products(config, cases, mode), strict=True):
            parts[place] = part
    return join(config, [part for part in parts if part is not None])


def products(config: DotConfig, cases: Cases, mode: int = 0) -> list[Product]:
    """The blocks of each dot product, and what the model says of it."""
    a, scale_a = cases.a.blocks_last()
    b, scale_b = cases.b.blocks_last()
    n, count = len(a), a.shape[1] // config.scale_blocks
    a, b = (codes.reshape(n, count, config.lanes) for codes in (a, b))
    if config.scale_blocks > 1:
        scale_a, scale_b = (scale.reshape(n, count, -1) for scale in (scale_a, scale_b))
    # c counts with the first block only.
    c = np.full((n, count), 0xDEADBEEF)
    c[:, 0] = cases.c.view(np.uint32)
    columns = {"a": a, "b": b, "scale_a": scale_a, "scale_b": scale_b}
    if config.load_c:
        columns["c"] = c
    trace = config.dot(cases.a, cases.b, cases.c if config.load_c else None)
    wants = {"result": trace.result.view(f"u{config.out.bits // 8}")}
    if config.status:
        wants |= {name: getattr(trace.flags, name) for name in FLAG_NAMES}
    place = np.arange(count)
    same = {"mode": np.full(count, mode), "first": place == 0, "last": place == count - 1}
    return [
        (
            same | {name: column[i].astype(np.int64) for name, column in columns.items()},
            {name: column[i : i + 1].astype(np.int64) for name, column in wants.items()},
        )
        for i in range(n)
    ]


def join(config: DotConfig, parts: list[Product]) -> Work:
    """Products one after the other."""
    blocks, wants = zip(*parts, strict=True)
    return Work(
        config,
        {name: np.concatenate([b[name] for b in blocks]) for name in blocks[0]},
        np.r_[0, np.cumsum([len(b["first"]) for b in blocks])],
        {name: np.concatenate([w[name] for w in wants]) for name in wants[0]},
    )


@dataclass
class Run:
    """Results (`got`, as `Work.want`) and the cycle in which each block and result passed."""

    work: Work
    got: dict[str, NDArray]
    accepted: NDArray[np.int64]
    delivered: NDArray[np.int64]
    lost: NDArray[np.bool_] = field(init=False)  # products that a reset swept away

    def __post_init__(self) -> None:
        self.lost = self.delivered < 0

    def check(self) -> None:
        """Every delivered result and flag is the model's."""
        whole = ~self.lost
        got = {name: values[whole] for name, values in self.got.items()}
        want = {name: values[whole] for name, values in self.work.want.items()}
        where = np.flatnonzero(whole)
        blocks = np.diff(self.work.start)[whole]
        assert_same(got, want, product=where, blocks=blocks)

    def latencies(self) -> NDArray[np.int64]:
        """Cycles from each product's last block to its result."""
        return self.delivered - self.accepted[self.work.start[1:] - 1]


def drive(
    work: Work,
    rng: np.random.Generator,
    *,
    streams: int = 1,
    gap: float = 0.0,
    stall: float = 0.0,
    reset: float = 0.0,
    reset_at: NDArray[np.int64] | None = None,
    pace: int | NDArray[np.int64] = 1,
    limit: int = 100_000,
) -> Driver:
    """Sends `work`, cut into `streams` equal parts, and returns a Run.

    gap, stall, reset: the chance in each cycle that no block is offered, that no result is taken,
    and that the unit is reset; after a reset the stream goes on with the next product. `reset_at`:
    one cycle for each stream in which it is reset as well. A new block is offered in every
    `pace`-th cycle only (of each stream, if several). Checks that a result that waits does not
    change, that none is lost, that none comes from nowhere, and that a reset unit is empty.
    """
    share = np.linspace(0, len(work), streams + 1).astype(int)
    product, end = share[:-1].copy(), share[1:]  # the product whose result comes next
    position, block_end = work.start[product], work.start[end]
    got = {name: np.zeros(len(work), np.int64) for name in work.want}
    accepted = np.full(len(work.blocks["first"]), -1)
    delivered = np.full(len(work), -1)
    offered = resets = np.zeros(streams, bool)
    waiting: NDArray | None = None
    held: dict[str, NDArray] = {}
    idle = 0  # cycles after the end, in which nothing may come any more
    for cycle in range(limit):
        comes = (rng.random(streams) >= gap) & (cycle % pace == 0)
        offered = (offered | comes) & (position < block_end)
        ready = rng.random(streams) >= stall
        emptied = resets
        resets = (rng.random(streams) < reset) | (reset_at == cycle)
        index = np.where(offered, position, rng.integers(0, len(accepted), streams))
        payload = {name: values[index] for name, values in work.blocks.items()}
        outputs = yield {"i.payload": payload, "i.valid": offered, "o.ready": ready, "rst": resets}

        valid = outputs["o.valid"] == 1
        assert not (valid & emptied).any(), f"cycle {cycle}: a result just after a reset"
        result = {"result": outputs["o.payload"]["result"], **outputs["o.payload"]["flags"]}
        if waiting is not None:
            assert valid[waiting].all(), f"cycle {cycle}: a result was withdrawn"
            assert_same(_at(result, waiting), _at(held, waiting))
        assert (product[valid] < end[valid]).all(), f"cycle {cycle}: a result from nowhere"
        waiting, held = valid & ~ready & ~resets, result

        takes = offered & (outputs["i.ready"] == 1) & ~resets
        accepted[position[takes]] = cycle
        position = position + takes
        gives = valid & ready & ~resets
        for name, values in got.items():
            values[product[gives]] = result[name][gives]
        delivered[product[gives]] = cycle
        product = product + gives
        # Behind a reset comes the next product whose first block was not accepted yet.
        product = np.where(resets, np.searchsorted(work.start, position), product)
        position = np.where(resets, work.start[product], position)
        offered = offered & ~takes & ~resets
        idle = idle + 1 if (product == end).all() else 0
        if idle > work.config.latency + 3:
            return Run(work, got, accepted, delivered)
    raise AssertionError(f"{(end - product).sum()} results have not come after {limit} cycles")


def _at(values: dict[str, NDArray], where: NDArray) -> dict[str, NDArray]:
    return {name: column[where] for name, column in values.items()}


@cache
def evaluator_of(config: DotConfig) -> Evaluator:
    return Evaluator(DotUnit(config))


def evaluate(config: DotConfig, driver: Driver) -> Any:
    """Runs the driver on the unit's netlist and returns its result."""
    evaluator = evaluator_of(config)
    evaluator.registers = None
    inputs = next(driver)
    while True:
        outputs = evaluator(**inputs)
        try:
            inputs = driver.send(outputs)
        except StopIteration as end:
            return end.value


@uncollected()
def simulate(config: DotConfig, driver: Driver) -> Any:
    """Runs the driver of one stream in Amaranth's simulator and returns its result."""
    unit, sync = DotUnit(config), ClockDomain("sync")
    m = Module()
    m.domains.sync = sync  # type: ignore[attr-defined]
    m.submodules.unit = unit  # type: ignore[attr-defined]
    i, o = unit.i, unit.o  # type: ignore[attr-defined]
    ports = {"i.payload": i.payload, "i.valid": i.valid, "o.ready": o.ready, "rst": sync.rst}
    reads = {"i.ready": i.ready, "o.valid": o.valid, "o.payload": o.payload}
    returned = []

    async def bench(ctx):
        inputs = next(driver)
        while True:
            for name, value in inputs.items():
                planes = pack(shape_of(ports[name]), value, 1)
                word = sum(bit << place for place, bit in enumerate(planes))
                ctx.set(wiring_value(ports[name]), word)
            outputs = {}
            for name, port in reads.items():
                word, signal = ctx.get(wiring_value(port)), wiring_value(port)
                planes = [word >> place & 1 for place in range(len(signal))]
                outputs[name] = unpack(shape_of(port), planes, 1)
            try:
                inputs = driver.send(outputs)
            except StopIteration as end:
                returned.append(end.value)
                return
            await ctx.tick()

    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return returned[0]
