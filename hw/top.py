"""A unit as a top module: plain, separately named ports and the facts of its header."""

from abc import ABC, abstractmethod
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ClassVar

from amaranth.hdl import ClockDomain, Elaboratable, Module, Signal
from amaranth.lib import wiring

from .hierarchy import used

NOTATION = "8 x 4 after a port: 8 numbers of 4 bits, the first lowest; signed: two's complement"
HANDSHAKE = "a transfer per rising edge with valid and ready; other ports in_ and out_ go with it"


class Top(Elaboratable, ABC):
    """A unit with plain ports; `ports` lists (signal, direction, meaning).

    A subclass describes a kind of unit:

    - `name`: default name of its top module
    - `unit`: makes the component
    - `connect`: joins the component to the ports that `__init__` made with `port`
    - `facts`: lines of the header (subject, value)
    """

    name: ClassVar[str]
    clock: ClassVar[str] = "clk"
    reset: ClassVar[str] = "rst"
    """The reset's name; with an n at its end it is active low."""

    def __init__(self, config: Any) -> None:
        self.config = config
        self.ports: list[tuple[Signal, str, str]] = []
        self.port(self.clock, 1, "in", "clock, rising edge")
        level = "low" if self.reset.endswith("n") else "high"
        self.port(self.reset, 1, "in", f"synchronous reset, active {level}")

    def port(self, name: str, bits: int, direction: str, meaning: str) -> None:
        self.ports.append((Signal(bits, name=name), direction, meaning))

    @abstractmethod
    def unit(self) -> wiring.Component:
        """The component."""

    @abstractmethod
    def connect(self, m: Module, unit: Any, port: dict[str, Signal]) -> None:
        """Join the component and the ports, by name."""

    @abstractmethod
    def facts(self) -> list[tuple[str, str]]:
        """Lines of the header: (subject, value)."""

    def elaborate(self, platform: object) -> Module:
        unit = used(self.unit())
        m = unit.elaborate(platform)  # the unit itself, not a module inside another
        port = {signal.name: signal for signal, _, _ in self.ports}
        m.domains.sync = sync = ClockDomain()
        sync.clk = port[self.clock]
        if self.reset.endswith("n"):
            m.d.comb += sync.rst.eq(~port[self.reset])
        else:
            sync.rst = port[self.reset]
        self.connect(m, unit, port)
        return m

    def header(self, name: str) -> str:
        """Comment at the top of the file: version, configuration, timing and ports."""
        try:
            number = version("mxdot")
        except PackageNotFoundError:  # running from a source tree
            number = "(source tree)"
        lines = [f"mxdot {number}: {self.config.title} {name}", ""]
        facts = [*self.facts(), ("notation", NOTATION)]
        if any(signal.name == "in_valid" for signal, _, _ in self.ports):
            facts.append(("handshake", HANDSHAKE))
        lines += [f"{what:12} {value}" for what, value in facts]
        longest = max(14, *(len(signal.name) for signal, _, _ in self.ports))
        lines += [
            "",
            *(
                f"{direction:3} {f'[{len(signal) - 1}:0]' if len(signal) > 1 else '':9} "
                f"{signal.name:{longest}} {meaning}"
                for signal, direction, meaning in self.ports
            ),
        ]
        return "".join(f"// {line}".rstrip() + "\n" for line in lines)
