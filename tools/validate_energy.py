"""Compare mxdot's power with OpenSTA's for the same netlists and transitions.

    MXDOT_STA=/path/to/sta python tools/validate_energy.py [--process asap7,sky130] [--cycles 64]

OpenSTA is built from its public sources, version 3; Debian's package reports no usable power. It
reads the netlist, the library and a VCD of the transitions that mxdot counted. It does not charge
a clock net that a port drives, so that neither this nor the clock tree is in mxdot's figure here.
docs/cost.md has the table. `--spread 0.2` needs no OpenSTA.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

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
SEEDS = 3


class Bench:
    """A unit's netlist in a process, and the traffic of one stream."""

    def __init__(self, config: DotConfig, process: str, cycles: int) -> None:
        self.flow = Flow.of_process(process, effort="balanced", sections=False)
        text = generate(config, "mxdot_dot")
        cost, netlist = measure_netlist(text, "mxdot_dot", self.flow, cache_dir=SYNTHESES)
        library, self.around = library_of(self.flow), surroundings(self.flow)
        self.period, self.source = cost.delay_ps or 1.0, str(config)
        self.timed = TimedNetlist(netlist, library, time_netlist(netlist, library, self.around))
        fill = config.latency * config.interval + 2
        products = batches(config, NORMAL, 1, cycles + fill)
        run = Run(config, Activity(netlist, library, 1), Feed(config, products, 1, 1))
        run.reset()
        for _ in range(fill + cycles):
            run.cycle()
        self.bits, self.skipped = stimulus(self.timed, run), 1 + fill

    def own(self, vcd: Path | None = None) -> dict[str, float]:
        """Milliwatts of each part by mxdot, without the clock net and its tree."""
        counts = simulate(
            self.timed, self.bits, self.skipped, self.period, cache_dir=SYNTHESES, vcd=vcd
        )
        spent = power(self.timed, counts)
        return {
            "internal": float((spent.internal + spent.clock_internal).sum()) / self.period,
            "switching": float(spent.switching.sum()) / self.period,
            "leakage": float(spent.leakage_nw.sum()) * 1e-6,
        }

    def compared(self) -> dict[str, tuple[float, float]]:
        """Milliwatts by mxdot and by OpenSTA, of each part and in total."""
        with tempfile.TemporaryDirectory(prefix="mxdot-power-") as name:
            directory = Path(name)
            own = self.own(directory / "run.vcd")
            for file, _, content in files_of(self.flow):
                (directory / file).write_bytes(content)
            theirs = sta_power(
                self.timed.netlist,
                self.timed.library,
                directory,
                libraries=library_names(self.flow),
                around=self.around,
                period_ps=self.period,
                vcd="run.vcd",
                source=self.source,
                limit=LIMIT,
            )
        parts = {name: (own[name], theirs[name]) for name in POWER}
        return parts | {"total": (sum(own.values()), sum(theirs.values()))}

    def spread(self, share: float) -> list[float]:
        """Changes of the total when the delays of each cell change by up to `share`, at random."""
        whole = sum(self.own().values())
        delays, changes = self.timed.delays, []
        for seed in range(SEEDS):
            rng = np.random.default_rng(seed)
            self.timed.delays = [
                d * rng.uniform(1 - share, 1 + share, (len(d), 1, 1, 1, 1)) for d in delays
            ]
            changes.append(sum(self.own().values()) / whole - 1)
        return changes


def main() -> None:
    """Print one row per process and unit."""
    parser = argparse.ArgumentParser(description="Compare power with OpenSTA's.")
    parser.add_argument("--process", default="asap7,sky130")
    parser.add_argument("--cycles", type=int, default=64, help="clock cycles (default: 64)")
    parser.add_argument("--lanes", type=int, default=LANES, help="lanes (default: 32)")
    parser.add_argument(
        "--spread",
        type=float,
        metavar="X",
        help="instead: the change of the total when delays change by up to this share",
    )
    args = parser.parse_args()
    units = [
        (process, f"{format_} `{accumulator}`", stages, config)
        for process in items(args.process, "process")
        for format_, accumulator, stages in UNITS
        for config in [DotConfig(format_, args.lanes, accumulator, stages)]
    ]
    if args.spread is not None:
        for process, unit, stages, config in units:
            changes = Bench(config, process, args.cycles).spread(args.spread)
            print(f"{process} {unit} {stages}:", *(f"{x:+.1%}" for x in changes), flush=True)
        return
    version = sta_version()
    if version is None:
        sys.exit(f"OpenSTA not found: {STA} must name the program sta")
    print(f"{version}; milliwatts by mxdot / by OpenSTA (deviation)\n")
    names = (*POWER, "total")
    print("| process | unit | stages |", " | ".join(names), "|")
    print("|---" * (3 + len(names)) + "|")
    for process, unit, stages, config in units:
        parts = Bench(config, process, args.cycles).compared()
        cells = [
            f"{own:.4g} / {theirs:.4g} ({own / theirs - 1:+.1%})"
            for own, theirs in (parts[name] for name in names)
        ]
        print(f"| {process} | {unit} | {stages} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
