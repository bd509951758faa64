"""The energy of one product in a dot unit, and the unit's power at a clock.

A unit in cells of a library is simulated with delays (`glitches.py`), and charged by the library's
power tables (`power.py`): femtojoules. The flow `gates`, which has no delays and no volts, counts
the area of the cells whose output switches, without glitches: NAND2 equivalents, which rank units.
docs/cost.md has the method.
"""

import hashlib
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..model import DotConfig
from ..model.errors import integer
from ..sim.dot.item import Batch
from ..util.yosys import Netlist
from .activity import Activity
from .asic import Asic, surroundings
from .errors import naming
from .feed import NORMAL, Feed, Run, batches
from .flow import Cost, Flow, digest_of, library_of
from .glitches import TimedNetlist, simulate
from .liberty import Library
from .measure import TIME_LIMIT, Cache, code_digest, measure_netlist
from .power import clock_tree, power
from .processes import PROCESSES
from .scripts import Design
from .section_energy import by_section, flattened
from .static_timing import time_netlist

STREAMS, CYCLES = {"gates": 256, "cells": 32}, 48
SAMPLES = 4
"""Parts of the streams whose spread is the error of the mean."""
IDLE_STREAMS, IDLE_CYCLES = 4, 12
CLOCK_PIN = 1.0
"""NAND2 equivalents that the clock charges per flip-flop in the flow `gates`."""
CODE = (
    *("activity.py", "energy.py", "feed.py", "glitches.cc", "glitches.py", "power.py"),
    *("power_tables.py", "section_energy.py", "static_timing.py"),
)
"""Files that decide a result."""


@dataclass(frozen=True)
class Energy:
    """Energy of one block of a dot product (`lanes` products), averaged over the run."""

    per_block: float
    """Energy per block in `unit`."""
    per_product: float
    """Energy per product of two elements in `unit`."""
    unit: str
    """`fJ`, or `NAND2`: equivalents of switched area."""
    parts: dict[str, float]
    """Energy per product by cause: `switching`, `internal`, `clock` and `leakage`; of `gates`:
    `gates`, `registers` and `clock`.
    """
    activity: float
    """Changes per net and cycle."""
    blocks: int
    cycles: int
    """Counted cycles, summed over streams."""
    data: str
    error: float = 0.0
    """Standard error of `per_product` from the choice of data."""
    glitches: float | None = None
    """Part of `per_product` in transitions that a later one of the same cycle undoes."""
    clock_ps: float | None = None
    """Clock period of all powers, and of the leakage per product."""
    milliwatts: float | None = None
    """Power with a block in every interval."""
    idle: dict[str, float] = field(default_factory=dict)
    """Milliwatts of other work: `stalled` (no result is taken), `waiting` (no block is offered,
    operands stay), `waiting, operands change`, and `zeros` (blocks of elements that are 0).
    """
    sections: dict[str, float] = field(default_factory=dict)
    """Energy per product of each section, of a netlist that keeps them apart, or empty; `(top)`
    has pipeline registers and handshake, `clock tree` the estimated buffers.
    """
    registers: int = 0
    """Flip-flops."""
    clock_buffers: int = 0
    """Buffers of the estimated clock tree."""
    has_internal: bool = True
    """False where the library has no internal power, and the figure lacks it."""
    wires: str | None = None
    """Source of the wires that are in the figure, as `Flow.wires`; None without wires."""
    tool: str = ""
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; `wires` only where there are some."""
        values = asdict(self)
        if self.wires is None:
            del values["wires"]
        return values


def energy(
    config: DotConfig,
    flow: Flow | None = None,
    *,
    cache_dir: Path,
    verilog: str | None = None,
    data: str = NORMAL,
    seed: int = 1,
    streams: int | None = None,
    cycles: int = CYCLES,
    clock_ps: float | None = None,
    sections: bool = False,
    limit: float = TIME_LIMIT,
) -> Energy:
    """The energy of a unit, for the flows `gates` and `cells`.

    verilog: the text of the unit with the top `mxdot_dot`, generated when None. data: a data set of
    `compare.accuracy` (normal, ...) or a file of tensors, quantised, or `regression`, the traffic
    of `mxdot sim`. The netlist runs with `streams` sequences of blocks, a block offered in every
    cycle; `cycles` of each are counted after the pipeline has filled. clock_ps: the clock period,
    at least the unit's longest path, which is the default. sections: the energy of each section
    too, by a second synthesis (`cells`). Cached as in `measure`.
    """
    from ..hw.verilog import default_top, generate

    flow = flow or Flow()
    if streams is None:
        streams = STREAMS.get(flow.kind, 1)
    integer("seed", seed, 0, 2**63 - 1)
    integer("streams", streams, 1, 65536)
    integer("cycles", cycles, 1, 10**6)
    top = default_top(config)
    text = generate(config, top) if verilog is None else verilog
    cost, netlist = measure_netlist(text, top, flow, cache_dir=cache_dir, limit=limit)
    period = _period(flow, clock_ps, cost.delay_ps)
    fill = config.latency * config.interval + 2
    products = batches(config, data, seed, streams * (cycles + fill))
    options = flow.to_dict() | {"liberty": None}
    parts = [streams, cycles, period, sections, cost.tool, _digest(flow, products)]
    store = Cache(cache_dir)
    key = store.key(text, options, seed, *parts)
    kept = store.read(key, "energy")
    if kept is not None:
        return Energy(**kept)
    started = time.perf_counter()
    library = library_of(flow)
    feed = Feed(config, products, seed, streams)
    run = Run(config, Activity(netlist, library, streams), feed)
    if period is None:
        result = _switched(run, library, fill, cycles)
    else:
        result = Joules(netlist, library, flow, period, cache_dir).of(run, fill, cycles)
        if sections:
            apart = kept_netlist(text, top, flow, cost, limit)
            run = Run(config, Activity(apart, library, streams), feed.part(streams))
            joules = Joules(apart, library, flow, period, cache_dir)
            result = replace(result, sections=joules.sections(run, fill, cycles))
    result = replace(
        result,
        data=data,
        wires=flow.wires,
        tool=cost.tool,
        seconds=round(time.perf_counter() - started, 3),
    )
    store.write(key, "energy", result.to_dict())
    return result


def kept_netlist(text: str, top: str, flow: Flow, cost: Cost, limit: float) -> Netlist:
    """The netlist of a synthesis that keeps the sections apart."""
    design = Design(text, top, (), False, "design.v")
    effort = cost.extra["effort"]
    aim = cost.delay_ps if effort in ("speed", "balanced") else cost.extra["abc_target_ps"]
    with tempfile.TemporaryDirectory(prefix="mxdot-synth-") as name, naming(Path(name)):
        run = Asic(design, flow, Path(name), limit)
        return run.wired(flattened(run.kept(effort, aim)), run.library)


def _period(flow: Flow, clock_ps: float | None, delay_ps: float | None) -> float | None:
    """The clock period in picoseconds; None for `gates`."""
    if flow.kind == "gates":
        if clock_ps is not None:
            raise ValueError("clock_ps is for the flow cells, and must be None for gates")
        return None
    least = delay_ps or 1.0
    if clock_ps is None:
        return least
    if not least <= clock_ps < 1e9:
        raise ValueError(
            f"clock_ps must be from {least:.1f} (the unit's longest path) to 1e9, not {clock_ps:g}"
        )
    return float(clock_ps)


def _digest(flow: Flow, products: list[Batch]) -> str:
    """A hash of the library, the operands and the code."""
    digest = hashlib.sha256(f"{digest_of(flow)} {code_digest(CODE)}".encode())
    for batch in products:
        for name in ("a", "b", "scale_a", "scale_b", "c"):
            digest.update(np.ascontiguousarray(getattr(batch, name)).tobytes())
    return digest.hexdigest()


def _busy(run: Run, fill: int, cycles: int) -> None:
    """Reset, fill the pipeline, and count `cycles` with a block offered in each."""
    run.reset()
    for _ in range(fill):
        run.cycle()
    run.clear()
    for _ in range(cycles):
        run.cycle()


def _switched(run: Run, library: Library, fill: int, cycles: int) -> Energy:
    """NAND2 equivalents of the cells whose output changes."""
    _busy(run, fill, cycles)
    activity, lanes = run.activity, run.config.lanes
    counted = activity.cycles * run.streams
    areas = np.array([library.cells[name].area for name in activity.drivers])
    held = np.array([library.cells[name].is_flipflop for name in activity.drivers], bool)
    spent = activity.changes * areas / run.blocks
    registers = sum(library.cells[cell.type].is_flipflop for cell in activity.netlist.cells)
    parts = {
        "gates": float(spent[~held].sum()) / lanes,
        "registers": float(spent[held].sum()) / lanes,
        "clock": 2 * CLOCK_PIN * registers * counted / run.blocks / lanes,
    }
    return Energy(
        per_block=sum(parts.values()) * lanes,
        per_product=sum(parts.values()),
        unit="NAND2",
        parts=parts,
        activity=float(activity.changes.mean()) / counted,
        blocks=run.blocks,
        cycles=counted,
        data="",
        registers=registers,
    )


class Joules:
    """Energy and power of one netlist at one clock."""

    def __init__(
        self, netlist: Netlist, library: Library, flow: Flow, period_ps: float, cache_dir: Path
    ) -> None:
        timing = time_netlist(netlist, library, surroundings(flow))
        self.timed = TimedNetlist(netlist, library, timing)
        self.period_ps, self.cache_dir = period_ps, cache_dir
        buffer = PROCESSES[flow.process].driver if flow.process is not None else None
        self.tree = clock_tree(self.timed, buffer)

    def of(self, run: Run, fill: int, cycles: int) -> Energy:
        """The energy with a block offered in every cycle, and the power of other work."""
        _busy(run, fill, cycles)
        skipped = len(run.inputs) - cycles
        bits = stimulus(self.timed, run)
        rate = run.blocks / (cycles * run.streams) * run.config.lanes  # products per cycle
        samples = np.array_split(bits, min(SAMPLES, run.streams))
        sums = [self._spent(part, skipped) for part in samples]
        weights = [len(part) for part in samples]
        causes = {
            name: float(np.average([part[name] for part in sums], weights=weights)) / rate
            for name in sums[0]
        }
        glitches, activity = causes.pop("glitches"), causes.pop("activity") * rate
        totals = [_total(part) / rate for part in sums]
        total = sum(causes.values())
        return Energy(
            per_block=total * run.config.lanes,
            per_product=total,
            unit="fJ",
            parts=causes,
            activity=activity,
            blocks=run.blocks,
            cycles=cycles * run.streams,
            data="",
            error=float(np.std(totals, ddof=1) / len(totals) ** 0.5) if len(totals) > 1 else 0.0,
            glitches=glitches,
            clock_ps=self.period_ps,
            milliwatts=total * rate / self.period_ps,
            idle=dict(self._idle(run)),
            registers=self.timed.flipflops,
            clock_buffers=self.tree.buffers,
            has_internal=self.timed.library.has_power,
        )

    def sections(self, run: Run, fill: int, cycles: int) -> dict[str, float]:
        """Energy of a product in each section, the largest first."""
        _busy(run, fill, cycles)
        rate = run.blocks / (cycles * run.streams) * run.config.lanes
        bits = stimulus(self.timed, run)
        counts = simulate(
            self.timed, bits, len(run.inputs) - cycles, self.period_ps, cache_dir=self.cache_dir
        )
        spent = power(self.timed, counts)
        cells = spent.switching + spent.internal + spent.clock_internal + spent.clock_switching
        cells += spent.leakage_nw * self.period_ps * 1e-6
        found = by_section(self.timed.cells, (cells / rate).tolist())
        leakage = self.tree.leakage_nw * self.period_ps * 1e-6
        found["clock tree"] = (self.tree.energy_fj + leakage) / rate
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def _spent(self, bits: NDArray[np.uint8], skipped: int) -> dict[str, float]:
        """Femtojoules per cycle by cause; `glitches` is a part of others."""
        counts = simulate(self.timed, bits, skipped, self.period_ps, cache_dir=self.cache_dir)
        spent, tree = power(self.timed, counts), self.tree
        leakage_nw = float(spent.leakage_nw.sum()) + tree.leakage_nw
        return {
            "switching": float(spent.switching.sum()),
            "internal": float(spent.internal.sum()),
            "clock": float((spent.clock_internal + spent.clock_switching).sum()) + tree.energy_fj,
            "leakage": leakage_nw * self.period_ps * 1e-6,
            "glitches": float(spent.glitches.sum()),
            "activity": float(counts.changes.mean()) / counts.cycles,
        }

    def milliwatts(self, bits: NDArray[np.uint8], skipped: int) -> float:
        """Power of the cycles of a stimulus after the first `skipped`."""
        return _total(self._spent(bits, skipped)) / self.period_ps

    def _idle(self, busy: Run) -> Iterator[tuple[str, float]]:
        config, activity = busy.config, busy.activity
        streams = min(IDLE_STREAMS, busy.streams)
        fill = config.latency * config.interval + 2
        settle = 2 * fill + config.latency
        for name, work in (
            ("stalled", {"ready": False}),
            ("waiting", {"valid": False, "held": True}),
            ("waiting, operands change", {"valid": False}),
            ("zeros", {"zeros": True}),
        ):
            activity.restart(streams)
            run = Run(config, activity, busy.feed.part(streams))
            run.reset()
            for _ in range(fill):
                run.cycle()
            for _ in range(settle + IDLE_CYCLES):
                run.cycle(**work)
            bits = stimulus(self.timed, run)
            yield name, self.milliwatts(bits, len(run.inputs) - IDLE_CYCLES)


def _total(spent: dict[str, float]) -> float:
    return sum(spent[name] for name in ("switching", "internal", "clock", "leakage"))


def stimulus(timed: TimedNetlist, run: Run) -> NDArray[np.uint8]:
    """Input bits (streams, cycles, inputs) of all cycles of a run."""
    ports = timed.netlist.ports
    places = {}
    for place, (name, _) in enumerate(timed.inputs):
        port, _, bit = name.partition("[")
        places.setdefault(port, []).append((place, int(bit[:-1] or 0) if bit else 0))
    found = np.zeros((run.streams, len(run.inputs), len(timed.inputs)), np.uint8)
    for cycle, inputs in enumerate(run.inputs):
        for port, bits in inputs.items():
            if port in ports and port in places:
                at = np.array(places[port])
                found[:, cycle, at[:, 0]] = bits[:, at[:, 1]]
    return found
