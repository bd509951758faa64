"""Yosys scripts: everything that a synthesis does, for Yosys alone to repeat.

Each reads design.v, for `gates` and `cells` with a library cells.lib and its latches.v beside it,
and writes netlist.json.
"""

import re
from dataclasses import dataclass

from .flow import Flow
from .liberty import Library

# Yosys's own script for ABC has `&fraig -x`, which does not finish on large units. `dc2` saves
# area and makes deep chains; `if -g` balances them again, in sums of products.
RESTRUCTURE = {
    "area": "strash;ifraig;scorr;dc2;strash;dch",
    "speed": "strash;ifraig;scorr;dc2;strash;if,-g;strash;if,-g;strash;dch",
}
MAP = {
    ("gates", "area"): "map,-a",
    ("gates", "speed"): "map,{D}",
    ("cells", "area"): "map,-a;topo;buffer;topo;stime",
    ("cells", "speed"): "map,{D};topo;buffer;upsize,{D};dnsize,{D};topo;stime",
}


@dataclass(frozen=True)
class Design:
    """The Verilog to synthesise."""

    verilog: str
    top: str
    parameters: tuple[tuple[str, str], ...] = ()
    """Values of the top's parameters."""
    systemverilog: bool = False
    source: str = "design.v"
    """What error messages call the text."""
    black_boxes: tuple[str, ...] = ()
    """Modules that are left out: what is in them has no area and no delay."""

    def __post_init__(self) -> None:
        for name in self.black_boxes:
            if not re.fullmatch(r"[A-Za-z_][\w$]*", name) or name == self.top:
                raise ValueError(f"a black box must be a module below {self.top}, not {name!r}")
        if not re.fullmatch(r"[A-Za-z_][\w$]*", self.top):
            raise ValueError(f"top must be a Verilog identifier, not {self.top!r}")
        for name, value in self.parameters:
            if not re.fullmatch(r"[A-Za-z_][\w$]*", name):
                raise ValueError(f"a parameter must be called by an identifier, not {name!r}")
            if not re.fullmatch(r"-?\d+|\d+'s?[bodh][0-9a-fA-F_xz]+|\"[^\"\s;]*\"", value):
                raise ValueError(
                    f"parameter {name} must be a Verilog number or a quoted string, not {value!r}"
                )


def read(design: Design, keep: bool) -> list[str]:
    """Commands that read a design; with `keep`, instances in the top stay modules."""
    lines = [
        "read_verilog -sv design.v" if design.systemverilog else "read_verilog design.v",
        " ".join(
            [f"hierarchy -check -top {design.top}"]
            + [f"-chparam {name} {value}" for name, value in design.parameters]
        ),
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
    design: Design, flow: Flow, effort: str, target: float | None = None, *, keep: bool = False
) -> str:
    """The script of `gates` and `cells`; `target` is ABC's, in picoseconds."""
    abc = f"+{RESTRUCTURE[effort]};{MAP[flow.kind, 'speed' if target else effort]}"
    delay = "" if target is None else f" -D {target:.0f}"
    lines = [
        *read(design, keep),
        "synth -noshare -noabc -flatten -run coarse:",
        "techmap -map latches.v",
        "dfflibmap -liberty cells.lib",
        "opt -fast",
        f'abc -liberty cells.lib{delay} -script "{abc}"',
        "opt_clean -purge",
        "write_json netlist.json",
    ]
    return "\n".join([*lines, ""])


def latches(library: Library) -> str:
    """The text latches.v: a cell of `library` for each of Yosys's latches, empty without one."""
    cell = library.latch
    if cell is None or cell.clock is None or cell.data is None:
        return ""
    data, enable, output = cell.data.expression, cell.clock.expression, next(iter(cell.outputs))
    instance = f"{cell.name} _TECHMAP_REPLACE_ (.{data}(D), .{output}(Q), .{enable}"
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
