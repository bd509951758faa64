"""Jobs whose counters reach their ends: each wait of a job, and bytes that are discarded."""

from ...model.units.matmul.config import Tiles
from .accesses import tiles_left
from .bench import CYCLE_COUNTERS, Bench
from .ends import until
from .features import COUNTER_ENDS
from .stimulus import job_held_back, least_cycles, most_cycles

SETTLE = 8  # cycles after which a stream stands still
ROOM = 8  # tiles between the array and the stream of C, without registers and rows
LATE = 3  # beats after the end of a packet, tiles that follow
SLOW, LONG = 24, 64  # cycles from beat to beat at least, and of a wait


async def near_ends(bench: Bench) -> None:
    """Each counter reaches its highest bit, and wraps: it goes on counting, and no other does."""
    for end in COUNTER_ENDS:
        await _every_wait(bench, end)
        await _unit_waits(bench, end)
        await _discarded(bench, end)


async def both_stop(bench: Bench, side: str) -> None:
    """Results wait for room while no operand is there: the cycles count as waits for the operand.

    Beats come so slowly that the array takes all their steps, and other streams their tiles, before
    the next one.
    """
    config, watch = bench.config, bench.watch
    wanted = tiles_left(config, 0) + 1
    many = wanted + config.latency + LATE
    product = bench.product_with_d((1, many) if side == "b" else (many, 1), 1)
    width, tile = config.stream_bytes(side), config.unit_bytes(side)
    tile *= config.rows if side == "d" else 1
    beats = -(-tile * wanted // width)
    if beats * width // tile >= wanted + config.latency:
        return  # a beat has more steps than the array holds
    steps = -(-width // tile)
    rows = steps * (config.rows + 1)  # one is loaded per cycle
    slow = max(SLOW, rows, least_cycles(config, Tiles(steps, 1, 1)))
    bench.ends.pause({}, 1.0, bench.rng)
    bench.ends.stop("c")
    bench.ends.slow(side, slow)
    await bench.begin(product)
    most = bench.patience(product) + beats * slow
    taken = await until(bench.dut, lambda: watch.beats[side] >= beats, most)
    bench.check(taken, f"{beats} beats of {side} were not taken")
    bench.ends.stop(side)
    await bench.ends.cycles(slow + SETTLE + config.latency)
    before = await bench.counters()
    await bench.ends.cycles(LONG)
    counters = await bench.counters()
    grown = {name: counters[name] - before[name] for name in CYCLE_COUNTERS}
    wait = f"WAIT_{side.upper()}"
    others = {name: count for name, count in grown.items() if count and name != wait}
    bench.check(grown[wait] >= LONG, f"{wait} grew by {grown[wait]}, wanted at least {LONG}")
    bench.check(not others, f"{others} grew while only {side} and C were waited for")
    bench.ends.resume(side)
    bench.ends.resume("c")
    await bench.finish(product)


async def _every_wait(bench: Bench, end: str) -> None:
    """The streams go on one after the other: A, B and D are waited for, then C."""
    config = bench.config
    rows_of_a_beat = -(-config.c_bytes // config.unit_bytes("c"))
    tiles = config.latency + config.buffered_tiles + 3 * rows_of_a_beat + ROOM
    product = bench.product_with_d((1, tiles), 1)
    sides = [*product.packets(config), "c"]
    for side in sides:
        bench.ends.stop(side)
    await bench.begin(product)
    await bench.lift(end)
    tile = Tiles(1, 1, 1)
    for side in sides:
        await bench.ends.cycles(SETTLE)
        bench.ends.resume(side)
        await bench.ends.cycles(config.bytes_of(side, tile))
        if side == sides[-2]:  # until results have nowhere to go
            await bench.ends.cycles(most_cycles(config, product))
    await bench.finish(product)


async def _unit_waits(bench: Bench, end: str) -> None:
    """Steps that are all there wait for the dot unit's interval, in a unit that can have them."""
    job = job_held_back(bench.config)
    if job is None:
        return
    held, tiles, blocks = job
    product = bench.product_with_d(tiles, blocks)
    packets = product.packets(bench.config)
    for side in packets:
        bench.ends.stop(side)
    await bench.begin(product)
    await bench.lift(end)
    others = [bench.ends.sources[side] for side in packets if side != held]
    for source in others:
        source.pause = False
    fills = most_cycles(bench.config, product)
    await until(bench.dut, lambda: all(source.idle() for source in others), fills)
    await bench.ends.cycles(SETTLE)
    bench.ends.resume(held)
    await bench.finish(product)


async def _discarded(bench: Bench, end: str) -> None:
    """A is too long, which ends the job before a byte of the others was taken."""
    config, ends = bench.config, bench.ends
    product = bench.product_with_d((1, 1), 1)
    packets = product.packets(config)
    packets["a"] += bench.rng.randbytes(LATE * config.stream_bytes("a"))
    for side in packets:
        ends.stop(side)
    await bench.begin(product, packets)
    await bench.lift(end)
    ends.resume("a")
    await ends.cycles(SETTLE + len(packets["a"]))
    for side in packets:
        ends.resume(side)
    await ends.ended(bench.patience(product))
    await bench.check_errors("a_late_last")
    counters = await bench.counters()
    bench.check_parts(counters)
    for side, packet in packets.items():
        count, least = counters[f"DISCARDED_{side.upper()}"], len(packet) * (side != "a")
        bench.check(
            least <= count <= len(packet),
            f"DISCARDED_{side.upper()} is {count}, wanted {least} to {len(packet)}",
        )
    ends.sink.recv_nowait()  # the packet of C, ended early
    await ends.clear_status()
