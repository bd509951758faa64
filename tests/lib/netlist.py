"""Thousands of cases of a component at a time, by the netlist that Amaranth writes as Verilog.

Every net of the netlist is one Python integer whose bit j belongs to case j, so that one operation
on it serves all cases. That is two to three orders of magnitude faster than a simulator on the
exhaustive and random tests of the datapath; tests/hw/test_netlist.py compares it with Amaranth's
own simulator. The netlist is an inside of Amaranth, whose version is pinned.

As for Verilog, each distinct component of a design is elaborated once, however often it occurs, and
so is one that several designs have.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from unittest import mock

from amaranth.hdl import Fragment, Value
from amaranth.hdl import _nir as nir
from amaranth.hdl._ir import _emit_netlist
from amaranth.hdl._nir import Net
from amaranth.lib import wiring

from mxdot.hw.hierarchy import Library, collecting, module_ports, own_names
from mxdot.hw.verilog import uncollected
from netlist_cells import Emitter

Step = Callable[[int, dict[str, list[int]], list[int]], tuple[dict[str, list[int]], list[int]]]
Parts = dict[str, wiring.Component]


def wiring_value(port: object) -> Value:
    """Signal of a component's port, or of a view."""
    return Value.cast(port)  # type: ignore[arg-type]


class Netlist:
    """The cells of `component` as one compiled function of its input bits and its registers.

    `inputs` and `outputs` map a port (its path in the signature, joined by dots; `rst` besides, if
    there are registers) to its width. `registers` lists the initial bit of each register bit.
    `step(ones, inputs, registers)` gives the outputs and the next registers; every bit is an
    integer of one bit per case, `ones` the one that is set in all of them.
    """

    def __init__(self, component: wiring.Component) -> None:
        ports, self.inputs, self.outputs = {}, {}, {}
        for path, member, value in component.signature.flatten(component):
            name = ".".join(map(str, path))
            ports[name] = wiring_value(value)
            side = self.inputs if member.flow is wiring.In else self.outputs
            side[name] = len(ports[name])
        root = Scope("", *_cells(component, ports))
        flops = [(scope, i, cell) for scope in root.scopes() for i, cell in scope.flops]
        if flops:
            self.inputs["rst"] = 1
        self.registers = [
            cell.init >> bit & 1 for *_, cell in flops for bit in range(len(cell.data))
        ]
        self.step = compile_step(root, self.inputs, flops)


@dataclass(frozen=True)
class Elaborated:
    """A component's cells and the components that these instantiate.

    key: what the component depends on: all that its constructor kept, what has no part in its name,
    too. A patch of what `elaborate` calls is not in it: no netlist is made of patched hardware.
    """

    key: tuple[object, ...]
    cells: list[nir.Cell]
    parts: Parts


_known: dict[str, list[Elaborated]] = {}
"""Netlists of this process by name; one may serve in several designs."""


@uncollected()
def _cells(
    component: wiring.Component, ports: Mapping[str, Value]
) -> tuple[list[nir.Cell], dict[str, list[nir.Cell]]]:
    """The cells of `component` and, by name, those of each component that they instantiate."""
    top, cells = _own_cells(component, ports)
    library = Library("")
    parts: dict[str, list[nir.Cell]] = {}
    while cells:
        _, part = cells.popitem()
        name = library.add(part)  # refuses two that differ
        if name not in parts:
            parts[name], others = _part(name, part)
            cells = {**others, **cells}
    return top, parts


def _part(name: str, part: wiring.Component) -> tuple[list[nir.Cell], Parts]:
    ports = {"_MustUse__used", *part.signature.members}
    kept = {k: v for k, v in vars(part).items() if k not in ports}
    key = (type(part).elaborate, kept)  # type: ignore[attr-defined]
    alike = _known.setdefault(name, [])
    for known in alike:
        if known.key == key:
            return known.cells, known.parts
    cells, parts = _own_cells(own_names(part), module_ports(part))
    alike.append(Elaborated(key, cells, parts))
    return cells, parts


def _own_cells(
    component: wiring.Component, ports: Mapping[str, Value]
) -> tuple[list[nir.Cell], Parts]:
    """Cells from Amaranth's `build_netlist`, without the steps that only its netlist writers need.

    `_body` refuses cycles; Amaranth's search for them takes half of its time.
    """
    directed = {name: (value, None) for name, value in ports.items()}
    library, netlist = Library(""), nir.Netlist()
    with collecting(library):
        design = Fragment.get(component, None).prepare(ports=directed, hierarchy=("top",))
    with mock.patch.multiple(nir.Value, __new__=_nets, __getitem__=_nets_at):
        _emit_netlist(netlist, design, all_undef_to_ff=False)
        netlist.resolve_all_nets()
    return netlist.cells, library.components


def _nets(cls: type, nets: Any = ()) -> Any:
    """A `nir.Value` without a look at the type of every net, which takes a fifth of the time."""
    return tuple.__new__(cls, (nets,) if isinstance(nets, Net) else nets)


def _nets_at(value: nir.Value, index: Any) -> Any:
    nets = tuple.__getitem__(value, index)
    return tuple.__new__(nir.Value, nets) if isinstance(index, slice) else nets


class Scope:
    """One occurrence of a component: its cells, and the names of the nets dealt with so far.

    prefix: of these names. parts: the cells of each component, by name; around: the occurrence
    that instantiates this one, and its cell there.
    """

    def __init__(
        self,
        prefix: str,
        cells: list[nir.Cell],
        parts: dict[str, list[nir.Cell]],
        around: "tuple[Scope, nir.Instance] | None" = None,
    ) -> None:
        self.prefix, self.cells, self.around = prefix, cells, around
        self.known = {Net(0): "0", Net(1): "ones"}
        self.flops = [(i, cell) for i, cell in enumerate(cells) if isinstance(cell, nir.FlipFlop)]
        self.inside = {
            i: Scope(f"{prefix}{i}_", parts[cell.type], parts, (self, cell))
            for i, cell in enumerate(cells)
            if isinstance(cell, nir.Instance)
        }
        self.places: dict[int, dict[int, tuple[str, int]]] = {}

    @property
    def top(self) -> nir.Top:
        """The cell of the ports."""
        top = self.cells[0]
        assert isinstance(top, nir.Top)
        return top

    def scopes(self) -> "Iterator[Scope]":
        """This occurrence and those inside it."""
        yield self
        for scope in self.inside.values():
            yield from scope.scopes()

    def alias(self, net: Net) -> "tuple[Scope, Any] | None":
        """The net on the other side of a port, where `net` is one."""
        inside = self.inside.get(net.cell)
        if inside is not None:
            name, bit = self._port(net)
            return inside, inside.top.ports_o[name][bit]
        if net.cell == 0 and self.around is not None:  # the cell of the ports
            name, bit = self._port(net)
            scope, instance = self.around
            return scope, instance.ports_i[name][bit]
        return None

    def _port(self, net: Net) -> tuple[str, int]:
        """The port of the net's cell, and the bit of it, where the net is."""
        if net.cell not in self.places:
            cell: Any = self.cells[net.cell]
            ports = cell.ports_o if net.cell in self.inside else cell.ports_i
            self.places[net.cell] = {
                start + bit: (name, bit)
                for name, (start, width) in ports.items()
                for bit in range(width)
            }
        return self.places[net.cell][net.bit]

    def sources(self, net: Net) -> "Iterator[tuple[Scope, Net]]":
        alias = self.alias(net)
        if alias is not None:
            return iter([alias])
        edges: Any = self.cells[net.cell].comb_edges_to(net.bit)
        return ((self, source) for source, _ in edges)

    def lines(self, net: Net) -> list[str]:
        """Statements that compute `net` from its sources, and its name."""
        alias = self.alias(net)
        if alias is None:
            return Emitter(self, net).cell(self.cells[net.cell])
        scope, same = alias
        self.known[net] = scope.known[same]
        return []

    def name(self, cell: int, bits: Iterable[int]) -> str:
        """Names for outputs of a cell, as the target of an assignment."""
        nets = [Net.from_cell(cell, bit) for bit in bits]
        self.known.update((net, f"n{self.prefix}{net.cell}_{net.bit}") for net in nets)
        return self.of(nets)

    def of(self, nets: Iterable[Net]) -> str:
        """The expressions of nets that are known."""
        return f"[{', '.join(self.known[net] for net in nets)}]"


def compile_step(
    root: Scope, inputs: Collection[str], flops: list[tuple[Scope, int, nir.FlipFlop]]
) -> Step:
    """The function; `inputs` are the ports that it reads, `flops` the registers' cells."""
    lines = ["def step(ones, inputs, registers):"]
    for name, (start, width) in root.top.ports_i.items():
        if name in inputs:  # and not the clock
            lines.append(f"{root.name(0, range(start, start + width))} = inputs[{name!r}]")
    states = [scope.name(index, range(len(cell.data))) for scope, index, cell in flops]
    lines.append(f"[{', '.join(state[1:-1] for state in states)}] = registers")
    results = [(root, net) for value in root.top.ports_o.values() for net in value]
    lines += _body(results + [(scope, net) for scope, _, cell in flops for net in cell.data])
    outputs = [f"{name!r}: {root.of(value)}" for name, value in root.top.ports_o.items()]
    following = [scope.of(cell.data)[1:-1] for scope, _, cell in flops]
    lines.append(f"return {{{', '.join(outputs)}}}, [{', '.join(following)}]")
    names: dict[str, Callable] = {}
    exec("\n  ".join(lines), names)
    return names["step"]


def _body(roots: Iterable[tuple[Scope, Net]]) -> list[str]:
    """Statements that compute `roots`, in an order in which they can be executed."""
    lines: list[str] = []
    stack: list[tuple[Scope, Net, Iterator]] = []
    begun: set[tuple[Scope, Net]] = set()

    def visit(scope: Scope, net: Net) -> None:
        if net not in scope.known:
            if (scope, net) in begun:
                raise ValueError(f"net {net} of {scope.prefix or 'the design'} depends on itself")
            begun.add((scope, net))
            stack.append((scope, net, scope.sources(net)))

    for root in roots:
        visit(*root)
        while stack:
            scope, net, sources = stack[-1]
            source = next(sources, None)
            if source is not None:
                visit(*source)
                continue
            stack.pop()
            begun.remove((scope, net))
            if net not in scope.known:
                lines += scope.lines(net)
    return lines
