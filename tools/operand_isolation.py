"""Idle power that gates at the operand inputs would save while operands change.

    python tools/operand_isolation.py [--process asap7,sky130] [--lanes 32]

Each bit of both operands gets an AND with `in_valid` in the mapped netlist; the RTL has none. The
drivers of `in_valid` are not counted. docs/cost.md has the result.
"""

import argparse
from dataclasses import replace

from mxdot.hw.verilog import generate
from mxdot.model import DotConfig
from mxdot.synth import SYNTHESES, Flow, measure_netlist
from mxdot.synth.activity import Activity
from mxdot.synth.energy import Joules, stimulus
from mxdot.synth.feed import NORMAL, Feed, Run, batches
from mxdot.synth.flow import library_of
from mxdot.synth.liberty import Library, LibraryCell
from mxdot.util.sweep import items
from mxdot.util.yosys import Bit, Cell, Netlist

UNITS = (("e4m3", "exact"), ("e4m3", "aligned:13"), ("int8", "int32"))
STREAMS, SETTLE, CYCLES = 8, 16, 24
SLACK = 1.1
"""Clock period in longest paths of the unit without the gates."""


def smallest_and(library: Library) -> LibraryCell:
    """The smallest AND of two inputs."""
    found = [
        cell
        for cell in library.cells.values()
        if len(cell.inputs) == 2 and len(cell.outputs) == 1 and cell.clock is None
        for function in cell.outputs.values()
        if len(function.names) == 2
        if function.evaluate(dict(zip(cell.inputs, (0b1010, 0b1100), strict=True)), 15) == 0b1000
    ]
    return min(found, key=lambda cell: (cell.area, cell.name))


def isolated(netlist: Netlist, cell: LibraryCell) -> Netlist:
    """The netlist with a gate at each operand bit."""
    (one, other), (output,) = cell.inputs, cell.outputs
    used = [bit for _, bits in netlist.ports.values() for bit in bits]
    used += [bit for each in netlist.cells for bits in each.pins.values() for bit in bits]
    following = max(bit for bit in used if isinstance(bit, int)) + 1
    valid = netlist.ports["in_valid"][1]
    operands = [bit for port in ("in_a", "in_b") for bit in netlist.ports[port][1]]
    nets: dict[Bit, Bit] = {bit: following + i for i, bit in enumerate(operands)}
    gates = [
        Cell(f"isolate{net}", cell.name, {one: [bit], other: valid, output: [net]})
        for bit, net in nets.items()
    ]
    cells = [
        replace(each, pins={p: [nets.get(b, b) for b in bits] for p, bits in each.pins.items()})
        for each in netlist.cells
    ]
    return Netlist(netlist.name, netlist.ports, cells + gates)


def milliwatts(config: DotConfig, netlist: Netlist, flow: Flow, period: float) -> list[float]:
    """Power of a busy unit, and of one that waits while its operands change."""
    joules = Joules(netlist, library_of(flow), flow, period, SYNTHESES)
    fill = config.latency * config.interval + 2
    products = batches(config, NORMAL, 1, STREAMS * (fill + SETTLE + CYCLES))
    feed = Feed(config, products, 1, STREAMS)
    activity = Activity(netlist, library_of(flow), STREAMS)
    found = []
    for valid in (True, False):
        activity.restart(STREAMS)
        run = Run(config, activity, feed.part(STREAMS))
        run.reset()
        for _ in range(fill):
            run.cycle()
        for _ in range(SETTLE + CYCLES):
            run.cycle(valid=valid)
        found.append(joules.milliwatts(stimulus(joules.timed, run), len(run.inputs) - CYCLES))
    return found


def main() -> None:
    """Print one line per process and unit."""
    parser = argparse.ArgumentParser(description="What operand isolation would save.")
    parser.add_argument("--process", default="asap7,sky130")
    parser.add_argument("--lanes", type=int, default=32, help="lanes (default: 32)")
    args = parser.parse_args()
    for process in items(args.process, "process"):
        flow = Flow.of_process(process, effort="balanced", sections=False)
        cell = smallest_and(library_of(flow))
        for format_, accumulator in UNITS:
            config = DotConfig(format_, args.lanes, accumulator)
            text = generate(config, "mxdot_dot")
            cost, netlist = measure_netlist(text, "mxdot_dot", flow, cache_dir=SYNTHESES)
            gated = isolated(netlist, cell)
            period = SLACK * (cost.delay_ps or 1.0)
            before, after = (milliwatts(config, n, flow, period) for n in (netlist, gated))
            area = cell.area * (len(gated.cells) - len(netlist.cells)) / cost.area
            busy, waiting = (b / a - 1 for a, b in zip(before, after, strict=True))
            print(
                f"{process} {format_} {accumulator}: area {area:+.1%}, busy {busy:+.1%}, "
                f"waiting {waiting:+.1%}",
                flush=True,
            )


if __name__ == "__main__":
    main()
