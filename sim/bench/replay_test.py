"""One dot product alone after a reset, with what leaves every section of the datapath.

Environment: MXDOT_JOB as for unit_test; MXDOT_REPLAY is a JSON file of the product, MXDOT_RECORD
the one to write.
"""

import json
import os
from pathlib import Path
from typing import Any

import cocotb
from cocotb.clock import Clock

from ..job import UnitJob
from .dot import DotPins

TIMEOUT = 2000  # cycles


@cocotb.test()
async def replay(dut: Any) -> None:
    """Drive the product without gaps or stalls, and record."""
    job = UnitJob.load(Path(os.environ["MXDOT_JOB"]))
    product = json.loads(Path(os.environ["MXDOT_REPLAY"]).read_text())
    pins = DotPins(dut, job.config)
    probes = _probes(dut, [section.name for section in job.config.pipeline.sections])
    Clock(dut.clk, 2, "ns").start()
    pins.rst.value, pins.out_ready.value = 1, 1
    for _ in range(2):
        await pins.edge
    pins.rst.value = 0
    blocks = list(enumerate(product["blocks"]))
    record: dict[str, Any] = {"stages": {name: [] for name in probes}, "result": None}
    _drive(pins, product, *blocks[0])
    position = 0
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
            if position < len(blocks):
                _drive(pins, product, *blocks[position])
            else:
                pins.in_valid.value = 0
    Path(os.environ["MXDOT_RECORD"]).write_text(json.dumps(record))


def _drive(pins: DotPins, product: dict, index: int, block: list[int]) -> None:
    for pin, bits in zip(pins.block, block, strict=True):
        pin.value = bits
    pins.in_first.value = index == 0
    pins.in_last.value = index == len(product["blocks"]) - 1
    if pins.in_c is not None:
        pins.in_c.value = product["c"]
    if pins.in_mode is not None:
        pins.in_mode.value = product["mode"]
    pins.in_valid.value = 1


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
