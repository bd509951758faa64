"""The failure report: operands, got and want, the first stage that differs, how to repeat."""

import json
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from ...model import DotConfig
from ...model.trace import FLAG_NAMES
from ..engine.job import Failure, UnitJob
from ..engine.toolchain import BuildError
from ..engine.verilator import SimulationError
from .build import build_unit
from .features import pair_name
from .item import batch_of, model_trace, outcome, product_of
from .stages import SectionRow, compare_stages

SHOWN_BLOCKS = 8
SHOWN_ROWS = 6  # that differ, of one section


def describe_failure(job: UnitJob, verilog: Path, failure: Failure) -> str:
    """The report of one dot product that came out wrong; replays it alone."""
    differs = [g != w for g, w in zip(failure.got, failure.want, strict=True)]
    what = ("result differs", "flags differ", "slot differs")[differs.index(True)]
    details = [
        *operands(job.config, failure.item, failure_file(job)),
        f"got  {_result(job, *failure.got)}",
        f"want {_result(job, *failure.want)}",
        *_replayed(job, verilog, failure),
    ]
    waves = "cycle.fst and, of this dot product alone, replay.fst"
    return job.report(f"{failure.where}: {what}", details, waves)


def operands(config: DotConfig, product: Mapping[str, Any], file: Path) -> list[str]:
    """The operands of a product in hex; `file` has those that are left out."""
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
    """Where the operands of the item in the report are."""
    return job.directory / "failure.json"


def _replayed(job: UnitJob, verilog: Path, failure: Failure) -> list[str]:
    """What the dot product does alone after a reset, stage by stage beside the golden model."""
    failure_file(job).write_text(json.dumps(failure.item) + "\n")
    if job.generator is not None:
        return ["(no stages: other Verilog than the generated one has no sections to look into)"]
    try:
        record = replay(job, verilog)
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


def replay(job: UnitJob, verilog: Path) -> dict:
    """Simulate the product in failure.json alone, in a build whose stages can be watched."""
    build = build_unit(
        job.config,
        verilog,
        job.build_directory / "probed",
        executable=job.directory / "sim-probed",
        waves=job.waves,
        probes=True,
    )
    record = job.directory / "replay.json"
    record.unlink(missing_ok=True)
    run = build.run(
        "mxdot.sim.dot.replay_test",
        results_xml=job.directory / "replay.xml",
        env={
            "MXDOT_JOB": str(job.write()),
            "MXDOT_REPLAY": str(failure_file(job).resolve()),
            "MXDOT_RECORD": str(record.resolve()),
        },
        waves=job.directory / "replay.fst" if job.waves else None,
        time_limit=120,
    )
    if not record.is_file():
        raise SimulationError(f"no record (log: {run.log_file})")
    return json.loads(record.read_text())


def stage_table(rows: list[SectionRow]) -> list[str]:
    """The first difference, and its block section by section."""
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
