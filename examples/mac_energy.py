"""The energy proxy of the multiply-adds beside this file, by the method of docs/cost.md.

`python examples/mac_energy.py` prints NAND2 equivalents switched for each product. Operands
are normal data, quantised in blocks of 32; every unit takes its lanes' products in every cycle.
"""

from pathlib import Path

import numpy as np

from mxdot.compare.studies.extra import load_extra
from mxdot.compare.studies.units import Foreign
from mxdot.model import quantize
from mxdot.synth import SYNTHESES, gates, measure_netlist
from mxdot.synth.activity import Activity, pack
from mxdot.synth.energy import CLOCK_PIN

STREAMS, FILL, CYCLES = 256, 16, 48
LENGTH = 4096
"""Products of one dot product."""


def energy(unit: Foreign) -> float:
    """NAND2 equivalents that one product switches: gates, registers and clock."""
    parameters = dict(unit.parameters)
    lanes = int(parameters.get("LANES", 1))
    _, netlist = measure_netlist(
        unit.verilog, unit.top, cache_dir=SYNTHESES, parameters=parameters, source=unit.files[0]
    )
    library = gates.library()
    run = Activity(netlist, library, STREAMS)
    rng = np.random.default_rng(1)
    shape = (STREAMS, FILL + CYCLES, lanes)
    a, b = (
        quantize(rng.standard_normal((STREAMS, shape[1] * lanes), np.float32), unit.format or "")
        for _ in range(2)
    )
    codes_a, codes_b = a.codes.reshape(shape), b.codes.reshape(shape)
    start = rng.integers(0, LENGTH // lanes, STREAMS)  # where in its dot product a stream begins
    for cycle in range(FILL + CYCLES):
        if cycle == FILL:
            run.clear()
        first = (start + cycle) % (LENGTH // lanes) == 0
        run.cycle(
            {
                "in_valid": [run.ones],
                "in_first": pack((first | (cycle == 0))[:, None]),
                "in_a": pack(
                    np.unpackbits(codes_a[:, cycle], axis=1, bitorder="little").astype(bool)
                ),
                "in_b": pack(
                    np.unpackbits(codes_b[:, cycle], axis=1, bitorder="little").astype(bool)
                ),
            }
        )
    areas = np.array([library.cells[name].area for name in run.drivers])
    held = sum(library.cells[cell.type].is_flipflop for cell in netlist.cells)
    switched = float(run.changes @ areas) / (STREAMS * CYCLES) + 2 * CLOCK_PIN * held
    return switched / lanes


if __name__ == "__main__":
    for extra in load_extra(Path(__file__).with_name("macs.toml")):
        print(f"{extra.name:30} {energy(extra):8.1f}")
