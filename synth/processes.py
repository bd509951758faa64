"""The processes that are built in: a reduced cell library each, and what drives and loads a unit.

`tools/reduce_liberty.py` makes the libraries of the open ones; what it leaves out stands there.
Heights of rows, capacitance and resistance of wires are as in OpenROAD-flow-scripts (`setRC.tcl`).
"""

import gzip
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from ..model.errors import choice

FOLDER = Path(__file__).with_name("libraries")
GATES = "gates"
"""Name of the generic library of the flow `gates`, which lists of processes include."""


@dataclass(frozen=True)
class Process:
    """One process. Inputs of a design come from a buffer of twice the least strength; outputs drive
    four of the smallest inverters.
    """

    name: str
    title: str
    node: str
    nand2: str
    """Cell that counts as one gate."""
    driver: str
    """The buffer that drives each input."""
    load_ff: float
    """Femtofarads at each output."""
    licence: str
    origin: str
    left_out: tuple[str, ...] = ()
    """Name patterns of cells that the reduced library leaves out."""
    kept: tuple[str, ...] = ()
    """Name patterns of cells kept in spite of `left_out`: adders, which only replace adders."""
    row_um: float = 0.0
    """Height of a row of cells in micrometres."""
    wire_ff: float = 0.0
    """Femtofarads per micrometre of a signal's wire."""
    wire_ohm: float = 0.0
    """Ohms per micrometre of a signal's wire."""
    only: tuple[str, ...] = ("*",)
    """Name patterns of cells that the reduced library may have."""

    def has(self, cell: str) -> bool:
        """True when the reduced library may have a cell of this name."""

        def among(patterns: tuple[str, ...]) -> bool:
            return any(fnmatchcase(cell, pattern) for pattern in patterns)

        return among(self.kept) or (among(self.only) and not among(self.left_out))

    @property
    def file(self) -> Path:
        """Path of the reduced library; its notice lies next to it."""
        return FOLDER / f"{self.name}.lib.gz"

    @property
    def notice(self) -> Path:
        """Licence and origin of the library."""
        return FOLDER / f"{self.name}.txt"

    @property
    def liberty(self) -> bytes:
        """The text of the reduced library."""
        return _text(self.file)


@cache
def _text(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes())


# All 428 cells would be 1 MB: strengths and wide gates that mapping hardly takes are not shipped.
# Nor are flip-flops with an enable, whose net ABC does not see: they become multiplexers.
SKY130 = """
inv_? inv_16 buf_? buf_16 clkbuf_1 fa_1 ha_1 nand[23]_? nor[23]_? and2_[12] or2_[12] nand[23]b_1
nor[23]b_1 and2b_1 or2b_1 xor2_[12] xnor2_[12] mux2_[12] mux2i_1 maj3_1 a21oi_? o21ai_? a21o_1
o21a_1 a21boi_[012] o21bai_[12] and3_1 or3_1 nand4_[12] nor4_1 or4_1 a22oi_[12] o22ai_[12]
a31oi_[12] o31ai_[12] a211oi_[12] o211ai_[12] a22o_1 o22a_1 a31o_1 o31a_1 a211o_1 o211a_1
o2bb2ai_1 a2bb2oi_1 o2111ai_1 o2111a_1 a41oi_1 a221oi_1 o221ai_1 a32oi_1 o32ai_1 a311oi_1 o311ai_1
df?tp_1 dfbbp_1 dlxtp_1
"""

PROCESSES = {
    process.name: process
    for process in (
        Process(
            "sky130",
            "SkyWater SKY130, high density, tt, 25 C, 1.8 V",
            "130 nm",
            nand2="sky130_fd_sc_hd__nand2_1",
            driver="sky130_fd_sc_hd__buf_2",
            load_ff=9.2,
            licence="Apache-2.0",
            origin="sky130_fd_sc_hd of the SkyWater PDK, as in the examples of OpenSTA",
            left_out=("*__lpflow_*", "*__probe*", "*__macro_*", "*__*dly*"),
            row_um=2.72,
            wire_ff=0.172,
            wire_ohm=0.893,
            only=tuple(f"sky130_fd_sc_hd__{cell}" for cell in SKY130.split()),
        ),
        Process(
            "ihp",
            "IHP SG13G2, typical, 25 C, 1.2 V",
            "130 nm",
            nand2="sg13g2_nand2_1",
            driver="sg13g2_buf_2",
            load_ff=11.5,
            licence="Apache-2.0",
            origin="sg13g2_stdcell of the IHP Open PDK, as in the tests of OpenSTA",
            left_out=("*_dlygate*", "*_lgcp_*", "*_slgcp_*"),
            row_um=3.78,
            wire_ff=0.173,
            wire_ohm=2.07,
        ),
        Process(
            "asap7",
            "ASAP7, predictive FinFET, 7.5 track, RVT, TT, 25 C, 0.7 V",
            "7 nm",
            nand2="NAND2x1_ASAP7_75t_R",
            driver="BUFx2_ASAP7_75t_R",
            load_ff=2.5,
            licence="BSD-3-Clause",
            origin="asap7sc7p5t, five files, as in OpenROAD-flow-scripts",
            left_out=("*x1p*", "*xp*", "SDF*", "ICG*"),
            kept=("HAxp5_*",),
            row_um=0.27,
            wire_ff=0.173,
            wire_ohm=32.3,
        ),
        Process(
            "gt2n",
            "GT2N, predictive nanosheet with backside power, 6 track, LVT, TT, 25 C, 0.7 V",
            "2 nm",
            nand2="gt2_6t_nand2_x1_w31_lvt",
            driver="gt2_6t_buf_x2_w31_lvt",
            load_ff=1.9,
            licence="BSD-3-Clause",
            origin="gt2_6t_w31_lvt of GT2N (Jang et al., ISCAS 2026), as in OpenROAD-flow-scripts",
            left_out=("*_filler_*", "*_tap*", "*_decap*", "*_tie*"),
            row_um=0.144,
            wire_ff=0.15,  # the PDK's own is a guess
            wire_ohm=438.0,
        ),
    )
}
NAMES = (GATES, *PROCESSES)


def process(name: str) -> Process:
    """The process of a name; ValueError for another one."""
    return PROCESSES[choice("process", name, PROCESSES)]
