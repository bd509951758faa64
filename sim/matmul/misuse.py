"""Faults of software: registers that are written wrongly, and other rules of registers."""

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from ...model.units.matmul.registers import ADDRESS_BITS, CONFIGURED, REGISTERS, constants, word
from .bench import Bench
from .features import ACTIVITIES
from .item import Product
from .stimulus import many_along, most_cycles


async def _refused(bench: Bench, error: str, register: str, value: int) -> None:
    """A start that cannot be: the error is set, nothing runs, `done` of an older job goes."""
    await bench.multiply(bench.product((1, 1), 1), clear=False)
    words = bench.product().words(bench.config)
    field = next(iter(words[register]))
    await bench.ends.configure(words | {register: {field: value}})
    bench.check(await bench.ends.start(), "the write of a start that cannot be was refused")
    status = await bench.ends.read("STATUS")
    bench.check(not status["busy"], f"a job runs with {register} = {value}")
    bench.check(not status["done"], f"done stays after a start with {register} = {value}")
    await bench.check_errors(error)
    bench.hits.append({"error": {error}})
    await bench.ends.clear_status()


async def zero_shape(bench: Bench) -> None:
    """A start with no tiles or no blocks."""
    for register in ("M_TILES", "N_TILES", "K_BLOCKS"):
        await _refused(bench, "bad_shape", register, 0)


async def unknown_format(bench: Bench) -> None:
    """A start in a format that the unit has not."""
    modes = len(bench.config.dot.formats)
    for mode in {modes, 128, 255} - set(range(modes)):
        await _refused(bench, "bad_format", "FORMAT", mode)


async def unknown_option(bench: Bench) -> None:
    """A start with D in a unit that has no stream of it."""
    if not bench.config.initial_c:
        await _refused(bench, "bad_option", "OPTIONS", 1)


async def too_large(bench: Bench) -> None:
    """Values above a register's bits, each bit alone too: refused, so that no start takes their low
    bits for them."""
    for name in (*sorted(CONFIGURED), "IRQ_ENABLE"):
        register = REGISTERS[name]
        mask = sum(field.mask for field in register.fields)
        before = await bench.ends.read(name)
        for value in {mask + 1, mask + 1 + bench.rng.randrange(1, mask + 1), 2**32 - 1}:
            accepted = await bench.ends.poke(register.offset, value)
            bench.check(not accepted, f"{name} = {value} was accepted")
            bench.check(await bench.ends.read(name) == before, f"{name} changed by {value}")
            await bench.check_errors("bad_value")
            await bench.ends.clear_status()
        for bit in range(mask.bit_length(), 32):
            accepted = await bench.ends.poke(register.offset, 1 << bit)
            bench.check(not accepted, f"{name} = 0x{1 << bit:x} was accepted")
        bench.check(await bench.ends.read(name) == before, f"{name} changed by a refused write")
    await bench.ends.clear_status()
    bench.hits.append({"error": {"bad_value"}})


async def _while_busy(
    bench: Bench, error: str, act: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    """Software does something wrong while a job runs, which goes on unharmed."""
    product = bench.product()
    bench.ends.stop("c")
    await bench.begin(product)
    await act()
    bench.ends.resume("c")
    await bench.finish(product, frozenset({error}))
    bench.hits.append({"error": {error}})


async def start_while_busy(bench: Bench) -> None:
    """A second start: the first job goes on."""

    async def act() -> None:
        bench.check(await bench.ends.start(), "the write of a start while busy was refused")

    await _while_busy(bench, "busy_start", act)


async def write_while_busy(bench: Bench) -> None:
    """The description of a job cannot be changed under it."""

    async def act() -> None:
        for name in sorted(CONFIGURED):
            before = await bench.ends.read(name)
            accepted = await bench.ends.poke(REGISTERS[name].offset, bench.rng.getrandbits(32))
            bench.check(not accepted, f"{name} was written while busy")
            bench.check(await bench.ends.read(name) == before, f"{name} changed while busy")

    await _while_busy(bench, "busy_write", act)


async def reads_while_busy(bench: Bench) -> None:
    """Every register can be read while a job runs, which goes on unharmed, and after it."""
    product = bench.product()
    bench.ends.stop("c")
    await bench.begin(product)
    await _read_all(bench, product, busy=1)
    bench.ends.resume("c")
    await bench.finish(product)
    await _read_all(bench, product, busy=0)


async def _read_all(bench: Bench, product: Product, busy: int) -> None:
    """Read every register; those of the unit's and the job's description are unchanged."""
    known = {**constants(bench.config), **product.words(bench.config)}
    bench.check((await bench.ends.read("STATUS"))["busy"] == busy, f"STATUS.busy is {1 - busy}")
    for name, register in REGISTERS.items():
        got, accepted = await bench.ends.peek(register.offset)
        bench.check(accepted, f"a read of {name} was refused, {ACTIVITIES[busy]}")
        if name in known:
            want = word(register, known[name])
            what = f"{name} is 0x{got:08x}, wanted 0x{want:08x}, {ACTIVITIES[busy]}"
            bench.check(got == want, what)
    bench.check((await bench.ends.read("STATUS"))["busy"] == busy, f"STATUS.busy is {1 - busy}")
    bench.hits.append({"read": {(name, ACTIVITIES[busy]) for name in REGISTERS}})


async def unknown_addresses(bench: Bench) -> None:
    """Accesses to addresses without a register, and writes to read-only ones, are refused."""
    known = {register.offset: register for register in REGISTERS.values()}
    before = await _software_state(bench)
    for address in range(0, 2**ADDRESS_BITS, 4):
        register = known.get(address)
        if register is None:
            _, accepted = await bench.ends.peek(address)
            bench.check(not accepted, f"a read of 0x{address:02x} was accepted")
        if register is None or not register.written:
            accepted = await bench.ends.poke(address, bench.rng.getrandbits(32))
            bench.check(not accepted, f"a write to 0x{address:02x} was accepted")
    bench.check(await _software_state(bench) == before, "a refused write changed a register")


async def _software_state(bench: Bench) -> dict[str, dict[str, int]]:
    return {name: await bench.ends.read(name) for name in (*sorted(CONFIGURED), "STATUS")}


async def errors_one_by_one(bench: Bench) -> None:
    """Several errors at once, cleared in any order: each stays until its own bit is written."""
    ends, status = bench.ends, REGISTERS["STATUS"]
    await bench.multiply(bench.product((1, 1), 1), clear=False)
    await ends.poke(REGISTERS["K_BLOCKS"].offset, 2**31)
    await ends.configure({"K_BLOCKS": {"count": 0}, "FORMAT": {"mode": 255}})
    await ends.start()
    left = {"bad_value", "bad_shape", "bad_format"}
    for name in bench.rng.sample(sorted(left), len(left)):
        raised = await ends.errors()
        bench.check(raised == left, f"STATUS has {sorted(raised)}, wanted {sorted(left)}")
        place = status.field(name).low
        for byte in set(range(4)) - {place // 8}:
            await ends.poke(status.offset + byte, 0xFF, size=1)
        bench.check(await ends.errors() == left, f"STATUS changed in another byte than {name}'s")
        await ends.poke(status.offset + place // 8, 1 << place % 8, size=1)
        left.remove(name)
    bench.check(not await ends.errors(), "errors of STATUS cannot be cleared one by one")


async def single_bytes(bench: Bench) -> None:
    """Writes of single bytes change these alone; those above a register's bits are refused."""
    control = REGISTERS["CONTROL"].offset
    for byte in (1, 2, 3):
        bench.check(await bench.ends.poke(control + byte, 0, size=1), "CONTROL was refused")
        status = await bench.ends.read("STATUS")
        bench.check(not any(status.values()), f"STATUS is {status} after byte {byte} of CONTROL")
    for name in (*sorted(CONFIGURED), "IRQ_ENABLE"):
        register = REGISTERS[name]
        mask = sum(field.mask for field in register.fields)
        want = 0
        await bench.ends.poke(register.offset, 0)
        for byte in range(4):
            value = bench.rng.randrange(1, 256)
            new, fits = value << 8 * byte, not value << 8 * byte & ~mask
            want = (want & ~(0xFF << 8 * byte)) | new if fits else want
            accepted = await bench.ends.poke(register.offset + byte, value, size=1)
            bench.check(
                accepted == fits, f"byte {byte} of {name}: 0x{value:02x} was {_took(accepted)}"
            )
            got, _ = await bench.ends.peek(register.offset)
            bench.check(got == want, f"{name} is 0x{got:08x}, wanted 0x{want:08x}")
    await bench.ends.write("IRQ_ENABLE")
    await bench.ends.clear_status()


async def every_bit(bench: Bench) -> None:
    """A job's description keeps any value: none of its bits, all, every second one."""
    masks = {name: sum(f.mask for f in REGISTERS[name].fields) for name in sorted(CONFIGURED)}
    for pattern in (0, 2**32 - 1, 0, 0x55555555, 0xAAAAAAAA, 0):
        for name, mask in masks.items():
            accepted = await bench.ends.poke(REGISTERS[name].offset, pattern & mask)
            bench.check(accepted, f"{name} = 0x{pattern & mask:08x} was refused")
        for name, mask in masks.items():
            got, _ = await bench.ends.peek(REGISTERS[name].offset)
            want = pattern & mask
            bench.check(got == want, f"{name} is 0x{got:08x}, wanted 0x{want:08x}")


async def long_counts(bench: Bench) -> None:
    """Many tiles down, then across, then many blocks: their counters need more digits.

    No end pauses: a job takes little longer than its slowest part.
    """
    bench.ends.pause({}, 1.0, bench.rng)
    shapes = [many_along(bench.config, axis) for axis in range(3)]
    wanted = [bench.product((m, n), k) for m, n, k in shapes]
    # A tile of initial values takes a cycle more than its results, and would hide theirs.
    wanted += [replace(wanted[1], d=None)] * (wanted[1].d is not None)
    for product in wanted:
        counters = await bench.multiply(product)
        cycles, most = counters["CYCLES"], most_cycles(bench.config, product)
        bench.check(cycles <= most, f"CYCLES is {cycles}, wanted at most {most} at full speed")


def _took(accepted: bool) -> str:
    return "accepted" if accepted else "refused"


async def says_what_it_is(bench: Bench) -> None:
    """Registers that describe the unit hold its constants."""
    for name, values in constants(bench.config).items():
        got, _ = await bench.ends.peek(REGISTERS[name].offset)
        want = word(REGISTERS[name], values)
        bench.check(got == want, f"{name} is 0x{got:08x}, wanted 0x{want:08x}")


async def interrupt(bench: Bench) -> None:
    """irq follows the enabled bits of STATUS."""
    dut, ends = bench.dut, bench.ends

    def level(want: int, when: str) -> None:
        bench.check(int(dut.irq.value) == want, f"irq is {1 - want} {when}")

    for enabled in (0, 1):
        await ends.write("IRQ_ENABLE", done=enabled)
        product = bench.product((1, 1), 1)
        await bench.begin(product)
        await ends.ended(bench.patience(product))
        level(enabled, f"after a job with done {'not ' * (not enabled)}enabled")
        await bench.finish(product)
        level(0, "after STATUS was cleared")
    for enabled in (0, 1):
        await ends.write("IRQ_ENABLE", error=enabled)
        await ends.write("K_BLOCKS", count=0)
        await ends.start()
        level(enabled, f"after an error with error {'not ' * (not enabled)}enabled")
        await ends.clear_status()
        level(0, "after STATUS was cleared")
    await ends.write("IRQ_ENABLE")


async def errors_stay(bench: Bench) -> None:
    """An error that nobody clears stays, and does not keep the next job from its end."""
    await bench.ends.write("K_BLOCKS", count=0)
    await bench.ends.start()
    product = bench.product()
    await bench.begin(product)
    await bench.finish(product, frozenset({"bad_shape"}))
