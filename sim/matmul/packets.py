"""Faults of the streams: packets that are wrong, streams that stop."""

from dataclasses import replace
from itertools import product as combinations
from typing import Any

from ...model.units.matmul.config import Tiles
from ...model.units.matmul.layout import pack_c
from .bench import Bench
from .item import Product
from .stimulus import least_cycles, short_counts, tile_shapes

LONG = 600  # cycles for which a stream stops at least
PACKETS = 3  # of each kind that is wrong


def _with_d(bench: Bench, side: str, *shape: Any) -> Product:
    """A product of several tiles; with a D when the fault is on its stream."""
    while True:
        product = bench.product(*shape)
        if side != "d" or product.d is not None:
            return product


async def wrong_packet(bench: Bench, side: str, kind: str) -> None:
    """Packets that are too short, too long or have a hole, on one stream."""
    config, rng = bench.config, bench.rng
    counts = short_counts(config)
    chosen = [
        (rng.choice(tile_shapes(config)), blocks)
        for blocks in rng.sample(counts, min(PACKETS, len(counts)))
    ]
    for tiles, blocks in chosen:
        product = _with_d(bench, side, tiles, blocks)
        await _broken(bench, product, side, kind)
    if kind == "late_last":
        room = [
            shape
            for shape in combinations(tile_shapes(config), counts)
            if config.bytes_of(side, Tiles(*shape[0], shape[1])) % config.stream_bytes(side)
        ]
        if room:  # for a byte in the last beat, inside a unit of the gearbox or one of its own
            await _broken(bench, _with_d(bench, side, *rng.choice(room)), side, kind, more=1)
    if kind == "keep":
        await _broken(bench, _with_d(bench, side, (2, 2), counts[-1]), side, kind, empty=True)


async def _broken(
    bench: Bench, product: Product, side: str, kind: str, more: int = 0, *, empty: bool = False
) -> None:
    """A packet with something wrong. more: bytes of one that is late. empty: it is a
    beat of no bytes with TLAST, which may come too early, too."""
    rng, width = bench.rng, bench.config.stream_bytes(side)
    packets = product.packets(bench.config)
    keep, packet = None, packets[side]
    if kind == "early_last":
        packets[side] = packet[: -rng.choice((1, width, rng.randrange(1, len(packet))))] or b"x"
    elif kind == "late_last":
        more = more or rng.choice((1, width, rng.randrange(1, 3 * width)))
        packets[side] = packet + rng.randbytes(more)
    elif empty:
        packets[side], keep = bytes(width), [0] * width
    else:
        keep = [1] * len(packet)
        keep[rng.randrange(len(packet) - 1)] = 0
    error = f"{side}_{kind}"
    bench.watch.forget()
    bench.lifts.clear()
    await bench.ends.write("IRQ_ENABLE", error=1)
    await bench.ends.configure(product.words(bench.config))
    for name, sent in packets.items():
        bench.ends.send(name, sent, keep if name == side else None)
    await bench.ends.start()
    status = await bench.ends.ended(bench.patience(product))
    found = await bench.ends.errors()
    may_be = {f"{side}_early_last"} if empty else set()
    bench.check(found - may_be == {error}, f"STATUS has {sorted(found)}, wanted {error} alone")
    bench.check(not status["done"], "STATUS.done is 1 after an error")
    sent = {name: len(packet) for name, packet in packets.items()}
    if keep is not None:
        sent[side] = sum(keep)
    await _check_broken(bench, product, sent)
    bench.hits.append({"error": {error}})
    await bench.ends.clear_status()


async def _check_broken(bench: Bench, product: Product, sent: dict[str, int]) -> None:
    """After an error in a packet: all of them were taken, C ended before its time.

    sent: bytes of each packet by TKEEP. The interrupt of errors is enabled, and disabled here.
    """
    await bench.ends.cycles(4)
    left = [side for side, source in bench.ends.sources.items() if not source.idle()]
    bench.check(not left, f"packets of {left} were not taken to their ends")
    if not bench.check(not bench.ends.sink.empty(), "the packet of C was not ended"):
        return
    got = bytes(bench.ends.sink.recv_nowait())
    whole = pack_c(bench.predict(bench.config, product).result, bench.config)
    bench.check(whole.startswith(got), "what came of C before the error is wrong")
    bench.check(bench.ends.sink.empty(), "more than one packet of C came")
    counters = await bench.counters()
    bench.check_parts(counters)
    for side in bench.config.inputs:
        taken, want = bench.watch.bytes[side], bench.watch.bytes_late[side]
        bench.check(
            taken == sent.get(side, 0), f"of {sent.get(side, 0)} bytes of {side} {taken} were taken"
        )
        name = f"DISCARDED_{side.upper()}"
        bench.check(counters[name] == want, f"{name} is {counters[name]}, the pins show {want}")
    await bench.ends.write("IRQ_ENABLE")


async def both_end_early(bench: Bench) -> None:
    """A and B are both too short: each error that is seen is one of the two, at least one is."""
    product = bench.product()
    packets = {side: packet[:-1] for side, packet in product.packets(bench.config).items()}
    await bench.ends.write("IRQ_ENABLE", error=1)
    await bench.begin(product, packets)
    status = await bench.ends.ended(bench.patience(product))
    found = await bench.ends.errors()
    wanted = {f"{side}_early_last" for side in packets}
    bench.check(bool(found) and found <= wanted, f"STATUS has {sorted(found)}")
    bench.check(not status["done"], "STATUS.done is 1 after an error")
    await _check_broken(bench, product, {side: len(packet) for side, packet in packets.items()})
    await bench.ends.clear_status()


async def nobody_asked(bench: Bench) -> None:
    """A packet of D in a job that starts at 0 is not taken: it waits for one that wants it."""
    product = bench.product()
    while product.d is None:
        product = bench.product()
    packet = product.packets(bench.config)["d"]
    plain = replace(product, d=None)
    packets = plain.packets(bench.config)
    await bench.begin(plain, packets | {"d": packet})
    await bench.ends.ended(bench.patience(plain))
    bench.check(bench.watch.beats["d"] == 0, "beats of D were taken in a job without")
    bench.check_c(plain, bench.predict(bench.config, plain))
    await bench.ends.clear_status()
    rest = {side: p for side, p in product.packets(bench.config).items() if side != "d"}
    await bench.begin(product, rest)
    await bench.finish(product)


async def stops(bench: Bench, side: str) -> None:
    """A stream stops until all others wait for it: the cycles are counted, nothing else changes."""
    product = _with_d(bench, side, (4, 4), 2)
    bench.ends.stop(side)
    await bench.begin(product, product.packets(bench.config))
    await bench.ends.cycles(LONG + least_cycles(bench.config, product.tiles(bench.config)))
    bench.ends.resume(side)
    counters = await bench.finish(product)
    lost = sum(counters[name] for name in counters if name.startswith(("WAIT", "TAIL")))
    bench.check(lost > LONG // 2, f"{lost} cycles without a step, wanted {LONG} or so")
