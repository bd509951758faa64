"""Flow: the options of a synthesis, and its cell library. Cost: the result."""

import gzip
import hashlib
import json
import zlib
from codecs import BOM_UTF8
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any

from ..model.errors import choice, integer, reason_of
from ..model.files import read_bytes
from . import gates
from .errors import SynthesisError
from .liberty import Library, merged, parse
from .processes import GATES, NAMES, PROCESSES
from .wires import WIRES, inputs, wire_load

KINDS = ("gates", "cells", "xilinx", "ecp5")
EFFORTS = ("area", "balanced", "speed", "both")
TIMING = ("own", "opensta", "abc")
FPGA = ("xilinx", "ecp5")


@dataclass(frozen=True)
class Flow:
    """Options of a synthesis; ValueError or TypeError when they do not fit together."""

    kind: str = "gates"
    """`gates`: NAND2 equivalents and levels; `cells`: a process or a Liberty library; `xilinx`:
    LUTs, carry and DSPs of the 7 series; `ecp5`: placed and routed on a Lattice ECP5."""
    liberty: tuple[Path, ...] = ()
    """The library of `cells`, .lib or .lib.gz, in one file or several; a path alone is one."""
    effort: str = "speed"
    """Priority for `gates` and `cells` without a target: `area` or `speed`. `cells` also takes
    `balanced`: smaller than `speed`, faster than `area`, and `both`: nearly as small as `balanced`
    and nearly as fast as `speed`.
    """
    target_levels: int | None = None
    """Greatest depth allowed (`gates`); the result is the smallest area within it."""
    target_ps: int | None = None
    """Greatest delay allowed in picoseconds (`cells`), or the clock period asked for (`ecp5`)."""
    aim_ps: int | None = None
    """Delay in picoseconds that ABC aims at in a single synthesis by `effort` (`cells`), whatever
    it reaches; ABC sees neither flip-flops nor adder cells.
    """
    dsp: bool = True
    """Use an FPGA's multipliers."""
    sections: bool | None = None
    """Measure area per section, by a second synthesis that keeps the top's instances apart; default
    for `gates` and `cells`.
    """
    timing: str = "own"
    """Timer of `cells`: `own` (static_timing.py), `opensta`, or `abc`, which ignores flip-flops."""
    adders: bool = True
    """Map rows of adders in generated units to the library's full and half adders (`cells`)."""
    place: bool = True
    """Place and route (`ecp5`), instead of only counting."""
    process: str | None = None
    """Name in `processes.PROCESSES`, instead of `liberty`: its library, driver and load."""
    wires: str | None = None
    """Wires of a process, by `wires.py`: `model`, or `placed` by Coriolis; None for none."""

    def __post_init__(self) -> None:
        choice("flow", self.kind, KINDS)
        choice("effort", self.effort, EFFORTS)
        choice("timing", self.timing, TIMING)
        if self.effort in ("balanced", "both") and self.kind != "cells":
            raise ValueError(
                f"effort must be area or speed for the flow {self.kind}, not {self.effort}"
            )
        self._check_targets()
        object.__setattr__(self, "liberty", paths(self.liberty))
        if self.process is not None:
            choice("process", self.process, PROCESSES)
        for name, kinds in (
            ("target_levels", ("gates",)),
            ("target_ps", ("cells", "ecp5")),
            ("aim_ps", ("cells",)),
            ("liberty", ("cells",)),
            ("process", ("cells",)),
        ):
            if getattr(self, name) not in (None, ()) and self.kind not in kinds:
                raise ValueError(f"{name} is for the flow {' or '.join(kinds)}, not {self.kind}")
        if not self.place and self.kind != "ecp5":
            raise ValueError(f"place is for the flow ecp5, and must be True for {self.kind}")
        if self.kind == "cells" and not self.liberty and self.process is None:
            raise ValueError(
                "the flow cells needs a library: liberty must name a Liberty file, or process be "
                f"one of {', '.join(PROCESSES)}"
            )
        if self.liberty and self.process is not None:
            raise ValueError(f"liberty and process exclude each other: {self.process} has its own")
        self._check_wires()

    def _check_targets(self) -> None:
        for name in ("target_levels", "target_ps", "aim_ps"):
            if getattr(self, name) is not None:
                integer(name, getattr(self, name), 1)
        if self.aim_ps is not None and self.target_ps is not None:
            raise ValueError("aim_ps and target_ps exclude each other: a target chooses its aims")

    def _check_wires(self) -> None:
        if self.wires is None:
            return
        choice("wires", self.wires, WIRES)
        if self.process is None:
            raise ValueError(f"wires need a process of {', '.join(PROCESSES)}, which states them")
        if self.timing != "own":
            raise ValueError(f"timing must be own with wires, not {self.timing}")

    @property
    def keeps_sections(self) -> bool:
        """True when a second synthesis measures sections."""
        return self.kind not in FPGA if self.sections is None else self.sections

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; `wires` only where there are some."""
        values = asdict(self) | {"liberty": [str(path) for path in self.liberty]}
        if self.wires is None:
            del values["wires"]
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Flow":
        """The inverse of `to_dict`; entries may be missing. ValueError for unknown ones."""
        known = [item.name for item in fields(cls)]
        for name in values:
            choice("option of a flow", name, known)
        return cls(**values)

    @classmethod
    def of_process(cls, name: str, **options: Any) -> "Flow":
        """The flow of a name of `processes.NAMES`."""
        choice("process", name, NAMES)
        return cls(**options) if name == GATES else cls("cells", process=name, **options)


def paths(value: Any) -> tuple[Path, ...]:
    """Paths of one file, of several, or of None."""
    if value is None:
        return ()
    if isinstance(value, str | Path):
        return (Path(value),)
    return tuple(map(Path, value))


@dataclass(frozen=True)
class Cost:
    """One synthesis result.

    `area` is in `unit`: NAND2 equivalents, the library's own unit, or LUTs. It includes flip-flops,
    except on an FPGA. `stages` is the area of each instance in the top module, kept apart, and of
    the rest under `(top)`. Their sum exceeds `area`: the flat design shares logic across sections.
    """

    area: float
    unit: str
    nand2: float | None
    """NAND2 equivalents, by the library's own NAND2 cell; None on an FPGA."""
    flipflops: int
    depth: int | None
    """Two-input gates in series on the longest path; None on an FPGA."""
    delay_ps: float | None
    """Longest path in picoseconds; None without timing."""
    fmax_mhz: float | None
    """Greatest clock frequency; None without timing or without flip-flops."""
    stages: dict[str, float]
    extra: dict[str, Any] = field(default_factory=dict)
    tool: str = ""
    """Names and versions of the tools."""
    seconds: float = 0.0
    """Time of the synthesis, also when the result comes from the cache."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Cost":
        """The cost of `to_dict`."""
        return cls(**values)


LARGEST = 2**28
"""Limit in bytes for an unpacked file."""
KEPT = 8
"""Libraries that a process keeps in memory."""
Files = list[tuple[str, str, bytes]]


def library_names(flow: Flow) -> list[str]:
    """File names of the library in a run's directory."""
    return ["cells.lib", *(f"cells{i}.lib" for i in range(1, len(flow.liberty)))]


def files_of(flow: Flow) -> Files:
    """Name in a run's directory, name in messages, and text of each library file.

    SynthesisError when a file cannot be read.
    """
    if flow.process is not None:
        found = [(flow.process, PROCESSES[flow.process].liberty)]
    elif flow.liberty:
        found = [(str(path), _read(path)) for path in flow.liberty]
    else:
        found = [("gates", gates.liberty_text().encode())]
    return [(name, *file) for name, file in zip(library_names(flow), found, strict=True)]


def _read(path: Path) -> bytes:
    try:
        text = read_bytes(path, LARGEST)
        if path.suffix == ".gz":
            with gzip.open(BytesIO(text)) as packed:
                text = packed.read(LARGEST + 1)
    except (OSError, EOFError, zlib.error) as error:
        text = f"the Liberty file {path} cannot be read: {reason_of(error)}"
        raise SynthesisError(text) from None
    if len(text) > LARGEST:
        raise SynthesisError(f"the Liberty file {path} must have at most {LARGEST} bytes")
    return text.removeprefix(BOM_UTF8)


def library_of(flow: Flow) -> Library:
    """The library of a flow, with its wires; SynthesisError for malformed files."""
    library = _library(tuple((source, text) for _, source, text in files_of(flow)))
    if flow.wires is None or flow.process is None:
        return library
    return replace(library, wire_load=wire_load(PROCESSES[flow.process], library))


def digest_of(flow: Flow) -> str:
    """A hash of a library's texts, and of its wires where the flow has them."""
    digest = hashlib.sha256()
    for _, _, text in files_of(flow):
        digest.update(hashlib.sha256(text).digest())
    if flow.wires is not None and flow.process is not None:
        digest.update(json.dumps(inputs(flow.wires, PROCESSES[flow.process])).encode())
    return digest.hexdigest()


@lru_cache(KEPT)
def _library(files: tuple[tuple[str, bytes], ...]) -> Library:
    return merged([parse(text.decode(errors="replace"), source) for source, text in files])
