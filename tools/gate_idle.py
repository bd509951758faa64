"""Area, delay and power of units with `--gate-idle`, against units without.

    python tools/gate_idle.py [--process asap7,sky130] [--lanes 32] [--stages 4,1]

Both have one clock period. docs/cost.md has the result.
"""

import argparse
from dataclasses import replace

from mxdot.hw.verilog import default_top, generate
from mxdot.model import DotConfig
from mxdot.synth import SYNTHESES, Flow, energy, measure
from mxdot.util.sweep import items

UNITS = (("e4m3", "exact"), ("e4m3", "aligned:13"), ("int8", "int32"))
SLACK = 1.1
"""Clock period in longest paths of the slower unit."""


def figures(config: DotConfig, flow: Flow) -> list[dict[str, float]]:
    """Area, longest path, and milliwatts of units without and with gates."""
    units, top = (config, replace(config, gate_idle=True)), default_top(config)
    costs = [measure(generate(unit, top), top, flow, cache_dir=SYNTHESES) for unit in units]
    clock = SLACK * max(cost.delay_ps or 0.0 for cost in costs)
    rows = []
    for unit, cost in zip(units, costs, strict=True):
        power = energy(unit, flow, cache_dir=SYNTHESES, clock_ps=clock)
        busy = {"busy": power.milliwatts or 0.0}
        rows.append({"area": cost.area, "delay": cost.delay_ps or 0.0, **busy, **power.idle})
    return rows


def main() -> None:
    """Print one line per process and unit."""
    parser = argparse.ArgumentParser(description="What --gate-idle costs and saves.")
    parser.add_argument("--process", default="asap7,sky130")
    parser.add_argument("--lanes", type=int, default=32, help="lanes (default: 32)")
    parser.add_argument("--stages", default="4,1", help="stages (default: 4,1)")
    args = parser.parse_args()
    for process in items(args.process, "process"):
        flow = Flow.of_process(process, effort="balanced", sections=False)
        for stages in map(int, items(args.stages, "stages")):
            for format_, accumulator in UNITS:
                config = DotConfig(format_, args.lanes, accumulator, stages)
                plain, gated = figures(config, flow)
                words = (f"{n} {plain[n]:,.4g} {gated[n] / plain[n] - 1:+.1%}" for n in plain)
                print(f"{process} {config}: {', '.join(words)}", flush=True)


if __name__ == "__main__":
    main()
