"""What every section has in common."""

from collections.abc import Iterable

from amaranth.hdl import Module
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out


class ControlLayout(data.StructLayout):
    """What travels beside a block's data.

    first, last: of its dot product. starts: the running sum of a fused loop starts here.
    promotes: the partial sum is added to c after this block. c: the caller's, used with first.
    """

    def __init__(self) -> None:
        super().__init__({"c": 32, "first": 1, "last": 1, "starts": 1, "promotes": 1})


class Section(wiring.Component):
    """A combinational piece of the datapath.

    Ports: i in and o out (the layouts given); where asked for, control in (of the same block;
    True is the dot unit's `ControlLayout`) and state in: the contents of the register that holds
    the running value.
    """

    def __init__(
        self,
        i: data.Layout,
        o: data.Layout,
        *,
        control: bool | data.Layout = False,
        state: data.Layout | None = None,
    ) -> None:
        ports = {"i": In(i), "o": Out(o)}
        if control:
            ports["control"] = In(ControlLayout() if control is True else control)
        if state is not None:
            ports["state"] = In(state)
        super().__init__(ports)

    def has(self, port: str) -> bool:
        return port in self.signature.members

    def carry(self, m: Module, names: Iterable[str]) -> None:
        """Pass fields of the input on unchanged."""
        for name in names:
            m.d.comb += self.o[name].eq(self.i[name])
