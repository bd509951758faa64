"""One dot product alone after a reset, with what leaves every section of the datapath.

Environment: MXDOT_JOB as for unit_test; MXDOT_REPLAY is a JSON file of the product, MXDOT_RECORD
the one to write.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import cocotb
from cocotb.clock import Clock

from ...hw.dot.unit import section_values
from ...hw.verilog.netlist import fields
from ...model import DotConfig
from ...model.pipeline.placement import Pipeline
from ..engine.job import UnitJob
from .item import product_of
from .subject import DotPins

TIMEOUT = 2000  # cycles


@cocotb.test()
async def replay(dut: Any) -> None:
    """Drive the product without gaps or stalls, and record."""
    job = UnitJob.load(Path(os.environ["MXDOT_JOB"]))
    product = product_of(json.loads(Path(os.environ["MXDOT_REPLAY"]).read_text()))
    pins = DotPins(dut, job.config)
    probes = _probes(dut, job.config)
    Clock(dut.clk, 2, "ns").start()
    pins.rst.value, pins.out_ready.value = 1, 1
    for _ in range(2):
        await pins.edge
    pins.rst.value = 0
    stages = {probe.section: probe.recorded for probe in probes}
    record: dict[str, Any] = {"stages": stages, "result": None}
    rng, position = Random(0), 0
    pins.drive(product, position, rng)
    pins.in_valid.value = 1
    for _ in range(TIMEOUT):
        await pins.edge
        for probe in probes:
            probe.sample()
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


class Probe:
    """The values that leave one section, on the ports of its instance."""

    def __init__(self, dut: Any, pipeline: Pipeline, index: int, values: Mapping) -> None:
        unit, self.section = dut.ports.dut, pipeline.sections[index].name
        self.moves = _moves(unit, pipeline, index)
        instance = getattr(unit, self.section)
        self.ports = {
            name: [
                (getattr(instance, field.name, None), field.positions)
                for field in fields(f"o_{name}", shape)
            ]
            for name, shape in values.items()
        }
        self.recorded: dict[str, list[int]] = {name: [] for name in values}

    def sample(self) -> None:
        """Record the values of a block that leaves the section at this clock edge."""
        if int(self.moves.value):
            for name, ports in self.ports.items():
                self.recorded[name].append(sum(_placed(*port) for port in ports))


def _moves(unit: Any, pipeline: Pipeline, index: int) -> Any:
    """High when a block goes through section `index`, while the output is taken."""
    later = [i for i in sorted(pipeline.registered) if i >= index]
    if later:
        return getattr(unit, f"{pipeline.sections[later[0]].name}_leaves")
    return getattr(unit, f"{pipeline.sections[max(pipeline.registered)].name}_register_valid")


def _placed(port: Any, positions: tuple[int, ...]) -> int:
    """The bits of a port at their places in the value; 0 where nothing reads it."""
    bits = 0 if port is None else int(port.value)
    return sum((bits >> i & 1) << position for i, position in enumerate(positions))


def _probes(dut: Any, config: DotConfig) -> list[Probe]:
    """A probe for each section; none where the Verilog is not generated here."""
    values = section_values(config)
    probes = []
    for index, part in enumerate(config.pipeline.sections):
        try:
            probes.append(Probe(dut, config.pipeline, index, values[part.name]))
        except AttributeError:
            continue
    return probes
