"""Bulk mode: a job's packets in files, streamed through the unit without Python in the loop.

    run = run_bulk(build, config, product, Path("build/product"))
    run.packet, run.counters, run.flags

The files, beside each other under the name that is given and a suffix:

====================  ===========================================================================
file                  content
====================  ===========================================================================
``.a``, ``.b``        a packet in beats of the stream's width, the most significant byte of each
``.d``                first, as $fread fills a vector; the last one filled up with zeros
``.c``                beats of C in whole little-endian words, and after each one a word: how many
                      of its bytes there are
``.program``          register accesses, one a line: ``w ADDRESS DATA``, ``r ADDRESS`` in
                      hexadecimal; ``s`` streams until C has ended
``.registers``        ``ADDRESS DATA`` for each read
====================  ===========================================================================
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...model.trace import FLAG_NAMES
from ...model.units.matmul.config import MatmulConfig
from ...model.units.matmul.registers import COUNTERS, REGISTERS, fields, word
from ..bench.bulk import check_chances, read_results, simulate
from ..engine.verilator import Build, SimulationError
from .item import Product

Watched = Callable[[int, int], None]
"""Called with the bytes of C that have come, and those of the whole packet."""

_STATUS = {
    1: "a file cannot be opened",
    2: "an operand file is too short",
    3: "no transfer for {timeout} cycles",
    4: "a line of the program is not understood",
    5: "an access to a register was refused",
    6: "an operand file cannot be read",
}
_READ = ["STATUS", "FLAGS", *COUNTERS, *(f"{name}_HIGH" for name in COUNTERS)]
"""The registers that are read in the end, in their order."""
_WATCH = 0.5  # seconds between looks at the growing file


@dataclass(frozen=True)
class BulkRun:
    """What one job in bulk mode gave.

    packet: of C. counters: by name. flags: FLAG_NAMES[i] in bit i. seconds: wall-clock time of the
    simulation, the simulator's start not included.
    """

    packet: bytes
    counters: dict[str, int]
    flags: int
    seconds: float


def run_bulk(
    build: Build,
    config: MatmulConfig,
    product: Product,
    path: Path,
    *,
    gap: int = 0,
    stall: int = 0,
    seed: int = 1,
    timeout: int = 100_000,
    keep: bool = False,
    waves: Path | None = None,
    time_limit: float | None = None,
    progress: Watched | None = None,
) -> BulkRun:
    """Streams a job through the unit in a build of the bench top.

    `gap` and `stall` are the chances, in 1/256 per cycle, that a stream of operands offers nothing
    new and that C is not taken. SimulationError when nothing moves for `timeout` cycles, a file is
    unusable or ends early, or STATUS shows an error afterwards. The files go away when the job is
    done, unless `keep`.
    """
    check_chances(gap, stall)
    path.parent.mkdir(parents=True, exist_ok=True)
    files = {name: _file(path, name) for name in ("a", "b", "c", "d", "program", "registers")}
    packets = product.packets(config)
    for side, packet in packets.items():
        _beats(packet, config.stream_bytes(side)).tofile(files[side])
    files["program"].write_text(_program(product.words(config)))
    files["c"].unlink(missing_ok=True)
    size = config.bytes_of("c", product.tiles(config))
    with _watching(files["c"], size, config.c_bytes, progress):
        seconds = simulate(
            build,
            path,
            _STATUS,
            {name: file.resolve() for name, file in files.items()}
            | {f"{side}_bytes": len(packet) for side, packet in packets.items()},
            gap=gap,
            stall=stall,
            seed=seed,
            timeout=timeout,
            waves=waves,
            time_limit=time_limit,
        )["seconds"]
    registers = _registers(files["registers"])
    status = fields(REGISTERS["STATUS"], registers["STATUS"])
    if [name for name, value in status.items() if value] != ["done"]:
        raise SimulationError(f"bulk run of {path}: STATUS is {status}")
    packet = _packet(files["c"], config.c_bytes)
    if len(packet) != size:
        raise SimulationError(f"{files['c']}: {len(packet)} bytes of C, wanted {size}")
    if not keep:
        for file in files.values():
            file.unlink(missing_ok=True)
    counters = {name: registers[name] | registers[f"{name}_HIGH"] << 32 for name in COUNTERS}
    raised = fields(REGISTERS["FLAGS"], registers["FLAGS"])
    flags = sum(raised[name] << i for i, name in enumerate(FLAG_NAMES))
    return BulkRun(packet, counters, flags, seconds)


def _file(path: Path, name: str) -> Path:
    return path.with_name(f"{path.name}.{name}")


def _beats(packet: bytes, width: int) -> np.ndarray:
    """(beats, width), the most significant byte first."""
    data = np.zeros(-(-len(packet) // width) * width, np.uint8)
    data[: len(packet)] = np.frombuffer(packet, np.uint8)
    return data.reshape(-1, width)[:, ::-1]


def _packet(file: Path, width: int) -> bytes:
    """The packet of C, from the beats that the bench top wrote."""
    words = -(-width // 4)
    beats = read_results(file, words + 1)
    data = beats.view(np.uint8)[:, :width]
    return data[np.arange(width) < beats[:, words:]].tobytes()


def _program(words: dict[str, dict[str, int]]) -> str:
    """Describe the job, start it, stream, and read everything."""
    words = words | {"CONTROL": {"start": 1}}
    lines = [
        f"w {REGISTERS[name].offset:x} {word(REGISTERS[name], values):x}"
        for name, values in words.items()
    ]
    lines += ["s", *(f"r {REGISTERS[name].offset:x}" for name in _READ)]
    return "\n".join([*lines, ""])


def _registers(file: Path) -> dict[str, int]:
    """What was read, by register, from the whole lines that the bench top wrote."""
    names = {register.offset: name for name, register in REGISTERS.items()}
    *lines, _ = file.read_text().split("\n")
    pairs = [line.split() for line in lines]
    found = {names[int(address, 16)]: int(value, 16) for address, value in pairs}
    missing = next((name for name in _READ if name not in found), None)
    if missing:
        raise SimulationError(f"{file}: ends before the value of {missing}")
    return found


@contextmanager
def _watching(file: Path, size: int, width: int, progress: Watched | None) -> Iterator[None]:
    """Tell `progress` how the file of C grows."""
    if progress is None:
        yield
        return
    stop = threading.Event()
    share = width / (4 * (-(-width // 4) + 1))

    def watch() -> None:
        while not stop.wait(_WATCH):
            there = file.stat().st_size if file.is_file() else 0
            progress(min(round(there * share), size), size)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    progress(size, size)
