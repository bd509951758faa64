"""An energy proxy: how much of a unit's netlist switches for each block of a dot product.

Every change of a net is weighed by what has to be charged for it: by the area of the cell that
drives it (`gates`), or by the capacitance of the pins that it drives, and of its wire where the
library names a default wire load (`cells`). A proxy, because other wires, glitches, leakage and
short-circuit currents are left out: it ranks units, and does not predict watts. docs/cost.md has
the method.
"""

import hashlib
import time
from collections import defaultdict
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..model import DotConfig
from ..model.errors import integer
from ..sim.dot.integer_stimulus import calibrated_batch
from ..sim.dot.item import Batch, Ints, Turns, concatenate
from ..sim.dot.tensors import quantized
from ..util.data.sets import data_set
from ..util.yosys import Bit
from .activity import Activity, Words, pack, unpack
from .flow import Flow, digest_of, library_of
from .liberty import Library
from .measure import TIME_LIMIT, Cache, measure_netlist
from .netlist import fanouts

NORMAL = "normal"
REGRESSION = "regression"
"""Name of the regression's traffic; every other name is a data set."""
BLOCKS = 8
"""Blocks per dot product of a data set."""


def batches(config: DotConfig, data: str, seed: int, count: int) -> list[Batch]:
    """About `count` blocks as dot products, from the regression's traffic or from a data set."""
    rng = np.random.default_rng(seed)
    if data == REGRESSION:
        from ..sim.dot.stimulus import traffic

        return concatenate(traffic(config, rng, count // 2))
    draw = data_set(data).draw
    modes = len(config.formats)
    found = []
    for mode, formats in enumerate(config.formats):
        rows = max(1, count // (BLOCKS * modes))
        operands = draw(rng, rows, BLOCKS * config.lanes, config.lanes)
        (a, scale_a), (b, scale_b) = (
            quantized(config, x, fmt) for x, fmt in zip(operands, formats, strict=True)
        )
        c = np.zeros(rows, np.uint32)
        batch = Batch(mode, a, b, scale_a, scale_b, c, data, has_unit_scales=True)
        if config.has_integers:
            batch = calibrated_batch(config, batch)
        elif config.micro:  # as quantised without them
            none = np.zeros((rows, BLOCKS), np.uint64)
            batch = replace(batch, side=dict.fromkeys(config.side_inputs, none))
        found.append(batch)
    return found


class Feed:
    """Dot products dealt to streams, and the bits of the block that each stream offers next.

    Their order is drawn from `seed`. A stream holds whole products and starts again after its last.
    """

    def __init__(self, config: DotConfig, products: list[Batch], seed: int, streams: int) -> None:
        lengths = np.concatenate([np.full(len(batch), batch.blocks) for batch in products])
        ends = np.cumsum(lengths)
        starts = ends - lengths
        order = np.random.default_rng(seed).permutation(len(lengths))
        self.products = [order[stream::streams] for stream in range(streams)]
        """Products of each stream, as indices into all batches."""
        if not self.products[-1].size:
            raise ValueError(f"streams must be at most {len(order)}, not {streams}")
        slots = np.zeros(len(lengths), np.int64)
        queues = []
        for stream, own in enumerate(self.products):
            own = own[_shorter_first(lengths[own], config.interleave)]
            self.products[stream] = own
            slots[own] = np.arange(len(own)) % config.interleave
            place, step = _in_turns(lengths[own], config.interleave)
            queues.append(starts[own][place] + step)
        self._length = np.array([len(queue) for queue in queues])
        self._queues = np.stack([np.resize(queue, self._length.max()) for queue in queues])
        self._place = np.zeros(streams, np.int64)
        index = np.arange(ends[-1])
        self._fields = {
            "in_a": _lanes(products, "a", config.bits_a),
            "in_b": _lanes(products, "b", config.bits_b),
            "in_first": np.isin(index, starts)[:, None],
            "in_last": np.isin(index, ends - 1)[:, None],
        }
        if config.scale_bits:
            for name in ("scale_a", "scale_b"):
                self._fields[f"in_{name}"] = _lanes(products, name, config.scale_bits)
        for name, width in config.side_inputs.items():
            side = np.concatenate([batch.side[name].reshape(-1) for batch in products])
            self._fields[f"in_{name}"] = _bits(side, width)
        if config.load_c:
            c = np.concatenate([batch.c for batch in products])
            self._fields["in_c"] = _bits(np.repeat(c, lengths), 32)
        if config.slot_bits:
            self._fields["in_slot"] = _bits(np.repeat(slots, lengths), config.slot_bits)
        if config.mode_bits:
            mode = np.concatenate([np.full(len(batch), batch.mode) for batch in products])
            self._fields["in_mode"] = _bits(np.repeat(mode, lengths), config.mode_bits)

    def offer(self) -> dict[str, NDArray[np.bool_]]:
        """Bits (streams, width) of the offered blocks, by port."""
        index = np.take_along_axis(self._queues, self._place[:, None], axis=1)[:, 0]
        return {name: field[index] for name, field in self._fields.items()}

    def accept(self, taken: NDArray[np.bool_]) -> None:
        """Advance the streams whose block was taken."""
        self._place = (self._place + taken) % self._length


def _shorter_first(lengths: Ints, slots: int) -> Ints:
    """Send order of products with these block counts, as indices (n,).

    The order of `lengths` (n,) stays, except that shorter products of a group come first: their
    results come first.
    """
    return np.lexsort((lengths, np.arange(len(lengths)) // slots))


def _in_turns(lengths: Ints, slots: int) -> tuple[Ints, Ints]:
    """Send order of blocks when groups of `slots` products take turns.

    Returns each block's product and its place in the product, in send order.
    """
    place, step, _ = Turns.one_by_one(lengths)
    turn = np.lexsort((place, step, place // slots))
    return place[turn], step[turn]


def _blocks(products: list[Batch], name: str) -> NDArray:
    parts = [getattr(batch, name) for batch in products]
    return np.concatenate([part.reshape(-1, *part.shape[2:]) for part in parts])


def _lanes(products: list[Batch], name: str, width: int) -> NDArray[np.bool_]:
    codes = _blocks(products, name)
    return _bits(codes, width).reshape(len(codes), -1)


def _bits(values: NDArray, width: int) -> NDArray[np.bool_]:
    return (values[..., None] >> np.arange(width, dtype=values.dtype) & 1).astype(bool)


STREAMS, CYCLES = 256, 48
CLOCK_PIN = 1.0
"""NAND2 equivalents that the clock charges per flip-flop in the flow `gates`."""


@dataclass(frozen=True)
class Energy:
    """The proxy for one block of a dot product (`lanes` products), averaged over the run."""

    per_block: float
    """Energy per block: `NAND2` equivalents of switched area, or `fJ` at the library's supply."""
    per_product: float
    """Energy per product of two elements, in `unit`."""
    unit: str
    gates: float
    """Part of `per_block` in gates."""
    registers: float
    """Part of `per_block` at outputs of flip-flops."""
    clock: float
    """Part of `per_block` in clock pins, which switch twice per cycle."""
    activity: float
    """Changes per net and cycle."""
    blocks: int
    cycles: int
    """Counted cycles, summed over streams."""
    data: str
    tool: str = ""
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return asdict(self)


def energy(
    config: DotConfig,
    flow: Flow | None = None,
    *,
    cache_dir: Path,
    verilog: str | None = None,
    data: str = NORMAL,
    seed: int = 1,
    streams: int = STREAMS,
    cycles: int = CYCLES,
    limit: float = TIME_LIMIT,
) -> Energy:
    """The energy proxy of a unit, for the flows `gates` and `cells`.

    verilog: the text of the unit with the top `mxdot_dot`, generated when None. data: a data set of
    `compare.accuracy` (normal, ...), quantised, or `regression`, the traffic of `mxdot sim`. The
    netlist runs with `streams` sequences of blocks side by side, a block offered in
    every cycle; `cycles` are counted after the pipeline has filled. Cached as in `measure`.
    """
    from ..hw.verilog import default_top, generate

    flow = flow or Flow()
    integer("streams", streams, 1, 65536)
    integer("cycles", cycles, 1, 10**6)
    top = default_top(config)
    text = generate(config, top) if verilog is None else verilog
    cost, netlist = measure_netlist(text, top, flow, cache_dir=cache_dir, limit=limit)
    fill = config.latency * config.interval + 2
    products = batches(config, data, seed, streams * (cycles + fill))
    library = library_of(flow)
    digest = hashlib.sha256(digest_of(flow).encode())
    if library.wire_load is not None:
        digest.update(repr(library.wire_load).encode())
    for batch in products:
        for name in ("a", "b", "scale_a", "scale_b", "c"):
            digest.update(np.ascontiguousarray(getattr(batch, name)).tobytes())
    cache = Cache(cache_dir)
    key = cache.key(
        text,
        flow.to_dict() | {"liberty": None},
        seed,
        streams,
        cycles,
        cost.tool,
        digest.hexdigest(),
    )
    kept = cache.read(key, "energy")
    if kept is not None:
        return Energy(**kept)
    started = time.perf_counter()
    run = Run(config, Activity(netlist, library, streams), Feed(config, products, seed, streams))
    run.reset()
    for _ in range(fill):
        run.cycle()
    run.clear()
    for _ in range(cycles):
        run.cycle()
    result = replace(
        _result(config, flow, run, library, data),
        tool=cost.tool,
        seconds=round(time.perf_counter() - started, 3),
    )
    cache.write(key, "energy", result.to_dict())
    return result


class Run:
    """A dot unit's netlist, fed with a stream of blocks as fast as it accepts them."""

    def __init__(self, config: DotConfig, activity: Activity, feed: Feed) -> None:
        self.config, self.activity, self.feed = config, activity, feed
        self.streams = activity.ones.bit_length()
        self.blocks = 0
        """Blocks accepted since the last `clear`, summed over streams."""

    def reset(self) -> None:
        """One cycle of reset."""
        self.activity.cycle({"rst": [self.activity.ones]})

    def clear(self) -> None:
        """Start counting from 0."""
        self.activity.clear()
        self.blocks = 0

    def cycle(self) -> Words:
        """Run one cycle: every stream offers a block and takes a result. Return the outputs."""
        ones = self.activity.ones
        inputs = {name: pack(bits) for name, bits in self.feed.offer().items()}
        outputs = self.activity.cycle(inputs | {"in_valid": [ones], "out_ready": [ones]})
        taken = unpack(outputs["in_ready"], self.streams)[:, 0]
        self.feed.accept(taken)
        self.blocks += int(taken.sum())
        return outputs


def _result(config: DotConfig, flow: Flow, run: Run, library: Library, data: str) -> Energy:
    activity, blocks = run.activity, run.blocks
    cycles = activity.cycles * run.streams
    of_nets, clock, unit = weights(flow, activity, library)
    spent = activity.changes * of_nets / blocks
    held = np.array([library.cells[name].is_flipflop for name in activity.drivers], bool)
    parts = float(spent[~held].sum()), float(spent[held].sum()), clock * cycles / blocks
    return Energy(
        per_block=sum(parts),
        per_product=sum(parts) / config.lanes,
        unit=unit,
        gates=parts[0],
        registers=parts[1],
        clock=parts[2],
        activity=float(activity.changes.mean()) / cycles,
        blocks=blocks,
        cycles=cycles,
        data=data,
    )


def weights(
    flow: Flow, activity: Activity, library: Library
) -> tuple[NDArray[np.float64], float, str]:
    """Weight of a change of each net, weight of a clock cycle, and their unit."""
    cells = [library.cells[cell.type] for cell in activity.netlist.cells]
    if flow.kind == "gates":
        areas = [library.cells[name].area for name in activity.drivers]
        return np.array(areas), 2 * CLOCK_PIN * sum(c.is_flipflop for c in cells), "NAND2"
    load: dict[Bit, float] = defaultdict(float)
    clock = 0.0
    for cell, kind in zip(activity.netlist.cells, cells, strict=True):
        for pin, capacitance in kind.inputs.items():
            for bit in cell.pins.get(pin, []):
                load[bit] += capacitance
            if kind.clock is not None and pin in kind.clock.names:
                clock += capacitance
    if library.wire_load is not None:
        for net, pins in fanouts(activity.netlist, library).items():
            load[net] += library.wire_load.load(pins)
    half = library.capacitance_ff * (library.voltage or 1.0) ** 2 / 2  # C V^2 / 2 for a change
    return np.array([load[net] for net in activity.nets]) * half, 2 * clock * half, "fJ"
