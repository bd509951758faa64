"""Component boundaries that survive in the Verilog.

Amaranth's own Verilog merges nets across submodules: it names ports after the nets that they
connect to, and repeats every lane. Here each distinct component becomes one Verilog module with the
ports of its signature, and the design instantiates it. Simulation in Amaranth does not change.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from amaranth.hdl import (
    ClockSignal,
    Const,
    Elaboratable,
    Instance,
    Module,
    ResetInserter,
    ResetSignal,
    ShapeLike,
    Signal,
    Value,
    signed,
)
from amaranth.lib import data, wiring


class Library:
    """Components of one generation, by module name.

    names: constants keep names (`constant`). plain: sums and products are operators (`is_plain`).
    """

    def __init__(self, prefix: str, names: bool = False, plain: bool = False) -> None:
        self.prefix, self.names, self.plain = prefix, names, plain
        self.components: dict[str, wiring.Component] = {}

    def add(self, component: wiring.Component) -> str:
        """Module name of `component`; different components never share a name."""
        name = self.prefix + module_name(component)
        known = self.components.setdefault(name, component)
        if _parameters(known) != _parameters(component):
            raise ValueError(
                f"module name {name} must stand for one component, not {_parameters(known)} "
                f"and {_parameters(component)}"
            )
        return name


_library: ContextVar[Library | None] = ContextVar("library", default=None)


@contextmanager
def collecting(library: Library) -> Iterator[None]:
    """Make `submodule` build instances and add their components to `library`."""
    token = _library.set(library)
    try:
        yield
    finally:
        _library.reset(token)


def collects() -> bool:
    """True while Verilog is generated: `submodule` then makes instances."""
    return _library.get() is not None


def is_plain() -> bool:
    """True while Verilog is generated whose sums and products are `+` and `*`.

    The adders and multipliers of this package are then left to the synthesis.
    """
    library = _library.get()
    return library is not None and library.plain


T = TypeVar("T", bound=wiring.Component)
E = TypeVar("E", bound=Elaboratable)


def submodule(m: Module, name: str, component: T, reset: Value | None = None) -> T:
    """Make `component` a submodule of `m`; while collecting, an instance of its module.

    `reset` resets a component with registers, in addition to the global reset.
    """
    library = _library.get()
    if library is not None:
        m.submodules[name] = _instance(library.add(component), name, component, reset)
    elif reset is not None:
        m.submodules[name] = ResetInserter(reset)(component)
    else:
        m.submodules[name] = component
    return component


CONSTANT = "constant"
"""Module of the instances that hold a constant's name, for the writer of Verilog alone."""


def constant(m: Module, name: str, value: int, shape: ShapeLike) -> Value:
    """`value`, which the Verilog calls `name`. A zero has no name: adding it is left out."""
    library = _library.get()
    if not value or library is None or not library.names:
        return Const(value, shape)
    held = Signal(shape, name=name)
    whole = Const(value, signed(len(held) + 1))  # an int would lose its sign, or gain one
    m.submodules[f"{CONSTANT}_{name}"] = Instance(CONSTANT, p_value=whole, o_y=held)
    return held


def paragraphs(described: object) -> list[str]:
    """Paragraphs of the class's own docstring, without line breaks; none without one."""
    text = (vars(type(described)).get("__doc__") or "").replace("`", "")
    return [" ".join(paragraph.split()) for paragraph in text.split("\n\n") if paragraph.strip()]


def summary(component: wiring.Component) -> str:
    """First sentence of the class's own docstring, without the full stop; empty without one."""
    sentence = re.split(r"\.(?:\s|$)", next(iter(paragraphs(component)), ""))[0]
    return sentence.removesuffix("; combinational").rstrip(":")


def meanings(values: Mapping[str, ShapeLike]) -> dict[str, str]:
    """Meaning of each value with a layout of this package: its `meaning`, or its docstring."""
    by_name: dict[str, str] = {}
    for name, shape in values.items():
        while isinstance(shape, data.ArrayLayout):
            shape = shape.elem_shape
        text = getattr(shape, "meaning", " ".join(paragraphs(shape))).removesuffix(".")
        if type(shape).__module__.startswith(__package__) and text:
            is_word = text[1:2].islower() or text.startswith("A ")
            by_name[name] = text[0].lower() + text[1:] if is_word else text
    return by_name


def _instance(module: str, name: str, component: wiring.Component, reset: Value | None) -> Instance:
    ports: dict[str, Value] = {}
    flows = {port: member.flow for port, member, _ in _flat(component)}
    for port, value in module_ports(used(component)).items():
        ports[f"{'i' if flows[port] is wiring.In else 'o'}_{port}"] = value
        value.name = f"{name}_{port}"  # type: ignore[attr-defined]  # in the module around it
    if is_clocked(component):
        either = ResetSignal() if reset is None else ResetSignal() | reset
        ports |= {"i_clk": ClockSignal(), "i_rst": either}
    return Instance(module, **ports)


def used(elaboratable: E) -> E:
    """`elaboratable`, marked so that Amaranth does not warn about an object that is never
    elaborated.
    """
    elaboratable._MustUse__used = True  # type: ignore[attr-defined]
    return elaboratable


def _flat(component: wiring.Component) -> Iterator[tuple[str, wiring.Member, Value]]:
    """(name, member, value) of every port; a stream `i` is `i_payload`, `i_valid`, `i_ready`."""
    for path, member, value in component.signature.flatten(component):
        yield "_".join(map(str, path)), member, Value.cast(value)


def module_ports(component: wiring.Component) -> dict[str, Value]:
    """Ports of a component, by name, without ports of width 0.

    A component with registers has the class attribute `clocked = True`: its module also has the
    ports `clk` and `rst`, which Amaranth adds.
    """
    return {port: value for port, _, value in _flat(component) if len(value)}


def module_shapes(component: wiring.Component) -> dict[str, ShapeLike]:
    """Shapes of the ports of a component's module, by name, clock and reset first."""
    clock: dict[str, ShapeLike] = {"clk": 1, "rst": 1} if is_clocked(component) else {}
    return clock | {port: member.shape for port, member, value in _flat(component) if len(value)}


def is_clocked(component: wiring.Component) -> bool:
    """True for a component with registers."""
    return getattr(component, "clocked", False)


def own_names(component: wiring.Component) -> wiring.Component:
    """`component`, its signals renamed from the enclosing module's names to its own ports."""
    for port, value in module_ports(component).items():
        value.name = port  # type: ignore[attr-defined]
    return component


def _parameters(component: wiring.Component) -> dict[str, object]:
    """Attributes that the constructor kept, without the ports."""
    ports = set(component.signature.members)
    kept = {k: v for k, v in vars(component).items() if k not in ports and not k.startswith("_")}
    return {"class": type(component), **kept}


def module_name(component: wiring.Component) -> str:
    """Class name, sizes and variant: `ShiftRight(26, 11)` is `shift_right_26_11`.

    A class with the attribute `verilog_name` of its own uses that instead of its class name. NaN's
    bits and rounding to odd that is off stay out of it.
    """
    class_name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(component).__name__).lower()
    name = vars(type(component)).get("verilog_name", class_name)
    sizes = [
        str(int(value) if isinstance(value, bool) else value)
        for key, value in _parameters(component).items()
        if isinstance(value, int | str) and key != "nan_bits" and (key, value) != ("odd", False)
    ]
    return "_".join([name, *sizes]).replace("-", "m")
