"""Pipelines: sections compute, the pipeline carries values.

A section names the values that it reads and writes. A chain of sections passes each value on until
its last reader. A register after a section holds exactly the values that are read later. Registers
fill and empty one by one, by a valid/ready handshake; in a chain that never stops they take a new
token every cycle.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Module, Shape, ShapeLike, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..model.pipeline.placement import Pipeline
from .hierarchy import submodule


class Section(wiring.Component):
    """A combinational piece of a datapath. Values of width 0 are left out.

    Ports:

    - `i` in, a field per name in `reads`: values that it reads
    - `o` out, a field per name in `writes`: values that it writes
    """

    def __init__(self, reads: Mapping[str, ShapeLike], writes: Mapping[str, ShapeLike]) -> None:
        self.reads, self.writes = _present(reads), _present(writes)
        super().__init__({"i": In(data.StructLayout(reads)), "o": Out(data.StructLayout(writes))})


class ClockedSection(wiring.Component):
    """A piece of a datapath with its own registers and handshake.

    It forwards no values, so it must write everything that later sections read.

    Ports:

    - `i` in, stream with a field per name in `reads`: values that it reads
    - `o` out, stream with a field per name in `writes`: values that it writes
    """

    clocked = True

    def __init__(self, reads: Mapping[str, ShapeLike], writes: Mapping[str, ShapeLike]) -> None:
        self.reads, self.writes = _present(reads), _present(writes)
        signatures = [stream.Signature(data.StructLayout(names)) for names in (reads, writes)]
        super().__init__({"i": In(signatures[0]), "o": Out(signatures[1])})

    def connect(self, m: Module, name: str, token: "Token") -> "Token":
        """Token that leaves the section when `token` enters."""
        submodule(m, name, self)
        m.d.comb += [
            *(self.i.payload[value].eq(token.values[value]) for value in self.reads),
            self.i.valid.eq(token.valid),
            token.ready.eq(self.i.ready),
        ]
        after = Token(name, {value: self.o.payload[value] for value in self.writes}, self.o.valid)
        m.d.comb += self.o.ready.eq(after.ready)
        return after


def whole_or_parts(
    whole: Callable[..., Section], *parts: Callable[..., Section]
) -> Callable[..., Section]:
    """Maker of a section: whole, or its part number 1, 2, ... (`cut_finer`)."""

    def make(widths: object, number: int | None = None) -> Section:
        return (whole if number is None else parts[number - 1])(widths)

    return make


def _present(values: Mapping[str, ShapeLike]) -> dict[str, ShapeLike]:
    return {name: shape for name, shape in values.items() if Shape.cast(shape).width}


class Token:
    """Values by name, with a valid/ready handshake."""

    def __init__(self, name: str, values: Mapping[str, Value | data.View], valid: Value) -> None:
        self.values, self.valid = dict(values), valid
        self.ready = Signal(name=f"{name}_ready")

    def gate(self, m: Module, go: Value) -> None:
        """Let the token pass only with `go`."""
        ready, self.ready = self.ready, Signal(name="gated_ready")
        self.valid = self.valid & go
        m.d.comb += ready.eq(self.ready & go)


class Register:
    """Register after a section: valid, and a signal per value that it holds.

    stops: True if it waits for the next register; otherwise its content leaves after one cycle.
    """

    def __init__(self, name: str, shapes: Mapping[str, ShapeLike], stops: bool = True) -> None:
        self.name, self.stops = name, stops
        self.valid = Signal(name=f"{name}_register_valid")
        self.values = {
            value: Signal(shape, name=f"{name}_register_{value}", reset_less=True)
            for value, shape in shapes.items()
        }

    def connect(self, m: Module, token: Token) -> Token:
        """Token that leaves this register when `token` enters."""
        after = Token(self.name, self.values, self.valid)
        leaves = Signal(name=f"{self.name}_leaves")
        if not self.stops:  # no enable: it would be a net to all its bits
            m.d.comb += [token.ready.eq(1), leaves.eq(token.valid)]
            m.d.sync += [
                self.valid.eq(token.valid),
                *(held.eq(token.values[name]) for name, held in self.values.items()),
            ]
            return after
        m.d.comb += [
            token.ready.eq(after.ready | ~self.valid),
            leaves.eq(token.valid & token.ready),
        ]
        with m.If(token.ready):
            m.d.sync += self.valid.eq(token.valid)
        with m.If(leaves):
            m.d.sync += [held.eq(token.values[name]) for name, held in self.values.items()]
        return after


class SectionChain:
    """Sections of a unit in order, with the registers of `pipeline`.

    A section may read a value before any section has written it. Then the value comes round from
    the register of the next section that holds a running value. A token that needs it, because it
    starts no sum of its own (`starts`), waits until no other token is on its way to that register.

    - inputs: values that the first section reads
    - outputs: values that are read after the last section
    - joining: values that the unit adds to the token before a section, by the section's index
    - slots: sums that run at a time. With more than one, each has its own running value, and a
      token waits for its own only (`slot`).
    - stops: True if tokens wait inside. Otherwise a token that would wait must not enter
      (`Admission`), and each token that leaves must be taken.
    - decodes: True if the slot of a token that does not wait is decoded in the cycle before its
      running value is chosen
    """

    def __init__(
        self,
        pipeline: Pipeline,
        sections: Sequence[Section | ClockedSection],
        inputs: Mapping[str, ShapeLike],
        outputs: Iterable[str],
        joining: Mapping[int, Mapping[str, ShapeLike]] | None = None,
        slots: int = 1,
        stops: bool = True,
        decodes: bool = False,
    ) -> None:
        self.parts, self.registered = pipeline.sections, pipeline.registered
        self.sections, self.slots, self.stops = sections, slots, stops
        self.decodes = decodes and slots > 1 and not stops
        self.chosen: Value | None = None
        """A bit per slot, for the token in the register before a choice."""
        self.joining = dict(joining or {})
        # Values before each section, and after the last.
        self.shapes = [_present(inputs)]
        for index, section in enumerate(sections):
            self.shapes[index] |= self.joining.get(index, {})
            carried = {} if isinstance(section, ClockedSection) else self.shapes[index]
            self.shapes.append({**carried, **section.writes})
        self.registers = {
            index: Register(self.parts[index].name, self._held(index, set(outputs)), stops)
            for index in sorted(pipeline.registered)
        }

        self.running = {
            (holder, name): [
                Signal(
                    self.shapes[holder + 1][name],
                    name=f"{self.parts[holder].name}_slot{slot}_{name}",
                    reset_less=True,
                )
                for slot in range(slots)
            ]
            for name, holder in dict.fromkeys(self._feedback())
            if slots > 1
        }
        """Running value per slot, by its name and the register that holds it."""

    def _held(self, index: int, outputs: set[str]) -> dict[str, ShapeLike]:
        """Values after section `index` that are read later."""
        wanted = self._wanted(index + 1, outputs)
        if self.parts[index].holds and self.slots == 1:
            wanted |= {name for name, holder in self._feedback() if holder == index}
        return {name: shape for name, shape in self.shapes[index + 1].items() if name in wanted}

    def _wanted(self, start: int, outputs: set[str]) -> set[str]:
        """Values that sections from `start` on read and earlier sections write."""
        wanted = set(outputs)
        for index in reversed(range(start, len(self.sections))):
            section = self.sections[index]
            waits = {"starts"} if self._waits_for(index) else set()
            if self.slots > 1 and (self._comes_round(index) or self._is_holder(index)):
                waits.add("slot")
            wanted = (wanted - set(section.writes)) | set(section.reads) | waits
            wanted -= set(self.joining.get(index, ()))
        return wanted

    def _comes_round(self, index: int) -> list[str]:
        """Values that section `index` reads from the register of a running value."""
        return [name for name in self.sections[index].reads if name not in self.shapes[index]]

    def _feedback(self) -> list[tuple[str, int]]:
        """(value, section that holds it) per value that comes round."""
        return [
            (name, self._holder(index))
            for index in range(len(self.sections))
            for name in self._comes_round(index)
        ]

    def _holder(self, index: int) -> int:
        return next(i for i, part in enumerate(self.parts) if i >= index and part.holds)

    def _is_holder(self, index: int) -> bool:
        return any(holder == index for _, holder in self._feedback())

    def connect(self, m: Module, token: Token) -> Token:
        """Token that leaves the last section."""
        for index in range(len(self.sections)):
            token = self.step(m, index, token)
        return token

    def step(self, m: Module, index: int, token: Token) -> Token:
        """Section `index`, and the register after it, if any."""
        part, section = self.parts[index], self.sections[index]
        if isinstance(section, ClockedSection):
            return section.connect(m, part.name, token)
        round_ = self._comes_round(index)
        values = dict(token.values)
        if round_:
            values |= self._running(m, token, self._holder(index), round_)
            self._wait(m, token, self._waits_for(index))
        submodule(m, part.name, section)
        m.d.comb += [section.i[name].eq(values[name]) for name in section.reads]
        written = {name: section.o[name] for name in section.writes}
        after = Token(part.name, token.values | written, token.valid)
        if index in self.registers:
            after.ready = token.ready
            self._keep(m, after, index)
            self._decode(m, after, index)
            return self.registers[index].connect(m, after)
        m.d.comb += token.ready.eq(after.ready)
        return after

    def _waits_for(self, index: int) -> list[int]:
        """Registers that the running value for section `index` may still be in."""
        if not (self.stops and self._comes_round(index) and self.parts[index].loop):
            return []
        return sorted(self.registered.intersection(range(index, self._holder(index))))

    def _running(
        self, m: Module, token: Token, holder: int, names: list[str]
    ) -> dict[str, Value | data.View]:
        """Running values of the token's own sum."""
        if self.slots == 1:
            held = self.registers[holder].values
            return {name: held[name] for name in names}
        own_values = {}
        for name in names:
            if self.chosen is not None:
                own = Signal(self.shapes[holder + 1][name], name=f"own_{name}")
                masked = [
                    Value.cast(value) & bit.replicate(len(Value.cast(value)))
                    for bit, value in zip(self.chosen, self.running[holder, name], strict=True)
                ]
                m.d.comb += Value.cast(own).eq(reduce(or_, masked))
                own_values[name] = own
                continue
            last = self.slots - 1
            values = self.running[holder, name]
            own_values[name] = Signal(values[0].shape(), name=f"own_{name}")
            with m.Switch(token.values["slot"]):
                for slot, value in enumerate(values[:last]):
                    with m.Case(slot):
                        m.d.comb += own_values[name].eq(value)
                with m.Default():
                    m.d.comb += own_values[name].eq(values[last])
        return own_values

    def _decode(self, m: Module, token: Token, index: int) -> None:
        """Fill `chosen`, if register `index` is the one before a choice."""
        after = index + 1
        self.chosen = None
        if self.decodes and after < len(self.sections) and self._comes_round(after):
            slot = Value.cast(token.values["slot"])
            chosen = Signal(self.slots, name=f"{self.parts[index].name}_chosen", reset_less=True)
            m.d.sync += chosen.eq(Cat(slot == number for number in range(self.slots)))
            self.chosen = chosen

    def _keep(self, m: Module, token: Token, holder: int) -> None:
        """Keep the running values of a token that enters register `holder` for the sum's next
        token.
        """
        for (index, name), values in self.running.items():
            if index == holder:
                for slot, value in enumerate(values):
                    with m.If(token.valid & token.ready & (token.values["slot"] == slot)):
                        m.d.sync += value.eq(token.values[name])

    def _on_its_way(self, index: int, token: Token) -> Value:
        """True if register `index` holds a token of the same sum."""
        register = self.registers[index]
        if self.slots == 1:
            return register.valid
        return register.valid & (register.values["slot"] == token.values["slot"])

    def _wait(self, m: Module, token: Token, loop: list[int]) -> None:
        """Hold a token that needs a running value while this is on its way round."""
        if loop:
            go, busy = Signal(name="loop_go"), Signal(name="loop_busy")
            m.d.comb += [
                busy.eq(Cat(self._on_its_way(index, token) for index in loop).any()),
                go.eq(token.values["starts"] | ~busy),
            ]
            token.gate(m, go)


class Admission:
    """Gate of a chain that never stops: a token that needs the running value of its sum enters
    `interval` cycles after the sum's token before it.

    early: True if a register says per slot that the running value is on its way, which takes one
    more bit per slot.
    """

    def __init__(self, slots: int, interval: int, early: bool = False) -> None:
        self.interval = interval
        self.recent = [Signal(interval - 1, name=f"slot{slot}_recent") for slot in range(slots)]
        """Per slot, a bit for each of the last cycles: a token entered. The last cycle is
        lowest.
        """
        self.busy = [Signal(name=f"slot{slot}_busy") for slot in range(slots)] if early else []
        """Per slot: a bit of `recent` is set."""

    def gate(self, m: Module, token: Token) -> None:
        """Let the token pass when it may enter."""
        if self.interval == 1:
            return
        slot, go = Value.cast(token.values["slot"]), Signal(name="slot_go")
        m.d.comb += go.eq(token.values["starts"] | ~self._waits(m, slot))
        token.gate(m, go)
        for number, recent in enumerate(self.recent):
            enters = token.valid & token.ready & (slot == number)
            m.d.sync += recent.eq(Cat(enters, recent))
            if self.busy:
                m.d.sync += self.busy[number].eq(enters | recent[:-1].any())

    def _waits(self, m: Module, slot: Value) -> Value:
        """True while the running value of `slot` is on its way round."""
        busy = Signal(name="slot_busy")
        with m.Switch(slot):
            for number, recent in enumerate(self.recent):
                with m.Case(number):
                    m.d.comb += busy.eq(self.busy[number] if self.busy else recent.any())
        return busy
