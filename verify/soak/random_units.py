"""Units drawn at random from all that the command line accepts, simulated by `mxdot sim`.

Each option of a kind draws from its own description (model/units/options.py); options that describe
no list or range of values draw from `TEXTS`. Units are counted by pairs of options with their
values, and pairs that no unit of a kind had are listed.
"""

import json
import random
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import combinations, product
from pathlib import Path
from typing import Any

from ...model.accumulators import MACHINES
from ...model.accumulators.base import RUNNING
from ...model.formats import FORMATS
from ...model.outputs import INTEGER_OUTPUTS, OUTPUTS
from ...model.quantize import SCALE_RULES
from ...model.units import KINDS, Option, UnitConfig
from ...model.units.quantize_formats import SCHEME_INTEGERS
from ...sim.engine.regression_units import file_name
from ...util import children
from ...util.children import terminate_as_interrupt
from ...util.files import write_file
from ...util.jobs import Backend, results
from ...util.store import Outcome

BUILDS = Path("build/sim/builds")
SCHEMA = "mxdot random units 2"
ABSENT = "-"
"""Value of an option that is left to its default."""
TRIES = 200
"""Draws of one unit until the configuration takes the values."""
MOST = {"lanes": 8, "block": 8, "rows": 2, "columns": 2, "depth": 64, "scale_block": 8}
"""Largest usual values, so that a unit builds in seconds; every eighth draw takes any."""
WEIGHTS = {"dot": 4, "quantize": 3, "dot-quantize": 2, "matmul": 1}


@dataclass(frozen=True)
class Texts:
    """Texts of an option whose description has no list nor range."""

    draw: Callable[[random.Random], str]
    samples: Sequence[str]
    """A text of every class that `draw` gives, as `value_class` names classes."""


def _numbers(*values: int) -> Texts:
    return Texts(lambda rng: str(rng.choice(values)), [*map(str, values)])


def _pairs(rng: random.Random) -> str:
    pairs = (f"{rng.choice([*FORMATS])}x{rng.choice([*FORMATS])}" for _ in range(3))
    one = [rng.choice([*FORMATS]), next(pairs)]
    return ",".join(dict.fromkeys([rng.choice(one), *list(pairs)[: rng.choice([0, 0, 0, 1, 2])]]))


def _rule(rng: random.Random) -> str:
    digits, running = rng.choice([0, 1, 13, rng.randint(0, 64)]), rng.choice([*RUNNING])
    width, low = rng.choice([2, 24, 64, rng.randint(2, 200)]), rng.randint(-160, 130)
    return rng.choice([
        "exact", "int32", "float32", "float16", "bfloat16", f"aligned:{digits}",
        f"aligned:{digits}:{running}", f"fused:{digits}", f"fused:{digits}:{running}",
        f"fixed:{width}:{low}", f"fixed:{width}:{low}:wrap", f"rvbna:{max(2, digits)}",
        rng.choice([*MACHINES]), rng.choice([*MACHINES]),
    ])  # fmt: skip


def _list(names: Sequence[str]) -> Texts:
    def draw(rng: random.Random) -> str:
        return ",".join(rng.sample(names, min(len(names), rng.choice([1, 1, 2, 3]))))

    return Texts(draw, [*names, ",".join(names[:2])])


_BYTES = _numbers(1, 2, 3, 4, 5, 7, 8, 12, 16, 31, 64)
_QUANTIZED = _list([*FORMATS, *SCHEME_INTEGERS])
TEXTS: dict[str, Texts] = {
    "--format": Texts(
        _pairs, [*FORMATS, *(f"{a}x{b}" for a in FORMATS for b in FORMATS), "int8,int4"]
    ),
    "--to": _list([*FORMATS]),
    "--accumulator": Texts(
        _rule,
        [
            "exact", "int32", "float32", "float16", "bfloat16", "aligned:1", "fused:1",
            *(f"{rule}:1:{running}" for rule in ("aligned", "fused") for running in RUNNING),
            "fixed:2:1", "fixed:2:1:wrap", "rvbna:2", *MACHINES,
        ],
    ),
    "--stages": _numbers(*range(1, 31)),
    "--quantizer-stages": _numbers(*range(1, 13)),
    "--result": _list([*OUTPUTS, *INTEGER_OUTPUTS]),
    "--source": _list([*OUTPUTS]),
    "--scale-rule": _list([*SCALE_RULES]),
    "--beats": _numbers(1, 2, 4, 8, 16, 32),
    "--select": _numbers(*range(1, 13)),
    **{f"--{side}-bytes": _BYTES for side in "abcd"},
}  # fmt: skip
"""Texts by the command line's spelling of their options."""


def texts_of(kind: str, option: Option) -> Texts:
    """Texts of an option whose description has no list nor range; KeyError for another."""
    return _QUANTIZED if (kind, option.flag) == ("quantize", "--format") else TEXTS[option.flag]


def text_of(kind: str, option: Option, rng: random.Random) -> str:
    """A value of an option as the command line has it; KeyError for one that cannot be drawn."""
    if option.is_switch:
        return option.flag
    most = MOST.get(option.keyword)
    if option.choices:
        usual = [v for v in option.choices if not most or not isinstance(v, int) or v <= most]
        return str(rng.choice(usual if rng.random() < 7 / 8 else option.choices))
    if option.limits is not None:
        low, high = option.limits
        high = min(high, most or high) if rng.random() < 7 / 8 else high
        return str(rng.choice([low, high, rng.randint(low, high)]))
    return texts_of(kind, option).draw(rng)


def draw(kind: str, number: int) -> tuple[UnitConfig, dict[str, str]]:
    """Unit `number` of a kind, the same every time, and its options as texts by keyword.

    Values that do not go together are drawn anew, or left to their defaults.
    """
    rng = random.Random(f"{kind} {number}")
    options = KINDS[kind].options()
    small = {"lanes", "block", "rows", "columns", "depth"}
    while True:
        given = {
            keyword: text_of(kind, option, rng)
            for keyword, option in options.items()
            if keyword in small or rng.random() < 0.5
        }
        for _ in range(TRIES):
            try:
                return config_of(kind, given), given
            except (ValueError, TypeError):
                keyword = rng.choice([*given])
                if keyword in small or rng.random() < 0.6:
                    given[keyword] = text_of(kind, options[keyword], rng)
                elif len(given) > len(small):
                    del given[keyword]


def config_of(kind: str, given: dict[str, str]) -> UnitConfig:
    """The unit of options as texts; ValueError where they do not go together."""
    options = KINDS[kind].options()
    values: dict[str, Any] = {
        keyword: not options[keyword].default if options[keyword].is_switch
        else options[keyword].parse(text)
        for keyword, text in given.items()
    }  # fmt: skip
    return KINDS[kind].of_options(**values)


def words_of(kind: str, given: dict[str, str]) -> list[str]:
    """Options on the command line."""
    options = KINDS[kind].options()
    return [word for k, text in given.items() for word in options[k].spelled(text)]


def value_class(option: Option, text: str | None) -> str:
    """Name of all values that count as one: a rule's without numbers, a number's by size."""
    if text is None:
        return ABSENT
    if option.is_switch or option.choices:
        return text
    if text.lstrip("-").isdigit():
        return f"2^{int(text).bit_length()}" if int(text) > 1 else text
    return "several" if "," in text else re.sub(r":-?\d+", ":N", text)


def classes_of(kind: str, option: Option) -> list[str]:
    """All classes of an option's values, with `ABSENT`."""
    if option.is_switch:
        texts: Sequence[str | int] = [option.flag]
    elif option.choices:
        texts = option.choices
    elif option.limits is not None:
        low, high = option.limits
        texts = [low, *(2**n for n in range(high.bit_length()) if 2**n > low)]
    else:
        texts = texts_of(kind, option).samples
    return [ABSENT, *dict.fromkeys(value_class(option, str(text)) for text in texts)]


def pairs_of(kind: str, given: dict[str, str]) -> list[str]:
    """Pairs of options with their values."""
    options = KINDS[kind].options()
    values = [f"{o.flag} {value_class(o, given.get(k))}" for k, o in options.items()]
    return [" & ".join(pair) for pair in combinations(values, 2)]


@dataclass(frozen=True)
class RandomUnit:
    """Task: a unit of a kind in a run of `count` items, by the command that repeats it."""

    kind: str
    number: int
    count: int

    @property
    def key(self) -> str:
        return self.label

    @property
    def label(self) -> str:
        return f"{self.kind} {self.number}"

    weight = 10.0

    @property
    def words(self) -> list[str]:
        """The command, without the program's name."""
        options = words_of(self.kind, draw(self.kind, self.number)[1])
        seed = ["--seed", str(self.number)]
        return ["sim", self.kind, *options, "--count", str(self.count), *seed, "--fresh"]

    def run(self) -> dict[str, Any]:
        """Exit status and what the command printed."""
        done = simulated(self.words)
        return {"status": done.returncode, "out": done.stdout, "error": done.stderr}


@dataclass
class Drawn:
    """Counts of units and pairs of each kind, in a file: the next soak goes on from there."""

    path: Path
    numbers: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    begun: list[list[Any]] = field(default_factory=list)
    """Kind and number of units that have no result yet."""
    pairs: dict[str, Counter[str]] = field(default_factory=lambda: {k: Counter() for k in KINDS})
    failed: list[str] = field(default_factory=list)

    @classmethod
    def load(cls, path: Path) -> "Drawn":
        """The counts in a file, or none; ValueError for another file."""
        if not path.exists():
            return cls(path)
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            if values["schema"] != SCHEMA:
                raise ValueError(f"schema must be {SCHEMA!r}")
            pairs = {kind: Counter(counts) for kind, counts in values["pairs"].items()}
            return cls(path, values["numbers"], values["begun"], pairs, values["failed"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} must hold what was drawn: {error}") from None

    def save(self) -> None:
        names = ("numbers", "begun", "failed", "pairs")
        values = {"schema": SCHEMA, **{name: getattr(self, name) for name in names}}
        write_file(self.path, json.dumps(values, indent=1) + "\n")

    def tasks(self, ends: float, count: int) -> Iterator[RandomUnit]:
        """Units that were begun, then others until the monotonic clock says `ends`."""
        yield from [RandomUnit(kind, number, count) for kind, number in self.begun]
        while time.monotonic() < ends:
            rng = random.Random(sum(self.numbers.values()))
            kind = rng.choices([*WEIGHTS], [*WEIGHTS.values()])[0]
            task = RandomUnit(kind, self.numbers[kind], count)
            self.numbers[kind] += 1
            self.begun.append([kind, task.number])
            self.save()
            yield task

    def uncovered(self, kind: str) -> list[str]:
        """Pairs of values that no unit had; some of them fit no unit."""
        options = KINDS[kind].options().values()
        values = [[f"{o.flag} {c}" for c in classes_of(kind, o)] for o in options]
        every = (pair for two in combinations(values, 2) for pair in product(*two))
        return [name for pair in every if (name := " & ".join(pair)) not in self.pairs[kind]]


def run(directory: Path, hours: float, count: int, program: str, backend: Backend) -> bool:
    """Draw and simulate until the time is over; True when nothing failed.

    program: the command's name, for the line that repeats a unit.
    """
    drawn = Drawn.load(directory / "random.json")
    ends, before = time.monotonic() + 3600 * hours, len(drawn.failed)
    tasks = drawn.tasks(ends, count)
    with terminate_as_interrupt(), closing(results(tasks, backend)) as outcomes:
        for task, outcome in outcomes:
            _take(drawn, task, outcome, program)
    uncovered = {kind: drawn.uncovered(kind) for kind in KINDS}
    lines = [f"{kind}: {pair}" for kind, pairs in uncovered.items() for pair in pairs]
    write_file(directory / "random-uncovered.txt", "".join(f"{line}\n" for line in lines))
    for kind, number in drawn.numbers.items():
        left = len(uncovered[kind])
        print(f"{kind}: {number} units, {len(drawn.pairs[kind]):,} pairs, {left:,} not yet")
    print(f"pairs without a unit: {directory / 'random-uncovered.txt'}")
    failed = len(drawn.failed) - before
    pairs = sum(map(len, drawn.pairs.values()))
    print(
        f"{sum(drawn.numbers.values()):,} units with {pairs:,} pairs of values of options: "
        f"{f'{failed} FAILED' if failed else 'nothing failed'}"
    )
    return not failed


def _take(drawn: Drawn, task: RandomUnit, outcome: Outcome, program: str) -> None:
    """Count a unit, print what became of it, and keep the command of one that failed."""
    config, given = draw(task.kind, task.number)
    done = (
        {"status": 1, "out": "", "error": outcome.error} if outcome.value is None else outcome.value
    )
    drawn.begun.remove([task.kind, task.number])
    if done["status"] and "has no effect on this unit" in done["error"]:
        drawn.save()
        return
    drawn.pairs[task.kind].update(pairs_of(task.kind, given))
    if done["status"]:
        command = " ".join([program, *task.words])
        drawn.failed.append(command)
        print(
            "\n".join([f"FAILED {config}", done["out"], done["error"], f"repeat with: {command}"])
        )
    else:
        shutil.rmtree(BUILDS / file_name(config.name), ignore_errors=True)
        print(f"ok {task.label}: {config}", flush=True)
    drawn.save()


def simulated(words: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command of mxdot in its own process."""
    return children.run([sys.executable, "-m", "mxdot.cli", *words], text=True)
