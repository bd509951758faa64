"""A module of a netlist as Verilog text."""

import textwrap
from collections.abc import Iterator
from itertools import groupby

from .expressions import NAME, Operation, Text, text_of
from .netlist import Bit, Bits, Cell, Field, Live, NetlistModule
from .plan import Plan, in_order
from .remarks import Remarks

WIDTH = 100


def write_module(
    module: NetlistModule, ports: dict[str, list[Field]], live: Live, remarks: Remarks
) -> str:
    """Text of `module` without the parts that do not matter.

    ports: fields of each port of the design, in order.
    """
    return _Writer(Plan(module, ports, live), remarks).text()


class _Writer:
    def __init__(self, plan: Plan, remarks: Remarks) -> None:
        self.plan, self.names, self.remarks = plan, plan.names, remarks
        self.declared = {*(port.field.name for port in plan.ports), *plan.constants}

    def text(self) -> str:
        """Text of the whole module."""
        plan = self.plan
        name = plan.module.name
        lines = [line for text in self.remarks.full.get(name, []) for line in remark(text, "")]
        lines += [f"module {name} (", *self._ports(), ");", *self._constants()]
        lines += self._registers_declared()
        for memory in dict.fromkeys(cell.memory for cell in plan.reads):
            width, size = plan.module.memories[memory]
            lines.append(f"  reg [{width - 1}:0] {memory} [0:{size - 1}];")
        lines += self._wires_declared()
        lines += self._logic()
        lines += self._clocked()
        lines += self._memory_ports()
        lines += self._outputs()
        return "\n".join([*lines, "endmodule"]) + "\n"

    # Declarations -----------------------------------------------------------------------------

    def _ports(self) -> Iterator[str]:
        ports = self.plan.ports
        longest = max((len(self.names.range(port.field.name)) for port in ports), default=0)
        for number, port in enumerate(ports, 1):
            name = port.field.name
            direction = "input  wire" if port.is_input else "output wire"
            text = f"  {direction} {self.names.range(name):{longest}}{name}"
            text += "," if number < len(ports) else ""
            yield f"{text}  // {port.field.note}" if port.field.note else text

    def _constants(self) -> Iterator[str]:
        for name, (bits, value) in self.plan.constants.items():
            sign = "-" if value < 0 else ""
            number = f"{sign}{len(bits)}'d{abs(value)}"
            yield f"  localparam {self.names.range(name)}{name} = {number};"

    def _registers_declared(self) -> Iterator[str]:
        if self._sections() and self.plan.registers:
            yield "  // Registers: SECTION_register_VALUE holds VALUE after SECTION"
        for cell in self.plan.registers:
            yield from self._declare(tuple(q for q, _ in self.plan.kept(cell)), "reg")
        for cell in self.plan.reads:
            yield from self._declare(cell.outputs["DATA"], "reg")

    def _wires_declared(self) -> Iterator[str]:
        """Wires that instances drive, or several operators part by part."""
        if self._sections():
            yield "  // Outputs of sections: SECTION_o_VALUE"
        for cell in self.plan.instances:
            for port in self.plan.connections(cell):
                if not port.is_input:
                    yield from self._declare(port.bits)
        for op in self.plan.operations:
            if op.out[0] not in self.plan.inside and not self._whole(op.out):
                yield from self._declare(op.out)

    def _sections(self) -> list[Cell]:
        """Instances of sections, in the order of the design."""
        return [cell for cell in self.plan.instances if cell.kind in self.remarks.sections]

    def _declare(self, bits: Bits, kind: str = "wire") -> Iterator[str]:
        for name in dict.fromkeys(self.names.of[b][0] for b in bits if b in self.names.of):
            if name not in self.declared:
                self.declared.add(name)
                yield f"  {kind} {self.names.range(name)}{name};"

    def _whole(self, bits: Bits) -> bool:
        """True if the bits are one vector from end to end."""
        name, low = self.names.of[bits[0]]
        return self.names.ranges[name] == (low, low + len(bits) - 1)

    # Combinational logic ----------------------------------------------------------------------

    def _logic(self) -> Iterator[str]:
        """Instances in the order of the design, each after the operators that it reads; other
        operators.

        Instances may read one another (a handshake goes back): values that are read before they are
        written are declared first.
        """
        plan = self.plan
        writers: dict[Bit, Operation | Cell] = {}
        for op in plan.operations:
            if op.out[0] not in plan.inside:
                writers |= dict.fromkeys(op.out, op)
        for cell in plan.instances:
            ports = [port for port in plan.connections(cell) if not port.is_input]
            writers |= {bit: cell for port in ports for bit in port.bits}
        items = list({id(item): item for item in (*plan.instances, *writers.values())}.values())
        operators = {bit: op for bit, op in writers.items() if isinstance(op, Operation)}
        items = in_order(items, operators, self._read_by)
        place = {id(item): number for number, item in enumerate(items)}
        for number, item in enumerate(items):
            late = [b for b in self._read_by(item) if b in writers]
            yield from self._declare(tuple(b for b in late if place[id(writers[b])] > number))
        last = next(reversed(self._sections()), None)
        for item in items:
            yield from self._instance(item) if isinstance(item, Cell) else self._assignment(item)
            if item is last:
                yield from [
                    "",
                    "  // Handshakes, outputs and registers (SECTION_leaves: they take VALUEs)",
                ]

    def _read_by(self, item: Operation | Cell) -> Bits:
        """Inputs of an operator or an instance, through operators inside expressions."""
        if isinstance(item, Operation):
            return self._through(item.bits)
        ports = self.plan.connections(item)
        return self._through(tuple(bit for port in ports if port.is_input for bit in port.bits))

    def _through(self, bits: Bits) -> Bits:
        sources: list[Bit] = []
        for bit in dict.fromkeys(bits):
            inside = self.plan.inside.get(bit)
            sources += (bit,) if inside is None else self._through(inside.bits)
        return tuple(sources)

    def _assignment(self, op: Operation) -> list[str]:
        name, low = self.names.of[op.out[0]]
        head = f"assign {self.names.part(name, low, low + len(op.out) - 1)}"
        if name not in self.declared:
            head = f"wire {self.names.range(name)}{name}"
        return wrapped(f"{head} = {self._expression(op).text};")

    def _expression(self, op: Operation) -> Text:
        choices = [self._operand((bit,)) for bit in op.choices]
        return text_of(op, [self._operand(operand) for operand in op.operands], choices)

    def _operand(self, bits: Bits) -> Text:
        """Bits as a name, a constant, an expression, or a concatenation."""
        pieces = list(self._pieces(bits))
        if len(pieces) == 1:
            return pieces[0]
        return Text(f"{{{', '.join(piece.text for piece in reversed(pieces))}}}", NAME)

    def _pieces(self, bits: Bits) -> Iterator[Text]:
        """Runs of bits with one text each, the least significant first."""
        place = 0
        while place < len(bits):
            inside = self.plan.inside.get(bits[place])
            if inside is not None:
                size = len(inside.out)
                end = place + size
                while bits[end : end + size] == inside.out:
                    end += size
                yield self._repeated(inside, (end - place) // size)
                place = end
                continue
            end = self._run(bits, place)
            yield Text(self._text_of_run(bits[place:end]), NAME)
            place = end

    def _repeated(self, op: Operation, times: int) -> Text:
        """The expression, or a concatenation of it with itself."""
        one = self._expression(op)
        return one if times == 1 else Text(f"{{{times}{{{one.text}}}}}", NAME)

    def _run(self, bits: Bits, place: int) -> int:
        """End of the run that begins at `place`: constants, one bit, or a vector."""
        bit, end = bits[place], place + 1
        if isinstance(bit, str):
            while end < len(bits) and isinstance(bits[end], str):
                end += 1
            return end
        while end < len(bits) and bits[end] == bit:
            end += 1
        if end > place + 1:
            return end
        name, index = self.names.of[bit]
        while end < len(bits) and self.names.of.get(bits[end]) == (name, index + end - place):
            end += 1
        return end

    def _text_of_run(self, run: Bits) -> str:
        first = run[0]
        if isinstance(first, str):
            return constant("".join(map(str, run)))
        name, index = self.names.of[first]
        if len(run) > 1 and run[1] == first:
            return f"{{{len(run)}{{{self.names.part(name, index, index)}}}}}"
        return self.names.part(name, index, index + len(run) - 1)

    def _instance(self, cell: Cell) -> list[str]:
        ports = self.plan.connections(cell)
        texts = [f".{port.field.name}({self._operand(port.bits).text})" for port in ports]
        lines = wrapped(f"{cell.kind} {cell.name} ({', '.join(texts)});")
        if cell.kind not in self.remarks.sections:
            return lines
        return ["", *remark(f"{cell.name}: {self.remarks.sentences[cell.kind]}", "  "), *lines]

    def _outputs(self) -> Iterator[str]:
        """Assignments of outputs, or their parts, from other names or constants."""
        for port in self.plan.ports:
            name, bits = port.field.name, port.bits
            places = [i for i, b in enumerate(bits) if self.names.of.get(b) != (name, i)]
            for _, run in groupby(enumerate(places), lambda pair: pair[1] - pair[0]):
                ends = [place for _, place in run]
                value = self._operand(bits[ends[0] : ends[-1] + 1]).text
                part = self.names.part(name, ends[0], ends[-1])
                yield from [] if port.is_input else wrapped(f"assign {part} = {value};")

    # Registers --------------------------------------------------------------------------------

    def _clocked(self) -> Iterator[str]:
        """A block per clock, reset and enable."""
        blocks: dict[tuple[str, str, str], list[tuple[str, tuple[str, str]]]] = {}
        for cell in self.plan.registers:
            for key, assignment in self._assignments(cell):
                blocks.setdefault(key, []).append(assignment)
        for (edge, reset, enable), assignments in blocks.items():
            yield f"  always @({edge})"
            resets = [f"{target} <= {value};" for target, (value, _) in assignments]
            takes = [f"{target} <= {value};" for target, (_, value) in assignments]
            if reset:
                yield from _branch(f"if ({reset})", resets)
                yield from _branch(f"else if ({enable})" if enable else "else", takes)
            else:
                yield from _branch(f"if ({enable})" if enable else "", takes)

    def _assignments(
        self, cell: Cell
    ) -> Iterator[tuple[tuple[str, str, str], tuple[str, tuple[str, str]]]]:
        """((clock, reset, enable), (target, (value of a reset, value))) for each vector."""
        given, has = cell.inputs, cell.parameters
        edge = (
            f"{'posedge' if has['CLK_POLARITY'] else 'negedge'} {self._operand(given['CLK']).text}"
        )
        reset = self._condition(given["SRST"], has["SRST_POLARITY"]) if "SRST" in given else ""
        enable = self._condition(given["EN"], has["EN_POLARITY"]) if "EN" in given else ""
        places = {q: i for i, q in enumerate(cell.outputs["Q"])}
        for pairs in self.plan.runs(cell):
            name, low = self.names.of[pairs[0][0]]
            target = self.names.part(name, low, low + len(pairs) - 1)
            start = [str(has.get("SRST_VALUE", 0) >> places[q] & 1) for q, _ in pairs]
            value = self._operand(tuple(d for _, d in pairs)).text
            yield (edge, reset, enable), (target, (constant("".join(start)), value))

    def _condition(self, bits: Bits, polarity: int) -> str:
        operand = self._operand(bits)
        return operand.text if polarity else f"!{operand.inside(NAME)}"

    def _memory_ports(self) -> Iterator[str]:
        """Clocked ports of memories. A read gives the old word if the same cycle writes it."""
        for cell in (*self.plan.writes, *self.plan.reads):
            if cell.kind.startswith("$meminit"):
                raise ValueError(f"memories must start with zeros, not as {cell.memory}")
            given = {name: self._operand(bits).text for name, bits in cell.inputs.items()}
            enable = cell.inputs["EN"]
            if not cell.parameters["CLK_ENABLE"] or len(set(enable)) != 1:
                raise ValueError(f"ports of {cell.memory} must be clocked, with one enable")
            word = f"{cell.memory}[{given['ADDR']}]"
            if cell.outputs:
                takes = f"{self._operand(cell.outputs['DATA']).text} <= {word};"
            else:
                takes = f"{word} <= {given['DATA']};"
            yield f"  always @(posedge {given['CLK']})"
            yield from _branch(f"if ({self._operand(enable[:1]).text})", [takes])


def _branch(head: str, statements: list[str]) -> Iterator[str]:
    """Statements under a condition."""
    if len(statements) == 1 and head:
        yield from wrapped(f"{head} {statements[0]}", "    ")
        return
    yield f"    {head} begin".replace("     begin", "    begin")
    for statement in statements:
        yield from wrapped(statement, "      ")
    yield "    end"


def constant(digits: str) -> str:
    """Constant from these binary digits, the least significant first."""
    size, value = len(digits), digits[::-1]
    if set(value) - {"0", "1"} or size <= 2:
        return f"{size}'b{value}"
    return f"{size}'d{int(value, 2)}" if size <= 8 else f"{size}'h{int(value, 2):x}"


def remark(text: str, indent: str) -> list[str]:
    """A comment in lines of at most WIDTH characters; none for an empty text."""
    start = f"{indent}// {' ' * (len(text) - len(text.lstrip()))}"
    rest = start if start.endswith("// ") else f"{start}  "
    return textwrap.wrap(text.lstrip(), WIDTH, initial_indent=start, subsequent_indent=rest)


def wrapped(text: str, indent: str = "  ") -> list[str]:
    """A statement in lines of at most WIDTH characters, if it can be cut."""
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=f"{indent}    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
