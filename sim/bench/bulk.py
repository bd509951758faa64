"""Bulk mode: operand records in a file, streamed through the unit without Python in the loop.

`write_records` writes what the bench top (bench/bench.sv) reads, `run` simulates, and
`read_results` reads what the bench top wrote:

    write_records(records, a, b, scale_a, scale_b, c, first, last, a_bits=8, b_bits=8)
    report = run(build, records, results)
    got = read_results(results)          # (dot products, 2): result bits, flags

A record is one block. Its fields, each of whole bytes, from the last byte of the record to the
first: a, b (element i in the bits from i * width on), scale_a, scale_b, c (32 bits), control
(bit 0 first, bit 1 last, bits 2 to 7 mode), and densely the unit's side inputs and the slot, where
it has any.
The most significant byte comes first in the file because that is the order in which $fread fills a
vector.

A result is of little-endian 32-bit words: the result bits (a 16-bit format leaves the high half
zero), then a word of flags (`model.trace.FLAG_NAMES` from bit 0 up; the slot from bit 8 up).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..engine.files import beside
from ..engine.verilator import Build, SimulationError

MAX_MODES = 64

_CHUNK = 1 << 15  # blocks converted at a time, to bound the memory used for single bits

_STATUS = {
    1: "a record or result file cannot be opened",
    2: "the record file ends inside a record",
    3: "deadlock: no transfer for {timeout} cycles",
    4: "more results than dot products",
}


@dataclass(frozen=True)
class BulkReport:
    """Counts of one bulk run, made by the bench top."""

    blocks: int
    """Blocks that the unit accepted."""
    results: int
    """Results that it gave, one per dot product."""
    cycles: int
    """Clock cycles from the first offer to the last result."""
    seconds: float
    """Wall-clock time of these cycles, the simulator's start not included."""


def write_records(
    path: Path,
    a: NDArray[np.uint8],
    b: NDArray[np.uint8],
    scale_a: ArrayLike,
    scale_b: ArrayLike,
    c: ArrayLike,
    first: ArrayLike,
    last: ArrayLike,
    mode: ArrayLike = 0,
    *,
    a_bits: int = 8,
    b_bits: int = 8,
    side: Sequence[tuple[NDArray[np.uint64], int]] = (),
) -> None:
    """Writes one record per block.

    `a` and `b` are element codes of shape (blocks, lanes); the others are of shape (blocks,) or
    one value for all: scale codes, the bits of c (uint32), two booleans, and the mode number.
    `a_bits` and `b_bits` are the widths of the unit's element inputs. side: for each side input,
    in the order of the bench top's parameters, its bits (blocks,) and its width.
    """
    if a.ndim != 2 or a.shape != b.shape:
        raise ValueError(f"a and b must be (blocks, lanes) alike, not {a.shape} and {b.shape}")
    mode = np.asarray(mode)
    if mode.size and not 0 <= mode.min() <= mode.max() < MAX_MODES:
        raise ValueError(f"mode must be from 0 to {MAX_MODES - 1}, not {mode.max()}")
    control = mode << 2 | np.asarray(last, bool) << 1 | np.asarray(first, bool)
    columns = [
        np.broadcast_to(np.asarray(column, dtype), len(a))
        for column, dtype in [(scale_a, "u1"), (scale_b, "u1"), (c, "<u4"), (control, "u1")]
    ]
    with beside(path) as part, part.open("wb") as file:
        for start in range(0, len(a), _CHUNK):
            rows = slice(start, start + _CHUNK)
            fields = [_pack(a[rows], a_bits), _pack(b[rows], b_bits)]
            fields += [_bytes_of(column[rows]) for column in columns]
            if side:
                fields.append(_dense([(bits[rows], width) for bits, width in side]))
            np.concatenate(fields, axis=1)[:, ::-1].tofile(file)


def read_results(path: Path, words: int = 2) -> NDArray[np.uint32]:
    """The results of a bulk run, (n, words); ValueError when the file ends inside one."""
    found = np.fromfile(path, np.dtype("<u4"))
    if 4 * found.size != path.stat().st_size or found.size % words:
        raise ValueError(f"{path} ends inside a result")
    return found.reshape(-1, words)


def run(
    build: Build,
    records: Path,
    results: Path,
    *,
    gap: int = 0,
    stall: int = 0,
    seed: int = 1,
    timeout: int = 10_000,
    waves: Path | None = None,
    time_limit: float | None = None,
) -> BulkReport:
    """Streams the records through the unit in a build of the bench top.

    `gap` and `stall` are the chances, in 1/256 per cycle, that the input is withheld and that the
    output is not taken. SimulationError when the unit makes no transfer for `timeout` cycles, or
    when a file is unusable; the log is kept beside the results.
    """
    check_chances(gap, stall)
    counts = simulate(
        build,
        results,
        _STATUS,
        {"input": records.resolve(), "output": results.resolve()},
        gap=gap,
        stall=stall,
        seed=seed,
        timeout=timeout,
        waves=waves,
        time_limit=time_limit,
    )
    return BulkReport(**counts)


def check_chances(gap: int, stall: int) -> None:
    """ValueError unless both are chances in 1/256."""
    for name, value in (("gap", gap), ("stall", stall)):
        if not 0 <= value < 256:
            raise ValueError(f"{name} must be from 0 to 255, not {value}")


def simulate(
    build: Build,
    path: Path,
    reasons: Mapping[int, str],
    options: Mapping[str, object],
    *,
    gap: int,
    stall: int,
    seed: int,
    timeout: int,
    waves: Path | None,
    time_limit: float | None,
) -> dict[str, Any]:
    """Bulk mode of any bench top: what it counted, and the seconds it took.

    Its log and reports go beside `path`. reasons: what each status but 0 means, as format strings
    with {timeout}. options: of the bench top, without `bulk_`. SimulationError gives the reason.
    """
    report = path.with_name(f"{path.name}.json")
    report.unlink(missing_ok=True)
    options = dict(options, gap=gap, stall=stall, seed=seed, timeout=timeout)
    build.run(
        "mxdot.sim.bench.bulk_test",
        results_xml=path.with_name(f"{path.name}.xml"),
        log_file=path.with_name(f"{path.name}.log"),
        env={"MXDOT_BULK_REPORT": str(report.resolve())},
        plusargs={f"bulk_{name}": value for name, value in options.items()},
        waves=waves,
        time_limit=time_limit,
    )
    counts = json.loads(report.read_text())
    status = counts.pop("status")
    if status:
        counts.pop("seconds")
        counted = ", ".join(f"{count} {name}" for name, count in counts.items())
        reason = reasons[status].format(timeout=timeout)
        raise SimulationError(f"bulk run of {path}: {reason} after {counted}")
    return counts


def _pack(codes: NDArray[np.uint8], width: int) -> NDArray[np.uint8]:
    """(blocks, lanes) codes to (blocks, bytes), element i in the bits from i * width on."""
    if width == 8:
        return codes
    bits = np.unpackbits(codes[:, :, None], axis=2, count=width, bitorder="little")
    return np.packbits(bits.reshape(len(codes), -1), axis=1, bitorder="little")


def _dense(columns: Sequence[tuple[NDArray[np.uint64], int]]) -> NDArray[np.uint8]:
    """(blocks,) integers of their widths, one behind the other, to (blocks, bytes)."""
    bits = [
        np.unpackbits(_bytes_of(column.astype("<u8")), axis=1, count=width, bitorder="little")
        for column, width in columns
    ]
    return np.packbits(np.concatenate(bits, axis=1), axis=1, bitorder="little")


def _bytes_of(column: NDArray) -> NDArray[np.uint8]:
    """(blocks,) integers to (blocks, bytes), least significant byte first."""
    return np.ascontiguousarray(column).view(np.uint8).reshape(len(column), -1)
