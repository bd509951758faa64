"""A component with plain ports: by itself in Verilog, for a bench or a proof."""

from amaranth.hdl import ClockDomain, Elaboratable, Module, ShapeLike, Signal, Value
from amaranth.lib import wiring

from ..hierarchy import is_clocked, module_ports, module_shapes, submodule
from . import modules_text


class Around(Elaboratable):
    """A component with plain ports, named with the prefix `p_`, which no keyword has.

    inputs, outputs: widths by name; a component with registers has the input `rst`. shapes: shapes
    of the component's ports, by these names. signals: all ports, and clk.
    """

    def __init__(self, dut: wiring.Component) -> None:
        self.dut, self.ports = dut, module_ports(dut)
        flat = dut.signature.flatten(dut)
        flows = {"_".join(map(str, path)): member.flow for path, member, _ in flat}
        widths = {flow: {} for flow in (wiring.In, wiring.Out)}
        for name, value in self.ports.items():
            widths[flows[name]][f"p_{name}"] = len(value)
        self.clock = ["clk"] if is_clocked(dut) else []
        self.inputs = dict.fromkeys(["rst"] if self.clock else [], 1) | widths[wiring.In]
        self.outputs = widths[wiring.Out]
        shapes = module_shapes(dut)
        self.shapes: dict[str, ShapeLike] = {f"p_{name}": shapes[name] for name in self.ports}
        every = dict.fromkeys(self.clock, 1) | self.inputs | self.outputs
        self.signals = {name: Signal(width, name=name) for name, width in every.items()}

    def elaborate(self, platform: object) -> Module:
        m = Module()
        if self.clock:
            m.domains.sync = sync = ClockDomain()
            sync.clk, sync.rst = self.signals["clk"], self.signals["rst"]
        submodule(m, "dut", self.dut)
        for name, value in self.ports.items():
            inside, outside = Value.cast(value), self.signals[f"p_{name}"]
            given = f"p_{name}" in self.inputs
            m.d.comb += inside.eq(outside) if given else outside.eq(inside)
        return m

    def verilog(self, top: str) -> str:
        """Verilog text of the module and its components."""
        return modules_text(self, top, self.signals)
