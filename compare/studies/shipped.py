"""Results that come with the package, so that the default comparison answers at once.

`measured.json` holds results of searches at a clock. One counts as long as its question, the cell
library and the scripts of the synthesis are the same, and the unit that was found has the same
Verilog. `tools/shipped_results.py` measures them.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from ...model import DotConfig
from ...synth import Flow, measure
from ...synth.flow import files_of
from ...synth.liberty_syntax import Group, parse_groups
from ...synth.measure import script
from ...util.keys import ROOT, fingerprint
from ...util.store import Outcome, Store
from .clock_task import ClockTask
from .units import TOP

FILE = Path(__file__).with_name("measured.json")
ENERGY = ("energy.py", "activity.py", "power*.py", "feed.py", "glitches.*")
"""Files in `synth/` that decide an energy."""
UNUSED = ("default_max_transition", "default_operating_conditions")
"""Attributes of a library that neither mapping nor timing reads."""
GENERATOR = ("model", "hw")
"""Packages that decide a unit's Verilog."""
SAME = ("area", "delay_ps", "flipflops")
"""Values that measuring again must repeat."""
STALE = "the package has no energy by this model of energy; --fresh measures it"


def records() -> list[dict[str, Any]]:
    """Results that come with the package."""
    return json.loads(FILE.read_text()) if FILE.is_file() else []


@cache
def _by_question() -> dict[str, dict[str, Any]]:
    return {question(record["question"]): record for record in records()}


def question(described: dict[str, Any]) -> str:
    """A text that is equal for equal questions."""
    return json.dumps(described, sort_keys=True)


@cache
def library_digest(process: str) -> str:
    """Hash of what mapping and timing read of a process's library."""
    digest = hashlib.sha256()
    for _, source, text in files_of(Flow.of_process(process)):
        _add(digest.update, parse_groups(text.decode(), source))
    return digest.hexdigest()


def _add(update: Callable[[bytes], None], group: Group) -> None:
    own = sorted(
        item
        for item in group.attributes.items()
        if "power" not in item[0] and item[0] not in UNUSED
    )
    update(repr((group.kind, group.arguments, own)).encode())
    for inner in group.groups:
        if "power" not in inner.kind and inner.kind != "operating_conditions":
            _add(update, inner)


def flow_digest(flow: dict[str, Any]) -> str:
    """Hash of the script of one synthesis."""
    named = Flow.from_dict({name: value for name, value in flow.items() if name != "liberty"})
    return _hash(script("", TOP, named))


@cache
def energy_digest() -> str:
    """Hash of the code of the energy model."""
    paths = sorted({path for name in ENERGY for path in (ROOT / "synth").glob(name)})
    return _hash("\0".join(path.read_text() for path in paths))


def code_digest() -> str:
    """Hash of all that decides a unit's Verilog."""
    return fingerprint(GENERATOR)


def verilog_digest(config: DotConfig) -> str:
    """Hash of a unit's Verilog, comments left out."""
    from ...hw import generate
    from ...hw.verilog import without_remarks

    return _hash(without_remarks(generate(config, TOP)))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def record_of(task: ClockTask, outcome: Outcome, version: str) -> dict[str, Any]:
    """The record of a result."""
    value = {name: item for name, item in outcome.value.items() if name not in ("stages", "extra")}
    clock = value["clock"]
    return {
        "question": task.described,
        "code": code_digest(),
        "verilog": verilog_digest(DotConfig(**clock["config"])),
        "library": library_digest(task.process),
        "flow": flow_digest(clock["flow"]),
        "energy": energy_digest() if "energy" in value else None,
        "version": version,
        "finished": outcome.finished,
        "value": value,
    }


def measured_again(record: dict[str, Any], cache_dir: Path) -> dict[str, tuple[Any, Any]]:
    """Fields that differ when a record's unit is synthesised afresh: recorded, and measured."""
    from ...hw import generate

    value = record["value"]
    flow = Flow.from_dict(value["clock"]["flow"])
    verilog = generate(DotConfig(**value["clock"]["config"]), TOP)
    cost = measure(verilog, TOP, flow, cache_dir=cache_dir).to_dict()
    return {name: (value[name], cost[name]) for name in SAME if cost[name] != value[name]}


def find(task: ClockTask) -> Outcome | None:
    """The outcome of a task that comes with the package; None where it has none that counts."""
    record = _by_question().get(question(task.described))
    if record is None or record["library"] != library_digest(task.process):
        return None
    value, clock = dict(record["value"]), dict(record["value"]["clock"])
    if record["flow"] != flow_digest(clock["flow"]):
        return None
    # The same code writes the same text, which need not be made.
    unit = DotConfig(**clock["config"])
    if record["code"] != code_digest() and record["verilog"] != verilog_digest(unit):
        return None
    day = time.strftime("%Y-%m-%d", time.gmtime(record["finished"]))
    clock["measured"] = f"mxdot {record['version']} on {day}"
    stale = record["energy"] != energy_digest()
    if stale or not task.energy:
        value.pop("energy", None)
    if stale and task.energy and "missed" not in value:
        value["energy_error"] = STALE
    return Outcome(task.key, task.label, value | {"clock": clock}, None, 0.0, record["finished"])


def seed(tasks: Iterable[ClockTask], store: Store) -> None:
    """Put into the store what comes with the package and is not there."""
    for task in {task.key: task for task in tasks}.values():
        kept = store.get(task.key)
        if kept is None or not kept.ok:
            outcome = find(task)
            if outcome is not None:
                store.put(outcome)
