"""Bulk mode: records in a file, streamed through the unit without Python in the loop.

A kind's unit.py writes the records that its bench top reads, and says in a `Layout` where each port
is in them. `run` simulates. `read_results` reads what the bench top wrote, results of little-endian
32-bit words:

    write_records(records, ...)
    report = run(build, records, results)
    got = read_results(results)          # (results, words)
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..engine.verilator import ANY, Build, SimulationError


class Field(NamedTuple):
    """One port's bits in a record or a result."""

    port: str
    place: int
    bits: int


@dataclass(frozen=True)
class Layout:
    """Places of a unit's ports in records and results; bit 0 is the lowest.

    record_bytes: bytes of a record. words: 32-bit words of a result. inputs, outputs: the ports; a
    unit need not have them all. ends: the input that asks for a result, "" where every record does.
    ones: bits of a result that are always set. restarts: a record that follows one with a result
    may also be the first after a reset.
    """

    record_bytes: int
    inputs: tuple[Field, ...]
    words: int
    outputs: tuple[Field, ...]
    ends: str = ""
    ones: tuple[int, ...] = ()
    restarts: bool = False

    @property
    def parameters(self) -> dict[str, int]:
        """Parameters of the bench top: sizes, and `PORT_BITS` and `PORT_AT` of every port."""
        found = {"RECORD_BYTES": self.record_bytes, "RESULT_WORDS": self.words}
        for port, place, bits in (*self.inputs, *self.outputs):
            found |= {f"{port.upper()}_BITS": bits, f"{port.upper()}_AT": place}
        return found


def placed(ports: Sequence[tuple[str, int]], first: int = 0) -> tuple[Field, ...]:
    """Ports of these widths one after the other from bit `first` on."""
    fields = []
    for port, bits in ports:
        if bits:
            fields.append(Field(port, first, bits))
        first += bits
    return tuple(fields)


def in_bytes(ports: Sequence[tuple[str, int]], first: int = 0) -> tuple[tuple[Field, ...], int]:
    """Ports, each from a new byte on, and the byte after the last."""
    fields = []
    for port, bits in ports:
        if bits:
            fields.append(Field(port, 8 * first, bits))
        first += (bits + 7) // 8
    return tuple(fields), first


def packed(
    record_bytes: int, fields: Sequence[Field], columns: Mapping[str, NDArray[np.uint8]]
) -> bytes:
    """Records of these fields, as a bench top reads them.

    columns: by port, bytes (records, bytes) of its bits, the least significant first. The most
    significant byte of a record comes first in the file: $fread fills a vector in that order.
    """
    count = len(columns[fields[0].port])
    records = np.zeros((count, record_bytes), np.uint8)
    for port, place, bits in fields:
        first, shift = divmod(place, 8)
        column = columns[port][:, : (bits + 7) // 8]
        end = first + column.shape[1]
        records[:, first:end] |= column << np.uint8(shift)
        if shift:
            over = column[:, : record_bytes - first - 1] >> np.uint8(8 - shift)
            records[:, first + 1 : first + 1 + over.shape[1]] |= over
    return records[:, ::-1].tobytes()


def bytes_of(numbers: NDArray) -> NDArray[np.uint8]:
    """(records,) or (records, lanes) integers as (records, bytes), least significant byte first."""
    little = np.ascontiguousarray(numbers.astype(numbers.dtype.newbyteorder("<"), copy=False))
    return little.view(np.uint8).reshape(len(numbers), -1)


_STATUS = {
    1: "a record or result file cannot be opened",
    2: "{input} ends inside a record",
    3: "deadlock: no transfer for {timeout} cycles",
    4: "more results than dot products",
    5: "{input} cannot be read",
}


@dataclass(frozen=True)
class BulkReport:
    """Counts of one bulk run, made by the bench top."""

    blocks: int
    """Blocks that the unit accepted."""
    results: int
    """Results that it gave."""
    cycles: int
    """Clock cycles from the first offer to the last result."""
    seconds: float
    """Wall-clock time of these cycles, the simulator's start not included."""
    unit_seconds: float | None = None
    """Part of `seconds` in the unit's own logic, where the simulator tells it."""


class Streaming(Protocol):
    """A simulation that has bulk mode alone, of another simulator than Verilator."""

    def stream(
        self,
        records: Path,
        results: Path,
        *,
        gap: int,
        stall: int,
        seed: int,
        timeout: int,
        time_limit: float | None,
    ) -> dict[str, Any]:
        """Simulate as `run` does; fields of a `BulkReport` and a status, 0 or a number of
        `_STATUS`."""
        ...


def read_results(path: Path, words: int = 2) -> NDArray[np.uint32]:
    """The results of a bulk run, (n, words); SimulationError when the file ends inside one."""
    found = np.fromfile(path, np.uint8)
    if found.size % (4 * words):
        raise SimulationError(f"{path}: ends inside a result")
    return found.view("<u4").reshape(-1, words)


def run(
    build: "Build | Streaming",
    records: Path,
    results: Path,
    *,
    gap: int = 0,
    stall: int = 0,
    seed: int = 1,
    start: int = ANY,
    timeout: int = 10_000,
    waves: Path | None = None,
    time_limit: float | None = None,
) -> BulkReport:
    """Streams the records through the unit in a build of the bench top.

    `gap` and `stall` are the chances, in 1/256 per cycle, that the input is withheld and that the
    output is not taken; `start` is what registers start with in Verilator. SimulationError when
    the unit makes no transfer for `timeout` cycles, or when a file is unusable. The log is kept
    next to the results.
    """
    check_chances(gap, stall)
    options: dict[str, Any] = {"gap": gap, "stall": stall, "seed": seed, "timeout": timeout}
    options["time_limit"] = time_limit
    if not isinstance(build, Build):
        counts = build.stream(records, results, **options)
        return BulkReport(**checked(counts, _STATUS, results, input=records, timeout=timeout))
    files = {"input": records.resolve(), "output": results.resolve()}
    options |= {"start": start, "waves": waves}
    return BulkReport(**simulate(build, results, _STATUS, files, **options))


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
    start: int = ANY,
    timeout: int,
    waves: Path | None,
    time_limit: float | None,
) -> dict[str, Any]:
    """Run bulk mode of any bench top; its counts, and the seconds it took.

    The log goes next to `path`. options: of the bench top, without `bulk_`. reasons: meaning of
    each status except 0, as format strings of options. SimulationError gives the reason.
    """
    options = dict(options, gap=gap, stall=stall, seed=seed, timeout=timeout)
    log = build.run_alone(
        path.with_name(f"{path.name}.log"),
        {f"bulk_{name}": value for name, value in options.items()},
        seed=seed,
        start=start,
        waves=waves,
        time_limit=time_limit,
    )
    found = dict(re.findall(r"^bulk (\w+) (\S+)$", log, re.MULTILINE))
    if not {"status", "seconds"} <= found.keys():
        raise SimulationError(f"bulk run of {path}: broke off without a report\n{log}")
    seconds = float(found.pop("seconds"))
    counts = {name: int(value) for name, value in found.items()}
    return checked(counts | {"seconds": seconds}, reasons, path, **options)


def checked(
    counts: dict[str, Any], reasons: Mapping[int, str], path: Path, **options: object
) -> dict[str, Any]:
    """The counts of a run without its status; SimulationError gives the reason of a status other
    than 0."""
    status = counts.pop("status")
    if status:
        whole = {name: count for name, count in counts.items() if "seconds" not in name}
        counted = ", ".join(f"{count} {name}" for name, count in whole.items())
        reason = reasons[status].format(**options)
        raise SimulationError(f"bulk run of {path}: {reason} after {counted}")
    return counts
