"""One dot product alone after a reset, with what leaves every section of the datapath.

Environment: MXDOT_JOB as for unit_test; MXDOT_REPLAY is a JSON file of the product, MXDOT_RECORD
the one to write.
"""

import json
import os
from pathlib import Path
from random import Random
from typing import Any

import cocotb
from cocotb.clock import Clock

from ..item import product_of
from ..job import UnitJob
from .dot import DotPins

TIMEOUT = 2000  # cycles


@cocotb.test()
async def replay(dut: Any) -> None:
    """Drive the product without gaps or stalls, and record."""
    job = UnitJob.load(Path(os.environ["MXDOT_JOB"]))
    product = product_of(json.loads(Path(os.environ["MXDOT_REPLAY"]).read_text()))
    pins = DotPins(dut, job.config)
    probes = _probes(dut, [section.name for section in job.config.pipeline.sections])
    Clock(dut.clk, 2, "ns").start()
    pins.rst.value, pins.out_ready.value = 1, 1
    for _ in range(2):
        await pins.edge
    pins.rst.value = 0
    record: dict[str, Any] = {"stages": {name: [] for name in probes}, "result": None}
    rng, position = Random(0), 0
    pins.drive(product, position, rng)
    pins.in_valid.value = 1
    for _ in range(TIMEOUT):
        await pins.edge
        for name, (valid, data) in probes.items():
            if int(valid.value):
                record["stages"][name].append(int(data.value))
        if int(pins.out_valid.value):
            record["result"] = pins.result()
            break
        if int(pins.in_valid.value) and int(pins.in_ready.value):
            position += 1
            if position < len(product.blocks):
                pins.drive(product, position, rng)
            else:
                pins.in_valid.value = 0
    Path(os.environ["MXDOT_RECORD"]).write_text(json.dumps(record))


def _probes(dut: Any, names: list[str]) -> dict[str, tuple[Any, Any]]:
    """The wires of each section; none where the Verilog has no such wires."""
    found = {}
    for name in names:
        try:
            wires = getattr(dut.dut, f"stage_{name}_valid"), getattr(dut.dut, f"stage_{name}_data")
        except AttributeError:
            continue
        found[name] = wires
    return found
