"""The probe: experiments, the accumulators that may explain them, and their test on random data."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields

import numpy as np
from numpy.random import Generator

from ...model import MACHINES, Accumulator, Machine
from ...model.formats import FLOAT32
from .bench import Bench
from .black_boxes import Codes, MatrixUnit, ModelUnit, Reordered
from .candidates import UNNAMED, alike, candidates
from .experiments import find
from .findings import Findings
from .operands import classes, running_values
from .steps import places_of_steps

ROWS = 256  # random dot products of each class and length


@dataclass(frozen=True)
class Fit:
    """An accumulator compared with the unit, in blocks of `block` elements.

    differing: for each class of random dot products how many of `tried` differ in a bit; example:
    one of them, operands in hex, or None.
    """

    accumulator: Accumulator
    block: int
    tried: int
    differing: dict[str, int]
    example: dict[str, str] | None

    @property
    def total(self) -> int:
        """Dot products that differ."""
        return sum(self.differing.values())

    @property
    def text(self) -> str:
        """The accumulator's name, or the data of a machine without one."""
        rule = self.accumulator
        return rule.rule if str(rule) == UNNAMED else str(rule)


@dataclass(frozen=True)
class Report:
    """Description of what a unit computes.

    places: where the elements of a row lie that consecutive places of a step stand for, when steps
    do not take neighbours; findings and fits are of the unit with its rows put in that order.
    fits: accumulators that agree in every random dot product, the most telling first. nearest: the
    one that differs least when none fits. violations: findings of the unit that are not those of
    `nearest`, as one line each. alike: other machines that agree in every random dot product:
    these formats do not tell them apart.
    """

    unit: str
    formats: str
    places: tuple[int, ...] | None
    findings: Findings
    fits: tuple[Fit, ...]
    nearest: Fit | None
    violations: tuple[str, ...]
    alike: tuple[str, ...] = ()

    def as_json(self) -> dict[str, object]:
        """Plain values."""
        return {
            "unit": self.unit,
            "formats": self.formats,
            "places": None if self.places is None else list(self.places),
            "findings": asdict(self.findings),
            "fits": [_fit_json(fit) for fit in self.fits],
            "nearest": None if self.nearest is None else _fit_json(self.nearest),
            "violations": list(self.violations),
            "alike": list(self.alike),
        }

    def lines(self) -> Iterator[str]:
        yield f"{self.unit}, {self.formats}"
        if self.places is not None:
            yield f"  steps take places  {' '.join(map(str, self.places))}"
        for name, value in asdict(self.findings).items():
            if value is not None:
                shown = f"0x{value:08X}" if name in ("nan", "inf", "minus_zero") else value
                yield f"  {name.replace('_', ' '):18} {shown}"
        for i, fit in enumerate(self.fits):
            yield f"{'also fits' if i else 'fits'}: {fit.text} in blocks of {fit.block}" + (
                "" if i else f" (0 of {fit.tried} random dot products differ)"
            )
        if self.alike:
            yield f"not told apart by {self.formats}: {', '.join(self.alike)}"
        if self.nearest is not None:
            yield f"fits none of the model's; nearest: {self.nearest.text}, which differs in " + (
                ", ".join(f"{n} of {name}" for name, n in self.nearest.differing.items() if n)
            )
            yield from (f"  {line}" for line in self.violations)
        elif not self.fits:
            yield "fits none of the model's"


def probe(unit: MatrixUnit, seed: int = 0, rows: int = ROWS) -> Report:
    """Characterise `unit`; `rows` random dot products of each class and length decide.

    ValueError for a unit whose rows cannot be asked about (see MatrixUnit).
    """
    report = _probe(unit, None, seed, rows)
    if report.fits:
        return report
    order = places_of_steps(Bench(unit))
    if order is None:
        return report
    reordered = Reordered(unit, order)
    again = _probe(reordered, tuple(reordered.places.tolist()), seed, rows)
    return again if again.findings.order == "together" else report


def _probe(unit: MatrixUnit, places: tuple[int, ...] | None, seed: int, rows: int) -> Report:
    bench = Bench(unit)
    findings = find(bench)
    samples = list(_samples(bench, np.random.default_rng(seed), rows))
    fits: list[Fit] = []
    others: list[Fit] = []
    for rule in candidates(findings, unit.formats):
        fit = _compare(unit, rule, findings.terms, samples)
        (others if fit.total else fits).append(fit)
    machines = [fit.accumulator for fit in fits if isinstance(fit.accumulator, Machine)]
    fits = _named(fits)
    chosen = {fit.text for fit in fits}
    others_alike = (name for row in machines if row.name in MACHINES for name in alike(row))
    nearest = None
    if others and not fits and findings.order != "in turn":
        nearest = min(others, key=lambda fit: fit.total)
    a, b = unit.formats
    return Report(
        unit.name,
        f"{a.name}x{b.name}",
        places,
        findings,
        tuple(fits),
        nearest,
        tuple(_violations(findings, nearest, unit)) if nearest else (),
        tuple(name for name in others_alike if name not in chosen),
    )


Sample = tuple[str, Codes, Codes, np.ndarray | None, np.ndarray]


def _samples(bench: Bench, rng: Generator, rows: int) -> Iterator[Sample]:
    """Class, a, b, c and the unit's bits."""
    unit = bench.unit
    for name, draws in classes(unit.formats).items():
        for length in dict.fromkeys((bench.short, bench.long)):
            a, b = (
                draw(rng, fmt, (rows, length))
                for draw, fmt in zip(draws, unit.formats, strict=True)
            )
            c = None
            if unit.takes_c:
                values = (fmt.values[x] for fmt, x in zip(unit.formats, (a, b), strict=True))
                with np.errstate(invalid="ignore"):
                    c = running_values(rng, np.multiply(*values).sum(axis=1))
            yield name, a, b, c, unit(a, b, c)


def _compare(unit: MatrixUnit, rule: Accumulator, terms: int | None, samples: list[Sample]) -> Fit:
    """The rule on the samples, in blocks of the unit's steps."""
    # Rounding to 16 bits hides how many terms a step has.
    whole = rule.step_limit or rule.running != FLOAT32
    block = unit.multiple if whole else min(terms or unit.multiple, 128)
    if any(sample[1].shape[1] % block for sample in samples):
        block = unit.multiple
    model = ModelUnit(rule, unit.formats, max(block, 4))
    differing = dict.fromkeys(classes(unit.formats), 0)
    example = None
    for name, a, b, c, results in samples:
        want = model(a, b, c)
        wrong = np.flatnonzero(want != results)
        differing[name] += len(wrong)
        if len(wrong) and example is None:
            i = wrong[0]
            example = {
                "class": name,
                "a": a[i].tobytes().hex(),
                "b": b[i].tobytes().hex(),
                "c": f"{0 if c is None else int(c.view(np.uint32)[i]):08x}",
                "unit": f"{int(results[i]):08x}",
                "model": f"{int(want[i]):08x}",
            }
    return Fit(rule, block, sum(len(sample[1]) for sample in samples), differing, example)


def _named(fits: list[Fit]) -> list[Fit]:
    """One per kind; without a name only where none of the kind has one."""
    first = {type(fit.accumulator): fit for fit in reversed(fits)}
    chosen = [fit for fit in fits if first[type(fit.accumulator)] is fit]
    return [fit for fit in chosen if str(fit.accumulator) != UNNAMED] or chosen


def _violations(findings: Findings, nearest: Fit, unit: MatrixUnit) -> Iterator[str]:
    """Differences from the findings of the nearest accumulator as a black box."""
    model = ModelUnit(nearest.accumulator, unit.formats, nearest.block)
    model.takes_c = unit.takes_c  # type: ignore[misc]
    wanted = find(Bench(model))
    for field in fields(Findings):
        measured, expected = getattr(findings, field.name), getattr(wanted, field.name)
        if measured != expected:
            yield f"{field.name.replace('_', ' ')}: {measured}, where {nearest.text} has {expected}"


def _fit_json(fit: Fit) -> dict[str, object]:
    return {
        "accumulator": fit.text,
        "block": fit.block,
        "tried": fit.tried,
        "differing": fit.differing,
        "example": fit.example,
    }
