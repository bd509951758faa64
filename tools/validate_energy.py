"""Compare mxdot's power with OpenSTA's for the same netlists and transitions.

    MXDOT_STA=/path/to/sta python tools/validate_energy.py [--process asap7,sky130] [--cycles 64]

OpenSTA is built from its public sources, version 3; Debian's package reports no usable power. It
reads the netlist, the library and a VCD of the transitions that mxdot counted. It does not charge
a clock net that a port drives, so that neither this nor the clock tree is in mxdot's figure here.
docs/cost.md has the table.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from mxdot.hw.verilog import generate
from mxdot.model import DotConfig
from mxdot.synth import SYNTHESES, Flow, measure_netlist
from mxdot.synth.activity import Activity
from mxdot.synth.asic import surroundings
from mxdot.synth.energy import stimulus
from mxdot.synth.feed import NORMAL, Feed, Run, batches
from mxdot.synth.flow import files_of, library_names, library_of
from mxdot.synth.glitches import TimedNetlist, simulate
from mxdot.synth.opensta import POWER, sta_power
from mxdot.synth.power import power
from mxdot.synth.static_timing import time_netlist
from mxdot.synth.tools import STA, sta_version
from mxdot.util.sweep import items

UNITS = (
    ("e4m3", "exact", 4),
    ("e4m3", "exact", 1),
    ("e4m3", "aligned:13", 4),
    ("int8", "int32", 4),
)
LANES = 32
LIMIT = 900.0


def compared(config: DotConfig, process: str, cycles: int) -> dict[str, tuple[float, float]]:
    """Milliwatts by mxdot and by OpenSTA, of each part and in total."""
    flow = Flow.of_process(process, effort="balanced", sections=False)
    text = generate(config, "mxdot_dot")
    cost, netlist = measure_netlist(text, "mxdot_dot", flow, cache_dir=SYNTHESES)
    library, around, period = library_of(flow), surroundings(flow), cost.delay_ps or 1.0
    timed = TimedNetlist(netlist, library, time_netlist(netlist, library, around))
    fill = config.latency * config.interval + 2
    products = batches(config, NORMAL, 1, cycles + fill)
    run = Run(config, Activity(netlist, library, 1), Feed(config, products, 1, 1))
    run.reset()
    for _ in range(fill + cycles):
        run.cycle()
    with tempfile.TemporaryDirectory(prefix="mxdot-power-") as name:
        directory = Path(name)
        counts = simulate(
            timed,
            stimulus(timed, run),
            1 + fill,
            period,
            cache_dir=SYNTHESES,
            vcd=directory / "run.vcd",
        )
        for file, _, content in files_of(flow):
            (directory / file).write_bytes(content)
        theirs = sta_power(
            netlist,
            library,
            directory,
            libraries=library_names(flow),
            around=around,
            period_ps=period,
            vcd="run.vcd",
            source=str(config),
            limit=LIMIT,
        )
    spent = power(timed, counts)
    own = {
        "internal": float((spent.internal + spent.clock_internal).sum()) / period,
        "switching": float(spent.switching.sum()) / period,
        "leakage": float(spent.leakage_nw.sum()) * 1e-6,
    }
    parts = {name: (own[name], theirs[name]) for name in POWER}
    return parts | {"total": (sum(own.values()), sum(theirs.values()))}


def main() -> None:
    """Print one row per process and unit."""
    parser = argparse.ArgumentParser(description="Compare power with OpenSTA's.")
    parser.add_argument("--process", default="asap7,sky130")
    parser.add_argument("--cycles", type=int, default=64, help="clock cycles (default: 64)")
    parser.add_argument("--lanes", type=int, default=LANES, help="lanes (default: 32)")
    args = parser.parse_args()
    version = sta_version()
    if version is None:
        sys.exit(f"OpenSTA not found: {STA} must name the program sta")
    print(f"{version}; milliwatts by mxdot / by OpenSTA (deviation)\n")
    names = (*POWER, "total")
    print("| process | unit | stages |", " | ".join(names), "|")
    print("|---" * (3 + len(names)) + "|")
    for process in items(args.process, "process"):
        for format_, accumulator, stages in UNITS:
            config = DotConfig(format_, args.lanes, accumulator, stages)
            parts = compared(config, process, args.cycles)
            cells = [
                f"{own:.4g} / {theirs:.4g} ({own / theirs - 1:+.1%})"
                for own, theirs in (parts[name] for name in names)
            ]
            unit = f"{format_} `{accumulator}`"
            print(f"| {process} | {unit} | {stages} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
