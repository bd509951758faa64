"""The matrix unit as a top module."""

import textwrap

from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import In

from ...model.pipeline.delays import DEFAULT_DELAYS
from ...model.units.matmul.config import MatmulConfig
from ...model.units.matmul.registers import REGISTERS, SCALE_FIELDS
from ..hierarchy import used
from ..top import Top
from .unit import MatmulUnit

STREAMS = {
    "s_axis_a": "blocks of A",
    "s_axis_b": "blocks of B",
    "s_axis_d": "initial values of C",
    "m_axis_c": "results",
}
SIGNALS = {
    "tdata": "lowest byte first",
    "tkeep": "bytes that are there; all but in the packet's last beat",
    "tlast": "last beat of a job's packet",
    "tvalid": "a beat is offered",
    "tready": "the beat offered is taken at this clock edge",
}
CHANNELS = {
    "aw": "write address",
    "w": "write data",
    "b": "write response",
    "ar": "read address",
    "r": "read data",
}


def meaning(port: str) -> str:
    """What a port is, by the names of AXI."""
    if port == "irq":
        return "interrupt, active high: an enabled bit of STATUS is set"
    interface, _, signal = port.rpartition("_")
    if interface == "s_axil":
        channel = max((c for c in CHANNELS if signal.startswith(c)), key=len)
        return f"AXI4-Lite, {CHANNELS[channel]}"
    return f"{STREAMS[interface]}: {SIGNALS[signal]}"


class MatmulTop(Top):
    """A `MatmulUnit` behind ports in AXI's names."""

    name = "mxdot_matmul"
    clock = "aclk"
    reset = "aresetn"

    def __init__(self, config: MatmulConfig) -> None:
        super().__init__(config)
        unit = used(self.unit())
        for path, member, value in unit.signature.flatten(unit):
            name = "_".join(map(str, path))
            self.port(name, len(value), "in" if member.flow is In else "out", meaning(name))

    def unit(self) -> MatmulUnit:
        return MatmulUnit(self.config)

    def connect(self, m: Module, unit: MatmulUnit, port: dict[str, Signal]) -> None:
        for path, member, value in unit.signature.flatten(unit):
            outside = port["_".join(map(str, path))]
            m.d.comb += value.eq(outside) if member.flow is In else outside.eq(value)

    def facts(self) -> list[tuple[str, str]]:
        config: MatmulConfig = self.config
        dot = config.dot
        streams = ", ".join(
            f"{side.upper()} {config.stream_bytes(side)}" for side in (*config.inputs, "c")
        )
        turns = f"up to {dot.interleave} tiles of a row take turns, in groups of {config.group}"
        scales = (
            f"{dot.scales.upper()}, {dot.scale_blocks} of a block: for {dot.scale_block} elements"
        )
        placed = f"those of {dot.delays} place the dot units' registers"
        return [
            ("array", f"{config.rows} rows x {config.columns} columns of dot units"),
            ("formats", dot.formats_text),
            ("accumulator", f"{dot.accumulator}: {dot.accumulator.rule}"),
            ("lanes", f"{dot.lanes}, the block size"),
            *([("scales", scales)] if dot.has_own_scales else []),
            ("output", config.out.name),
            ("depth", f"{config.depth} blocks of K up to which a panel of A is sent once"),
            ("streams", f"{streams} bytes a beat"),
            ("latency", f"{dot.latency} cycles from a tile's last step to its results"),
            ("interval", f"{dot.interval} cycles between the steps of a tile"),
            *([("interleave", turns)] if dot.interleave > 1 else []),
            *([("delays", placed)] if dot.delays != DEFAULT_DELAYS else []),
            *_register_map(config),
        ]


def _register_map(config: MatmulConfig) -> list[tuple[str, str]]:
    """A line for each register."""
    absent = () if config.dot.has_own_scales else SCALE_FIELDS
    lines = [("", ""), ("registers", "offset, name, fields, meaning; counters' high words follow")]
    for register in REGISTERS.values():
        if register.name.endswith("_HIGH"):
            continue
        there = [field for field in register.fields if field.name not in absent]
        fields = ", ".join(f"{field.name} [{field.bits}]" for field in there)
        text = f"0x{register.offset:02X} {register.name}: {fields}"
        lines += [("", line) for line in textwrap.wrap(text, 100, subsequent_indent="     ")]
    return lines
