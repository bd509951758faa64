"""Accumulators that are as good as a target, and the smallest unit of each at a clock."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...model import Accumulator, DotConfig, accumulator
from ...util.jobs import Backend, Observer, Task, run_rows
from ...util.progress import duration
from ...util.store import Store
from . import shipped
from .clock_task import ClockTask, clock_task
from .narrowest import AS_GOOD_DB, FLOAT32_DB, QUALITIES, Found, Target, search
from .points import Sweep, points_of, units_of
from .rows import Row, accuracy_columns
from .session import compare
from .study import Study
from .tasks import Instruments, accuracy_task
from .units import Generated

WHOLE = ("exact", "int32", "float32")
"""Accumulators without a width to search; a machine's is ranked where the target names it."""
STAND_INS = {"aligned:13": "aligned:F", "fused:13": "fused:F", "fixed:32:-16": "fixed:W:L"}
"""Members of families for an estimate, by what they stand for: widths that are not known yet."""


@dataclass(frozen=True)
class Ranking:
    """The smallest unit at the clock of each accumulator that is good enough."""

    target: Target
    rows: tuple[Row, ...]
    matched: Row | None
    """The row of the accumulator to match."""
    notes: tuple[str, ...]


def rank(
    study: Study,
    target: Target,
    directory: Path,
    backend: Backend,
    observer: Observer,
    *,
    cache_dir: Path | None = None,
    tools: Instruments | None = None,
    fresh: bool = False,
    before: Callable[[Sequence[ClockTask]], None] = lambda tasks: None,
) -> Ranking:
    """Search the narrowest accumulators, leave out what is not good enough on all of the data, and
    find the smallest unit of each at every clock of `study`; fresh, before: as for `compare`.

    ValueError where `study` has no clock, or no accumulator is good enough.
    """
    tools = tools or Instruments()
    if not study.synthesis.clock:
        raise ValueError("clock must name at least one clock, not none")
    study.points()  # refuses what cannot be done before any work
    then = ""
    if backend.only_lists:
        cases = dict.fromkeys((str(p.unit.format), p.unit.lanes or 0) for p in study.points())
        built = {case: _built([*_matched(target), *STAND_INS, *WHOLE], *case) for case in cases}
        then = _estimate(built, study, directory, backend, tools, fresh)
    found = search(study, target, directory, backend, observer, tools, then=then, fresh=fresh)
    sweeps: list[Sweep] = []
    for fmt, lanes in dict.fromkeys((result.format, result.lanes) for result in found):
        mine = [result for result in found if (result.format, result.lanes) == (fmt, lanes)]
        rules = _built(_rules(mine, target), fmt, lanes)
        then = _estimate({(fmt, lanes): rules}, study, directory, backend, tools, fresh)
        how = directory, backend, observer, tools, then
        good = _good(rules, fmt, lanes, study, target, *how)
        if good:
            sweeps += _sweeps(study, good, fmt, lanes)
    if not sweeps:
        raise ValueError(f"no accumulator reaches the target, {target}")
    ranked = replace(study, title=f"As good as {target}", sweeps=tuple(sweeps), extra=())
    options = {"cache_dir": cache_dir, "tools": tools, "fresh": fresh, "before": before}
    comparison = compare(ranked, directory, backend, observer, **options)
    match = None if target.match is None else str(accumulator(target.match))
    matched = next((row for row in comparison.rows if row.accumulator == match), None)
    errors = [f"{result.family}: {result.error}" for result in found if result.error]
    return Ranking(target, comparison.rows, matched, (*comparison.notes, *errors))


def _estimate(
    rules: Mapping[tuple[str, int], Sequence[str]],
    study: Study,
    directory: Path,
    backend: Backend,
    tools: Instruments,
    fresh: bool,
) -> str:
    """The units that may follow a search, by format and lanes, and how long they take."""
    sweeps = tuple(
        sweep for case, some in rules.items() if some for sweep in _sweeps(study, some, *case)
    )
    tasks: dict[str, Task] = {}
    for point in replace(study, sweeps=sweeps, extra=()).points() if sweeps else []:
        for task in (clock_task(point, directory, tools), accuracy_task(point, tools)):
            if task is not None and (fresh or not _is_kept(task, Store(directory / "results"))):
                tasks[task.key] = task
    units = [task for task in tasks.values() if isinstance(task, ClockTask)]
    weights = [task.weight for task in tasks.values()]
    about = duration(max(sum(weights) / backend.width, max(weights, default=0.0)))
    names = dict.fromkeys(str(task.unit.config.accumulator) for task in units)
    listed = ", ".join(STAND_INS.get(name, name) for name in names)
    return f"at most {len(units)} units at the clock ({listed}): about {about}"


def _is_kept(task: Task, store: Store) -> bool:
    kept = store.get(task.key)
    return (kept is not None and kept.ok) or (
        isinstance(task, ClockTask)
        and task.tools == Instruments()
        and task.unit.accumulator not in STAND_INS
        and shipped.find(task) is not None
    )


def _sweeps(study: Study, rules: Sequence[str], fmt: str, lanes: int) -> list[Sweep]:
    """Options of the sweeps of `study` that have this format and lanes, with the accumulators
    `rules`; without other options where only an extra unit has them."""
    own = {"format": fmt, "accumulator": ",".join(rules), "lanes": str(lanes)}
    sweeps = []
    for sweep in study.sweeps:
        cases = [(str(unit.format), unit.lanes) for unit in _units(sweep) if unit.rule is not None]
        changed = Sweep({**sweep.options, **own})
        if sweep.accuracy and (fmt, lanes) in cases and changed not in sweeps:
            sweeps.append(changed)
    sweeps = sweeps or [Sweep(own)]
    return [sweep for sweep in sweeps if _units(sweep)] or sweeps


def _units(sweep: Sweep) -> list[Generated]:
    """The units of a sweep, none where none can be built."""
    try:
        return units_of(sweep)
    except ValueError:
        return []


def _matched(target: Target) -> list[str]:
    return [] if target.match is None else [str(accumulator(target.match))]


def _rules(found: Sequence[Found], target: Target) -> list[str]:
    """The matched accumulator, the narrowest of each family for all data, and the others."""
    rules = _matched(target)
    for family in dict.fromkeys(result.family for result in found):
        texts = [r.accumulator for r in found if r.family == family and r.accumulator]
        if texts:
            rules.append(str(widest([accumulator(text) for text in texts])))
    return [*rules, *WHOLE]


def _built(rules: Sequence[str], fmt: str, lanes: int) -> list[str]:
    """The rules that a unit can have, each once."""
    return [rule for rule in dict.fromkeys(rules) if _is_built(rule, fmt, lanes)]


def _is_built(rule: str, fmt: str, lanes: int) -> bool:
    try:
        DotConfig(fmt, lanes, rule)
    except ValueError:
        return False
    return True


def widest(rules: Sequence[Accumulator]) -> Accumulator:
    """The narrowest accumulator of one family that holds what each of `rules` holds."""
    registers = [rule.register for rule in rules if rule.register is not None]
    if registers:
        low = min(register.lsb for register in registers)
        high = max(register.lsb + register.width for register in registers)
        return accumulator(f"fixed:{high - low}:{low}")
    return max(rules, key=lambda rule: int(str(rule).rpartition(":")[2]))


def _good(
    rules: Sequence[str],
    fmt: str,
    lanes: int,
    study: Study,
    target: Target,
    directory: Path,
    backend: Backend,
    observer: Observer,
    tools: Instruments,
    then: str,
) -> list[str]:
    """The rules that meet the target at every length on all data."""
    units = [Generated(DotConfig(fmt, lanes, rule)) for rule in rules]
    needs = [
        [accuracy_task(p, tools) for p in points_of([unit], [None], study.data, study.sampling)]
        for unit in units
    ]
    outcomes = run_rows(needs, directory, backend, observer, then=then)
    column = QUALITIES[target.quality]
    sqnrs: dict[str, list[float]] = {}
    for rule, some in zip(rules, outcomes, strict=True):
        ended = [outcome for outcome in some if outcome is not None and outcome.ok]
        if len(ended) == len(some):
            lengths = [accuracy_columns(outcome.value)["lengths"] for outcome in ended]
            sqnrs[rule] = [a[column] for one in lengths for a in one]
    if target.match is not None:
        match = str(accumulator(target.match))
        if match not in sqnrs:
            return []
        goals = [min(sqnr, FLOAT32_DB) - AS_GOOD_DB for sqnr in sqnrs[match]]
    else:
        goals = [target.sqnr_db or 0.0] * (len(study.data) * len(study.sampling.lengths))
    return [
        rule
        for rule, own in sqnrs.items()
        if all(sqnr >= goal for sqnr, goal in zip(own, goals, strict=True))
    ]
