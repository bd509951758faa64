"""Verilog of a unit: readable, hierarchical, and the same bytes every time."""

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from amaranth.hdl import ClockDomain, Elaboratable, Module, ShapeLike, Signal, Value
from amaranth.lib import wiring

from ...model.errors import identifier
from ...model.units.dot import DotConfig
from ...model.units.dot_quantize import DotQuantizeConfig
from ...model.units.matmul.config import MatmulConfig
from ...model.units.quantize import QuantizeConfig
from ..dot.sections import family_of
from ..dot.unit import DotTop
from ..hierarchy import (
    Library,
    collecting,
    is_clocked,
    module_ports,
    module_shapes,
    own_names,
    submodule,
)
from ..matmul.unit import MatmulTop
from ..quantize.dot_quantize import DotQuantizeTop
from ..quantize.unit import QuantizeTop
from ..top import Top
from .netlist import Field, Live, fields, module_text, read
from .plan import KEYWORDS
from .remarks import remarks_of
from .writer import write_module

TOPS: dict[type, type[Top]] = {
    DotConfig: DotTop,
    QuantizeConfig: QuantizeTop,
    DotQuantizeConfig: DotQuantizeTop,
    MatmulConfig: MatmulTop,
}
"""The top module of each kind of unit, by its configuration."""


def default_top(config: Any) -> str:
    """The name of the unit's top module when none is given."""
    return TOPS[type(config)].name


def generate(config: Any, top: str | None = None) -> str:
    """Verilog text of the unit `config`, of any kind (`TOPS`).

    The top module is called `top` (`default_top` when None) and every other module's name starts
    with it, so that several units fit one design. ValueError when `top` is not a Verilog identifier
    or is a reserved word.
    """
    top = default_top(config) if top is None else top
    if identifier("top", top) in KEYWORDS:
        raise ValueError(f"top must be no reserved word of Verilog, not {top!r}")
    dot = config if isinstance(config, DotConfig) else getattr(config, "dot", None)
    if dot is not None:
        family_of(dot)  # an accumulator without RTL is refused before any component is made
    unit = TOPS[type(config)](config)
    signals = {signal.name: signal for signal, _, _ in unit.ports}
    plain = dot is not None and dot.target == "fpga"
    return f"{unit.header(top)}\n{modules_text(unit, top, signals, plain)}"


def modules_of(text: str) -> dict[str, str]:
    """Text of each module in Verilog from `generate`, by name, the top first."""
    modules = re.findall(r"^(module (\w+) \(\n.*?^endmodule\n)", text, flags=re.M | re.S)
    return {name: module for module, name in modules}


def without_remarks(text: str) -> str:
    """Verilog from `generate` without comments and without the lines that they leave empty."""
    lines = (re.sub(r" *//.*", "", line) for line in text.splitlines(keepends=True))
    return "".join(line for line in lines if line.strip())


@contextmanager
def uncollected() -> Iterator[None]:
    """Switch garbage collection off: searching the design's objects again and again, all of them in
    use, takes a fifth of the time.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@uncollected()
def modules_text(
    design: Elaboratable, top: str, signals: dict[str, Signal], plain: bool = False
) -> str:
    """Verilog text of `design` as a module `top` with the ports `signals`, and of its components.

    plain: sums and products are `+` and `*`.

    ValueError for an operator or a memory's port that the writer does not know.
    """
    library = Library(f"{top}_", names=True, plain=plain)
    with collecting(library):
        texts = [module_text(design, top, signals)]
        ports: dict[str, dict[str, list[Field]]] = {
            top: {name: fields(name, signal.shape()) for name, signal in signals.items()}
        }
        done = 0
        while done < len(library.components):  # converting one may add others
            name, component = list(library.components.items())[done]
            texts.append(module_text(own_names(component), name, module_ports(component)))
            shapes = module_shapes(component)
            ports[name] = {port: fields(port, shape) for port, shape in shapes.items()}
            done += 1
    modules = read("".join(texts))
    live = Live(modules, ports, top)
    remarks = remarks_of(library.components)
    texts = [write_module(modules[name], ports[name], live, remarks) for name in live.reached]
    return "\n".join(texts)


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
