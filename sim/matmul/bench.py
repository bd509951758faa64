"""The bench of one matrix unit: it runs jobs, watches the pins, and checks all about each job."""

import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import cocotb
from cocotb.triggers import FallingEdge, RisingEdge

from ...model.trace import FLAG_NAMES
from ...model.units.matmul.config import MatmulConfig
from ...model.units.matmul.layout import Golden
from ...model.units.matmul.registers import COUNTER_BITS, COUNTERS
from ..engine.job import CycleReport, ErrorLog, Failure, UnitJob
from .accesses import Accesses
from .ends import Ends
from .features import COUNTER_ENDS, HANDSHAKES, hits
from .item import Product, compare, describe
from .stimulus import least_cycles, random_product, short_blocks


class Channel:
    """The unit's side of one channel: an offer stays unchanged until it is taken."""

    def __init__(self, dut: Any, prefix: str, payload: tuple[str, ...], name: str) -> None:
        self.name = name
        self.valid, self.ready = (getattr(dut, f"{prefix}{pin}") for pin in ("valid", "ready"))
        self.payload = [getattr(dut, f"{prefix}{pin}") for pin in payload]
        self.offer: tuple[int, ...] | None = None

    def kept(self) -> bool:
        """Called once a cycle; False when an offer of the previous cycle that was not taken is
        gone."""
        now = tuple(int(pin.value) for pin in self.payload) if int(self.valid.value) else None
        kept = self.offer in (None, now)
        # Reading a pin takes longer than the rest: `ready` where it matters.
        self.offer = None if now is None or int(self.ready.value) else now
        return kept


class Watch:
    """Looks at the pins at every rising edge.

    Since the last `forget`: events, (side, HANDSHAKES) seen; by side, beats taken, bytes of them by
    TKEEP, and bytes_late, those taken while irq was high. With only the interrupt of errors enabled
    the unit must discard these. withdrawn: set while software resets the unit, when an offer of C
    may go.
    """

    def __init__(self, dut: Any, config: MatmulConfig, error: Callable[[str], None]) -> None:
        self.dut, self.error = dut, error
        prefixes = {side: f"s_axis_{side}" for side in config.inputs} | {"c": "m_axis_c"}
        names = ("tvalid", "tready", "tlast", "tkeep")
        self.pins = {
            side: tuple(getattr(dut, f"{prefix}_{name}") for name in names)
            for side, prefix in prefixes.items()
        }
        self.channels = [
            Channel(dut, "m_axis_c_t", ("data", "keep", "last"), "a beat of C"),
            Channel(dut, "s_axil_b", ("resp",), "the response to a write"),
            Channel(dut, "s_axil_r", ("data", "resp"), "the response to a read"),
        ]
        self.write_pins = [
            (getattr(dut, f"s_axil_{name}valid"), getattr(dut, f"s_axil_{name}ready"))
            for name in ("aw", "w")
        ]
        self.events: set[tuple[str, str]] = set()
        self.beats = dict.fromkeys(self.pins, 0)
        self.bytes = dict.fromkeys(self.pins, 0)
        self.bytes_late = dict.fromkeys(self.pins, 0)
        self.ended: set[str] = set()
        self.now = self.written = self.launched = self.finished = self.fed = 0
        self.withdrawn = False
        cocotb.start_soon(self._run())

    def forget(self) -> None:
        """Begin a new job."""
        self.events.clear()
        self.ended.clear()
        for counts in (self.beats, self.bytes, self.bytes_late):
            counts.update(dict.fromkeys(self.pins, 0))

    def launch(self) -> None:
        """Take the last write of a register as the start."""
        self.launched = self.written

    @property
    def length(self) -> int:
        """Cycles of the last job, from the one after its start to that of C's last beat."""
        # The write of the start is taken, carried out, and seen in the cycle after.
        return self.finished - self.launched - 1

    @property
    def sending(self) -> int:
        """Cycles from the last beat of A and B to the last one of C."""
        return self.finished - self.fed

    @property
    def phase(self) -> str:
        """Progress of the streams of a job, a name."""
        inputs = set(self.pins) - {"c"}
        if not any(self.beats.values()):
            return "start"
        if self.beats["c"] == 0:
            return "operands"
        return "tail" if {"a", "b"} <= self.ended & inputs else "results"

    async def _run(self) -> None:
        dut, edge = self.dut, RisingEdge(self.dut.clk)
        while True:
            await edge
            self.now += 1
            if int(dut.rst.value):
                for channel in self.channels:
                    channel.offer = None
                continue
            for valid, ready in self.write_pins:  # the later of both completes the write
                if int(valid.value) and int(ready.value):
                    self.written = self.now
            for side, (valid, ready, last, keep) in self.pins.items():
                shake = int(valid.value), int(ready.value)
                if shake != (0, 0):
                    self.events.add((side, HANDSHAKES[shake]))
                if shake == (1, 1):
                    self._count(side, int(keep.value).bit_count(), bool(int(last.value)))
            self._check_channels()

    def _check_channels(self) -> None:
        for channel in self.channels:
            may_go = self.withdrawn and channel is self.channels[0]
            if not channel.kept() and not may_go:
                self.error(f"cycle {self.now}: {channel.name} changed before it was taken")

    def _count(self, side: str, size: int, last: bool) -> None:
        """Count a beat of this many bytes that was taken."""
        self.beats[side] += 1
        self.bytes[side] += size
        self.bytes_late[side] += size * int(self.dut.irq.value)
        if last:
            self.ended.add(side)
            self.finished = self.now
            if side in "ab":
                self.fed = self.now


KEPT_FAILURES = 5
CYCLE_COUNTERS = [name for name in COUNTERS if not name.startswith(("CYCLES", "DISCARDED"))]
MOST = 2**32  # that a counter of a job can have, less what the bench added
SLACK = 4000  # cycles beyond what a job could need


class Bench:
    """The ends of the unit's streams, its software, and a report.

    hits: for coverage, a dict of features and their bins per event.
    """

    def __init__(self, dut: Any) -> None:
        self.job = UnitJob.load(Path(os.environ["MXDOT_JOB"]))
        self.config = self.job.config
        self.dut, self.predict = dut, self.job.predict()
        self.numbers = self.job.rng("traffic")
        self.rng = Random(int(self.numbers.integers(2**63)))
        self.access_rng = Random(int(self.job.rng("accesses").integers(2**63)))
        self.ends = Ends(dut, self.config)
        self.watch = Watch(dut, self.config, self.error)
        self.report = CycleReport()
        self.errors = ErrorLog(self.report)
        self.hits: list[dict[str, set[object]]] = []
        self.lifts: dict[str, int] = {}
        """The bench's additions to counters of this job, by name."""
        self.hangs = 0
        self.what = ""
        """The current job or fault, for messages."""

    def error(self, text: str) -> None:
        """Note an error: the run goes on, and fails."""
        self.errors.add(f"{self.what}: {text}")

    def check(self, right: bool, text: str) -> bool:
        """Note an error unless `right`, which is returned."""
        if not right:
            self.error(text)
        return right

    def product(
        self, tiles: tuple[int, int] = (2, 2), blocks: int | None = None, kind: str = "near"
    ) -> Product:
        """A product of whole tiles, under finite operands; without `blocks` a short one."""
        config = self.config
        m, n = tiles[0] * config.rows, tiles[1] * config.columns
        mode = self.rng.randrange(len(config.dot.formats))
        blocks = blocks or short_blocks(config, tiles)
        return random_product(config, self.numbers, mode, m, n, blocks, kind)

    def product_with_d(self, *shape: Any) -> Product:
        """A product as by `product`, with a D where the unit takes one."""
        while True:
            product = self.product(*shape)
            if product.d is not None or not self.config.initial_c:
                return product

    def patience(self, product: Product) -> int:
        """Cycles after which a job is lost: more than it takes under the slowest ends."""
        return SLACK + 40 * least_cycles(self.config, product.tiles(self.config))

    # A job ----------------------------------------------------------------------------------------

    async def begin(self, product: Product, packets: dict[str, bytes] | None = None) -> None:
        """Describe a job, start it, and send its packets, in any order that is allowed.

        packets: in place of the right ones.
        """
        packets = product.packets(self.config) if packets is None else packets
        self.watch.forget()
        self.lifts.clear()
        await self.ends.configure(product.words(self.config))
        early = self.rng.random() < 0.5
        if early:
            self.send(packets)
        self.check(await self.ends.start(), "a start was refused")
        self.watch.launch()
        if not early:
            if self.rng.random() < 0.5:
                await self.lift(self.rng.choice([*COUNTER_ENDS]))
            self.send(packets)

    def send(self, packets: dict[str, bytes]) -> None:
        for side, packet in packets.items():
            self.ends.send(side, packet)

    async def check_errors(self, wanted: str, may_be: frozenset[str] = frozenset()) -> None:
        """Check that STATUS has the error `wanted`; may_be: others that it may have too."""
        raised = await self.ends.errors()
        self.check(
            raised - may_be == {wanted}, f"STATUS has {sorted(raised)}, wanted {wanted} alone"
        )

    async def finish(
        self, product: Product, errors: frozenset[str] = frozenset(), *, clear: bool = True
    ) -> dict[str, int]:
        """Wait for a job's end and check it; returns the counters.

        errors: errors that STATUS must have. clear: clear STATUS.
        """
        accesses = Accesses(self, product, self.access_rng)
        meanwhile = None if errors else accesses.some
        status = await self.ends.ended(self.patience(product), meanwhile)
        raised = await self.ends.errors()
        self.check(raised == errors, f"STATUS has {_names(raised)}, wanted {_names(errors)}")
        self.check(bool(status["done"]), "a job ended and STATUS.done is 0")
        if clear:
            await self.ends.clear_status()
            self.check(not await self.ends.errors(), "errors of STATUS cannot be cleared")
        want = self.predict(self.config, product)
        self.check_c(product, want)
        counters = await self.counters()
        self.check_counters(product, counters)
        await self.check_flags(want)
        accesses.check_flags()
        self.check(self.ends.quiet, "beats are left in the streams after a job")
        self.hits.append(hits(self.config, product, counters, self.watch.events))
        return counters

    async def multiply(self, product: Product, *, clear: bool = True) -> dict[str, int]:
        """Run a job without faults; returns its counters. clear: clear STATUS afterwards."""
        await self.begin(product)
        return await self.finish(product, clear=clear)

    async def lift(self, end: str) -> None:
        """Bring every counter of the job that runs to one below an end, of COUNTER_ENDS."""
        await FallingEdge(self.dut.clk)
        for name, register in self.ends.counter_registers.items():
            below = COUNTER_ENDS[end] - 1
            self.lifts[name] = self.lifts.get(name, 0) + below - int(register.value)
            register.value = below

    async def counters(self) -> dict[str, int]:
        """All counters, less the bench's own additions."""
        values = await self.ends.counters()
        for name, lift in self.lifts.items():
            value, values[name] = values[name], (values[name] - lift) % 2**COUNTER_BITS
            if self.check(values[name] < MOST, f"{name} is 0x{value:x}, 0x{lift:x} of it added"):
                passed = {
                    end for end, at in COUNTER_ENDS.items() if lift < at <= lift + values[name]
                }
                self.hits.append({"counter_end": {(name, end) for end in passed}})
        return values

    # Checks ---------------------------------------------------------------------------------------

    def check_c(self, product: Product, want: Golden) -> None:
        """Check that one packet of C has come, with the model's results."""
        if not self.check(not self.ends.sink.empty(), "no packet of C came"):
            return
        packet = bytes(self.ends.sink.recv_nowait())
        try:
            wrong = compare(self.config, product, packet, want)
        except ValueError as problem:
            self.error(str(problem))
            return
        self.report.compared += want.result.size
        if wrong is not None:
            self.report.mismatches += wrong.count
            self.error(f"{wrong.count} results differ from the model's")
            if len(self.report.failures) < KEPT_FAILURES:
                lines = describe(self.config, product, wrong)
                where = f"{self.what}, (M, N, K) = {product.shape}, mode {product.mode}"
                item = {"lines": lines}
                self.report.failures.append(Failure(item, [wrong.got], [wrong.want], where))

    def check_counters(self, product: Product, counters: dict[str, int]) -> None:
        """Check the counters of a job.

        STEPS are the schedule's, WAIT_UNIT is no more, TAIL follows the last step, and every cycle
        went to one thing.
        """
        tiles = product.tiles(self.config)
        steps, waits = tiles.steps, self.config.waits(tiles)
        self.check(counters["STEPS"] == steps, f"STEPS is {counters['STEPS']}, wanted {steps}")
        waited = counters["WAIT_UNIT"]
        self.check(waited <= waits, f"WAIT_UNIT is {waited}, wanted at most {waits}")
        # The last step comes after the operands' last beats, its results a latency after it.
        least, most, tail = self.config.dot.latency, self.watch.sending, counters["TAIL"]
        self.check(least <= tail <= most, f"TAIL is {tail}, wanted from {least} to {most}")
        cycles = counters["CYCLES"]
        self.check_parts(counters)
        seen = self.watch.length
        self.check(cycles == seen, f"CYCLES is {cycles}, the pins show {seen}")
        lost = sum(counters[f"DISCARDED_{side}"] for side in "ABD")
        self.check(lost == 0, f"{lost} bytes were discarded")
        self.report.cycles += cycles

    def check_parts(self, counters: dict[str, int]) -> None:
        """Check that every cycle went to one thing, whether the job came to its end or not."""
        total = sum(counters[name] for name in CYCLE_COUNTERS)
        cycles = counters["CYCLES"]
        self.check(cycles == total, f"CYCLES is {cycles}, its parts are {total}")

    async def check_flags(self, want: Golden) -> None:
        """Check that FLAGS are the or of all results' flags."""
        got = await self.ends.read("FLAGS")
        flags = sum(got[name] << i for i, name in enumerate(FLAG_NAMES))
        self.check(flags == want.flags, f"FLAGS are {flags:05b}, wanted {want.flags:05b}")
        self.hits.append({"flags": {"some" if want.flags else "none"}})

    async def recover(self) -> None:
        """Reset after a hang, so that the next jobs can run."""
        self.ends.pause({}, 1, self.rng)
        await self.ends.reset()


def _names(errors: frozenset[str] | set[str]) -> str:
    return ", ".join(sorted(errors)) or "no errors"
