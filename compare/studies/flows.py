"""Flows by name: `gates` and the other processes, `cells`, `xilinx`, `xilinx-dsp`, `ecp5`,
`ecp5-dsp`, or `none`."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...model.errors import choice, printable
from ...synth import Flow
from ...synth.flow import EFFORTS, FPGA, paths
from ...synth.processes import NAMES as PROCESSES
from ...util.sweep import items

NAMES = (*PROCESSES, "cells", "xilinx", "xilinx-dsp", "ecp5", "ecp5-dsp")
NONE = "none"
TIMED = [name for name in PROCESSES if name != "gates"]
"""Processes with a clock and wires."""


@dataclass(frozen=True)
class Synthesis:
    """Options of synthesis, as texts of `mxdot compare`."""

    flow: str = "gates"
    """Names of flows, processes included."""
    liberty: tuple[Path, ...] = ()
    """Files of the one library of `cells`."""
    target_ps: tuple[int, ...] = ()
    target_levels: tuple[int, ...] = ()
    clock: tuple[float, ...] = ()
    """Clock periods in picoseconds: the smallest unit at each of them in each process."""
    effort: str = "speed"
    wires: str | None = None
    """Value for `Flow.wires` of the processes."""
    energy: bool = True
    """Measure the energy of generated units in the flows `gates` and `cells`."""
    sections: bool | None = None
    """Value for `Flow.sections`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "liberty", paths(self.liberty))

    def on(self, processes: str) -> "Synthesis":
        """The synthesis on these processes, with applicable targets and without the library of
        `cells`.
        """
        flow = with_processes(None, processes) or ""
        kinds = {_kind(name) for name in items(flow, "process")}
        clocked = kinds == {"cells"}
        return replace(
            self,
            flow=flow,
            liberty=(),
            target_ps=self.target_ps if "cells" in kinds else (),
            clock=self.clock if clocked else (),
            target_levels=self.target_levels if "gates" in kinds else (),
            wires=self.wires if "cells" in kinds else None,
        )

    def flows(self) -> list[Flow | None]:
        """Flows, once per target; [None] for no synthesis.

        ValueError for an unknown name, for an option that no flow takes, and for values that `Flow`
        refuses.
        """
        choice("effort", self.effort, EFFORTS)
        names = items(self.flow, "flow")
        if names == [NONE]:
            return [None]
        for name in names:
            if name not in NAMES:
                raise ValueError(f"flow must be one of {', '.join([*NAMES, NONE])}, not {name!r}")
        for path in self.liberty:
            if not path.is_file():
                raise ValueError(f"liberty {path} is not a file")
            printable("liberty", str(path))
        self._check_used(names)
        return [flow for name in dict.fromkeys(names) for flow in self._of(name)]

    def _check_used(self, names: Sequence[str]) -> None:
        kinds = {_kind(name) for name in names}
        if self.clock:
            self._check_clock(names)
        if self.wires is not None and not set(names) & set(TIMED):
            raise ValueError(f"wires are for process {', '.join(TIMED)}, not {self.flow}")
        if "cells" in names and not self.liberty:
            raise ValueError("flow cells needs a cell library: --liberty FILE")
        if self.liberty and "cells" not in names:
            raise ValueError(f"liberty is for flow cells, not {self.flow}")
        for option, given, users in (
            ("target-ps", self.target_ps, ("cells", "ecp5")),
            ("target-levels", self.target_levels, ("gates",)),
        ):
            if given and not kinds & set(users):
                raise ValueError(f"{option} is for flow {' or '.join(users)}, not {self.flow}")

    def _check_clock(self, names: Sequence[str]) -> None:
        for name in names:
            if name not in TIMED:
                raise ValueError(f"clock is for process {', '.join(TIMED)}, not {name}")
        if self.target_ps:
            raise ValueError("clock and target-ps exclude each other")
        if self.effort in ("area", "balanced"):
            raise ValueError(
                "effort must be speed or both with a clock, which chooses effort and aim itself, "
                f"not {self.effort}"
            )

    def _of(self, name: str) -> list[Flow | None]:
        kind, dsp = _kind(name), name.endswith("-dsp")
        how: dict[str, Any] = {"effort": self.effort, "sections": self.sections}
        if kind == "gates":
            levels = self.target_levels or (None,)
            return [Flow(kind, **how, target_levels=t) for t in levels]
        targets = self.target_ps or (None,)
        if kind == "cells":
            files, process = (self.liberty, None) if name == kind else ((), name)
            how |= {"process": process, "wires": None if name == kind else self.wires}
            return [Flow(kind, files, **how, target_ps=t) for t in targets]
        if kind == "ecp5":
            return [Flow(kind, dsp=dsp, target_ps=t) for t in targets]
        return [Flow(kind, dsp=dsp)]


def with_processes(flow: str | None, processes: str | None) -> str | None:
    """Join the options `flow` and `process`; None when neither is given.

    ValueError for an unknown process.
    """
    if processes is None:
        return flow
    for name in items(processes, "process"):
        choice("process", name, PROCESSES)
    return processes if flow is None else f"{flow},{processes}"


def _kind(name: str) -> str:
    """Kind of `Flow` of a name: a process is mapped onto cells."""
    return "cells" if name in PROCESSES and name != "gates" else name.removesuffix("-dsp")


def flow_name(flow: Flow) -> str:
    """The name of `flow` in `NAMES`."""
    if flow.process is not None:
        return flow.process
    return f"{flow.kind}-dsp" if flow.kind in FPGA and flow.dsp else flow.kind


def flow_text(flow: Flow | None) -> str | None:
    """Text of a row's flow: name, library and effort."""
    if flow is None:
        return None
    words = [flow_name(flow)]
    words += [flow.liberty[0].name.partition(".")[0]] if flow.liberty else []
    words += {"area": ["for area"], "balanced": ["balanced"], "both": ["small and fast"]}.get(
        flow.effort, []
    )
    words += [f"with wires ({flow.wires})"] if flow.wires is not None else []
    return " ".join(words)


def target_text(flow: Flow | None) -> str | None:
    """Text of a row's greatest allowed delay."""
    if flow is None or flow.target_levels is flow.target_ps is None:
        return None
    return f"{flow.target_ps} ps" if flow.target_levels is None else f"{flow.target_levels} levels"


def flow_options(flow: Flow | None) -> str:
    """Options of `mxdot compare` that request this flow."""
    return shlex.join(["--flow", NONE] if flow is None else _words(flow, flow_name(flow)))


def synth_options(flow: Flow) -> list[str]:
    """Options of `mxdot synth` for this flow."""
    words = _words(flow, flow.process or flow.kind)
    words += ["--aim-ps", str(flow.aim_ps)] if flow.aim_ps is not None else []
    words += ["--no-sections"] if flow.sections is False else []
    words += ["--no-dsp"] if flow.kind in FPGA and not flow.dsp else []
    return words


def _words(flow: Flow, name: str) -> list[str]:
    words = ["--flow" if flow.process is None else "--process", name]
    words += ["--liberty", *map(str, flow.liberty)] if flow.liberty else []
    words += ["--effort", flow.effort] if flow.effort != "speed" else []
    words += ["--wires", flow.wires] if flow.wires is not None else []
    words += ["--target-ps", str(flow.target_ps)] if flow.target_ps is not None else []
    words += ["--target-levels", str(flow.target_levels)] if flow.target_levels is not None else []
    return words
