"""The simulation of a dot unit: bench top, records of bulk mode, and runner.

A record is one block. Its fields, each of whole bytes, from the last byte of the record to the
first: a, b (element i in the bits from i * width on), scale_a, scale_b, c (32 bits), control
(bit 0 first, bit 1 last, bits 2 to 7 mode), and densely the unit's side inputs and the slot, where
it has any. The most significant byte comes first in the file because $fread fills a vector in that
order.

A result is two words: the result bits (a 16-bit format leaves the high half zero), then the flags
(`model.trace.FLAG_NAMES` from bit 0 up; the slot from bit 8 up).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...model import DotConfig
from ...model.packing import pack_rows
from ...model.trace import FLAG_NAMES
from ...util.files import replacing
from ..bench.bulk import Field, Layout, bytes_of, in_bytes, packed, placed
from ..engine.job import Failure, UnitJob
from ..engine.stream_unit import StreamUnit, in_groups
from ..engine.verilator import SimulationError
from . import failures
from .item import Batch, DotResults, Turns, batch_of, concatenate, plain, product_of, products
from .stimulus import traffic
from .tensors import tensor_traffic

BENCH = Path(__file__).with_name("bench.sv")
PROBES = BENCH.with_name("probes.vlt")
"""The stages, made public."""
TENSOR_BLOCKS = 25_000  # of real tensors in bulk mode, unless all are asked for
MAX_MODES = 64
SLOT_PLACE = 8
"""Lowest bit of the slot in the word of flags."""
_CHUNK = 1 << 15  # blocks converted at a time, to bound the memory used for single bits


def record_layout(config: DotConfig) -> tuple[int, tuple[Field, ...]]:
    """Bytes of a record, and the places of the inputs in it."""
    lanes, side = config.lanes, {f"in_{name}": bits for name, bits in config.side_inputs.items()}
    scale_bits = config.scale_blocks * config.scale_bits
    return _record_layout(
        config.bits_a * lanes,
        config.bits_b * lanes,
        scale_bits,
        config.mode_bits,
        [*side.items(), ("in_slot", config.slot_bits)],
    )


def _record_layout(
    a_bits: int, b_bits: int, scale_bits: int, mode_bits: int, side: Sequence[tuple[str, int]]
) -> tuple[int, tuple[Field, ...]]:
    """The layout of inputs of these widths."""
    fields, size = in_bytes([("in_a", a_bits), ("in_b", b_bits)])
    for port in ("in_scale_a", "in_scale_b"):  # a byte also where there are none
        more, end = in_bytes([(port, scale_bits)], size)
        fields, size = fields + more, max(end, size + 1)
    more, size = in_bytes([("in_c", 32)], size)
    control = placed([("in_first", 1), ("in_last", 1), ("in_mode", mode_bits)], 8 * size)
    dense = placed(side, 8 * size + 8)
    bits = sum(width for _, width in side)
    return size + 1 + (bits + 7) // 8, fields + more + control + dense


def layout(config: DotConfig) -> Layout:
    """Places of a dot unit's ports in records and results."""
    size, inputs = record_layout(config)
    flags = [(f"out_{name}", 1) for name in FLAG_NAMES]
    outputs = placed([("out_result", config.out.bits)]) + placed(flags, 32)
    slot = placed([("out_slot", config.slot_bits)], 32 + SLOT_PLACE)
    restarts = not config.slot_bits
    return Layout(size, inputs, 2, outputs + slot, ends="in_last", restarts=restarts)


def write_products(
    path: Path,
    config: DotConfig,
    batches: Sequence[Batch],
    order: NDArray[np.int64],
    turns: Turns | None = None,
) -> None:
    """Write the records of all blocks, the batches' dot products in the given order.

    They are sent one after the other, or in `turns`, in which places count in that order.
    """
    lengths = np.concatenate([np.full(len(batch), batch.blocks) for batch in batches])
    starts = np.cumsum(lengths) - lengths
    lengths, starts = lengths[order], starts[order]
    place, step, slot = turns or Turns.one_by_one(lengths)
    index = starts[place] + step

    def blocks(name: str) -> NDArray:
        parts = [getattr(batch, name) for batch in batches]
        return np.concatenate([p.reshape(-1, *p.shape[2:]) for p in parts])[index]

    def side(name: str) -> NDArray[np.uint64]:
        return np.concatenate([batch.side[name].reshape(-1) for batch in batches])[index]

    c = np.concatenate([batch.c for batch in batches])[order]
    mode = np.concatenate([np.full(len(batch), batch.mode) for batch in batches])[order]
    columns = [(side(name), bits) for name, bits in config.side_inputs.items()]
    if config.slot_bits:
        columns.append((slot[place].astype(np.uint64), config.slot_bits))
    write_records(
        path,
        blocks("a"),
        blocks("b"),
        blocks("scale_a"),
        blocks("scale_b"),
        c[place],
        step == 0,
        step == lengths[place] - 1,
        mode[place],
        a_bits=config.bits_a,
        b_bits=config.bits_b,
        scale_bits=config.scale_bits,
        side=columns,
    )


def write_records(
    path: Path,
    a: NDArray,
    b: NDArray,
    scale_a: ArrayLike,
    scale_b: ArrayLike,
    c: ArrayLike,
    first: ArrayLike,
    last: ArrayLike,
    mode: ArrayLike = 0,
    *,
    a_bits: int = 8,
    b_bits: int = 8,
    scale_bits: int = 8,
    side: Sequence[tuple[NDArray[np.uint64], int]] = (),
) -> None:
    """Writes one record per block.

    a, b: element codes (blocks, lanes), of `a_bits` and `b_bits`. The others are (blocks,), or one
    value for all. scale_a, scale_b: scale codes; several per block are (blocks, scales) of
    `scale_bits` bits. c: its bits (uint32). first, last: booleans. mode: the number of the format
    pair. side: bits (blocks,) and width of each side input, in the order of
    `DotConfig.side_inputs`, then the slot.
    """
    if a.ndim != 2 or a.shape != b.shape:
        raise ValueError(f"a and b must be (blocks, lanes) alike, not {a.shape} and {b.shape}")
    mode = np.asarray(mode)
    if mode.size and not 0 <= mode.min() <= mode.max() < MAX_MODES:
        raise ValueError(f"mode must be from 0 to {MAX_MODES - 1}, not {mode.max()}")
    scales = [np.asarray(scale, "u1") for scale in (scale_a, scale_b)]
    codes = {"in_a": (a, a_bits), "in_b": (b, b_bits)}
    numbers: dict[str, NDArray] = {"in_c": np.asarray(c, "<u4"), "in_mode": mode.astype("u1")}
    for port, scale in zip(("in_scale_a", "in_scale_b"), scales, strict=True):
        if scale.ndim == 2:
            codes[port] = scale, scale_bits
        else:
            numbers[port] = scale
    numbers |= {
        port: np.asarray(mark, bool) for port, mark in (("in_first", first), ("in_last", last))
    }
    numbers |= {f"side{i}": bits.astype("<u8") for i, (bits, _) in enumerate(side)}
    numbers = {port: np.broadcast_to(column, len(a)) for port, column in numbers.items()}
    lanes = a.shape[1]
    size, fields = _record_layout(
        a_bits * lanes,
        b_bits * lanes,
        max(scale.shape[1] * scale_bits if scale.ndim == 2 else 8 for scale in scales),
        MAX_MODES.bit_length() - 1,
        [(f"side{i}", width) for i, (_, width) in enumerate(side)],
    )
    with replacing(path) as part, part.open("wb") as file:
        for start in range(0, len(a), _CHUNK):
            rows = slice(start, start + _CHUNK)
            columns = {port: _pack(of[rows], width) for port, (of, width) in codes.items()}
            columns |= {port: bytes_of(column[rows]) for port, column in numbers.items()}
            file.write(packed(size, fields, columns))


def _pack(codes: NDArray, width: int) -> NDArray[np.uint8]:
    """(blocks, lanes) codes to (blocks, bytes), element i in the bits from i * width on."""
    return codes if width == 8 else pack_rows(codes, width)


class DotStream(StreamUnit):
    """A `DotUnit`; an item is a dot product, replayed alone when it comes out wrong."""

    failures = failures
    bench, module = BENCH, "mxdot_dot"

    def layout(self) -> Layout:
        return layout(self.config)

    def batches(self) -> list[Batch]:
        """Every sequence, and real tensors; a batch per mode and number of blocks."""
        job = self.job
        made = traffic(self.config, job.rng("bulk"), job.bulk)
        return concatenate(made + tensor_traffic(job, None if job.all_tensors else TENSOR_BLOCKS))

    def arranged(self, batches: Sequence[Batch], order: NDArray[np.int64]) -> NDArray[np.int64]:
        """The order by ends: of dot products in flight together, the first to end comes first."""
        lengths = np.concatenate([np.full(len(batch), batch.blocks) for batch in batches])
        turns = Turns.mixed(lengths[order], self.config.interleave, self.job.rng("bulk turns"))
        by_end, self.turns = turns.by_end()
        return order[by_end]

    def write(self, path: Path, batches: Sequence[Batch], order: NDArray[np.int64]) -> None:
        write_products(path, self.config, batches, order, self.turns)

    def words(self, outcome: DotResults) -> NDArray[np.uint32]:
        return np.stack([outcome.result, outcome.flags.astype(np.uint32)], axis=1)

    def placed_words(self, words: NDArray[np.uint32]) -> NDArray[np.uint32]:
        slots = self.turns.slot.astype(np.uint32) << np.uint32(SLOT_PLACE)
        return np.stack([words[:, 0], words[:, 1] | slots], axis=1)

    def result(self, words: NDArray[np.uint32]) -> list[int]:
        bits, flags = words.tolist()
        slot = [flags >> SLOT_PLACE] if self.config.slot_bits else []
        return [bits, flags & (1 << SLOT_PLACE) - 1, *slot]

    def plain(self, batch: Batch, place: int) -> dict[str, Any]:
        (product,) = products(self.config, batch)
        return plain(replace(product, slot=int(self.turns.slot[place])))

    def gathered(self, items: Sequence[Mapping[str, Any]]) -> tuple[list[Batch], list[int]]:
        made = [product_of(item) for item in items]
        groups, places = in_groups(made, lambda item: (item.mode, len(item.blocks)))
        return [batch_of(self.config, group) for group in groups], places

    def report(self, verilog: Path, failure: Failure) -> str:
        return failures.describe_failure(self.job, failure, lambda: replay(self.job, verilog))


def replay(job: UnitJob, verilog: Path) -> dict[str, Any]:
    """Simulate the product in failure.json alone, in a build whose stages can be watched."""
    probed = {"executable": job.directory / "sim-probed", "public_vlt": PROBES}
    build = DotStream(job).bench_build(verilog, "probed", optimize=False, **probed)
    record = job.directory / "replay.json"
    record.unlink(missing_ok=True)
    run = build.run(
        "mxdot.sim.dot.replay_test",
        results_xml=job.directory / "replay.xml",
        env={
            "MXDOT_JOB": str(job.write()),
            "MXDOT_REPLAY": str(failures.failure_file(job).resolve()),
            "MXDOT_RECORD": str(record.resolve()),
        },
        waves=failures.waves_file(job) if job.waves else None,
        time_limit=120,
    )
    if not record.is_file():
        raise SimulationError(f"no record (log: {run.log_file})")
    return json.loads(record.read_text())
