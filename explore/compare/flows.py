"""Flows by name: `gates`, `cells`, `xilinx`, `xilinx-dsp`, `ecp5`, `ecp5-dsp`, or `none`."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...model.errors import printable
from ..cost import Flow
from .sweep import items

NAMES = ("gates", "cells", "xilinx", "xilinx-dsp", "ecp5", "ecp5-dsp")
NONE = "none"


@dataclass(frozen=True)
class Synthesis:
    """How units are synthesised; texts and options as `mxdot compare` takes them."""

    flow: str = "gates"
    liberty: Path | None = None
    target_ps: tuple[int, ...] = ()
    target_levels: tuple[int, ...] = ()
    effort: str = "speed"
    energy: bool = True
    """Also the energy proxy, of generated units in the flows gates and cells."""

    def flows(self) -> list[Flow | None]:
        """The flows, once for each of their targets; [None] for no synthesis.

        ValueError for an unknown name, for an option that none of the flows takes, and for what
        `Flow` refuses.
        """
        names = items(self.flow, "flow")
        if names == [NONE]:
            return [None]
        for name in names:
            if name not in NAMES:
                raise ValueError(f"flow must be one of {', '.join([*NAMES, NONE])}, not {name!r}")
        if self.liberty is not None and not self.liberty.is_file():
            raise ValueError(f"liberty {self.liberty} is not a file")
        printable("liberty", str(self.liberty))
        self._check_used(names)
        return [flow for name in dict.fromkeys(names) for flow in self._of(name)]

    def _check_used(self, names: Sequence[str]) -> None:
        kinds = {name.partition("-")[0] for name in names}
        if "cells" in kinds and self.liberty is None:
            raise ValueError("flow cells needs a cell library: --liberty FILE")
        for option, given, users in (
            ("liberty", self.liberty, ("cells",)),
            ("target-ps", self.target_ps, ("cells", "ecp5")),
            ("target-levels", self.target_levels, ("gates",)),
        ):
            if given and not kinds & set(users):
                raise ValueError(f"{option} is for flow {' or '.join(users)}, not {self.flow}")

    def _of(self, name: str) -> list[Flow | None]:
        kind, _, dsp = name.partition("-")
        if kind == "gates":
            levels = self.target_levels or (None,)
            return [Flow(kind, effort=self.effort, target_levels=t) for t in levels]
        targets = self.target_ps or (None,)
        if kind == "cells":
            return [
                Flow(kind, liberty=self.liberty, effort=self.effort, target_ps=t) for t in targets
            ]
        if kind == "ecp5":
            return [Flow(kind, dsp=bool(dsp), target_ps=t) for t in targets]
        return [Flow(kind, dsp=bool(dsp))]


def flow_name(flow: Flow) -> str:
    """The name of `flow` in `NAMES`."""
    return f"{flow.kind}-dsp" if flow.kind in ("xilinx", "ecp5") and flow.dsp else flow.kind


def flow_text(flow: Flow | None) -> str | None:
    """What a row says of its flow: the name, the library and the effort."""
    if flow is None:
        return None
    words = [flow_name(flow)]
    words += [flow.liberty.name.partition(".")[0]] if flow.liberty is not None else []
    words += ["for area"] if flow.effort == "area" else []
    return " ".join(words)


def target_text(flow: Flow | None) -> str | None:
    """What a row says of the greatest delay that was asked for."""
    if flow is None or flow.target_levels is flow.target_ps is None:
        return None
    return f"{flow.target_ps} ps" if flow.target_levels is None else f"{flow.target_levels} levels"


def flow_options(flow: Flow | None) -> str:
    """The options of `mxdot compare` that ask for this flow."""
    if flow is None:
        return f"--flow {NONE}"
    words = ["--flow", flow_name(flow)]
    words += ["--liberty", str(flow.liberty)] if flow.liberty is not None else []
    words += ["--effort", flow.effort] if flow.effort != "speed" else []
    words += ["--target-ps", str(flow.target_ps)] if flow.target_ps is not None else []
    words += ["--target-levels", str(flow.target_levels)] if flow.target_levels is not None else []
    return shlex.join(words)
