"""What a regression shows: progress while it runs, a table and the failures at its end."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from .unit import UnitResult


class Display(Protocol):
    """What the runner tells."""

    def phase(self, name: str, phase: str) -> None:
        """A job has entered a phase."""
        ...

    def done(self, result: UnitResult) -> None:
        """A job has ended."""
        ...


@contextmanager
def display(total: int) -> Iterator[Display]:
    """A live display on a terminal, a line for each unit elsewhere."""
    console = Console(highlight=False)
    if not console.is_terminal:
        yield _Lines(total)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[running]}", style="dim"),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        yield _Live(progress, total)


class _Lines:
    def __init__(self, total: int) -> None:
        self.total, self.count = total, 0

    def phase(self, name: str, phase: str) -> None:
        pass

    def done(self, result: UnitResult) -> None:
        self.count += 1
        print(f"[{self.count:{len(str(self.total))}}/{self.total}] {_line(result)}", flush=True)


class _Live:
    def __init__(self, progress: Progress, total: int) -> None:
        self.progress = progress
        self.running: dict[str, str] = {}
        self.task = progress.add_task("simulating", total=total, running="")

    def phase(self, name: str, phase: str) -> None:
        self.running[name] = phase
        self._update()

    def done(self, result: UnitResult) -> None:
        self.running.pop(result.name, None)
        self.progress.console.print(_line(result), markup=False)
        self.progress.advance(self.task)
        self._update()

    def _update(self) -> None:
        text = "  ".join(f"{name} ({phase})" for name, phase in self.running.items())
        self.progress.update(self.task, running=text)


def _line(result: UnitResult) -> str:
    verdict = "ok    " if result.passed else "FAILED"
    text = f"{verdict} {result.name}: {result.compared:,} {result.items}, {result.seconds:.1f} s"
    return text if result.passed else f"{text}; {(result.errors or ['nothing was compared'])[0]}"


def summary(results: list[UnitResult], seconds: float, coverage: float | None) -> bool:
    """Print the table, the failures, and one line of totals; True when all passed.

    coverage: of functional coverage, percent; None where none was sampled.
    """
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
    console.print(_table(results))
    for result in results:
        if not result.passed:
            _failure(console, result)
    failed = [result.name for result in results if not result.passed]
    totals: dict[str, int] = {}
    for result in results:
        totals[result.items] = totals.get(result.items, 0) + result.compared
    compared = " and ".join(f"{count:,} {items}" for items, count in totals.items())
    mismatches = sum(result.mismatches for result in results)
    verdict = f"FAILED: {', '.join(failed)}" if failed else "all passed"
    covered = "no coverage sampled" if coverage is None else f"coverage {coverage:.1f}%"
    console.print(
        f"{len(results)} units, {compared} compared with the model, "
        f"{mismatches:,} mismatches, {covered}, {seconds:.0f} s: {verdict}",
        markup=False,
        soft_wrap=True,
    )
    return bool(results) and not failed


def _table(results: list[UnitResult]) -> Table:
    table = Table(title_justify="left", box=None, pad_edge=False)
    table.add_column("unit", no_wrap=True)
    for column in ("compared", "wrong", "coverage", "bulk/s", "per cycle/s", "ratio", "time"):
        table.add_column(column, justify="right", no_wrap=True)
    shared = any(result.unit_share is not None for result in results)
    if shared:
        table.add_column("of it the unit", justify="right", no_wrap=True)
    table.add_column("")
    for result in results:
        ratio = result.bulk_rate / result.cycle_rate if result.cycle_rate else 0.0
        table.add_row(
            result.name,
            f"{result.compared:,}",
            f"{result.mismatches:,}",
            f"{result.coverage:.1f}%",
            f"{result.bulk_rate:,.0f}",
            f"{result.cycle_rate:,.0f}",
            f"{ratio:.0f}x",
            f"{result.seconds:.1f} s",
            *([f"{result.unit_share or 0:.0%}"] if shared else []),
            "ok" if result.passed else "FAILED",
        )
    return table


def _failure(console: Console, result: UnitResult) -> None:
    lines = [f"FAILED {result.name}: {result.config}", *(f"  {e}" for e in result.errors)]
    if not result.compared and not result.errors:
        lines.append("  nothing was compared")
    if result.report:
        lines += ["", *(f"  {line}" for line in result.report.splitlines())]
    console.print("\n".join(["", *lines, ""]), markup=False, soft_wrap=True)
