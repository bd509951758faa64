"""Area and delay of this project's units, next to open designs: measures docs/area.md again.

    make area-report [ARGS='--process asap7 --only exact']
    make area-report ARGS='--clock --effort speed'
    make area-report ARGS='--sections --effort speed'

`--clock` makes the table of units by number of stages, `--sections` the table of single sections
of E4M3 units. Every unit has 32 lanes. `products` is the combinational part before scales:
decoders, multipliers, alignment and the exact sum. All other rows are whole units with handshake.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from amaranth.hdl import Elaboratable, Module, Shape, Signal, Value

from ..hw.dot.sections import build
from ..hw.hierarchy import submodule, used
from ..hw.pipeline import Section
from ..hw.verilog import generate, modules_text
from ..model import DotConfig
from ..model.errors import one_line
from ..model.pipeline.widths import Widths
from . import SYNTHESES, Flow, measure
from .errors import SynthesisError
from .processes import PROCESSES

LANES = 32
FORMATS = ("e4m3", "e5m2", "int8", "e3m2", "e2m3", "e2m1")
RUN_TIME = "e4m3,e5m2,e2m1"
LOOP = 7  # products that keep a loop of one addition busy
TOP = "measured"


class ProductsOnly(Elaboratable):
    """The first sections of a unit as a top module: a block's products and their exact sum."""

    def __init__(self, fmt: str) -> None:
        self.config = DotConfig(fmt, LANES, "fixed:64:-40", load_c=False, status=False)
        bits = self.config.bits_a * LANES
        widths = Widths(self.config)
        self.ports = {
            "a": Signal(bits, name="a"),
            "b": Signal(bits, name="b"),
            "total": Signal(widths.total_bits, name="total"),
        }
        if not widths.has_partial_products:
            self.ports["special"] = Signal(3, name="special")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        values: dict[str, Any] = {"a": self.ports["a"], "b": self.ports["b"]}
        parts = self.config.pipeline.sections
        sections: list[Any] = build(Widths(self.config))
        for part, section in zip(parts, sections, strict=True):
            submodule(m, part.name, section)
            for name in section.reads:
                if name in values:  # no scale, no mode
                    m.d.comb += section.i[name].eq(values[name])
            values |= {name: section.o[name] for name in section.writes}
            if part.kind == "sum":
                break
        for section in sections:
            used(section)  # also sections after the sum, which are not built
        m.d.comb += self.ports["total"].eq(values["total"])
        if "special" in self.ports:
            m.d.comb += self.ports["special"].eq(values["special"].as_value())
        return m

    def verilog(self) -> str:
        return modules_text(self, TOP, self.ports)


def products_text(fmt: str) -> str:
    """Verilog of a format's `ProductsOnly`."""
    return ProductsOnly(fmt).verilog()


class Alone(Elaboratable):
    """One section as a top module."""

    def __init__(self, section: Section) -> None:
        self.section = section
        self.inputs, self.outputs = (
            {name: Signal(Shape.cast(shape), name=f"{side}_{name}") for name, shape in all_.items()}
            for side, all_ in (("i", section.reads), ("o", section.writes))
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        section: Any = submodule(m, "section", self.section)
        for name, signal in self.inputs.items():
            m.d.comb += Value.cast(section.i[name]).eq(signal)
        for name, signal in self.outputs.items():
            m.d.comb += signal.eq(Value.cast(section.o[name]))
        return m

    def verilog(self) -> str:
        sides = (("i", self.inputs), ("o", self.outputs))
        ports = {f"{side}_{name}": s for side, all_ in sides for name, s in all_.items()}
        return modules_text(self, TOP, ports)


@dataclass(frozen=True)
class Entry:
    """A row of the table."""

    name: str
    verilog: Callable[[], str]
    """The text of the module `TOP`."""


def entries() -> Iterator[Entry]:
    """Rows of the table by default."""
    for fmt in FORMATS:
        yield Entry(f"{fmt} products", partial(products_text, fmt))
    for fmt in FORMATS:
        yield _unit(fmt, "exact", 1)
    yield _unit("e4m3", "exact", 4)
    yield _unit("e4m3", "aligned:13", 1)
    yield _unit("e4m3", "aligned:24", 1)
    yield _unit(RUN_TIME, "aligned:13", 1)
    yield _unit(RUN_TIME, "aligned:13", 4)
    yield _unit(RUN_TIME, "exact", 4)
    yield _unit(RUN_TIME, "exact", 4, interleave=2)


def clocked() -> Iterator[Entry]:
    """Units with flags, by number of stages; registers are placed inside the loop too."""
    for rule in ("aligned:13", "exact"):
        unit = DotConfig("e4m3", LANES, rule)
        yield _unit("e4m3", rule, 4, status=True)
        for stages in (4, 8, len(unit.pipeline.sections)):
            yield _unit("e4m3", rule, stages, interleave=LOOP, status=True)
        most = unit.stage_limits[1]
        interval = DotConfig("e4m3", LANES, rule, most).interval
        yield _unit("e4m3", rule, most, interleave=interval, status=True)


def sections() -> Iterator[Entry]:
    """Sections of units whose loop is one addition, each once."""
    done = set()
    for rule in ("aligned:13", "exact"):
        config = DotConfig("e4m3", LANES, rule)
        built = [used(section) for section in build(Widths(config))]
        for part, section in zip(config.pipeline.sections, built, strict=True):
            if part.name not in done:
                yield Entry(part.name, used(Alone(section)).verilog)
            done.add(part.name)


def _unit(formats: str, rule: str, stages: int, interleave: int = 1, status: bool = False) -> Entry:
    config = DotConfig(formats, LANES, rule, stages, status=status, interleave=interleave)
    name = f"{formats} {rule}, {stages} stage{'s' if stages > 1 else ''}"
    name += f", interleave {interleave}" if interleave > 1 else ""
    return Entry(name, partial(generate, config, TOP))


def report(
    rows: list[Entry], processes: list[str], effort: str, adders: bool, cache: Path
) -> Iterator[str]:
    """Lines of the Markdown table, each as soon as it is measured."""
    columns = "".join(f" {name}: um2 | ps |" for name in processes)
    yield f"| unit |{columns} flip-flops |"
    yield "|---|" + "---|" * (2 * len(processes) + 1)
    for entry in rows:
        text, cells, flipflops = entry.verilog(), "", 0
        for name in processes:
            flow = Flow.of_process(name, effort=effort, adders=adders, sections=False)
            cost = measure(text, TOP, flow, cache_dir=cache)
            cells += f" {cost.area:,.0f} | {cost.delay_ps:,.0f} |"
            flipflops = cost.flipflops
        yield f"| {entry.name} |{cells} {flipflops:,} |"


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    assert __doc__
    parser = argparse.ArgumentParser("area-report", description=__doc__.partition("\n")[0])
    parser.add_argument("--process", default="asap7,sky130", metavar="P,...", help="%(default)s")
    parser.add_argument("--only", default="", metavar="TEXT", help="rows whose names have it")
    table = parser.add_mutually_exclusive_group()
    table.add_argument("--clock", action="store_true", help="units against their stages")
    table.add_argument("--sections", action="store_true", help="sections alone")
    parser.add_argument("--no-adders", action="store_true", help="loose gates for adders")
    parser.add_argument("--effort", default="balanced", help="%(default)s")
    parser.add_argument("--cache", type=Path, default=SYNTHESES, help="%(default)s")
    args = parser.parse_args(arguments)
    try:
        processes = _known(args.process.split(","), PROCESSES)
        table = clocked if args.clock else sections if args.sections else entries
        rows = [row for row in table() if args.only in row.name]
        if not rows:
            raise ValueError(f"only must be part of a row's name, not {args.only!r}")
        for line in report(rows, processes, args.effort, not args.no_adders, args.cache):
            print(line, flush=True)
    except (ValueError, SynthesisError) as error:
        print(f"area-report: error: {one_line(str(error))}", file=sys.stderr)
        return 2
    return 0


def _known(names: list[str], known: Mapping[str, object]) -> list[str]:
    for name in names:
        if name not in known:
            raise ValueError(f"process must be one of {', '.join(known)}, not {name!r}")
    return names


if __name__ == "__main__":
    sys.exit(main())
