"""Elastic pipelines: sections with registers between them that fill and empty by themselves."""

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import data

from .hierarchy import submodule
from .sections.base import Section


class Token:
    """A block on its way: data and control with a valid/ready handshake."""

    def __init__(self, name: str, content: data.View, control: data.View, valid: Value) -> None:
        self.data, self.control, self.valid = content, control, valid
        self.ready = Signal(name=f"{name}_ready")

    def gate(self, m: Module, go: Value) -> None:
        """Let the token pass only with `go`."""
        ready, self.ready = self.ready, Signal(name="gated_ready")
        self.valid = self.valid & go
        m.d.comb += ready.eq(self.ready & go)


class Slice:
    """A section with the register, if any, after it; `control` travels beside its data."""

    def __init__(
        self, m: Module, name: str, section: Section, registered: bool, control: data.Layout
    ) -> None:
        self.name, self.section, self.registered = name, section, registered
        self.valid = Signal(name=f"{name}_register_valid")
        self.data = Signal(section.o.shape(), name=f"{name}_register", reset_less=True)
        self.control = Signal(control, name=f"{name}_register_control", reset_less=True)
        submodule(m, name, section)

    def connect(self, m: Module, token: Token) -> Token:
        """The token that leaves this slice, of the one that enters."""
        m.d.comb += self.section.i.eq(token.data)
        if self.section.has("control"):
            m.d.comb += self.section.control.eq(token.control)
        if not self.registered:
            after = Token(self.name, self.section.o, token.control, token.valid)
            m.d.comb += token.ready.eq(after.ready)
            return after
        after = Token(self.name, self.data, self.control, self.valid)
        leaves = Signal(name=f"{self.name}_leaves")
        m.d.comb += leaves.eq(token.valid & token.ready)
        m.d.comb += token.ready.eq(after.ready | ~self.valid)
        with m.If(token.ready):
            m.d.sync += self.valid.eq(token.valid)
        with m.If(leaves):
            m.d.sync += [self.data.eq(self.section.o), self.control.eq(token.control)]
        return after
