"""Thousands of cases of a component at a time, by the netlist that Amaranth writes as Verilog.

Every net of the netlist is one Python integer whose bit j belongs to case j, so that one operation
on it serves all cases. That is two to three orders of magnitude faster than a simulator on the
exhaustive and random tests of the datapath; tests/test_hw_netlist.py compares it with Amaranth's
own simulator. The netlist is an inside of Amaranth, whose version is pinned.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from amaranth.hdl import Fragment, Value
from amaranth.hdl import _nir as nir
from amaranth.hdl._ir import build_netlist
from amaranth.hdl._nir import Net
from amaranth.lib import wiring

Step = Callable[[int, dict[str, list[int]], list[int]], tuple[dict[str, list[int]], list[int]]]
Bits = list[str]  # expressions, lowest bit first
REDUCTIONS = {"b": "|", "r|": "|", "r&": "&", "r^": "^"}


def wiring_value(port: object) -> Value:
    """The signal behind a port of a component, a view's included."""
    return Value.cast(port)  # type: ignore[arg-type]


class Netlist:
    """The cells of `component` as one compiled function of its input bits and its registers.

    `inputs` and `outputs` map a port (its path in the signature, joined by dots; `rst` besides, if
    there are registers) to its width. `registers` lists the initial bit of each register bit.
    `step(ones, inputs, registers)` gives the outputs and the next registers; every bit is an
    integer of one bit per case, `ones` the one that is set in all of them.
    """

    def __init__(self, component: wiring.Component) -> None:
        values, self.inputs, self.outputs = {}, {}, {}
        for path, member, value in component.signature.flatten(component):
            name = ".".join(map(str, path))
            values[name] = (wiring_value(value), None)
            side = self.inputs if member.flow is wiring.In else self.outputs
            side[name] = len(wiring_value(value))
        cells = build_netlist(Fragment.get(component, None), ports=values).cells
        flops = [(i, cell) for i, cell in enumerate(cells) if isinstance(cell, nir.FlipFlop)]
        if flops:
            self.inputs["rst"] = 1
        self.registers = [
            cell.init >> bit & 1 for _, cell in flops for bit in range(len(cell.data))
        ]
        self.step = Compiler(cells).compile(self.inputs, flops)


class Compiler:
    """Makes a Python function of cells; `known` names the nets that it has dealt with."""

    def __init__(self, cells: list[nir.Cell]) -> None:
        self.cells = cells
        self.known = {Net(0): "0", Net(1): "ones"}

    def compile(self, inputs: Collection[str], flops: list[tuple[int, nir.FlipFlop]]) -> Step:
        """The function; `inputs` are the ports that it reads, `flops` the registers' cells."""
        top = self.cells[0]
        assert isinstance(top, nir.Top)
        lines = ["def step(ones, inputs, registers):"]
        for name, (start, width) in top.ports_i.items():
            if name in inputs:  # and not the clock
                lines.append(f"{self._name(0, range(start, start + width))} = inputs[{name!r}]")
        states = [self._name(index, range(len(cell.data))) for index, cell in flops]
        lines.append(f"[{', '.join(state[1:-1] for state in states)}] = registers")
        following = [net for _, cell in flops for net in cell.data]
        lines += self._body([net for value in top.ports_o.values() for net in value] + following)
        outputs = [f"{name!r}: {self._list(value)}" for name, value in top.ports_o.items()]
        lines.append(f"return {{{', '.join(outputs)}}}, {self._list(following)}")
        scope: dict[str, Callable] = {}
        exec("\n  ".join(lines), scope)
        return scope["step"]

    def _name(self, cell: int, bits: Iterable[int]) -> str:
        """Names for outputs of a cell, as the target of an assignment."""
        nets = [Net.from_cell(cell, bit) for bit in bits]
        self.known.update((net, f"n{net.cell}_{net.bit}") for net in nets)
        return self._list(nets)

    def _list(self, nets: Iterable[Net]) -> str:
        return f"[{', '.join(self.known[net] for net in nets)}]"

    def _body(self, roots: list[Net]) -> list[str]:
        """Statements that compute `roots`, in an order in which they can be executed."""
        lines: list[str] = []
        stack: list[tuple[Net, Iterator]] = []

        def visit(net: Net) -> None:
            if net not in self.known:
                stack.append((net, iter(self.cells[net.cell].comb_edges_to(net.bit))))

        for root in roots:
            visit(root)
            while stack:
                net, edges = stack[-1]
                source = next(edges, None)
                if source is not None:
                    visit(source[0])
                    continue
                stack.pop()
                if net not in self.known:
                    lines += Emitter(self.known, net).cell(self.cells[net.cell])
        return lines


class Emitter:
    """The statements for one net, or for all nets of a cell whose bits hang together."""

    def __init__(self, known: dict[Net, str], net: Net) -> None:
        self.known, self.net = known, net
        self.lines: list[str] = []

    def cell(self, cell: nir.Cell) -> list[str]:
        bit = self.net.bit
        if isinstance(cell, nir.Operator):
            self._operator_cell(cell)
        elif isinstance(cell, nir.AssignmentList):
            value = self._of(cell.default[bit])
            for item in cell.assignments:
                if item.start <= bit < item.start + len(item.value):
                    assigned = self._of(item.value[bit - item.start])
                    value = self._keep(_mux(self._of(item.cond), assigned, value))
            self._set(bit, value)
        elif isinstance(cell, nir.Part):
            value, offset = [self._of(net) for net in cell.value], map(self._of, cell.offset)
            operator, fill = ("s>>", value[-1]) if cell.value_signed else ("u>>", "0")
            value += [fill] * (cell.width - len(value))
            shifted = self._shift(operator, value, list(offset), cell.stride)
            for place, expression in enumerate(shifted[: cell.width]):
                self._set(place, expression)
        elif isinstance(cell, nir.Matches):
            value = [self._of(net) for net in cell.value]
            self._set(bit, " | ".join(_match(value, pattern) for pattern in cell.patterns))
        elif isinstance(cell, nir.PriorityMatch):
            left = self._of(cell.en)
            for net in cell.inputs[:bit]:
                left = self._keep(f"{left} & {_not(self._of(net))}")
            self._set(bit, f"{left} & {self._of(cell.inputs[bit])}")
        else:
            raise TypeError(f"no rule for {type(cell).__name__}")
        return self.lines

    def _operator_cell(self, cell: nir.Operator) -> None:
        bit = self.net.bit
        if cell.operator in ("&", "|", "^", "~", "m"):
            nets = [value[bit if len(value) > 1 else 0] for value in cell.inputs]
            self._set(bit, _bitwise(cell.operator, *map(self._of, nets)))
            return
        values = [[self._of(net) for net in value] for value in cell.inputs]
        results = self._operator(cell.operator, values[0], values[1] if values[1:] else [])
        for place, expression in enumerate(results):
            self._set(place, expression)

    def _of(self, net: Any) -> str:
        return self.known[net]

    def _set(self, bit: int, expression: str) -> None:
        net = Net.from_cell(self.net.cell, bit)
        self.known[net] = f"n{net.cell}_{bit}"
        self.lines.append(f"{self.known[net]} = {expression}")

    def _keep(self, expression: str) -> str:
        name = f"t{self.net.cell}_{self.net.bit}_{len(self.lines)}"
        self.lines.append(f"{name} = {expression}")
        return name

    def _operator(self, operator: str, a: Bits, b: Bits) -> Bits:
        if operator in REDUCTIONS:
            return [f" {REDUCTIONS[operator]} ".join(a) or ("ones" if operator == "r&" else "0")]
        if operator == "+":
            return self._add(a, b, "0")
        if operator == "-":  # of one operand or two
            minuend, subtrahend = (a, b) if b else (["0"] * len(a), a)
            return self._add(minuend, [_not(x) for x in subtrahend], "ones")
        if operator == "*":
            return self._multiply(a, b)
        if operator in ("==", "!="):
            differ = " | ".join(f"({x} ^ {y})" for x, y in zip(a, b, strict=True))
            return [differ if operator == "!=" else f"({differ}) ^ ones"]
        if operator in ("<<", "u>>", "s>>"):
            return self._shift(operator, a, b)
        return [self._compare(operator, a, b)]

    def _add(self, a: Bits, b: Bits, carry: str) -> Bits:
        total = []
        for x, y in zip(a, b, strict=True):
            differ = self._keep(f"{x} ^ {y}")
            total.append(self._keep(f"{differ} ^ {carry}"))
            carry = self._keep(f"({x} & {y}) | ({carry} & {differ})")
        return total

    def _multiply(self, a: Bits, b: Bits) -> Bits:
        total = ["0"] * len(a)
        for place, x in enumerate(b):
            row = ["0"] * place + [f"({x} & {y})" for y in a[: len(a) - place]]
            total = self._add(total, row, "0")
        return total

    def _compare(self, operator: str, a: Bits, b: Bits) -> str:
        """From the bottom up: whether the bits so far say less; a sign counts the other way."""
        if operator[1] == ">":
            a, b = b, a
        less = "ones" if operator.endswith("=") else "0"
        signs = len(a) - 1 if operator[0] == "s" else None
        for bit, (x, y) in enumerate(zip(a, b, strict=True)):
            low, high = (y, x) if bit == signs else (x, y)
            less = self._keep(_mux(f"({x} ^ {y})", f"({_not(low)} & {high})", less))
        return less

    def _shift(self, operator: str, a: Bits, amount: Bits, stride: int = 1) -> Bits:
        fill = a[-1] if operator == "s>>" else "0"
        for level, select in enumerate(amount):
            by = min(stride << level, len(a))
            moved = ["0"] * by + a[:-by] if operator == "<<" else a[by:] + [fill] * by
            a = [self._keep(_mux(select, x, y)) for x, y in zip(moved, a, strict=True)]
        return a


def _bitwise(operator: str, *operands: str) -> str:
    if operator == "m":
        return _mux(*operands)
    return _not(*operands) if operator == "~" else f" {operator} ".join(operands)


def _not(x: str) -> str:
    return f"({x} ^ ones)"


def _mux(select: str, yes: str, no: str) -> str:
    return f"{no} ^ ({select} & ({yes} ^ {no}))"


def _match(value: Bits, pattern: str) -> str:
    """Whether `value` fits `pattern`, which has its highest bit first."""
    pairs = zip(value, reversed(pattern), strict=True)
    return (
        "(" + (" & ".join(x if p == "1" else _not(x) for x, p in pairs if p != "-") or "ones") + ")"
    )
