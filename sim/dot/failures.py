"""Failures of dot products: simpler ones that still fail, and the report."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from ...model import E8M0, DotConfig
from ...model.formats import E4M3
from ...model.trace import FLAG_NAMES
from ..engine.job import Failure, UnitJob
from ..engine.stream_unit import fewer_ones, parts
from ..engine.toolchain import BuildError
from ..engine.verilator import SimulationError
from .features import pair_name
from .item import batch_of, model_trace, outcome, product_of
from .stages import SectionRow, compare_stages

Product = dict[str, Any]
Lane = tuple[int, int]
"""A block and a lane of it."""

ONE_C = 0x3F800000
FIRST_SCALE, FIRST_SIDE = 2, 4  # places in a block


def simpler(config: DotConfig, product: Product) -> Iterator[Product]:
    """Dot products with less in them, one or several steps away."""
    yield from _fewer_blocks(product)
    yield from _fewer_lanes(config, product)
    yield from _plainer_c(config, product)
    yield from _plainer_scales(config, product)
    yield from _plainer_codes(config, product)


def complexity(config: DotConfig, product: Mapping[str, Any]) -> tuple[int, ...]:
    """(lanes not zero, blocks, c, scales that are not one and side inputs, ones of codes)."""
    blocks, c = product["blocks"], product["c"]
    one = _one_scale(config)
    ones = _ones(config, product["mode"])
    scales = sum(scale != one for block in blocks for scale in block[FIRST_SCALE:FIRST_SIDE])
    sides = sum(bits != 0 for block in blocks for bits in block[FIRST_SIDE:])
    codes = 0
    for lane in _used(config, product):
        pair = _lane_codes(config, product, lane)
        codes += sum((code ^ one).bit_count() for code, one in zip(pair, ones, strict=True))
    return len(_used(config, product)), len(blocks), c.bit_count(), scales + sides, codes


def _fewer_blocks(product: Product) -> Iterator[Product]:
    blocks = product["blocks"]
    for kept in parts(range(len(blocks))):
        if kept:
            yield {**product, "blocks": [blocks[i] for i in kept]}


def _fewer_lanes(config: DotConfig, product: Product) -> Iterator[Product]:
    """Zeros in lanes of all blocks, and in lanes of each block."""
    used = _used(config, product)
    lanes = sorted({lane for _, lane in used})
    for kept in parts(lanes):
        yield _with_lanes(config, product, [at for at in used if at[1] in kept])
    if len(product["blocks"]) > 1:
        for kept in parts(used):
            yield _with_lanes(config, product, kept)


def _plainer_c(config: DotConfig, product: Product) -> Iterator[Product]:
    c = product["c"]
    one = 1 if config.has_integers else ONE_C
    yield from ({**product, "c": bits} for bits in (0, one, *fewer_ones(c)) if bits != c)


def _plainer_scales(config: DotConfig, product: Product) -> Iterator[Product]:
    """Scales of one and side inputs of zero, in all blocks, in a block, in one place."""
    blocks, one = product["blocks"], _one_scale(config)
    plain = [[*block[:FIRST_SCALE], one, one, *(0 for _ in block[FIRST_SIDE:])] for block in blocks]
    yield {**product, "blocks": plain}
    for i, block in enumerate(blocks):
        for place in range(FIRST_SCALE, len(block)):
            changed = [list(other) for other in blocks]
            changed[i][place] = plain[i][place]
            yield {**product, "blocks": changed}


def _plainer_codes(config: DotConfig, product: Product) -> Iterator[Product]:
    """The code of one, or one with fewer bits, instead of each code that is not zero."""
    ones = _ones(config, product["mode"])
    for lane in _used(config, product):
        for side, code in enumerate(_lane_codes(config, product, lane)):
            for other in {ones[side], *fewer_ones(code), 0} - {code}:
                yield _with_code(config, product, lane, side, other)


def _used(config: DotConfig, product: Mapping[str, Any]) -> list[Lane]:
    """Lanes with an element that is not zero."""
    places = ((i, k) for i in range(len(product["blocks"])) for k in range(config.lanes))
    return [lane for lane in places if any(_lane_codes(config, product, lane))]


def _lane_codes(config: DotConfig, product: Mapping[str, Any], lane: Lane) -> tuple[int, int]:
    block = product["blocks"][lane[0]]
    bits = config.bits_a, config.bits_b
    a, b = (block[i] >> bits[i] * lane[1] & 2 ** bits[i] - 1 for i in (0, 1))
    return a, b


def _with_lanes(config: DotConfig, product: Product, kept: Sequence[Lane]) -> Product:
    """Zeros in every other lane."""
    blocks = [[0, 0, *block[FIRST_SCALE:]] for block in product["blocks"]]
    for lane in kept:
        for side, code in enumerate(_lane_codes(config, product, lane)):
            width = (config.bits_a, config.bits_b)[side]
            blocks[lane[0]][side] |= code << width * lane[1]
    return {**product, "blocks": blocks}


def _with_code(config: DotConfig, product: Product, lane: Lane, side: int, code: int) -> Product:
    blocks = [list(block) for block in product["blocks"]]
    place = (config.bits_a, config.bits_b)[side] * lane[1]
    blocks[lane[0]][side] ^= (_lane_codes(config, product, lane)[side] ^ code) << place
    return {**product, "blocks": blocks}


def _one_scale(config: DotConfig) -> int:
    """The packed scales of a block that are all one, of any width for integers."""
    if config.has_integers:
        return min(1, config.scale_bits)
    code = E8M0.bias if config.scales == E8M0.name else int(E4M3.encode(np.ones(1))[0])
    return sum(code << config.scale_bits * i for i in range(config.scale_blocks))


def _ones(config: DotConfig, mode: int) -> tuple[int, int]:
    """The codes of a and b that are nearest to one."""
    a, b = (int(fmt.encode(np.ones(1))[0]) for fmt in config.formats[mode])
    return a, b


SHOWN_BLOCKS = 8
SHOWN_ROWS = 6  # that differ, of one section


def describe_failure(job: UnitJob, failure: Failure, replay: Callable[[], dict[str, Any]]) -> str:
    """The report of one dot product that came out wrong.

    replay: simulates the product in `failure_file` alone, and returns the record of replay_test.
    """
    differs = [g != w for g, w in zip(failure.got, failure.want, strict=True)]
    what = ("result differs", "flags differ", "slot differs")[differs.index(True)]
    details = [
        *operands(job.config, failure.item, failure_file(job)),
        f"got  {_result(job, *failure.got)}",
        f"want {_result(job, *failure.want)}",
        *_replayed(job, failure, replay),
    ]
    if job.waves and waves_file(job).is_file():
        details.append(f"waves of this dot product alone: {waves_file(job)}")
    return job.report(f"{failure.where}: {what}", details)


def operands(config: DotConfig, product: Mapping[str, Any], file: Path) -> list[str]:
    """The operands of a product in hex; `file` has the rest."""
    lines = [f"formats {pair_name(config.formats[product['mode']])} (mode {product['mode']})"]
    if config.load_c:
        lines.append(f"c       0x{product['c']:08x}")
    blocks = product["blocks"]
    for number, (a, b, *rest) in enumerate(blocks[:SHOWN_BLOCKS]):
        names = ("scale_a", "scale_b", *config.side_inputs)
        inputs = ", ".join(f"{n} 0x{bits:02x}" for n, bits in zip(names, rest, strict=True))
        lines += [
            f"block {number}: {inputs}; lane 0 first:",
            f"  a {_codes(a, config.bits_a, config.lanes)}",
            f"  b {_codes(b, config.bits_b, config.lanes)}",
        ]
    if len(blocks) > SHOWN_BLOCKS:
        lines.append(f"({len(blocks) - SHOWN_BLOCKS} more blocks: {file})")
    return lines


def _codes(word: int, bits: int, lanes: int) -> str:
    return " ".join(f"{word >> bits * lane & 2**bits - 1:02x}" for lane in range(lanes))


def _result(job: UnitJob, bits: int, flags: int, slot: int | None = None) -> str:
    names = [name for i, name in enumerate(FLAG_NAMES) if flags >> i & 1]
    text = f"0x{bits:0{job.config.out.bits // 4}x} {job.config.out.name}, flags {names or 'none'}"
    return text if slot is None else f"{text}, slot {slot}"


def failure_file(job: UnitJob) -> Path:
    """File of the operands of the item in the report."""
    return job.directory / "failure.json"


def waves_file(job: UnitJob) -> Path:
    """File of the waves of that item alone."""
    return job.directory / "alone.fst"


def _replayed(job: UnitJob, failure: Failure, replay: Callable[[], dict[str, Any]]) -> list[str]:
    """Lines on the dot product alone after a reset, stage by stage, with the golden model's."""
    failure_file(job).write_text(json.dumps(failure.item) + "\n")
    if job.generator is not None:
        return ["(no stages: other Verilog than the generated one has no sections to look into)"]
    try:
        record = replay()
    except (BuildError, SimulationError) as error:
        return [f"(the replay of this dot product failed: {str(error).splitlines()[0]})"]
    batch = batch_of(job.config, [product_of(failure.item)])
    trace = model_trace(job.config, batch, stages=True)
    model = outcome(job.config, trace)
    if record["result"] is None:
        lines = ["alone after a reset: no result at all"]
    else:
        lines = [f"alone after a reset: {_result(job, *record['result'])}"]
        if record["result"][:2] == failure.want[:2]:
            lines[0] += ", as wanted: it depends on the traffic before it"
    known = [int(model.result[0]), int(model.flags[0])]
    if known != failure.want[:2]:
        lines.append(f"the golden model has {_result(job, *known)}")
    return lines + stage_table(compare_stages(job.config, batch, trace, record["stages"]))


def stage_table(rows: list[SectionRow]) -> list[str]:
    """The first difference, and the sections of its block."""
    if not rows:
        return ["no stage could be compared"]
    wrong = [row for row in rows if row.differs]
    if not wrong:
        return ["no stage differs from the golden model: see the flags, or the model compared with"]
    first = wrong[0]
    lines = [
        f"first difference: section {first.stage} of block {first.block}, {first.what}",
        f"  {'block':5} {'section':12} {'value':20} {'got':>28} {'want':>28}",
    ]
    last_block = min(first.block, rows[-1].block)
    shown = [row for row in rows if row.block == last_block]
    for section, group in groupby(shown, key=lambda row: row.stage):
        entries = list(group)
        differing = [row for row in entries if row.differs]
        if not differing:
            lines.append(f"  {last_block:<5} {section:12} {len(entries)} values equal")
        lines += [
            f"  {row.block:<5} {section:12} {row.what:20} {row.got:>28} {row.want:>28}  <--"
            for row in differing[:SHOWN_ROWS]
        ]
        if len(differing) > SHOWN_ROWS:
            lines.append(f"  {last_block:<5} {section:12} and {len(differing) - SHOWN_ROWS} more")
    return lines
