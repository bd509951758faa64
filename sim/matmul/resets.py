"""Resets of the matrix unit, by its pin and by software, in every phase of a job."""

from .bench import Bench
from .ends import until
from .item import Product
from .stimulus import long_blocks

PHASES = ("start", "operands", "results", "tail")
LONG = 300  # cycles for which nothing follows


async def _soft_reset(bench: Bench) -> None:
    """CONTROL.reset, while the ends of the streams begin afresh."""
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
    """A product whose operands still come while results leave."""
    tiles = 3, 2
    return bench.product(tiles, long_blocks(bench.config, tiles))


async def reset(bench: Bench, phase: str, soft: bool) -> None:
    """A reset in a phase of a job."""
    product = _long_product(bench)
    packets = {} if phase == "start" else product.packets(bench.config)
    await bench.begin(product, packets)
    patience = bench.patience(product)
    arrived = await until(bench.dut, lambda: bench.watch.phase == phase, patience)
    bench.check(arrived, "the phase did not come")
    await bench.ends.cycles(bench.rng.randrange(8))
    if soft:
        await _soft_reset(bench)
        return
    await _pin_reset(bench)


async def _reset_unit_alone(bench: Bench) -> None:
    """CONTROL.reset, of which only the receiver of C hears."""
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
    await bench.begin(old, old.packets(bench.config))
    await _reset_unit_alone(bench)
    for side in bench.config.inputs:
        bench.ends.resume(side)
    await bench.begin(new, new.packets(bench.config))
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
    found = await bench.ends.errors()
    wrong_length = {f"{side}_early_last" for side in packets}
    wrong_length |= {f"{side}_late_last" for side in packets}
    bench.check(bool(found) and found <= wrong_length, f"STATUS has {sorted(found)}")
    await _flush_senders(bench)


async def _flush_senders(bench: Bench) -> None:
    """The remedy: what senders still have is dropped."""
    await bench.ends.flush()
    await bench.ends.clear_status()


async def nothing_follows(bench: Bench, soft: bool) -> None:
    """After an error in A, B never ends: the unit waits, until it is reset."""
    product = bench.product()
    packets = product.packets(bench.config)
    await bench.ends.configure(product.words(bench.config))
    await bench.ends.start()
    bench.ends.send("a", packets["a"][:-1])
    await bench.ends.cycles(LONG)
    found = await bench.ends.errors()
    bench.check(found <= {"a_early_last"}, f"STATUS has {sorted(found)}")
    bench.check(bool((await bench.ends.read("STATUS"))["busy"]), "not busy before B has ended")
    await (_soft_reset(bench) if soft else _pin_reset(bench))
