"""The narrowest accumulators that meet a target, found by bisection.

Error falls with every bit of F, and of either end of a register, so that a target is met from one
width on. Data is finite and the change need not be sharp; neighbours of the result are measured
too. With the format's error, errors may cancel: where the widest member misses the target, narrower
ones are tried one by one. `search` runs the searches of a study as tasks.
"""

import shlex
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from ...model import accumulator, format_pairs
from ...util.jobs import Backend, Observer, run_rows
from ...util.keys import data_digest, fingerprint, located, task_key
from ...util.store import Outcome
from ...util.tables import records, write_csv, write_json
from .points import Sampling
from .session import without_kept
from .study import Study, data_options
from .tasks import Instruments

FAMILIES = ("aligned", "fused", "fixed")
LARGEST_F = 64
AS_GOOD_DB = 1.0
"""Difference in dB below which an accumulator is as good as another."""
FLOAT32_DB = 150.0
"""Rounding results to float32 leaves about 152 dB: more than this is as good as infinite."""
REGISTER = 600
"""Bits of a register that holds every sum: for the search of L alone."""
LSBS = (-200, 64)
QUALITIES = {"accumulator": "sqnr_accumulator_db", "total": "sqnr_total_db"}

Meets = Callable[[int], bool]


def smallest(low: int, high: int, meets: Meets, *, scans: bool = False) -> int | None:
    """The smallest integer in [low, high] from which on `meets` holds; None when `high` does not.

    `meets` should turn from False to True once. Both values below the one that bisection finds are
    tried: where one of them meets too, the search goes on below it. scans: where `high` does not
    meet, the largest integer that does takes its place.
    """
    highs = range(high, low - 1 if scans else high - 1, -1)
    found = next(filter(meets, highs), None)
    if found is None:
        return None
    below = low - 1
    while found - below > 1:
        middle = (below + found) // 2
        if meets(middle):
            found = middle
        else:
            below = middle
    while lower := [n for n in (found - 2, found - 1) if n >= low and meets(n)]:
        found = lower[0]
    return found


@dataclass(frozen=True)
class Target:
    """Target at every length: an SQNR in dB, or the SQNR of another accumulator."""

    sqnr_db: float | None = None
    match: str | None = None
    quality: str = "accumulator"

    def __post_init__(self) -> None:
        if self.sqnr_db is not None and self.match is not None:
            raise ValueError("sqnr and match exclude each other: both are targets")
        if self.sqnr_db is None and self.match is None:
            raise ValueError("find narrowest needs a target: --sqnr DB or --match ACCUMULATOR")
        if self.sqnr_db is not None and not 0 <= self.sqnr_db <= 400:
            raise ValueError(f"sqnr must be from 0 to 400 dB, not {self.sqnr_db:g}")
        if self.match is not None:
            accumulator(self.match)
        if self.quality not in QUALITIES:
            raise ValueError(f"quality must be one of {', '.join(QUALITIES)}, not {self.quality!r}")

    def check_format(self, formats: str) -> None:
        """ValueError unless the accumulator to match, if any, takes `formats`."""
        if self.match is not None:
            try:
                accumulator(self.match).check_formats(*format_pairs(formats)[0])
            except ValueError as error:
                raise ValueError(f"match: {error}") from None

    def __str__(self) -> str:
        goal = f"{self.sqnr_db:g} dB" if self.match is None else f"as good as {self.match}"
        return goal if self.quality == "accumulator" else f"{goal} (format and accumulator)"


@dataclass(frozen=True)
class Found:
    """The narrowest member of a family on one data set; None without one, with the best member."""

    family: str
    format: str
    lanes: int
    data: str
    target: str
    lengths: list[int]
    count: int
    seed: int
    accumulator: str | None = None
    sqnr_db: float | None = None
    """SQNR of `accumulator`, or of the widest rule without one, at `length`."""
    length: int | None = None
    """The length at which it is worst compared with the target."""
    next_narrower: str | None = None
    next_sqnr_db: float | None = None
    next_length: int | None = None
    evaluations: int = 0
    error: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types, except infinite floats."""
        return asdict(self)


@dataclass(frozen=True)
class SearchTask:
    """One search, as a task of the runner; the value is a `Found` as a dict."""

    family: str
    format: str
    lanes: int
    data: str
    target: Target
    sampling: Sampling
    tools: Instruments = field(repr=False)
    folder: Path = field(default_factory=Path.cwd)
    """Folder of a file of `data`: a worker may have another directory."""

    @property
    def key(self) -> str:
        code = fingerprint((*self.tools.accuracy_sources, "compare/studies"))
        digest = data_digest(located(self.data, self.folder))
        what = [self.family, self.format, self.lanes, self.data, digest]
        return task_key("narrowest", what, asdict(self.target), asdict(self.sampling), code)

    @property
    def label(self) -> str:
        return f"narrowest {self.family}: {self.format} x{self.lanes}, {self.data}"

    @property
    def weight(self) -> float:
        """Seconds, roughly."""
        tries = 24 if self.family == "fixed" else 9
        return tries * (0.1 + sum(self.sampling.lengths) * self.sampling.count / 3e6)

    @property
    def unknown(self) -> Found:
        """The result before the search."""
        how = self.sampling
        about = (self.family, self.format, self.lanes, self.data, str(self.target))
        return Found(*about, list(how.lengths), how.count, how.seed)

    def run(self) -> dict[str, Any]:
        return Search(self).found().to_dict()


class Search:
    """The evaluations of one search, each made once."""

    def __init__(self, task: SearchTask) -> None:
        self.task = task
        self.quality = QUALITIES[task.target.quality]
        self.scans = task.target.quality == "total"
        self.sqnr = cache(self._sqnr)
        target = task.target
        if target.match is not None:
            self.goals = [min(s, FLOAT32_DB) - AS_GOOD_DB for s in self.sqnr(target.match)]
        else:
            self.goals = [float(target.sqnr_db or 0)] * len(task.sampling.lengths)

    def _sqnr(self, rule: str) -> list[float]:
        """SQNR of a rule at every length."""
        task, sampling = self.task, self.task.sampling
        results = task.tools.evaluate(
            accumulator(rule),
            format_pairs(task.format)[0],
            located(task.data, task.folder),
            sampling.lengths,
            lanes=task.lanes,
            seed=sampling.seed,
            count=sampling.count,
        )
        return [getattr(result, self.quality) for result in results]

    def meets(self, rule: str) -> bool:
        """The rule meets the target at every length."""
        return all(s >= goal for s, goal in zip(self.sqnr(rule), self.goals, strict=True))

    def worst(self, rule: str) -> tuple[float, int]:
        """(SQNR, length) of the rule where it is worst compared with the target."""
        lengths = self.task.sampling.lengths
        found = list(zip(self.sqnr(rule), lengths, self.goals, strict=True))
        sqnr, length, _ = min(found, key=lambda at: (at[0] - at[2], at[1]))
        return sqnr, length

    def found(self) -> Found:
        task = self.task
        if task.family == "fixed":
            best, narrower = self._register()
        else:
            best, narrower = self._fraction()
        widest = (
            f"{task.family}:{LARGEST_F}" if task.family != "fixed" else _fixed(REGISTER, LSBS[0])
        )
        sqnr, length = self.worst(best or widest)
        below = (None, None) if narrower is None else self.worst(narrower)
        return replace(
            task.unknown,
            accumulator=best,
            sqnr_db=sqnr,
            length=length,
            next_narrower=narrower,
            next_sqnr_db=below[0],
            next_length=below[1],
            evaluations=self.sqnr.cache_info().misses,
        )

    def _fraction(self) -> tuple[str | None, str | None]:
        """The smallest F, and the F below it."""
        family = self.task.family
        f = smallest(0, LARGEST_F, lambda n: self.meets(f"{family}:{n}"), scans=self.scans)
        if f is None:
            return None, None
        return f"{family}:{f}", f"{family}:{f - 1}" if f else None

    def _register(self) -> tuple[str | None, str | None]:
        """The register of least W; first the largest L of one that cannot overflow, then its W."""
        ends = -LSBS[1], -LSBS[0]
        fine = smallest(*ends, lambda n: self.meets(_fixed(REGISTER, -n)), scans=self.scans)
        if fine is None:
            return None, None
        lsb = -fine
        width = smallest(2, REGISTER, lambda n: self.meets(_fixed(n, lsb)))
        if width is None:
            return None, None
        # Overflow and truncation share the error allowed: less of one leaves more for the other.
        while better := [
            n
            for n in (lsb, lsb + 1, lsb - 1, lsb - 2)
            if width > 2 and self.meets(_fixed(width - 1, n))
        ]:
            width, lsb = width - 1, better[0]
        return _fixed(width, lsb), _fixed(width - 1, lsb) if width > 2 else None


def _fixed(width: int, lsb: int) -> str:
    return f"fixed:{width}:{lsb}"


def search(
    study: Study,
    target: Target,
    directory: Path,
    backend: Backend,
    observer: Observer,
    tools: Instruments | None = None,
    then: str = "",
    fresh: bool = False,
) -> list[Found]:
    """Find the narrowest accumulator of each family for the formats, lanes and data of `study`.

    Results are kept in `directory`, and written there as `narrowest.json` and `narrowest.csv`.
    A failed search has its `error` set. then: what follows, for a dry run. fresh: search again
    instead of taking kept results.
    """
    tools = tools or Instruments()
    if study.sampling.encoder:
        raise ValueError(f"encoder must be 0 with find narrowest, not {study.sampling.encoder}")
    points = [p for p in study.points() if p.data is not None and p.unit.rule is not None]
    if not points:
        raise ValueError("find narrowest needs data: --data")
    where = dict.fromkeys((p.unit.format, p.unit.lanes, p.data) for p in points)
    for fmt in dict.fromkeys(str(fmt) for fmt, _, _ in where):
        target.check_format(fmt)
    tasks = [
        SearchTask(family, str(fmt), lanes or 0, str(data), target, study.sampling, tools)
        for fmt, lanes, data in where
        for family in FAMILIES
    ]
    kept = without_kept(directory, tasks, backend) if fresh else directory
    needs = [(task,) for task in tasks]
    outcomes = run_rows(needs, kept, backend, observer, then=then)
    found = [_found(task, outcome) for task, (outcome,) in zip(tasks, outcomes, strict=True)]
    write_json(directory / "narrowest.json", [result.to_dict() for result in found])
    texts = {"lengths": lambda lengths: " ".join(map(str, lengths))}
    write_csv(directory / "narrowest.csv", records(Found, found, texts))
    return found


def _found(task: SearchTask, outcome: Outcome | None) -> Found:
    assert outcome is not None
    return Found(**outcome.value) if outcome.ok else replace(task.unknown, error=outcome.error)


def measure_command(found: list[Found]) -> str | None:
    """The command that compares what was found with float32 and exact sums; None for nothing."""
    there = [result for result in found if result.accumulator is not None]
    if not there:
        return None
    formats, accumulators, lanes = (
        ",".join(dict.fromkeys(str(getattr(result, name)) for result in there))
        for name in ("format", "accumulator", "lanes")
    )
    data = data_options(list(dict.fromkeys(result.data for result in there)))
    words = ["--format", formats, "--accumulator", f"{accumulators},float32,exact"]
    words += ["--lanes", lanes, *data, "--lengths", ",".join(map(str, there[0].lengths))]
    for name in ("count", "seed"):
        value = getattr(there[0], name)
        words += [f"--{name}", str(value)] if value != getattr(Sampling, name) else []
    return shlex.join(["mxdot", "compare", *words])
