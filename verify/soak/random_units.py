"""Units drawn at random from all that the command line accepts, simulated as by `mxdot sim`.

Each option of a kind draws from its own description (model/units/options.py); options that describe
no list or range of values draw from `TEXTS`. Units are counted by pairs of options with their
values, and pairs that no unit of a kind had are listed.
"""

import json
import random
import re
import shutil
import tempfile
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
from ...model.accumulators.machine import any_operands
from ...model.formats import FORMATS
from ...model.outputs import INTEGER_OUTPUTS, OUTPUTS
from ...model.quantize import SCALE_RULES
from ...model.units import KINDS, Option, UnitConfig
from ...model.units.quantize_formats import SCHEME_INTEGERS
from ...sim.engine.job import UnitJob
from ...sim.engine.regression import CODE, UnitTask, unit_job
from ...sim.engine.regression import Settings as Regression
from ...sim.engine.regression_units import Unit
from ...sim.engine.toolchain import find_tools
from ...sim.engine.unit import UnitResult
from ...util.cache import locked
from ...util.children import terminate_as_interrupt
from ...util.files import write_file
from ...util.jobs import Backend, results
from ...util.keys import fingerprint
from ...util.runs import own_directory
from .run import BUILD, failure_lines

SCHEMA = "mxdot random units 3"
UnitNumber = list[Any]
"""Kind of a unit and its number among those of the kind."""
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


@dataclass
class Drawn:
    """Units that were drawn, in a file: the next soak goes on from there.

    Units are counted for one state of the code. With other code, those that failed come again.
    """

    path: Path
    code: str = ""
    numbers: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    """Number of the next unit of each kind."""
    passed: int = 0
    failed: list[UnitNumber] = field(default_factory=list)
    begun: list[UnitNumber] = field(default_factory=list)
    """Units that have no result yet."""
    pairs: dict[str, Counter[str]] = field(default_factory=lambda: {k: Counter() for k in KINDS})

    @classmethod
    def load(cls, path: Path, code: str) -> "Drawn":
        """Units in a file, counted for this code; ValueError for another file."""
        if not path.exists():
            return cls(path, code)
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            if values.pop("schema") != SCHEMA:
                raise ValueError(f"schema must be {SCHEMA!r}")
            values["pairs"] = {kind: Counter(counts) for kind, counts in values["pairs"].items()}
            drawn = cls(path, **values)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} must hold what was drawn: {error}") from None
        if drawn.code == code:
            return drawn
        return cls(path, code, drawn.numbers, begun=[*drawn.failed, *drawn.begun])

    def save(self) -> None:
        """Write the file."""
        values = {name: value for name, value in vars(self).items() if name != "path"}
        write_file(self.path, json.dumps({"schema": SCHEMA, **values}, indent=1) + "\n")

    def uncovered(self, kind: str) -> list[str]:
        """Pairs of values that no unit had; some of them fit no unit."""
        options = KINDS[kind].options().values()
        values = [[f"{o.flag} {c}" for c in classes_of(kind, o)] for o in options]
        every = (pair for two in combinations(values, 2) for pair in product(*two))
        return [name for pair in every if (name := " & ".join(pair)) not in self.pairs[kind]]


@dataclass(frozen=True)
class Settings:
    """Choices for a soak.

    hours: after which no unit begins. count: items of a unit in bulk mode. unit_of: the unit of a
    command's words, or ValueError. program: the command's name.
    """

    hours: float
    count: int
    unit_of: Callable[[Sequence[str]], UnitConfig]
    program: str = "mxdot"
    directory: Path = BUILD


def run(settings: Settings, backend: Backend) -> bool:
    """Draw and simulate until the time is over; True when nothing failed.

    ToolError when the toolchain is missing, ValueError for a file of draws that cannot be read,
    RuntimeError while another run counts in that file.
    """
    find_tools()
    code = fingerprint(CODE)
    counts = settings.directory / "random.json"
    busy = f"{counts} is another run's, which has not ended: wait for it"
    with locked(counts.with_suffix(".lock"), busy):
        drawn = Drawn.load(counts, code)
        with (
            any_operands(),
            terminate_as_interrupt(),
            own_directory(settings.directory / "runs", 0) as session,
            closing(results(_tasks(drawn, settings, session), backend)) as outcomes,
        ):
            for task, outcome in outcomes:
                _take(drawn, task.job, task.take(outcome))
    uncovered = {kind: drawn.uncovered(kind) for kind in KINDS}
    lines = [f"{kind}: {pair}" for kind, pairs in uncovered.items() for pair in pairs]
    list_of_pairs = settings.directory / "random-uncovered.txt"
    write_file(list_of_pairs, "".join(f"{line}\n" for line in lines))
    for kind, pairs in uncovered.items():
        print(f"{kind}: {len(drawn.pairs[kind]):,} pairs, {len(pairs):,} not yet")
    print(f"pairs without a unit: {list_of_pairs}")
    failed = [_command(settings, kind, number) for kind, number in drawn.failed]
    for command in failed:
        print(f"FAILED {command}")
    pairs = sum(map(len, drawn.pairs.values()))
    print(
        f"{drawn.passed + len(failed):,} units with {pairs:,} pairs of values of options: "
        f"{f'{len(failed)} FAILED' if failed else 'nothing failed'}"
    )
    return not failed


def _tasks(drawn: Drawn, settings: Settings, session: Path) -> Iterator[UnitTask]:
    """Units that were begun, then others until the time is over."""
    ends = time.monotonic() + 3600 * settings.hours
    for number in [*drawn.begun]:
        yield from _task(drawn, settings, session, number)
    while time.monotonic() < ends:
        rng = random.Random(sum(drawn.numbers.values()))
        kind = rng.choices([*WEIGHTS], [*WEIGHTS.values()])[0]
        drawn.begun.append([kind, drawn.numbers[kind]])
        drawn.numbers[kind] += 1
        yield from _task(drawn, settings, session, drawn.begun[-1])


def _task(drawn: Drawn, settings: Settings, session: Path, unit: UnitNumber) -> Iterator[UnitTask]:
    """A unit that was begun, unless an option has no effect on it."""
    kind, number = unit
    command = _command(settings, kind, number)
    try:
        config = settings.unit_of(_words(settings, kind, number))
    except ValueError:
        drawn.begun.remove(unit)
        return
    finally:
        drawn.save()
    directory = Path(tempfile.mkdtemp(dir=session))
    choices = Regression(bulk=settings.count, repeat=command, directory=directory)
    yield UnitTask.of(unit_job(Unit(config), choices, number, directory))


def _words(settings: Settings, kind: str, number: int) -> list[str]:
    """The command that simulates a unit, without the program's name."""
    options = words_of(kind, draw(kind, number)[1])
    return ["sim", kind, *options, "--count", str(settings.count), "--seed", str(number)]


def _command(settings: Settings, kind: str, number: int) -> str:
    return " ".join([settings.program, *_words(settings, kind, number), "--fresh"])


def _take(drawn: Drawn, job: UnitJob, result: UnitResult) -> None:
    """Count a unit and print what became of it."""
    unit = [job.config.kind, job.seed]
    drawn.begun.remove(unit)
    drawn.pairs[job.config.kind].update(pairs_of(job.config.kind, draw(*unit)[1]))
    if result.passed:
        drawn.passed += 1
        print(f"ok {job.config.kind} {job.seed}: {job.config}", flush=True)
    else:
        drawn.failed.append(unit)
        print("\n".join(failure_lines(job, result)), flush=True)
    drawn.save()
    shutil.rmtree(job.directory.parent, ignore_errors=True)
