"""The simulation of a matrix unit: bench top, files of bulk mode, and runner.

Bulk mode streams a job's packets without Python in the loop. Its files lie next to each other under
one name and a suffix:

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
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...model.trace import FLAG_NAMES
from ...model.units.matmul.config import MatmulConfig
from ...model.units.matmul.registers import ADDRESS_BITS, COUNTERS, REGISTERS, fields, word
from ...util.data.tensors import load_tensors, modes_taking
from ..bench.bulk import check_chances, read_results, simulate
from ..engine import verilator
from ..engine.job import Failure, UnitJob
from ..engine.unit import (
    TIME_LIMIT,
    WAVES_LIMIT,
    Progress,
    UnitResult,
    assertions_of,
    run_cycles,
    verilog_of,
)
from ..engine.verilator import ANY, ONES, ZEROS, Build, SimulationError
from .item import Product, compare, describe
from .stimulus import (
    CYCLES,
    LEFT,
    PEELED,
    STAIRS,
    block_counts,
    least_cycles,
    level_products,
    random_product,
    real_product,
    shapes,
    total_cycles,
)

BENCH = Path(__file__).with_name("bench.sv")
PUBLIC = BENCH.with_name("counters.vlt")
LARGE = 16  # dot units from which on the build of each by itself takes too long


def build_matmul(
    config: MatmulConfig,
    verilog: Path,
    directory: Path,
    *,
    executable: Path | None = None,
    waves: bool = False,
    coverage: bool = False,
    assertions: Path | None = None,
) -> verilator.Build:
    """A simulation of the unit in the bench top."""
    return verilator.build(
        verilog,
        verilator.MATMUL_BENCH_TOP,
        directory,
        extra_sources=[BENCH],
        assertions=assertions,
        public_vlt=PUBLIC,
        parameters={f"{side.upper()}_BYTES": config.stream_bytes(side) for side in "abcd"}
        | {"ADDRESS_BITS": ADDRESS_BITS},
        separate=shared_modules(config, verilog.read_text()),
        waves=waves,
        coverage=coverage,
        executable=executable,
    )


def shared_modules(config: MatmulConfig, verilog: str) -> list[str]:
    """The module of the dot units; the array has one for each result of a tile.

    None of them where there are few.
    """
    from ...hw.verilog import modules_of  # Amaranth: only when a unit is built

    if config.rows * config.columns < LARGE:
        return []
    return [name for name in modules_of(verilog) if "_dot_unit" in name][:1]


Watched = Callable[[int, int], None]
"""Called with the bytes of C so far, and those of the whole packet."""

_STATUS = {
    1: "a file cannot be opened",
    2: "an operand file is too short",
    3: "no transfer for {timeout} cycles",
    4: "a line of the program is not understood",
    5: "an access to a register was refused",
    6: "an operand file cannot be read",
}
_READ = ["STATUS", "FLAGS", *COUNTERS, *(f"{name}_HIGH" for name in COUNTERS)]
"""Registers that are read in the end, in their order."""
_WATCH = 0.5  # seconds between looks at the growing file


@dataclass(frozen=True)
class BulkRun:
    """Results of one job in bulk mode.

    packet: of C. counters: by name. flags: FLAG_NAMES[i] in bit i. seconds: wall-clock time of the
    simulation, without the simulator's start.
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
    start: int = ANY,
    timeout: int = 100_000,
    keep: bool = False,
    waves: Path | None = None,
    time_limit: float | None = None,
    progress: Watched | None = None,
) -> BulkRun:
    """Streams a job through the unit in a build of the bench top.

    `gap` and `stall` are the chances, in 1/256 per cycle, that a stream of operands offers nothing
    new and that C is not taken; `start` is what registers start with. SimulationError when nothing
    moves for `timeout` cycles, a file is unusable or ends early, or STATUS shows an error
    afterwards. The files go away when the job is done, unless `keep`.
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
            start=start,
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
    """Values by register, from the whole lines that the bench top wrote."""
    names = {register.offset: name for name, register in REGISTERS.items()}
    *lines, _ = file.read_text().split("\n")
    pairs = [line.split() for line in lines]
    values = {names[int(address, 16)]: int(value, 16) for address, value in pairs}
    missing = next((name for name in _READ if name not in values), None)
    if missing:
        raise SimulationError(f"{file}: ends before the value of {missing}")
    return values


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


BULK_GAP, BULK_STALL = 16, 16  # chances in 256 per cycle
BULK_BLOCKS = {"wide": 48, PEELED: 6, STAIRS: 6, LEFT: 3}
"""Blocks of K of the random products, by kind of operands."""
MOST_ROWS = 10_000
"""Rows of a product whose columns are alike."""
BULK_SHARE = 1 / 4
"""Share of the results that are asked for, per kind."""
STARTS = (ONES, ZEROS, ANY)
"""Values that registers start with, in products in turn."""
BULK_COST = 300_000_000  # of a product, as `_cost`: what costs more has fewer results
BULK_COST_PER_RESULT = 10_000  # the same where very many results are asked for
TEST = "mxdot.sim.matmul.unit_test"


def run(job: UnitJob, progress: Progress, result: UnitResult) -> None:
    """Simulate; the outcome goes to `result`."""
    progress("verilog")
    verilog = verilog_of(job)
    progress("build")
    build = build_matmul(
        job.config,
        verilog,
        job.build_directory / "build",
        executable=job.directory / "sim",
        waves=job.waves,
        coverage=job.coverage,
        assertions=assertions_of(job),
    )
    failures: list[Failure] = []
    if job.traffic:
        progress("traffic")
        work = total_cycles(job.config, shapes(job.config)) / CYCLES
        size = job.config.rows * job.config.columns / 64  # the default unit's
        limit = TIME_LIMIT * max(1, work) * max(1, size)
        failures = run_cycles(job, build, result, TEST, limit)
    try:
        if job.bulk:
            progress("bulk")
            failures += _run_bulk(job, build, result)
    finally:  # a deadlock in bulk mode does not hide what was found before
        if failures and job.explains:
            first = failures[0]
            lines, waves = first.item["lines"], first.item.get("waves")
            result.report = job.report(f"{first.where}: result differs", lines, waves)


def _run_bulk(job: UnitJob, build: verilator.Build, result: UnitResult) -> list[Failure]:
    """Run products of `job.bulk` results and more, those of real tensors first."""
    failures: list[Failure] = []
    seconds, compared = 0.0, 0
    recorded = job.waves and job.bulk <= WAVES_LIMIT
    for number, product in enumerate(bulk_products(job)):
        where = f"bulk, product {number} ({product.name}), (M, N, K) = {product.shape}"
        waves = f"bulk{number}.fst"
        try:
            ran = run_bulk(
                build,
                job.config,
                product,
                job.directory / f"bulk{number}",
                gap=BULK_GAP,
                stall=BULK_STALL,
                seed=job.seed % 2**31,
                start=STARTS[number % len(STARTS)],
                keep=job.waves,
                waves=job.directory / waves if recorded else None,
                time_limit=TIME_LIMIT,
            )
        except verilator.SimulationError as error:
            raise verilator.SimulationError(f"{where}: {error}") from None
        want = job.predict()(job.config, product)
        wrong = compare(job.config, product, ran.packet, want)
        if wrong is not None:
            result.mismatches += wrong.count
            result.errors.append(f"{where}: {wrong.count} results differ from the model's")
            item = {"lines": describe(job.config, product, wrong), "waves": waves}
            failures.append(Failure(item, [wrong.got], [wrong.want], where))
        if ran.flags != want.flags:
            result.errors.append(f"{where}: FLAGS are {ran.flags:05b}, wanted {want.flags:05b}")
        seconds, compared = seconds + ran.seconds, compared + want.result.size
    result.compared += compared
    result.bulk_rate = compared / max(seconds, 1e-9)
    return failures


def bulk_products(job: UnitJob) -> list[Product]:
    """The tensors' product, whole or a slice, of each kind of BULK_BLOCKS one in every mode, and
    those at one level."""
    config: MatmulConfig = job.config
    modes = range(len(config.dot.formats))
    products = []
    if job.tensors is not None:
        x, y = load_tensors(job.tensors, job.tensor_names)
        blocks = -(-x.shape[1] // config.dot.lanes)
        limit = None if job.all_tensors else _side(config, job.bulk / 2, blocks)
        mode = modes_taking(config.dot, x, y)[0]
        products.append(real_product(config, mode, x[:limit], y[:limit]))
    rng = job.rng("bulk")
    results = job.bulk * BULK_SHARE / len(modes)
    for kind, blocks in BULK_BLOCKS.items():
        side = _side(config, results, blocks)
        m, n = side, side
        if kind == LEFT:  # its columns are alike
            m, n = min(max(1, side * side // config.columns), MOST_ROWS), config.columns
        products += [random_product(config, rng, mode, m, n, blocks, kind) for mode in modes]
    products += level_products(config, rng)
    longest = block_counts(config)[-1]
    tile = config.rows, config.columns
    driven = {blocks for _, blocks in shapes(config)}
    if longest not in driven and _cost(config, *tile, longest) <= BULK_COST:
        products.append(random_product(config, rng, 0, *tile, longest))
    return products


def _side(config: MatmulConfig, results: float, blocks: int) -> int:
    """M and N of a product of this many results, or fewer where those cost too much."""

    def cost(side: int) -> int:
        return _cost(config, side, side, blocks)

    wanted = range(1, int(results**0.5) + 1)
    return max(1, bisect_right(wanted, max(BULK_COST, BULK_COST_PER_RESULT * results), key=cost))


def _cost(config: MatmulConfig, m: int, n: int, blocks: int) -> int:
    """Cycles of a product times lanes of the array, by which the time of its simulation grows."""
    cycles = least_cycles(config, config.tiles(m, n, blocks * config.dot.lanes))
    return cycles * config.rows * config.columns * config.dot.lanes
