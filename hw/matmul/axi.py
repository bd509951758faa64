"""The AXI interfaces of the unit, as signatures; directions as the sender of data sees them."""

from amaranth.hdl import Const
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...model.units.matmul.registers import ADDRESS_BITS

WORD_BITS = 32
OKAY, SLVERR = Const(0b00, 2), Const(0b10, 2)


class AxiStream(wiring.Signature):
    """AXI4-Stream of `beat_bytes` bytes a beat."""

    def __init__(self, beat_bytes: int) -> None:
        super().__init__(
            {
                "tdata": Out(8 * beat_bytes),
                "tkeep": Out(beat_bytes),
                "tlast": Out(1),
                "tvalid": Out(1),
                "tready": In(1),
            }
        )


class AxiLite(wiring.Signature):
    """AXI4-Lite of 32-bit words, as the manager sees it. The protection bits mean nothing here."""

    def __init__(self) -> None:
        super().__init__(
            {
                "awaddr": Out(ADDRESS_BITS),
                "awprot": Out(3),
                "awvalid": Out(1),
                "awready": In(1),
                "wdata": Out(WORD_BITS),
                "wstrb": Out(WORD_BITS // 8),
                "wvalid": Out(1),
                "wready": In(1),
                "bresp": In(2),
                "bvalid": In(1),
                "bready": Out(1),
                "araddr": Out(ADDRESS_BITS),
                "arprot": Out(3),
                "arvalid": Out(1),
                "arready": In(1),
                "rdata": In(WORD_BITS),
                "rresp": In(2),
                "rvalid": In(1),
                "rready": Out(1),
            }
        )
