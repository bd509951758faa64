"""measure: the cost of a design, from the cache or by synthesis."""

import gzip
import hashlib
import json
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from ..util.files import write_file
from ..util.runs import scratch
from ..util.yosys import Cell, Netlist
from . import fpga
from .adders import sample
from .asic import Asic, adders_of, attempts, first_attempt, surroundings, timer
from .errors import TargetMissedError, naming
from .flow import Cost, Flow, digest_of
from .scripts import Design, mapped
from .scripts import fpga as fpga_script
from .tools import nextpnr_version, yosys_version

FORMAT = 1
"""Version of the entries; a new number makes all existing ones unknown."""


class Cache:
    """A directory of JSON files that any number of processes may share.

    Entries are written to a temporary name and renamed: each is whole or absent. Unreadable
    entries are made again.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = Path(directory)

    @staticmethod
    def key(*parts: Any) -> str:
        """Hash plain JSON values."""
        return hashlib.sha256(json.dumps([FORMAT, *parts], sort_keys=True).encode()).hexdigest()

    def read(self, key: str, kind: str) -> Any:
        """Read an entry, or None. `kind` separates several entries of one key."""
        try:
            return json.loads(gzip.decompress(self._path(key, kind).read_bytes()))
        except (OSError, EOFError, RecursionError, ValueError, zlib.error):
            return None

    def write(self, key: str, kind: str, value: Any) -> None:
        """Store a value of plain JSON types."""
        path = self._path(key, kind)
        write_file(path, gzip.compress(json.dumps(value).encode(), mtime=0))

    def _path(self, key: str, kind: str) -> Path:
        return self.directory / key[:2] / f"{key}.{kind}.json.gz"


TIME_LIMIT = 1800.0
"""Seconds for one run of one tool."""


def measure(
    verilog: str,
    top: str,
    flow: Flow | None = None,
    *,
    cache_dir: Path,
    parameters: Mapping[str, str | int] | None = None,
    systemverilog: bool = False,
    source: str = "design.v",
    black_boxes: Sequence[str] = (),
    limit: float = TIME_LIMIT,
) -> Cost:
    """Measure the cost of module `top` of a Verilog text; the default flow is `gates`.

    parameters: values for parameters of `top`, numbers or strings in double quotes. source: name of
    the text in errors. black_boxes: modules left out: they have no area and no delay, and paths end
    and start at their pins. cache_dir: results by the hash of text, scripts, options, library and
    tool versions; processes may share it. limit: seconds for each run of a tool.

    Raises SynthesisError (a ValueError) of one line for wrong Verilog, a wrong library or a tool
    that fails; TargetMissedError, a subclass, which is cached, when the target cannot be met;
    ModuleNotFoundError without Yosys or nextpnr.
    """
    design = _design(verilog, top, parameters, systemverilog, source)
    design = replace(design, black_boxes=tuple(black_boxes))
    return _synthesise(design, flow or Flow(), Cache(cache_dir), limit, False)[0]


def measure_netlist(
    verilog: str,
    top: str,
    flow: Flow | None = None,
    *,
    cache_dir: Path,
    parameters: Mapping[str, str | int] | None = None,
    systemverilog: bool = False,
    source: str = "design.v",
    limit: float = TIME_LIMIT,
) -> tuple[Cost, Netlist]:
    """Measure as `measure`, and return the flat netlist too; for the flows `gates` and `cells`."""
    flow = flow or Flow()
    if flow.kind not in ("gates", "cells"):
        raise ValueError(f"a netlist of cells is for the flows gates and cells, not {flow.kind}")
    design = _design(verilog, top, parameters, systemverilog, source)
    cost, netlist = _synthesise(design, flow, Cache(cache_dir), limit, True)
    assert netlist is not None
    return cost, netlist


def script(
    verilog: str,
    top: str,
    flow: Flow | None = None,
    *,
    parameters: Mapping[str, str | int] | None = None,
    systemverilog: bool = False,
    source: str = "design.v",
) -> str:
    """Yosys script of a flow; it reads design.v and, for cells, cells.lib.

    With a target it is the script of the first attempt.
    """
    flow = flow or Flow()
    design = _design(verilog, top, parameters, systemverilog, source)
    if flow.effort == "both":
        raise ValueError("script must be of another effort than both, which maps several times")
    if flow.kind in ("gates", "cells"):
        adders = bool(adders_of(verilog, flow)[1])
        return mapped(design, flow, *first_attempt(flow), adders=adders)
    return fpga_script(design, flow)


def _design(
    verilog: str,
    top: str,
    parameters: Mapping[str, str | int] | None,
    systemverilog: bool,
    source: str,
) -> Design:
    values = tuple((name, str(value)) for name, value in (parameters or {}).items())
    return Design(verilog, top, values, systemverilog, source)


def _synthesise(
    design: Design, flow: Flow, cache: Cache, limit: float, wanted: bool
) -> tuple[Cost, Netlist | None]:
    key = cache.key(*_inputs(design, flow))
    kept = cache.read(key, "cost")
    netlist = cache.read(key, "netlist") if wanted and kept is not None else None
    if kept is not None and (netlist is not None or not wanted):
        return Cost.from_dict(kept), None if netlist is None else _unpack(netlist)
    missed = cache.read(key, "missed")
    if missed is not None:
        raise TargetMissedError(*missed)
    try:
        return _made(design, flow, cache, key, limit)
    except TargetMissedError as error:
        cache.write(key, "missed", error.arguments)
        raise


def _made(
    design: Design, flow: Flow, cache: Cache, key: str, limit: float
) -> tuple[Cost, Netlist | None]:
    """Synthesise and store the result."""
    started = time.perf_counter()
    plain = None
    if flow.wires is not None and flow.target_ps is None:  # mapping does not know of wires
        plain = _synthesise(design, replace(flow, wires=None), cache, limit, True)
    with scratch("synth") as directory, naming(directory):
        if plain is not None and plain[1] is not None:
            cost, netlist = Asic(design, flow, directory, limit).with_wires(plain[0], plain[1])
            cache.write(key, "netlist", _pack(netlist))
        elif flow.kind in ("gates", "cells"):
            run = Asic(design, flow, directory, limit)
            if flow.aim_ps is not None:
                _prepare(run, cache)
            found = run.map()
            cost = run.cost(found)
            cache.write(key, "netlist", _pack(found.netlist))
            netlist = found.netlist
        else:
            cost, netlist = fpga.cost(design, flow, directory, limit), None
    cost = replace(cost, seconds=round(time.perf_counter() - started, 3))
    cache.write(key, "cost", cost.to_dict())  # after the netlist, which it promises
    return cost, netlist


def _prepare(run: Asic, cache: Cache) -> None:
    """Begin with what aims have in common, from the cache if it is there: most of the time."""
    parts = [run.design.verilog, run.preparation, digest_of(run.flow), run.adders, yosys_version()]
    key = cache.key("prepared", *parts)
    kept = cache.read(key, "prepared")
    text = run.prepare(kept)
    if kept is None:
        cache.write(key, "prepared", text)


def _own_timing() -> str:
    """Hash of the modules that find adders and time netlists: they have no version of their own."""
    return code_digest(("adders.py", "delay_tables.py", "static_timing.py"))


def _own_mapping() -> str:
    """Hash of the modules that decide a netlist of the effort `both`."""
    return code_digest(("both.py", "scripts.py", "sizing.py", "variants.py"))


@cache
def code_digest(names: tuple[str, ...]) -> str:
    """Hash of files of this folder."""
    digest = hashlib.sha256()
    for name in names:
        digest.update(Path(__file__).with_name(name).read_bytes())
    return digest.hexdigest()


def _inputs(design: Design, flow: Flow) -> list[Any]:
    """Everything that a result depends on."""
    options = flow.to_dict() | {"liberty": None, "sections": flow.keeps_sections}
    if flow.kind in ("gates", "cells"):
        with_adders = sample() if flow.kind == "cells" and flow.adders else None
        aimed = flow.kind == "cells" and flow.target_ps is not None
        efforts = ("area", "balanced", "speed") if aimed else ("area", "speed")
        scripts = [
            mapped(design, flow, effort, target, keep=True)
            for effort in dict.fromkeys((*efforts, flow.effort))
            for target in (None, 1.0)
        ]
        library = digest_of(flow)
        tools = [yosys_version(), timer(flow), vars(surroundings(flow)), with_adders]
        tools += [_own_timing()] if flow.kind == "cells" else []
        tools += [_own_mapping()] if flow.effort == "both" else []
        tools += [attempts(flow)] if aimed else []
    else:
        scripts = [fpga_script(design, flow, keep=keep) for keep in (False, True)]
        library = None
        placed = flow.kind == "ecp5" and flow.place
        tools = [yosys_version(), [nextpnr_version(), fpga.DEVICES] if placed else None]
    return [design.verilog, options, scripts, library, tools]


def _pack(netlist: Netlist) -> list[Any]:
    cells = [[cell.name, cell.type, cell.pins] for cell in netlist.cells]
    lengths = [] if netlist.lengths is None else [list(netlist.lengths.items())]
    return [netlist.name, netlist.ports, cells, *lengths]


def _unpack(values: list[Any]) -> Netlist:
    name, ports, cells, *lengths = values
    return Netlist(
        name,
        {port: (direction, bits) for port, (direction, bits) in ports.items()},
        [Cell(*cell) for cell in cells],
        lengths=dict(map(tuple, lengths[0])) if lengths else None,
    )
