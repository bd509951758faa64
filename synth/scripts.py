"""Yosys scripts: everything that a synthesis does, so that Yosys alone can repeat it.

Each script reads design.v and writes netlist.json; `gates` and `cells` also read a library
(cells.lib) and its latches.v. A `Design` checks names of users and files before scripts hold
them. Verilog for other tools holds names as `escaped` gives them.
"""

import re
from dataclasses import dataclass

from ..model.errors import identifier
from .flow import Flow, library_names
from .liberty import Library

# Yosys's own script for ABC has `&fraig -x`, which does not finish on large units. `dc2` saves
# area and makes deep chains; `if -g` balances them again, in sums of products.
# `balanced` maps by `&nf`, which keeps the depth of the structure after `dc2`.
RESTRUCTURE = {
    "balanced": "strash;ifraig;scorr;dc2;strash;&get,-n;&dch,-f;&nf,{D};&put",
    "area": "strash;ifraig;scorr;dc2;strash;dch",
    "speed": "strash;ifraig;scorr;dc2;strash;if,-g;strash;if,-g;strash;dch",
}
# Levels as `speed` balances them, mapped by `&nf`: sizes of cells come later, for the whole.
QUICK = "strash;ifraig;scorr;dc2;strash;if,-g;strash;if,-g;strash;&get,-n;&dch,-f;&nf,{D};&put"
MAP = {
    ("gates", "area"): "map,-a",
    ("gates", "speed"): "map,{D}",
    ("cells", "area"): "map,-a;topo;buffer;topo;stime",
    ("cells", "balanced"): "topo;buffer;topo;upsize,{D};dnsize,{D};topo;stime",
    ("cells", "speed"): "map,{D};topo;buffer;upsize,{D};dnsize,{D};topo;stime",
}

BALANCED_PS = 1000.0
"""Target of `balanced`: shorter than most paths, so that sizes favour speed."""

VALUE = re.compile(r"-?\d+|\d+'s?[bodh][0-9a-fA-F_xz]+|\"[^\"\s;]*\"", re.ASCII)
"""Parameter value: a number, or a string of one word."""


@dataclass(frozen=True)
class Design:
    """Verilog to synthesise; ValueError for text that must not reach Yosys."""

    verilog: str
    top: str
    parameters: tuple[tuple[str, str], ...] = ()
    """Names and values of the top's parameters."""
    systemverilog: bool = False
    source: str = "design.v"
    """Name of the text in error messages."""
    black_boxes: tuple[str, ...] = ()
    """Modules without area and delay."""

    def __post_init__(self) -> None:
        identifier("top", self.top)
        for name in self.black_boxes:
            if identifier("a black box", name) == self.top:
                raise ValueError(f"a black box must be a module below {self.top}, not {name!r}")
        for name, value in self.parameters:
            identifier("the name of a parameter", name)
            if not VALUE.fullmatch(value):
                raise ValueError(
                    f"parameter {name} must be a Verilog number or a quoted string, not {value!r}"
                )


def escaped(name: str) -> str:
    """Verilog identifier for a name of any characters except white space."""
    return f"\\{name} "


INVERTED = "mxdot_adder_inverted"
"""A full adder on a cell that inverts both outputs, with inverted inputs instead."""

CONSTRAINTS = "around.constr"
"""File with driver and load of a design, for ABC."""


def read(design: Design, keep: bool) -> list[str]:
    """Commands that read a design; `keep` keeps instances in the top as modules."""
    texts = [(name, value) for name, value in design.parameters if value.startswith('"')]
    numbers = [item for item in design.parameters if item not in texts]
    # Yosys would run the C functions that a text imports: without DPI it refuses them.
    lines = [f"read_verilog -nodpi {'-sv ' if design.systemverilog else ''}design.v"]
    lines += [f"chparam -set {name} {value} {design.top}" for name, value in texts]
    lines += [
        " ".join(
            [f"hierarchy -check -top {design.top}"]
            + [f"-chparam {name} {value}" for name, value in numbers]
        )
    ]
    lines += [f"blackbox {name}" for name in design.black_boxes]
    # The text's own wishes for boundaries would hide cells from the count.
    lines += ["setattr -mod -unset keep_hierarchy", "setattr -unset keep_hierarchy"]
    if keep:
        lines += [
            "select -set sections A:top/c:* %M",
            "setattr -mod -set keep_hierarchy 1 @sections",
        ]
    return lines


def mapped(
    design: Design,
    flow: Flow,
    effort: str,
    target: float | None = None,
    *,
    keep: bool = False,
    adders: bool = False,
) -> str:
    """The script of `gates` and `cells`; `target` is ABC's, in picoseconds.

    adders: whether design.v has adders that adders.v makes cells of (`adders.py`).
    """
    return _text(_front(design, flow, keep, adders) + _back(flow, effort, target))


PREPARED = "prepared.il"
"""File of a design that has its flip-flops and adders, and no other cells yet."""


def prepared(design: Design, flow: Flow, *, adders: bool = False) -> str:
    """The part of `mapped` that effort and target do not change; it writes `PREPARED`."""
    return _text([*_front(design, flow, False, adders), f"write_rtlil {PREPARED}"])


def mapped_on(flow: Flow, effort: str, target: float | None = None) -> str:
    """The rest of `mapped`, which reads `PREPARED`."""
    return _text([f"read_rtlil {PREPARED}", *_back(flow, effort, target)])


def before_adders(design: Design) -> str:
    """Begin the effort `both`: a flat design with adders as instances, in plain.il and .json."""
    lines = [*read(design, False), "synth -noshare -noabc -flatten -run coarse:"]
    return _text([*lines, "write_rtlil plain.il", "write_json plain.json"])


def after_adders(flow: Flow, *, adders: bool, inverted: bool) -> str:
    """Go on with adder cells and flip-flops, in gates.il and gates.json.

    inverted: whether inverted.txt names adders for the module in inverted.v.
    """
    lines = ["read_rtlil plain.il"]
    if inverted:
        lines += ["select -read inverted.txt", f"chtype -set {INVERTED}", "select -clear"]
        lines += ["techmap -map inverted.v"]
    # submod loses nets of several names, and wires with drivers on both sides.
    lines += [*_cells(flow, adders), "splitnets", "opt_clean -purge"]
    lines += ["write_rtlil gates.il", "write_json gates.json"]
    return _text(lines)


WAYS = ("small", "quick", "fast")
"""Ways to map a group of gates: by `balanced`, by QUICK, and by `speed`."""


def grouped(flow: Flow, groups: list[str]) -> str:
    """Map groups of gates, which NAME.txt lists, in each of WAYS into a .json file."""
    lines = ["read_rtlil gates.il"]
    for name in groups:
        lines += [f"select -read {name}.txt", f'setattr -set submod "{name}"', "select -clear"]
    lines += ["submod", "design -save grouped"]
    scripts = (
        f"{RESTRUCTURE['balanced']};{MAP['cells', 'balanced']}",
        f"{QUICK};topo;buffer;topo;stime",
        f"{RESTRUCTURE['speed']};{MAP['cells', 'speed']}",
    )
    for way, abc, target in zip(WAYS, scripts, (BALANCED_PS, BALANCED_PS, None), strict=True):
        lines += ["design -load grouped", _abc(flow, abc, target), "opt_clean -purge"]
        lines += [f"write_json {way}.json"]
    return _text(lines)


def _text(lines: list[str]) -> str:
    return "\n".join([*lines, ""])


def _liberty(flow: Flow) -> str:
    return " ".join(f"-liberty {name}" for name in library_names(flow))


def _front(design: Design, flow: Flow, keep: bool, adders: bool) -> list[str]:
    return [
        *read(design, keep),
        "synth -noshare -noabc -flatten -run coarse:",
        *_cells(flow, adders),
    ]


def _cells(flow: Flow, adders: bool) -> list[str]:
    """Commands that map adders, latches and flip-flops."""
    return [
        *(["techmap -map adders.v", "simplemap", "opt -fast"] if adders else []),
        "techmap -map latches.v",
        f"dfflibmap {_liberty(flow)}",
        "opt -fast",
    ]


def _back(flow: Flow, effort: str, target: float | None) -> list[str]:
    if effort == "both":  # of sections, kept apart
        effort = "balanced"
    if effort == "balanced":
        target = target or BALANCED_PS
    mapping = "speed" if target and effort == "area" else effort
    abc = f"{RESTRUCTURE[effort]};{MAP[flow.kind, mapping]}"
    return [_abc(flow, abc, target), "opt_clean -purge", "write_json netlist.json"]


def _abc(flow: Flow, script: str, target: float | None) -> str:
    delay = "" if target is None else f" -D {target:.0f}"
    around = "" if flow.process is None else f" -constr {CONSTRAINTS}"
    return f'abc {_liberty(flow)}{around}{delay} -script "+{script}"'


def latches(library: Library) -> str:
    """Text of latches.v: maps Yosys's latches to a cell of `library`; empty without one."""
    cell = library.latch
    if cell is None or cell.clock is None or cell.data is None:
        return ""
    names = cell.name, cell.data.pin, next(iter(cell.outputs)), cell.clock.pin
    kind, data, output, enable = (escaped(str(name)) for name in names)
    instance = f"{kind}_TECHMAP_REPLACE_ (.{data}(D), .{output}(Q), .{enable}"
    high = f"{instance}(E));"
    low = f"wire n; \\$_NOT_ inverter (.A(E), .Y(n)); {instance}(n));"
    return "".join(
        f"module \\$_DLATCH_{edge}_ (input E, D, output Q);\n  {body}\nendmodule\n"
        for edge, body in (("P", high), ("N", low))
    )


def fpga(design: Design, flow: Flow, *, keep: bool = False) -> str:
    """The script of `xilinx` and `ecp5`."""
    dsp = "" if flow.dsp else " -nodsp"
    if flow.kind == "xilinx":
        cells = "+/xilinx/cells_sim.v +/xilinx/cells_xtra.v"
        command = f"synth_xilinx -family xc7 -flatten -noiopad -noclkbuf{dsp} -run prepare:edif"
    else:
        cells = "+/ecp5/cells_sim.v +/ecp5/cells_bb.v"
        command = f"synth_ecp5{dsp} -run coarse:blif"
    lines = [f"read_verilog -lib -specify {cells}", *read(design, keep), command]
    return "\n".join([*lines, "opt_clean -purge", "write_json netlist.json", ""])
