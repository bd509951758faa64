"""Faults around a matrix unit: each leaves the documented status and harms no other job.

A fault is a coroutine of a Bench: of packets and resets here, of counters in counter_ends.py, of
software in misuse.py. After each the bench runs a job, which must come out right.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from functools import partial
from itertools import product as combinations
from random import Random
from typing import Any

from ...model.units.matmul.config import MatmulConfig, Tiles
from ...model.units.matmul.layout import pack_c
from . import accesses, counter_ends, misuse
from .bench import Bench
from .ends import until
from .item import Product
from .stimulus import long_blocks, most_cycles, short_counts, tile_shapes

LONG = 600  # cycles for which a stream stops at least
PACKETS = 3  # of each kind that is wrong
HOLES = 8  # bytes of a beat that are missing in turn, at most


def _with_d(bench: Bench, side: str, *shape: Any) -> Product:
    """A product of several tiles; with a D when the fault is on its stream."""
    return bench.product_with_d(*shape) if side == "d" else bench.product(*shape)


async def wrong_packet(bench: Bench, side: str, kind: str) -> None:
    """Packets that are too short, too long or have a hole, on one stream."""
    config, rng = bench.config, bench.rng
    counts = short_counts(config)
    chosen = [
        (rng.choice(tile_shapes(config)), blocks)
        for blocks in rng.sample(counts, min(PACKETS, len(counts)))
    ]
    for number, (tiles, blocks) in enumerate(chosen):
        product = _with_d(bench, side, tiles, blocks)
        await _broken(bench, product, side, kind, ends=number % 2 == 0)
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
        for place in _places(rng, config.stream_bytes(side)):
            await _broken(bench, _with_d(bench, side, (2, 2), 2), side, kind, missing=place)


def _places(rng: Random, width: int) -> list[int]:
    """Bytes of a beat: both ends, and others at random, where there are more than one."""
    most = min(width, HOLES)
    others = rng.sample(range(1, width - 1), most - 2) if most > 2 else []
    return sorted({0, width - 1, *others}) if width > 1 else []


async def _broken(
    bench: Bench,
    product: Product,
    side: str,
    kind: str,
    more: int = 0,
    *,
    ends: bool = False,
    empty: bool = False,
    missing: int | None = None,
) -> None:
    """Run a job with something wrong about a packet.

    more: bytes that follow the end of a late one. ends: a hole is the end of a beat, as of the last
    beat of a packet. missing: the byte that is the hole, in the first of several beats. empty: the
    packet is a beat of no bytes with TLAST, which may also come too early.
    """
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
    elif missing is not None and len(packet) > width:
        keep = [int(place != missing) for place in range(len(packet))]
    else:
        keep = holed(rng, len(packet), width, ends=ends)
    error = f"{side}_{kind}"
    bench.watch.forget()
    bench.lifts.clear()
    await bench.ends.write("IRQ_ENABLE", error=1)
    await bench.ends.configure(product.words(bench.config))
    for name, sent in packets.items():
        bench.ends.send(name, sent, keep if name == side else None)
    await bench.ends.start()
    status = await bench.ends.ended(bench.patience(product))
    await bench.check_errors(error, frozenset({f"{side}_early_last"} if empty else ()))
    bench.check(not status["done"], "STATUS.done is 1 after an error")
    sent = {name: len(packet) for name, packet in packets.items()}
    if keep is not None:
        sent[side] = sum(keep)
    await _check_broken(bench, product, sent)
    bench.hits.append({"error": {error}})
    await bench.ends.clear_status()


def holed(rng: Random, size: int, width: int, *, ends: bool) -> list[int]:
    """TKEEP of a packet in beats of `width` bytes, one byte of which is missing.

    ends: the last bytes of a beat are missing instead, in a packet of several beats.
    """
    keep, beats = [1] * size, -(-size // width)
    if ends and beats > 1:
        end = width * rng.randrange(1, beats)
        missing = rng.randrange(1, width) if width > 1 else 1
        keep[end - missing : end] = [0] * missing
    else:
        keep[rng.randrange(size - 1)] = 0
    return keep


async def _check_broken(bench: Bench, product: Product, sent: dict[str, int]) -> None:
    """Check the end of a job with a wrong packet: all packets were taken, C ended before its time.

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
    """A and B are both too short: STATUS has at least one of the two errors, and no other."""
    product = bench.product()
    packets = {side: packet[:-1] for side, packet in product.packets(bench.config).items()}
    await bench.ends.write("IRQ_ENABLE", error=1)
    await bench.begin(product, packets)
    status = await bench.ends.ended(bench.patience(product))
    raised = await bench.ends.errors()
    wanted = {f"{side}_early_last" for side in packets}
    bench.check(bool(raised) and raised <= wanted, f"STATUS has {sorted(raised)}")
    bench.check(not status["done"], "STATUS.done is 1 after an error")
    await _check_broken(bench, product, {side: len(packet) for side, packet in packets.items()})
    await bench.ends.clear_status()


async def nobody_asked(bench: Bench) -> None:
    """A packet of D in a job that starts at 0 is not taken: it waits for one that wants it."""
    product = bench.product_with_d()
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
    await bench.begin(product)
    await bench.ends.cycles(LONG + most_cycles(bench.config, product))
    bench.ends.resume(side)
    counters = await bench.finish(product)
    lost = sum(counters[name] for name in counters if name.startswith(("WAIT", "TAIL")))
    bench.check(lost > LONG // 2, f"{lost} cycles without a step, wanted {LONG} or so")


PHASES = ("start", "operands", "results", "tail")
SILENCE = 300  # cycles for which nothing follows


async def _soft_reset(bench: Bench) -> None:
    """Write CONTROL.reset, and empty the ends of the streams."""
    bench.watch.withdrawn = True
    bench.check(await bench.ends.write("CONTROL", reset=1), "a reset was refused")
    await bench.ends.flush()
    bench.watch.withdrawn = False
    status = await bench.ends.read("STATUS")
    bench.check(not status["busy"], "busy after a reset")
    await bench.ends.clear_status()


async def _pin_reset(bench: Bench) -> None:
    await bench.ends.reset(bench.rng.randrange(1, 4))
    status = await bench.ends.read("STATUS")
    bench.check(not any(status.values()), f"STATUS is {status} after a reset")


def _long_product(bench: Bench) -> Product:
    """A product whose operands take long."""
    tiles = 3, 2
    return bench.product(tiles, long_blocks(bench.config, tiles))


def _with_late_a(bench: Bench) -> Product:
    """A product whose first beat of C leaves before A has ended, which comes slowly."""
    config = bench.config
    width, tile = config.stream_bytes("a"), config.unit_bytes("a")
    in_beat = -(-width // tile)
    first = -(-config.c_bytes // (config.rows * config.unit_bytes("c")))
    whole = most_cycles(config, bench.product((in_beat, 1), 1))
    bench.ends.pause({}, 1.0, bench.rng)
    bench.ends.slow("a", -(-whole // max(1, tile // width)))
    return bench.product((first + 2 * in_beat, 1), 1)


async def reset(bench: Bench, phase: str, soft: bool) -> None:
    """A reset in a phase of a job."""
    product = _with_late_a(bench) if phase == "results" else _long_product(bench)
    await bench.begin(product, {} if phase == "start" else None)
    patience = bench.patience(product)
    arrived = await until(bench.dut, lambda: bench.watch.phase == phase, patience)
    bench.check(arrived, "the phase did not come")
    await bench.ends.cycles(bench.rng.randrange(8))
    if soft:
        await _soft_reset(bench)
        return
    await _pin_reset(bench)


async def _reset_unit_alone(bench: Bench) -> None:
    """Write CONTROL.reset; only the receiver of C drops what it has."""
    bench.watch.withdrawn = True
    bench.check(await bench.ends.write("CONTROL", reset=1), "a reset was refused")
    bench.ends.drop_c()
    await bench.ends.cycles()
    bench.watch.withdrawn = False


async def senders_not_begun(bench: Bench) -> None:
    """The next job of the same shape takes the old packets: its results are the old job's."""
    old, new = bench.product(), bench.product()
    while (old.d is None) != (new.d is None) or old.mode != new.mode:
        new = bench.product()
    for side in bench.config.inputs:
        bench.ends.stop(side)
    await bench.begin(old)
    await _reset_unit_alone(bench)
    for side in bench.config.inputs:
        bench.ends.resume(side)
    await bench.begin(new)
    status = await bench.ends.ended(bench.patience(new))
    bench.check(bool(status["done"]), "packets of the right length did not make a job")
    bench.check_c(old, bench.predict(bench.config, old))
    await _flush_senders(bench)


async def senders_amid(bench: Bench) -> None:
    """The next job finds the old packets' rests: it ends with an error of their lengths."""
    product = _long_product(bench)
    packets = product.packets(bench.config)
    await bench.begin(product, packets)
    beats = bench.watch.beats
    patience = bench.patience(product)
    arrived = await until(bench.dut, lambda: beats["a"] and beats["b"], patience)
    bench.check(arrived, "the operands were not taken")
    for side in packets:
        bench.ends.stop(side)  # so that no packet comes to its end before the reset
    bench.check(not {"a", "b"} & bench.watch.ended, "a packet ended at once")
    await _reset_unit_alone(bench)
    for side in packets:
        bench.ends.resume(side)
    await bench.begin(product, packets)
    status = await bench.ends.ended(2 * patience)
    bench.check(not status["done"], "a job of rests came to its end")
    raised = await bench.ends.errors()
    wrong_length = {f"{side}_early_last" for side in packets}
    wrong_length |= {f"{side}_late_last" for side in packets}
    bench.check(bool(raised) and raised <= wrong_length, f"STATUS has {sorted(raised)}")
    await _flush_senders(bench)


async def _flush_senders(bench: Bench) -> None:
    """Drop everything that senders still have."""
    await bench.ends.flush()
    await bench.ends.clear_status()


async def nothing_follows(bench: Bench, soft: bool) -> None:
    """After an error in A, B never ends: the unit waits, until it is reset."""
    product = bench.product()
    packets = product.packets(bench.config)
    await bench.ends.configure(product.words(bench.config))
    await bench.ends.start()
    bench.ends.send("a", packets["a"][:-1])
    await bench.ends.cycles(SILENCE)
    raised = await bench.ends.errors()
    bench.check(raised <= {"a_early_last"}, f"STATUS has {sorted(raised)}")
    bench.check(bool((await bench.ends.read("STATUS"))["busy"]), "not busy before B has ended")
    await (_soft_reset(bench) if soft else _pin_reset(bench))


@dataclass(frozen=True)
class Fault:
    """A fault of FAULTS.

    run: makes it and checks what follows. side: the stream that the unit must have.
    """

    run: Callable[[Bench], Coroutine[Any, Any, None]]
    side: str = "a"


def applies(fault: Fault, config: MatmulConfig) -> bool:
    """True when the unit can have this fault."""
    return fault.side in (*config.inputs, "c")


FAULTS = {
    "constants": Fault(misuse.says_what_it_is),
    **{
        f"packet {side} {kind}": Fault(partial(wrong_packet, side=side, kind=kind), side)
        for side in ("a", "b", "d")
        for kind in ("early_last", "late_last", "keep")
    },
    "soft reset, nothing follows": Fault(partial(nothing_follows, soft=True)),
    "pin reset, nothing follows": Fault(partial(nothing_follows, soft=False)),
    "soft reset, senders go on before they began": Fault(senders_not_begun),
    "soft reset, senders go on amid their packets": Fault(senders_amid),
    "both end early": Fault(both_end_early),
    "errors stay": Fault(misuse.errors_stay),
    "a D that nobody asked for": Fault(nobody_asked, "d"),
    **{
        f"{side} and C stop": Fault(partial(counter_ends.both_stop, side=side), side)
        for side in ("a", "b", "d")
    },
    **{f"stops {side}": Fault(partial(stops, side=side), side) for side in ("a", "b", "c", "d")},
    "flags of waiting tiles": Fault(accesses.flags_of_waiting_tiles),
    "counters near their ends": Fault(counter_ends.near_ends),
    "zero shape": Fault(misuse.zero_shape),
    "unknown format": Fault(misuse.unknown_format),
    "unknown option": Fault(misuse.unknown_option),
    "values too large": Fault(misuse.too_large),
    "start while busy": Fault(misuse.start_while_busy),
    "write while busy": Fault(misuse.write_while_busy),
    "reads while busy": Fault(misuse.reads_while_busy),
    "unknown addresses": Fault(misuse.unknown_addresses),
    "errors one by one": Fault(misuse.errors_one_by_one),
    "single bytes": Fault(misuse.single_bytes),
    "every bit": Fault(misuse.every_bit),
    "long counts": Fault(misuse.long_counts),
    "interrupt": Fault(misuse.interrupt),
    **{
        f"{'soft' if soft else 'pin'} reset, {phase}": Fault(partial(reset, phase=phase, soft=soft))
        for soft in (True, False)
        for phase in PHASES
    },
}
"""Faults by name."""
