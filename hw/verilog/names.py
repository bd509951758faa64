"""A name for every bit of a module that has one in the design, and the reserved words."""

import re
from collections.abc import Iterable

from .netlist import Bit, Bits, Net

_WORDS = """
accept_on alias always always_comb always_ff always_latch and assert assign assume automatic
before begin bind bins binsof bit break buf bufif0 bufif1 byte case casex casez cell chandle
checker class clocking cmos config const constraint context continue cover covergroup coverpoint
cross deassign default defparam design disable dist do edge else end endcase endchecker endclass
endclocking endconfig endfunction endgenerate endgroup endinterface endmodule endpackage
endprimitive endprogram endproperty endsequence endspecify endtable endtask enum event eventually
expect export extends extern final first_match for force foreach forever fork forkjoin function
generate genvar global highz0 highz1 if iff ifnone ignore_bins illegal_bins implements implies
import incdir include initial inout input inside instance int integer interconnect interface
intersect join join_any join_none large let liblist library local localparam logic longint
macromodule matches medium modport module nand negedge nettype new nexttime nmos nor
noshowcancelled not notif0 notif1 null or output package packed parameter pmos posedge primitive
priority program property protected pull0 pull1 pulldown pullup pulsestyle_ondetect
pulsestyle_onevent pure rand randc randcase randsequence rcmos real realtime ref reg reject_on
release repeat restrict return rnmos rpmos rtran rtranif0 rtranif1 s_always s_eventually
s_nexttime s_until s_until_with scalared sequence shortint shortreal showcancelled signed small
soft solve specify specparam static string strong strong0 strong1 struct super supply0 supply1
sync_accept_on sync_reject_on table tagged task this throughout time timeprecision timeunit tran
tranif0 tranif1 tri tri0 tri1 triand trior trireg type typedef union unique unique0 unsigned until
until_with untyped use uwire var vectored virtual void wait wait_order wand weak weak0 weak1 while
wildcard wire with within wor xnor xor
"""
KEYWORDS = frozenset(_WORDS.split())


class Names:
    """Vector of each bit, and ranges of the vectors.

    The first net that shows a bit names it. Nets that only repeat others have no bits left and do
    not appear.
    """

    def __init__(self, reserved: Iterable[str]) -> None:
        self.of: dict[Bit, tuple[str, int]] = {}
        self.ranges: dict[str, tuple[int, int]] = {}
        self._taken = set(KEYWORDS) | set(reserved)

    def port(self, name: str, bits: Bits, own: bool) -> None:
        """Add a port with all its bits; with `own`, unnamed bits become its own."""
        self._taken.add(name)
        self.ranges[name] = (0, len(bits) - 1)
        for index, bit in enumerate(bits) if own else ():
            if isinstance(bit, int):
                self.of.setdefault(bit, (name, index))

    def net(self, net: Net, live: set[Bit]) -> None:
        """Add a net; only bits that are `live` and unnamed become its own."""
        new = [i for i, bit in enumerate(net.bits) if bit in live and bit not in self.of]
        new = [i for i in new if isinstance(net.bits[i], int)]
        first: dict[Bit, int] = {}
        for i in new:
            first.setdefault(net.bits[i], i)
        new = list(first.values())
        if not new:
            return
        name = self.unique(net.name)
        whole = new == list(range(new[0], new[-1] + 1))
        places = new if whole and len(new) > 1 else range(len(new))
        self.ranges[name] = (places[0], places[-1])
        for index, place in zip(new, places, strict=True):
            self.of[net.bits[index]] = (name, place)

    def rest(self, name: str, bits: Iterable[Bit]) -> None:
        """Vector of the unnamed ones among `bits`."""
        new = [b for b in dict.fromkeys(bits) if isinstance(b, int) and b not in self.of]
        if new:
            self.move(name, tuple(new))

    def move(self, name: str, bits: Bits) -> None:
        """Vector of all these bits, regardless of their earlier names."""
        name = self.unique(name)
        self.ranges[name] = (0, len(bits) - 1)
        for index, bit in enumerate(bits):
            self.of[bit] = (name, index)

    def is_part(self, bits: Bits) -> bool:
        """True if the bits follow each other in one vector."""
        name, low = self.of.get(bits[0], ("", 0))
        return all(self.of.get(bit) == (name, low + i) for i, bit in enumerate(bits))

    def unique(self, name: str) -> str:
        """Legal unused name, close to this one."""
        base = name = re.sub(r"\W", "_", re.sub(r"\$\d+$", "", name))
        number = 1
        while name in self._taken:
            number += 1
            name = f"{base}_{number}"
        self._taken.add(name)
        return name

    def range(self, name: str) -> str:
        """Range of a vector in its declaration: empty, or followed by a space."""
        low, high = self.ranges[name]
        return "" if (low, high) == (0, 0) else f"[{high}:{low}] "

    def part(self, name: str, low: int, high: int) -> str:
        """Bits `low` to `high` of a vector."""
        if self.ranges[name] == (low, high):
            return name
        return f"{name}[{low}]" if low == high else f"{name}[{high}:{low}]"
