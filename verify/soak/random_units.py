"""Units drawn at random from all that the command line accepts, simulated by `mxdot sim`.

Each option of a kind draws from its own description (model/units/options.py); options that describe
no list or range of values draw from `TEXTS`. What was drawn is counted by pairs of options with
their values, and pairs that a kind has not had yet are listed.
"""

import json
import random
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
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
from ...util.files import write_file
from ...util.workers import terminate_as_interrupt

BUILDS = Path("build/sim/builds")
SCHEMA = "mxdot random units 1"
ABSENT = "-"
"""Value of an option that is left to its default."""
TRIES = 200
"""Draws of one unit until the configuration takes the values."""
MOST = {"lanes": 8, "block": 8, "rows": 2, "columns": 2, "depth": 64, "scale_block": 8}
"""Largest usual values, so that a unit builds in seconds; every eighth draw takes any."""
WEIGHTS = {"dot": 4, "quantize": 3, "dot-quantize": 2, "matmul": 1}


def _numbers(*values: int) -> Callable[[random.Random], str]:
    return lambda rng: str(rng.choice(values))


def _pairs(rng: random.Random) -> str:
    pairs = (f"{rng.choice([*FORMATS])}x{rng.choice([*FORMATS])}" for _ in range(3))
    one = [rng.choice([*FORMATS]), next(pairs)]
    return ",".join({rng.choice(one), *list(pairs)[: rng.choice([0, 0, 0, 1, 2])]})


def _rule(rng: random.Random) -> str:
    digits, running = rng.choice([0, 1, 13, rng.randint(0, 64)]), rng.choice([*RUNNING])
    width, low = rng.choice([2, 24, 64, rng.randint(2, 200)]), rng.randint(-160, 130)
    return rng.choice([
        "exact", "int32", "float32", "float16", "bfloat16", f"aligned:{digits}",
        f"aligned:{digits}:{running}", f"fused:{digits}", f"fused:{digits}:{running}",
        f"fixed:{width}:{low}", f"fixed:{width}:{low}:wrap", f"rvbna:{max(2, digits)}",
        rng.choice([*MACHINES]), rng.choice([*MACHINES]),
    ])  # fmt: skip


def _list(names: Sequence[str]) -> Callable[[random.Random], str]:
    return lambda rng: ",".join(rng.sample(names, min(len(names), rng.choice([1, 1, 2, 3]))))


_BYTES = _numbers(1, 2, 3, 4, 5, 7, 8, 12, 16, 31, 64)
TEXTS: dict[str, Callable[[random.Random], str]] = {
    "--format": _pairs,
    "--to": _list([*FORMATS]),
    "--accumulator": _rule,
    "--stages": _numbers(*range(1, 31)),
    "--quantizer-stages": _numbers(*range(1, 13)),
    "--result": _list([*OUTPUTS, *INTEGER_OUTPUTS]),
    "--source": _list([*OUTPUTS]),
    "--scale-rule": _list([*SCALE_RULES]),
    "--beats": _numbers(1, 2, 4, 8, 16, 32),
    "--select": _numbers(*range(1, 13)),
    **{f"--{side}-bytes": _BYTES for side in "abcd"},
}
"""Texts of options whose descriptions have no list nor range, by the command line's spelling."""


def text_of(kind: str, option: Option, rng: random.Random) -> str:
    """A value of an option as the command line has it; KeyError for one that cannot be drawn."""
    if option.is_switch:
        return option.flag
    if kind == "quantize" and option.flag == "--format":
        return _list([*FORMATS, *SCHEME_INTEGERS])(rng)
    most = MOST.get(option.keyword)
    if option.choices:
        usual = [v for v in option.choices if not most or not isinstance(v, int) or v <= most]
        return str(rng.choice(usual if rng.random() < 7 / 8 else option.choices))
    if option.limits is not None:
        low, high = option.limits
        high = min(high, most or high) if rng.random() < 7 / 8 else high
        return str(rng.choice([low, high, rng.randint(low, high)]))
    return TEXTS[option.flag](rng)


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
    """What counts as one value: without the numbers of a rule, by size of a number."""
    if text is None:
        return ABSENT
    if option.is_switch or option.choices:
        return text
    if text.lstrip("-").isdigit():
        return f"2^{int(text).bit_length()}" if int(text) > 1 else text
    return "several" if "," in text else re.sub(r":-?\d+", ":N", text)


def pairs_of(kind: str, given: dict[str, str]) -> list[str]:
    """Pairs of options with their values."""
    options = KINDS[kind].options()
    values = [f"{o.flag} {value_class(o, given.get(k))}" for k, o in options.items()]
    return [" & ".join(pair) for pair in combinations(values, 2)]


@dataclass
class Drawn:
    """What was drawn of each kind; kept in a file, so that a soak goes on where one stopped."""

    path: Path
    numbers: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
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
            return cls(path, values["numbers"], pairs, values["failed"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} must hold what was drawn: {error}") from None

    def save(self) -> None:
        values = {"schema": SCHEMA, "numbers": self.numbers, "failed": self.failed}
        write_file(self.path, json.dumps(values | {"pairs": self.pairs}, indent=1) + "\n")

    def uncovered(self, kind: str) -> list[str]:
        """Pairs of values that were drawn, never together."""
        values: dict[str, set[str]] = {}
        for pair in self.pairs[kind]:
            for value in pair.split(" & "):
                values.setdefault(value.split(" ")[0], set()).add(value)
        flags = [o.flag for o in KINDS[kind].options().values() if o.flag in values]
        every = (
            f"{a} & {b}"
            for one, other in combinations(flags, 2)
            for a in sorted(values[one])
            for b in sorted(values[other])
        )
        return [pair for pair in every if pair not in self.pairs[kind]]


def run(directory: Path, hours: float, count: int, program: str) -> bool:
    """Draw and simulate until the time is over; True when nothing failed.

    program: the command's name, for the line that repeats a unit.
    """
    drawn = Drawn.load(directory / "random.json")
    ends, before = time.monotonic() + 3600 * hours, len(drawn.failed)
    with terminate_as_interrupt():
        while time.monotonic() < ends:
            rng = random.Random(sum(drawn.numbers.values()))
            kind = rng.choices([*WEIGHTS], [*WEIGHTS.values()])[0]
            _simulate(drawn, kind, count, program)
    lines = [f"{kind}: {pair}" for kind in KINDS for pair in drawn.uncovered(kind)]
    write_file(directory / "random-uncovered.txt", "".join(f"{line}\n" for line in lines))
    for kind, number in drawn.numbers.items():
        left = len(drawn.uncovered(kind))
        print(f"{kind}: {number} units, {len(drawn.pairs[kind]):,} pairs, {left:,} not yet")
    print(f"pairs without a unit: {directory / 'random-uncovered.txt'}")
    return len(drawn.failed) == before


def _simulate(drawn: Drawn, kind: str, count: int, program: str) -> None:
    """One more unit of a kind: by the command that is printed, so that it repeats it."""
    number = drawn.numbers[kind]
    config, given = draw(kind, number)
    words = ["sim", kind, *words_of(kind, given), "--count", str(count)]
    words += ["--seed", str(number), "--fresh"]
    done = simulated(words)
    drawn.numbers[kind] += 1
    if done.returncode and "has no effect on this unit" in done.stderr:
        drawn.save()
        return
    drawn.pairs[kind].update(pairs_of(kind, given))
    command = " ".join([program, *words])
    if done.returncode:
        drawn.failed.append(command)
        print("\n".join([f"FAILED {config}", done.stdout, done.stderr, f"repeat with: {command}"]))
    else:
        shutil.rmtree(BUILDS / file_name(config.name), ignore_errors=True)
        print(f"ok {kind} {number}: {config}", flush=True)
    drawn.save()


def simulated(words: list[str]) -> subprocess.CompletedProcess[str]:
    """What a command of mxdot does, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "mxdot.cli", *words],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
