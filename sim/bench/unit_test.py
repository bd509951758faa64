"""The regression test of one unit, cycle by cycle: every sequence under every kind of timing."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
import pyuvm
from cocotb.clock import Clock
from cocotb.triggers import select
from pyuvm import ConfigDB, uvm_test

from ..engine.job import UnitJob
from .context import Context, PauseChances, make
from .environment import UnitEnv, UnitSequence
from .subject import IDLE, subject_of

PROFILES = (
    PauseChances(),
    PauseChances(gap=0.3, length=2),
    PauseChances(stall=0.3, length=2),
    PauseChances(gap=0.3, stall=0.3, length=4),  # bubbles fill while a result waits
    PauseChances(stall=0.1, length=10),
)
FILLS = 6  # cycles of a stall per result that the unit holds, in which it fills up
OFTEN = 4  # stalls while as many results leave; in each one block finds no room
RESET_TIMING = PauseChances(gap=0.1, stall=0.2, length=3)
SHORT_SHARE = 8  # one item in 8 comes among the shortest, side by side
RESET_SHARE = 5  # one item in 5 also runs among resets
RESETS = 60
FEWEST_RESETS = 3  # in each state
RESET_ROUNDS = 8  # of the items, at most
MORE_ROUNDS = 8  # of few items, at most, where little traffic leaves out stream events
FEW_BEATS = 1500
SETTLE = 50  # cycles after the last result, for results that nobody asked for


@pyuvm.test()
class UnitTest(uvm_test):
    """Runs all traffic and writes the report; fails on any error."""

    def build_phase(self) -> None:
        job = UnitJob.load(Path(os.environ["MXDOT_JOB"]))
        self.context = Context(subject_of(job, cocotb.top))
        ConfigDB().set(None, "*", "context", self.context)
        self.env = make(UnitEnv, "env", self)

    async def run_phase(self) -> None:
        self.raise_objection()
        items = self._shuffled(self.context.subject.traffic())
        start = time.perf_counter()
        Clock(self.context.pins.clk, 2, "ns").start()
        await self._reset(2)
        profiles = self._profiles()
        parts = np.array_split(np.arange(len(items)), len(profiles))
        for timing, part in zip(profiles, parts, strict=True):
            await self._run(timing, self._short_first([items[i] for i in part]))
        # Again: a reset loses some of them.
        await self._run_with_resets(items[: len(items) // RESET_SHARE])
        await self._run(PauseChances(), items[: len(items) // 20])
        few = self._few(items)
        for _ in range(MORE_ROUNDS):
            if self.env.coverage.stream.is_complete or self.context.report.errors:
                break
            for timing in profiles:
                await self._run(timing, few)
            await self._run_with_resets(few)
        report = self.context.report
        report.seconds = time.perf_counter() - start
        report.cycles = self.env.protocol.now
        self.drop_objection()

    def _profiles(self) -> tuple[PauseChances, ...]:
        """All profiles; a unit that runs on when it is stalled also has stalls that fill it up."""
        subject = self.context.subject
        if not subject.timeline().runs_on:
            return PROFILES
        held = subject.capacity
        return *PROFILES, PauseChances(stall=OFTEN / held, length=FILLS * held)

    def _shuffled(self, items: list[Any]) -> list[Any]:
        order = self.context.job.rng("order").permutation(len(items))
        return [items[i] for i in order]

    def _few(self, items: list[Any]) -> list[Any]:
        """The first items, of about `FEW_BEATS` beats."""
        beats = np.cumsum([self.context.subject.beats(item) for item in items])
        return items[: 1 + int(np.searchsorted(beats, FEW_BEATS))]

    def _short_first(self, items: list[Any]) -> list[Any]:
        """Put the shortest items side by side: no slow loop slows the streams there."""
        order = sorted(range(len(items)), key=lambda i: self.context.subject.beats(items[i]))
        short = order[: len(items) // SHORT_SHARE]
        rest = sorted(set(range(len(items))).difference(short))
        return [items[i] for i in (*short, *rest)]

    async def _cycles(self, count: int) -> None:
        for _ in range(count):
            await self.context.pins.edge

    async def _reset(self, cycles: int) -> None:
        self.context.pins.rst.value = 1
        await self._cycles(cycles)
        self.context.pins.rst.value = 0

    async def _run(self, timing: PauseChances, items: list[Any]) -> None:
        """Send `items` with `timing`, then wait for every result."""
        if self.env.protocol.hung:
            return
        vars(self.context.timing).update(vars(timing))
        hangs = self.env.protocol.hangs.wait()
        await select(UnitSequence(items).start(self.env.input.sequencer), hangs)
        vars(self.context.timing).update(vars(PauseChances()))
        while self.env.protocol.owed and not self.env.protocol.hung:
            await self.context.pins.edge
        await self._cycles(SETTLE)

    async def _run_with_resets(self, items: list[Any]) -> None:
        """Reset for one to three cycles in every state of the unit, while `items` are sent; few
        items are sent again."""
        if self.env.protocol.hung:
            return
        await self._reset(1)
        states = [state for state in self.context.subject.event_goals()["reset"] if state != IDLE]
        done: list[object] = []
        resets = cocotb.start_soon(self._resets(states, done))
        for _ in range(RESET_ROUNDS):
            await self._run(RESET_TIMING, items)
            if len(done) >= FEWEST_RESETS * len(states):
                break
        resets.cancel()
        await self._reset(2)

    async def _resets(self, states: Sequence[object], done: list[object]) -> None:
        """Reset in each of the states in turn; wait for a state as long as it takes."""
        rng = self.context.random("resets")
        for i in range(RESETS):
            state = states[i % len(states)]
            await self._cycles(rng.randrange(40))
            while self.env.protocol.state != state:
                await self.context.pins.edge
            await self._reset(rng.randrange(1, 4))
            done.append(state)

    def report_phase(self) -> None:
        report = self.context.report
        if report.mismatches:
            self.context.error(f"{report.mismatches} results differ from the model's")
        self.context.errors.finish()
        report.save(self.context.job.directory / "cycle.json")
        assert not report.errors, "; ".join(report.errors)
