"""The flows `gates` and `cells`: Yosys and ABC onto a library of cells."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..util.yosys import Netlist
from . import gates
from .adders import with_cells
from .both import Place, small_and_fast
from .errors import SynthesisError, TargetMissedError
from .flow import Cost, Flow, files_of, library_of
from .liberty import Library, LibraryCell
from .liberty_syntax import Function
from .netlist import Count, count, depth, load, sections
from .opensta import RESET, abc_delay, sta_delay
from .processes import PROCESSES
from .scripts import CONSTRAINTS, PREPARED, Design, latches, mapped, mapped_on, prepared
from .static_timing import Surroundings, time_netlist
from .tools import placer_version, run_yosys, sta_version, yosys_version
from .wires import core_side, with_lengths


@dataclass(frozen=True)
class Mapped:
    """A design on cells."""

    netlist: Netlist
    library: Library
    effort: str
    aim: float | None
    """ABC's target in picoseconds."""
    depth: int
    abc_ps: float
    """Longest path by ABC's own timing."""
    delay_ps: float | None


def timer(flow: Flow) -> str | None:
    """Name and version of the timer of a flow; None without timing."""
    if flow.kind == "gates":
        return None
    if flow.timing != "opensta":
        return {"own": "mxdot", "abc": "ABC"}[flow.timing]
    sta = sta_version()
    if sta is None:
        raise SynthesisError(
            "OpenSTA is not installed: there is no program sta (Debian, Ubuntu: apt install "
            "opensta; or leave timing to mxdot)"
        )
    return sta


def surroundings(flow: Flow) -> Surroundings:
    """Driver and load around a design; empty outside a built-in process."""
    if flow.process is None:
        return Surroundings()
    process = PROCESSES[flow.process]
    return Surroundings(process.driver, process.load_ff)


Attempt = tuple[str, float | None]
"""Effort and ABC's target in picoseconds of one run."""


def first_attempt(flow: Flow) -> Attempt:
    """Effort and ABC's target in picoseconds for the first run of a flow."""
    if flow.target_levels:
        # Inverters, which are no levels, cost ABC a picosecond each.
        return "area", flow.target_levels * gates.LEVEL_PS + gates.LEVEL_PS - 1.0
    if flow.target_ps:
        return "area", float(flow.target_ps)
    return flow.effort, None if flow.aim_ps is None else float(flow.aim_ps)


def attempts(flow: Flow) -> tuple[tuple[Attempt, ...], ...]:
    """Groups of runs for a flow with a target. The smallest netlist that meets it counts, of the
    first group that has one: on cells no effort is always the smallest.
    """
    first, last = first_attempt(flow), ("speed", None)
    aimed = "speed", first[1]
    if flow.kind != "cells":
        return (first,), (aimed,), (last,)
    return (first, ("balanced", first[1]), ("balanced", None), aimed), (last,)


def check_sections(flow: Flow, effort: str) -> None:
    """ValueError unless the energy of sections can be that of a netlist mapped by `effort`."""
    if flow.wires is not None and effort != "area":
        raise ValueError(
            "effort must be area, without a target, for the energy of sections with wires, "
            f"not {effort}"
        )


def adders_of(verilog: str, flow: Flow) -> tuple[str, str]:
    """Apply `with_cells` where the flow asks for adder cells."""
    wanted = flow.kind == "cells" and flow.adders
    return with_cells(verilog, library_of(flow)) if wanted else (verilog, "")


class Asic:
    """One synthesis in `directory`."""

    def __init__(self, design: Design, flow: Flow, directory: Path, limit: float) -> None:
        self.design, self.flow, self.directory, self.limit = design, flow, directory, limit
        self.around = surroundings(flow)
        self.is_prepared = False
        for name, _, text in files_of(flow):
            (directory / name).write_bytes(text)
        self.library = library_of(flow)
        if not self.library.has_timing:
            raise SynthesisError(
                f"library {self.library.name} has no timing, which mapping needs: none of its "
                "gates has a delay table (cell_rise, cell_fall)"
            )
        if flow.process is not None:
            self.nand2 = self.library.cells[PROCESSES[flow.process].nand2]
            (directory / CONSTRAINTS).write_text(
                f"set_driving_cell {self.around.driver}\nset_load {self.around.load_ff}\n"
            )
        else:
            self.nand2 = self.library.nand2  # its absence is an error before work starts
        (directory / "latches.v").write_text(latches(self.library))
        verilog, self.adders = adders_of(design.verilog, flow)
        (directory / "design.v").write_text(verilog)
        (directory / "adders.v").write_text(self.adders)

    def map(self) -> Mapped:
        """Map the flat design, within the target if there is one."""
        flow = self.flow
        first = first_attempt(flow)
        target, aim = flow.target_levels or flow.target_ps, first[1]
        if target is None or aim is None:  # one synthesis
            return self._run(*first)
        fastest = float("inf")
        for group in attempts(flow):
            met, left = [], list(group)
            while left:
                found = self._run(*left.pop(0))
                reached = found.depth if flow.target_levels else found.delay_ps or 0.0
                if reached <= target:
                    met.append(found)
                    continue
                fastest = min(fastest, reached)
                excess = reached - target
                is_aimed = found.effort == "speed" and found.aim == aim
                if flow.target_ps and is_aimed and excess < aim / 2:
                    left.append(("speed", aim - excess))  # for what ABC does not see
            if met:
                return min(met, key=lambda found: _count(found).area)
        option = "target_levels" if flow.target_levels else "target_ps"
        raise TargetMissedError(option, target, self.design.top, fastest)

    @property
    def preparation(self) -> str:
        """Script that writes `PREPARED`."""
        return prepared(self.design, self.flow, adders=bool(self.adders))

    def prepare(self, kept: str | None) -> str:
        """Text of `PREPARED`, which the syntheses of this object begin with; `kept` if given."""
        path = self.directory / PREPARED
        if kept is None:
            run_yosys(self.preparation, self.directory, self.design.source, self.limit)
            kept = path.read_text()
        path.write_text(kept)
        self.is_prepared = True
        return kept

    def _run(self, effort: str, aim: float | None) -> Mapped:
        if effort == "both":
            return self._both(aim)
        if self.is_prepared:
            script = mapped_on(self.flow, effort, aim)
        else:
            script = mapped(self.design, self.flow, effort, aim, adders=bool(self.adders))
        log = run_yosys(script, self.directory, self.design.source, self.limit)
        netlist = load(self.directory / "netlist.json")[""]
        return self._timed(netlist, effort, aim, log)

    def _both(self, aim: float | None) -> Mapped:
        logs: list[str] = []

        def run(script: str) -> str:
            logs.append(run_yosys(script, self.directory, self.design.source, self.limit))
            return logs[-1]

        black_boxes = {name: LibraryCell(name, 0.0, {}, {}) for name in self.design.black_boxes}
        library = replace(self.library, cells=self.library.cells | black_boxes)
        place = Place(self.design, self.flow, self.directory, library, self.around, run)
        netlist = small_and_fast(place, self.adders, aim)
        return self._timed(netlist, "both", aim, logs[-1])

    def _timed(self, netlist: Netlist, effort: str, aim: float | None, log: str) -> Mapped:
        """A mapped netlist with its delays. log: of ABC."""
        library = self._complete(netlist)
        netlist = self.wired(netlist, library)
        levels = depth(netlist, library)
        abc_ps, delay = levels * gates.LEVEL_PS + gates.LEVEL_PS - 1.0, None
        if self.flow.kind == "cells":
            abc_ps = delay = abc_delay(log)
            if self.flow.timing == "own":
                delay = time_netlist(netlist, library, self.around, RESET.fullmatch).delay_ps
            elif self.flow.timing == "opensta":
                delay = sta_delay(
                    netlist,
                    library,
                    self.directory,
                    libraries=[name for name, _, _ in files_of(self.flow)],
                    around=self.around,
                    guess_ps=abc_ps,
                    source=self.design.source,
                    limit=self.limit,
                )
        return Mapped(netlist, library, effort, aim, levels, abc_ps, delay)

    def with_wires(self, cost: Cost, netlist: Netlist) -> tuple[Cost, Netlist]:
        """Cost and netlist of a synthesis without wires, with those of the flow."""
        library = self._complete(netlist)
        netlist = self.wired(netlist, library)
        delay = time_netlist(netlist, library, self.around, RESET.fullmatch).delay_ps
        clock = 1e6 / delay if cost.fmax_mhz and delay else None
        extra = cost.extra | _wires(self.flow, netlist, library)
        tool = _named([cost.tool, _placer(self.flow)])
        return replace(cost, delay_ps=delay, fmax_mhz=clock, extra=extra, tool=tool), netlist

    def wired(self, netlist: Netlist, library: Library) -> Netlist:
        """The netlist with the lengths of its wires, where the flow has wires."""
        wires, name = self.flow.wires, self.flow.process
        if wires is None or name is None:
            return netlist
        return with_lengths(netlist, library, wires, PROCESSES[name], self.limit)

    def _complete(self, netlist: Netlist) -> Library:
        """Add entries for unmapped cells and black boxes; SynthesisError for unknown cells."""
        cells = dict(self.library.cells)
        for name, number in netlist.types.items():
            if name in cells:
                continue
            if name in self.design.black_boxes:
                cells[name] = LibraryCell(name, 0.0, {}, {})  # paths end at its pins
                continue
            area = gates.unmapped_area(name) if self.flow.kind == "gates" else None
            if area is None:
                raise SynthesisError(
                    f"the library {self.library.name} has no cell for {number} x {name} of "
                    f"{self.design.source}"
                )
            cells[name] = LibraryCell(name, area, {}, {}, {}, Function("0", ()), is_latch=True)
        return replace(self.library, cells=cells)

    def sections(self, found: Mapped) -> dict[str, Count]:
        """Area of each section, from a synthesis that keeps instances of the top apart.

        No section is asked to be faster than the whole: alone it would be made as fast as possible.
        """
        aim = found.abc_ps if found.effort in ("speed", "balanced") else found.aim
        return sections(self._kept(found.effort, aim), _measure(found.library))

    def kept(self, effort: str, aim: float | None) -> dict[str, Netlist]:
        """Map with the instances of the top apart; the modules as `load` reads them.

        aim: for `area` ABC's target, otherwise the delay of the whole. ValueError for a delay with
        wires, which ABC does not see.
        """
        check_sections(self.flow, effort)
        return self._kept(effort, aim)

    def _kept(self, effort: str, aim: float | None) -> dict[str, Netlist]:
        script = mapped(self.design, self.flow, effort, aim, keep=True, adders=bool(self.adders))
        run_yosys(script, self.directory, self.design.source, self.limit)
        return load(self.directory / "netlist.json")

    def cost(self, found: Mapped) -> Cost:
        """Cost of a mapped design, without `seconds`."""
        total = _count(found)
        parts = self.sections(found) if self.flow.keeps_sections else {}
        who = timer(self.flow)
        timed = who not in (None, "ABC") and found.delay_ps and total.flipflops
        generic = self.flow.kind == "gates"
        extra = {
            "combinational": total.area - total.sequential,
            "sequential": total.sequential,
            "latches": total.latches,
            "cells": dict(sorted(found.netlist.types.items())),
            "effort": found.effort,
            "abc_target_ps": found.aim,
            "timing": who,
            "library": found.library.name,
            **({} if self.flow.process is None else {"process": self.flow.process}),
            **({} if self.flow.wires is None else _wires(self.flow, found.netlist, found.library)),
            "nand2_area": 1.0 if generic else self.nand2.area,
            "stages_total": sum(part.area for part in parts.values()),
            "stage_flipflops": {name: part.flipflops for name, part in parts.items()},
        }
        return Cost(
            area=total.area,
            unit="NAND2" if generic else "um2",
            nand2=total.area if generic else total.area / self.nand2.area,
            flipflops=total.flipflops,
            depth=found.depth,
            delay_ps=found.delay_ps,
            fmax_mhz=1e6 / found.delay_ps if timed and found.delay_ps else None,
            stages={name: part.area for name, part in parts.items()},
            extra=extra,
            tool=_named(
                [
                    yosys_version(),
                    who if self.flow.timing == "opensta" else None,
                    _placer(self.flow),
                ]
            ),
        )


def _count(found: Mapped) -> Count:
    return count({"": found.netlist}, "", _measure(found.library))


def _placer(flow: Flow) -> str | None:
    return placer_version() if flow.wires == "placed" else None


def _named(tools: list[str | None]) -> str:
    return "; ".join(filter(None, tools))


def _wires(flow: Flow, netlist: Netlist, library: Library) -> dict[str, Any]:
    """Source and total length of wires, and the area of the core that they were counted in."""
    return {
        "wires": flow.wires,
        "wire_um": sum((netlist.lengths or {}).values()),
        "core_area": core_side(netlist, library) ** 2,
    }


def _measure(library: Library):
    def measure(name: str) -> tuple[float, str]:
        cell = library.cells[name]
        return cell.area, "latch" if cell.is_latch else "flipflop" if cell.clock else "gate"

    return measure
