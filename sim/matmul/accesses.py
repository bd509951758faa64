"""Accesses of software at random moments of a job, and what they must answer.

FLAGS tell which tiles have left the array. The unit holds some of them while C is not taken, so
their number has two bounds at any moment, and one value where everything stands still.
"""

from random import Random
from typing import TYPE_CHECKING

from ...model.units.matmul.config import MatmulConfig
from ...model.units.matmul.registers import (
    CONFIGURED,
    COUNTER_BITS,
    COUNTERS,
    REGISTERS,
    constants,
    word,
)
from .item import Product, tile_flags, with_rows
from .stimulus import most_cycles

if TYPE_CHECKING:
    from .bench import Bench

ACCESSES = 0.4
"""Share of the looks at STATUS that another access follows."""
OF_FLAGS, OF_WRITES = 0.4, 0.25
"""Shares of these accesses that read FLAGS, and that write."""
OVERHEAD = 2  # cycles between the start that pins show and the first that CYCLES counts
SETTLE = 100  # cycles after which a job stands still
TRIES = 40  # products of one tile, until one raises a flag


def tiles_begun(config: MatmulConfig, beats: int) -> int:
    """Tiles of which the first `beats` beats of C have a byte."""
    return -(-beats * config.c_bytes // (config.rows * config.unit_bytes("c")))


def tiles_left(config: MatmulConfig, beats: int) -> int:
    """Tiles that have left the array at most, by the beats of C that were taken.

    The register of C holds a beat, its gearbox two, all from rows that were taken whole. The tile
    of the next row and those of the buffer have left too, one of them in the memory's register.
    """
    rows = -(-(beats + 3) * config.c_bytes // config.unit_bytes("c"))
    buffered = config.buffered_tiles
    return rows // config.rows + 1 + (buffered + 1 if buffered else 0)


class Accesses:
    """Random accesses during one job. FLAGS are checked after it, when its flags are known."""

    def __init__(self, bench: "Bench", product: Product, rng: Random) -> None:
        self.bench, self.product, self.rng = bench, product, rng
        config = bench.config
        self.known = {**constants(config), **product.words(config), "CONTROL": {}}
        self.flags: list[tuple[int, int, int]] = []
        """Beats of C before and after a read, and its value."""

    async def some(self) -> None:
        """Make an access, or none."""
        if self.rng.random() >= ACCESSES:
            return
        if self.rng.random() < OF_WRITES:
            await self._write()
        elif self.rng.random() < OF_FLAGS and self.bench.config.dot.status:
            await self._read("FLAGS")
        else:
            await self._read(self.rng.choice([*REGISTERS]))

    @property
    def _is_over(self) -> bool:
        return "c" in self.bench.watch.ended

    async def _read(self, name: str) -> None:
        bench, watch = self.bench, self.bench.watch
        beats, begin = watch.beats["c"], watch.now
        value, accepted = await bench.ends.peek(REGISTERS[name].offset)
        bench.check(accepted, f"a read of {name} was refused amid a job")
        if name == "FLAGS":
            self.flags.append((beats, watch.beats["c"], value))
        elif name in self.known:
            want = word(REGISTERS[name], self.known[name])
            bench.check(value == want, f"{name} is 0x{value:08x} amid a job, wanted 0x{want:08x}")
        elif name == "STATUS" and not self._is_over:
            bench.check(value == 1, f"STATUS is 0x{value:08x} amid a job, wanted busy alone")
        elif name.removesuffix("_HIGH") in COUNTERS and not self._is_over:
            self._check_counter(name, value, begin)

    def _check_counter(self, name: str, value: int, begin: int) -> None:
        """Check a word of a counter; begin: cycle in which its read began."""
        watch, counter = self.bench.watch, name.removesuffix("_HIGH")
        most = max(0, watch.now - watch.launched)
        least = max(0, begin - watch.launched - OVERHEAD) if counter == "CYCLES" else 0
        if counter.startswith("DISCARDED"):
            most = 0
        elif counter == "STEPS":
            most = min(most, self.product.tiles(self.bench.config).steps)
        lift = self.bench.lifts.get(counter, 0)
        first, last = ((lift + count) % 2**COUNTER_BITS for count in (least, most))
        if counter == name:
            right = (value - first) % 2**32 <= most - least
        else:
            right = value in (first >> 32, last >> 32)
        self.bench.check(
            right, f"{name} is 0x{value:x} amid a job, wanted a word of 0x{first:x} to 0x{last:x}"
        )

    async def _write(self) -> None:
        """Write IRQ_ENABLE, which may change, or the job's description, which must not."""
        bench = self.bench
        if self.rng.random() < 0.5:
            enable = REGISTERS["IRQ_ENABLE"]
            value = self.rng.getrandbits(2)
            bench.check(await bench.ends.poke(enable.offset, value), "IRQ_ENABLE was refused")
            read, _ = await bench.ends.peek(enable.offset)
            bench.check(read == value, f"IRQ_ENABLE is {read} amid a job, wanted {value}")
            irq = int(bench.dut.irq.value)
            bench.check(self._is_over or not irq, "irq is 1 amid a job")
            return
        name = self.rng.choice(sorted(CONFIGURED))
        register = REGISTERS[name]
        accepted = await bench.ends.poke(register.offset, self.rng.getrandbits(32))
        if accepted and bench.check(self._is_over, f"{name} was written amid a job"):
            await bench.ends.write(name, **self.known[name])
        status = REGISTERS["STATUS"]
        refused = sum(status.field(error).mask for error in ("busy_write", "bad_value"))
        await bench.ends.poke(status.offset, refused)

    def check_flags(self) -> None:
        """Check what FLAGS were by the tiles that can have left the array."""
        config, product = self.bench.config, self.product
        if not self.flags:
            return
        last = tiles_left(config, max(after for _, after, _ in self.flags))
        raised = tile_flags(config, product, last)
        for before, after, flags in self.flags:
            least = _union(raised[: tiles_begun(config, before)])
            most = _union(raised[: tiles_left(config, after)])
            self.bench.check(
                least & ~flags == 0 and flags & ~most == 0,
                f"FLAGS are {flags:05b} amid a job after {before} to {after} beats of C, "
                f"wanted from {least:05b} to {most:05b}",
            )


def _union(flags: list[int]) -> int:
    raised = 0
    for each in flags:
        raised |= each
    return raised


async def flags_of_waiting_tiles(bench: "Bench") -> None:
    """C is not taken: FLAGS have those of the last tile that left, not of the one that waits."""
    config = bench.config
    left = tiles_left(config, 0)
    for marked in (left - 1, left):
        product = _with_one_flag(bench, left + 2, marked)
        raised = tile_flags(config, product)
        bench.ends.pause({}, 1.0, bench.rng)
        bench.ends.stop("c")
        await bench.begin(product)
        await bench.ends.cycles(SETTLE + most_cycles(config, product))
        read, _ = await bench.ends.peek(REGISTERS["FLAGS"].offset)
        want = _union(raised[:left])
        bench.check(read == want, f"FLAGS are {read:05b} with {left} tiles left, wanted {want:05b}")
        bench.ends.resume("c")
        await bench.finish(product)


def _with_one_flag(bench: "Bench", tiles: int, marked: int) -> Product:
    """A column of tiles of which one alone raises flags, if any does."""
    config, product = bench.config, None
    for _ in range(TRIES):
        product = bench.product((tiles, 1), 2, "wide")
        product = with_rows(product, range(marked * config.rows, (marked + 1) * config.rows))
        raised = tile_flags(config, product)
        if [bool(flags) for flags in raised] == [place == marked for place in range(tiles)]:
            break
    assert product is not None
    return product
