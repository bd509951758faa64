"""The tables of docs/evidence.md, made of results that `make verify` keeps.

    python tools/evidence.py step NAME COMMAND ...   run a step of `make verify`, keep its results
    python tools/evidence.py                         take kept results into docs/evidence.json and
                                                     write the tables of docs/evidence.md

A row has date, version, a digest of its sources (files, Python without comments, and versions of
packages), the seed if its command has one, and a step's NAME=VALUE. A row is `older` where its
sources have changed since. The site marks rows by today's sources, the file by those of the last
run of this program.
"""

import json
import math
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from figure_inputs import ROOT, folder_digest
from figure_tables import markdown

from mxdot.util.children import blames_machine
from mxdot.util.files import write_file
from mxdot.util.keys import task_key, version_of
from mxdot.util.progress import duration
from mxdot.util.store import Outcome, Store

DATA = ROOT / "docs" / "evidence.json"
PAGE = ROOT / "docs" / "evidence.md"
KEPT = Store(Path("build/evidence"))

LOCKS = ("requirements.lock", "requirements-compare.lock")

Row = Mapping[str, Any]
Rows = dict[str, Row]
"""Results by kind and name."""


RTL = ("model", "util", "hw", "sim", "synth")
PROOFS = (*RTL, "verify/formal", "verify/small_units.py")
SOURCES: dict[str, tuple[str, ...]] = {
    "proof": PROOFS,
    "mutants": (*PROOFS, "verify/mutate"),
    "coverage": (*PROOFS, "verify/coverage"),
}
ALL = (*RTL, "compare", "verify", "cli", "nn", "gpu", "tests", "tools", "examples", "Makefile")


@dataclass(frozen=True)
class Step:
    """A step of `make verify`. says: what is checked; oracle: against what; sources: folders and
    files of its code."""

    says: str
    oracle: str
    command: str
    sources: tuple[str, ...] = RTL


STEPS = {
    "test-full": Step(
        "model, RTL components, command line",
        "rational arithmetic, ml_dtypes, gfloat, NumPy",
        "make test FULL=1",
        ALL,
    ),
    "test-compare": Step(
        "synthesis, comparison, proofs, Verilog",
        "hand-made cases, Yosys, ABC",
        "make test-compare",
        ALL,
    ),
    "test-gpu": Step(
        "PyTorch and Triton, on a CPU", "golden model", "make test-gpu", ALL
    ),
    "formal": Step(
        "claims for all inputs", "plain arithmetic, proved by ABC", "make formal", SOURCES["proof"]
    ),
    "mutate": Step(
        "the bench and the proofs notice faults",
        "mutants",
        "make mutate ARGS='--count 20 --seed 915026'",
        (*SOURCES["mutants"], "gpu", "tests"),
    ),
    "coverage": Step(
        "lines, branches, toggles of the Verilog", "Verilator", "make coverage",
        SOURCES["coverage"],
    ),
    "faults": Step(
        "commands under kills, full disks, damaged files, other runs",
        "an undisturbed run",
        "make faults",
        ALL,
    ),
    "sim-full": Step(
        "units of every accumulator, format and kind, under gaps, stalls and resets",
        "golden model",
        "make sim FULL=1",
    ),
    "sim-cxxrtl": Step(
        "small units in a second simulator with its own parser",
        "golden model",
        "make sim SIM=cxxrtl SEED=1",
        (*RTL, "verify/simulators"),
    ),
    "sim-bitsliced": Step(
        "small units, 512 runs at a time",
        "golden model",
        "make sim SIM=bitsliced SEED=1",
        (*RTL, "verify/simulators"),
    ),
    "sim-netlist": Step(
        "units as ASAP7 cells", "golden model", "make sim NETLIST=asap7 SEED=1"
    ),
    "soak": Step("units with fresh seeds", "golden model", "make soak", (*RTL, "verify/soak")),
    "soak-bitsliced": Step(
        "the same, 512 runs at a time",
        "golden model",
        "make soak SIM=bitsliced",
        (*RTL, "verify/soak", "verify/simulators"),
    ),
    "soak-random": Step(
        "random units of every kind",
        "golden model",
        "make soak ARGS=--random",
        (*RTL, "verify/soak"),
    ),
    "fuzz": Step(
        "damaged files, names and options are read or refused in one line",
        "property tests",
        "make fuzz",
        ALL,
    ),
}  # fmt: skip
PARTS = {
    "model": ("model", "tests", "verify/mutate"),
    "verilog": ("model", "hw", "tests", "verify/mutate"),
    "gpu": ("model", "gpu", "tests", "verify/mutate"),
}
"""Sources of parts whose mutants tests judge, by the first word of their names."""

GROUPS = {
    "Scale adder and multiplier, multipliers, adders, trees, shifters, alignment, normalisers": (
        *("scale-adder", "scale-multiplier", "multiplier", "full-adder-row", "adder"),
        *("adder-tree", "largest", "shift", "align", "normalizer"),
    ),
    "Rounders to float32, float16 and bfloat16; requantisers": ("rounder", "requantize"),
    "Whole units of 4 or 8 lanes: the contract's result": (
        *("sum", "loop", "terms", "total", "round"),
    ),
    "Streams: as many results as products, latency and interval, stable payload, no deadlock": (
        "stream",
    ),
    "Streams: each result is its product's, in order, under any gaps and stalls": ("order",),
    "Chains of blocks: each result has its own blocks": ("chain",),
    "Units with `--gate-idle` equal units without": ("gate-idle",),
    "Quantisers: random words, errors and choice of a format, ratio of scales; terms of sums": (
        *("lfsr", "errors", "sums", "least", "fact"),
    ),
    "Matrix unit: counters, registers, loops of single tiles, packets, their length, job's end": (
        *("counters", "registers", "receiver", "tiles", "packets", "length", "ends"),
    ),
    "Netlists of ASAP7 and SKY130 cells equal their Verilog": ("netlist",),
    "Assertions of `mxdot verilog --assertions`, for units of every kind": ("assertions",),
}
"""Rows of the table of proofs: the first word of a claim's name says its group."""


def group_of(claim: str) -> str:
    """The group of a claim; ValueError for none or two."""
    first = claim.partition(":")[0]
    groups = [says for says, words in GROUPS.items() if first in words]
    if len(groups) != 1:
        raise ValueError(f"claim {claim!r} must be in one group of tools/evidence.py, not {groups}")
    return groups[0]


@cache
def digest_of(sources: tuple[str, ...]) -> str:
    """The digest of today's sources and packages."""
    return folder_digest(*sources, *LOCKS, pattern="*")


def sources_of(kind: str, name: str) -> tuple[str, ...]:
    """The sources of a row."""
    if kind == "step":
        return STEPS[name].sources
    return PARTS.get(name.partition("-")[0], SOURCES[kind])


def load() -> Rows:
    """Rows that the repository has."""
    try:
        return json.loads(DATA.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}


def save(rows: Rows) -> None:
    """Write one row a line, in a fixed order."""
    lines = [f"{json.dumps(name)}: {json.dumps(rows[name])}" for name in sorted(rows)]
    write_file(DATA, "{\n" + ",\n".join(lines) + "\n}\n")


PROOF = re.compile(
    r"(?:\[\d+/\d+\] )?(?:holds|FAILED) +(\S+): (\w+) for (2\^\d+.*?) inputs in ([\d.]+) s; "
    r"with a bug (\w+) "
)
MUTANTS = re.compile(r"(\S+): (\d+) mutants, killed by .*; equivalent (\d+), survived (\d+): score")
COVERAGE = re.compile(
    r"(\S+): lines (\S+) of (\S+), branches (\S+) of (\S+), toggles (\S+) of (\S+); "
    r"(\S+) with a reason"
)


def told(lines: Iterable[str]) -> Rows:
    """Rows that a check prints: proofs, mutants, coverage."""
    rows: Rows = {}
    for line in lines:
        if found := PROOF.match(line):
            name, verdict, space, seconds, bug = found.groups()
            verdicts = {"verdict": verdict, "bug": bug}
            rows[f"proof {name}"] = {"space": space, **verdicts, "seconds": float(seconds)}
        elif found := MUTANTS.match(line):
            name, *counts = found.groups()
            names = ("mutants", "equal", "survived")
            rows[f"mutants {name}"] = dict(zip(names, map(int, counts), strict=True))
        elif found := COVERAGE.match(line):
            name, *texts = found.groups()
            points = [int(text.replace(",", "")) for text in texts]
            pairs = {kind: points[2 * n : 2 * n + 2] for n, kind in enumerate(KINDS)}
            rows[f"coverage {name}"] = {**pairs, "reasons": points[-1]}
    return rows


KINDS = ("line", "branch", "toggle")


def summary(rows: Rows, lines: Sequence[str]) -> str:
    """The result of a step in a few words: of its rows, its totals, or its last line."""
    if claims := _of(rows, "proof"):
        return f"{sum(map(_holds, claims.values()))} of {len(claims)} claims hold"
    if subjects := _of(rows, "mutants").values():
        different = sum(row["mutants"] - row["equal"] for row in subjects)
        survived = sum(row["survived"] for row in subjects)
        return f"{different - survived} of {different} killed"
    if holes := re.findall(r"^coverage of .*?(\b\d+ holes)\b", "\n".join(lines), re.M):
        return holes[-1]
    said = [line for line in lines if line and not re.match(r"make(\[\d+\])?: ", line)]
    totals = [line for line in said if "compared with the model" in line]
    return (totals or said or [""])[-1]


def _holds(row: Row) -> bool:
    return row["verdict"] == "proved" and row["bug"] == "refuted"


def step(name: str, command: Sequence[str]) -> int:
    """Run a step, pass its output on, and keep its rows and its result.

    A row whose sources have changed meanwhile is not kept: nobody knows what was checked. Nor is
    any of a step that the machine has ended.
    """
    if name not in STEPS:
        raise ValueError(f"step must be one of {', '.join(STEPS)}, not {name!r}")
    before, lines = _digests(), []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line.strip())
    if process.returncode < 0 or (process.returncode and blames_machine("\n".join(lines))):
        return process.returncode
    rows = told(lines)
    result = summary(rows, lines)
    values = [word for word in command if "=" in word]
    rows[f"step {name}"] = {"result": result, "passed": process.returncode == 0, "values": values}
    seed = _seed_of(" ".join(command))
    after = _digests()
    for label, row in rows.items():
        sources = sources_of(*label.split(" ", 1))
        if before[sources] == after[sources]:
            _keep(label, row if seed is None else {**row, "seed": seed}, after[sources])
    return process.returncode


def _seed_of(command: str) -> int | None:
    found = re.search(r"(?:--seed |\bSEED=)(\d+)", command)
    return None if found is None else int(found[1])


def _digests() -> dict[tuple[str, ...], str]:
    """Today's digests of all sources."""
    digest_of.cache_clear()
    known = (*SOURCES.values(), *PARTS.values(), *(step.sources for step in STEPS.values()))
    return {sources: digest_of(sources) for sources in known}


def _keep(label: str, row: Row, digest: str) -> None:
    kind, _, name = label.partition(" ")
    now = time.time()
    about = {
        "date": time.strftime("%Y-%m-%d", time.gmtime(now)),
        "version": version_of("mxdot"),
        "digest": digest,
    }
    KEPT.put(Outcome(task_key(kind, name), label, {**row, **about}, finished=now))


def results(folder: Path) -> list[Outcome]:
    """The outcomes in a folder that can be read."""
    kept = (Store(folder).get(file.stem) for file in sorted(folder.glob("*.json")))
    return [outcome for outcome in kept if outcome is not None]


def taken(rows: Rows) -> Rows:
    """`rows` with what `make verify` kept."""
    return rows | {outcome.label: outcome.value for outcome in results(KEPT.directory)}


def has_passed(name: str, values: Iterable[str] = ()) -> bool:
    """Whether a step has a row of today's sources with these values, or a longer time, that
    passed."""
    row = taken(load()).get(f"step {name}")
    if row is None or not row["passed"] or _is_older("step", name, row):
        return False
    had = dict(value.split("=", 1) for value in row.get("values", ()))
    asked = (value.split("=", 1) for value in values)
    return all(name in had and _reaches(had[name], value) for name, value in asked)


def _reaches(had: str, asked: str) -> bool:
    try:
        return float(had) >= float(asked)
    except ValueError:
        return had == asked


def is_forgotten(name: str) -> bool:
    """Whether a step is to begin anew."""
    return not taken(load()).get(f"step {name}", {"digest": " "})["digest"]


def forget() -> None:
    """Mark all rows as older, and those of steps as to begin anew."""
    write({label: {**row, "digest": ""} for label, row in taken(load()).items()})


def write(rows: Rows | None = None) -> None:
    """Write `rows`, or what `taken` has, and the tables of the page; kept results are then in the
    file."""
    kept = results(KEPT.directory)
    rows = taken(load()) if rows is None else rows
    digest_of.cache_clear()
    save(rows)
    write_file(PAGE, render(PAGE.read_text(encoding="utf-8"), rows))
    for outcome in kept:
        KEPT.path(outcome.key).unlink(missing_ok=True)


# Tables -------------------------------------------------------------------------------------------


def state(kind: str, name: str, row: Row) -> str:
    """The date of a row, marked where its sources or the seed of mutants have changed since."""
    return f"{row['date']}, {'older' if _is_older(kind, name, row) else row['version']}"


def _is_older(kind: str, name: str, row: Row) -> bool:
    if row["digest"] != digest_of(sources_of(kind, name)):
        return True
    is_of_mutants = kind == "mutants" or (kind, name) == ("step", "mutate")
    return is_of_mutants and row.get("seed") != _seed_of(STEPS["mutate"].command)


def _of(rows: Rows, kind: str) -> dict[str, Row]:
    return {
        label.partition(" ")[2]: row for label, row in rows.items() if label.startswith(f"{kind} ")
    }


def steps(rows: Rows) -> str:
    """What each step checks, against what, and its last result."""
    known, lines = _of(rows, "step"), []
    for name, step in STEPS.items():
        row = known.get(name)
        result = "-" if row is None else ("" if row["passed"] else "FAILED: ") + row["result"]
        when = "-" if row is None else state("step", name, row)
        result = re.sub(r" compared with the model, (\d+ mismatches).*", r": \1", result)
        values = () if row is None else row.get("values", ())
        time = [value for value in values if value.startswith(("HOURS=", "MINUTES="))]
        command = " ".join([step.command, *time])
        lines.append([step.says, step.oracle, f"`{command}`", result.replace("|", "/"), when])
    return markdown(["checked", "against", "command", "last result", "when"], lines)


def proofs(rows: Rows) -> str:
    """Proved claims by group; a group is as old as its oldest row."""
    groups: dict[str, dict[str, Row]] = {says: {} for says in GROUPS}
    for name, row in _of(rows, "proof").items():
        groups[group_of(name)][name] = row
    lines = []
    for says, known in groups.items():
        if not known:
            continue
        proved = sum(map(_holds, known.values()))
        bits = sorted(int(row["space"].partition("^")[2].split()[0]) for row in known.values())
        seconds = math.fsum(row["seconds"] for row in known.values())  # in any order
        when = _together(state("proof", name, row) for name, row in known.items())
        count = f"{proved}/{len(known)}"
        lines.append([says, count, f"2^{bits[0]} to 2^{bits[-1]}", duration(seconds), when])
    return markdown(["proved for all inputs", "rows", "inputs", "time", "when"], lines)


def _together(states: Iterable[str]) -> str:
    found = list(states)
    older = [text for text in found if text.endswith("older")]
    oldest = min(found)
    return f"{oldest.partition(',')[0]}, {len(older)} older" if older else oldest


def mutants(rows: Rows) -> str:
    """Mutants by subject."""
    lines = []
    for name, row in _of(rows, "mutants").items():
        different = row["mutants"] - row["equal"]
        killed = different - row["survived"]
        count = f"{killed}/{different}"
        lines.append([f"`{name}`", count, str(row["equal"]), state("mutants", name, row)])
    return markdown(["subject", "killed", "equal", "when"], lines)


def coverage(rows: Rows) -> str:
    """Points reached of those that no proof holds constant, by unit."""
    lines = []
    for name, row in _of(rows, "coverage").items():
        pairs = [f"{row[kind][0]:,}/{row[kind][1]:,}" for kind in KINDS]
        lines.append([f"`{name}`", *pairs, f"{row['reasons']:,}", state("coverage", name, row)])
    return markdown(["unit", "lines", "branches", "toggles", "with a reason", "when"], lines)


TABLES: dict[str, Callable[[Rows], str]] = {
    "steps": steps, "proofs": proofs, "mutants": mutants, "coverage": coverage,
}  # fmt: skip


def render(text: str, rows: Rows) -> str:
    """`text` with every marked table made anew."""

    def table(match: re.Match[str]) -> str:
        return f"<!-- evidence: {match[1]} -->\n{TABLES[match[1]](rows)}\n<!-- end -->"

    return re.sub(r"<!-- evidence: (\w+) -->.*?<!-- end -->", table, text, flags=re.S)


def main(arguments: Sequence[str]) -> int:
    """The command line."""
    if arguments[:1] == ["step"]:
        return step(arguments[1], arguments[2:])
    write()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
