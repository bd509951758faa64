"""The wires of `--wires model` against placements by Coriolis, and the fit of its constants.

    MXDOT_CORIOLIS=/path/to/python python tools/wire_lengths.py [--process asap7,sky130] [--fit]

Units of a process are synthesised and placed. The table has the length of all wires by placement
and by model, the longest path with both, and without wires. `--fit` prints REACH, GROWTH and SPREAD
of `synth/wires.py`, fitted to the mean lengths by size of the net.
"""

import argparse
import sys

import numpy as np

from mxdot.hw.verilog import generate
from mxdot.model import DotConfig
from mxdot.synth import SYNTHESES, Flow, measure_netlist
from mxdot.synth.flow import Cost, library_of
from mxdot.synth.wires import core_side, nets_of
from mxdot.util.sweep import items
from mxdot.util.yosys import Netlist

UNITS = (
    DotConfig("e4m3", 32, "exact", 4),
    DotConfig("e4m3", 32, "aligned:8", 6),
    DotConfig("e4m3", 32, "fixed:32:-16", 4),
    DotConfig("int8", 32, "int32", 4),
)
LARGEST = 16
"""Cells of the largest nets that the fit sees."""


def measured(config: DotConfig, process: str, wires: str | None) -> tuple[Cost, Netlist]:
    """Cost and netlist of a unit."""
    flow = Flow.of_process(process, effort="balanced", sections=False, wires=wires)
    return measure_netlist(generate(config, "mxdot_dot"), "mxdot_dot", flow, cache_dir=SYNTHESES)


def rows_of(netlist: Netlist, process: str) -> list[list[float]]:
    """Logarithms for the fit, a row for each size of nets: pitches, cells, cells of the net - 1,
    and the number of these nets."""
    library = library_of(Flow.of_process(process))
    lengths, number = netlist.lengths or {}, len(netlist.cells)
    pitch = core_side(netlist, library) / number**0.5
    sizes: dict[int, list[float]] = {}
    for net, cells in nets_of(netlist, library).items():
        sizes.setdefault(len(cells), []).append(lengths[net])
    return [
        [np.log(np.mean(own) / pitch), np.log(number), np.log(size - 1), len(own)]
        for size, own in sizes.items()
        if size <= LARGEST
    ]


def main() -> int:
    """Print the table and, with --fit, the constants."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--process", default="asap7,sky130")
    parser.add_argument("--fit", action="store_true")
    args = parser.parse_args()
    rows: list[list[float]] = []
    print("| process | unit | wires placed (um) | model (um) | no wires (ps) | placed | model |")
    print("|---|---|---|---|---|---|---|")
    for process in items(args.process, "process"):
        for config in UNITS:
            none, placed, model = (measured(config, process, w) for w in (None, "placed", "model"))
            lengths = [cost.extra["wire_um"] for cost, _ in (placed, model)]
            growth = [cost.delay_ps or 0.0 for cost, _ in (none, placed, model)]
            print(
                f"| {process} | {config} | {lengths[0]:,.0f} | {lengths[1]:,.0f} "
                f"({lengths[1] / lengths[0] - 1:+.0%}) | {growth[0]:,.0f} | {growth[1]:,.0f} | "
                f"{growth[2]:,.0f} |",
                flush=True,
            )
            rows += rows_of(placed[1], process)
    if args.fit:
        table = np.array(rows)
        weights = np.sqrt(table[:, 3])
        known = np.column_stack([np.ones(len(table)), table[:, 1], table[:, 2]])
        fit = np.linalg.lstsq(known * weights[:, None], table[:, 0] * weights, rcond=None)[0]
        print(f"REACH, GROWTH, SPREAD = {np.exp(fit[0]):.3f}, {fit[1]:.3f}, {fit[2]:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
