"""Verilog of a unit: readable, hierarchical, and the same bytes every time."""

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from amaranth.hdl import Elaboratable, Signal

from ...model.errors import identifier
from ...model.units.dot import DotConfig
from ...model.units.dot_quantize import DotQuantizeConfig
from ...model.units.matmul.config import MatmulConfig
from ...model.units.quantize import QuantizeConfig
from ..dot.unit import DotTop
from ..hierarchy import Library, collecting, module_ports, module_shapes, own_names
from ..matmul.unit import MatmulTop
from ..quantize.dot_quantize import DotQuantizeTop
from ..quantize.unit import QuantizeTop
from ..top import Top
from .live import Live
from .names import KEYWORDS
from .netlist import Field, fields, module_text, read
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
    unit = TOPS[type(config)](config)
    signals = {signal.name: signal for signal, _, _ in unit.ports}
    return f"{unit.header(top)}\n{modules_text(unit, top, signals)}"


def modules_of(text: str) -> dict[str, str]:
    """Text of each module in Verilog from `generate`, by name, the top first."""
    modules = re.findall(r"^(module (\w+) \(\n.*?^endmodule\n)", text, flags=re.M | re.S)
    return {name: module for module, name in modules}


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
def modules_text(design: Elaboratable, top: str, signals: dict[str, Signal]) -> str:
    """Verilog text of `design` as a module `top` with the ports `signals`, and of its components.

    ValueError for an operator or a memory's port that the writer does not know.
    """
    library = Library(f"{top}_")
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
    return "\n".join(write_module(modules[name], ports[name], live) for name in live.reached)
