"""The generic library of the flow `gates`: areas in NAND2 equivalents, and nothing to download.

The area of a cell is its static CMOS transistors / 4, so that NAND2 is 1. Its delay is the number
of two-input gates in series that it stands for, so that a mapping for speed is one for few levels.
"""

from functools import cache
from math import ceil, log2

from .liberty import Library, parse

LEVEL_PS = 100
"""ABC's picoseconds for one level."""

COMBINATIONAL = {
    # name: (transistors, function)
    "BUF": (4, "A"),
    "INV": (2, "!A"),
    "NAND2": (4, "!(A & B)"),
    "NOR2": (4, "!(A | B)"),
    "AND2": (6, "A & B"),
    "OR2": (6, "A | B"),
    "NAND3": (6, "!(A & B & C)"),
    "NOR3": (6, "!(A | B | C)"),
    "AOI21": (6, "!((A & B) | C)"),
    "OAI21": (6, "!((A | B) & C)"),
    "AOI22": (8, "!((A & B) | (C & D))"),
    "OAI22": (8, "!((A | B) & (C | D))"),
    "XOR2": (10, "A ^ B"),
    "XNOR2": (10, "!(A ^ B)"),
    "MUX2": (12, "(S & B) | (!S & A)"),
}
FLIPFLOPS = {
    # name: (transistors, asynchronous inputs, active low)
    "DFF": (24, {}),
    "DFFR": (28, {"clear": "RN"}),
    "DFFS": (28, {"preset": "SN"}),
    "DFFSR": (32, {"clear": "RN", "preset": "SN"}),
}
THRESHOLDS = (("slew_lower", 20), ("slew_upper", 80), ("input", 50), ("output", 50))
EDGES = ("rise", "fall")
DELAYS = ("cell_rise", "cell_fall", "rise_transition", "fall_transition")
LATCH = 16  # transistors
UNMAPPED = {"$_DLATCH": 20, "$_SR_": 8, "$_TBUF_": 8}
"""Transistors of Yosys's own cells that no cell above replaces, by the start of their names."""


@cache
def liberty_text() -> str:
    """The library as a Liberty file."""
    lines = [
        "/* mxdot: areas are transistors / 4, delays are levels of two-input gates */",
        "library (gates) {",
        "  delay_model : table_lookup;",
        '  time_unit : "1ps";',
        '  voltage_unit : "1V";',
        '  current_unit : "1mA";',
        '  pulling_resistance_unit : "1kohm";',
        "  capacitive_load_unit (1, ff);",
        *(
            f"  {name}_threshold_pct_{edge} : {value};"
            for name, value in THRESHOLDS
            for edge in EDGES
        ),
    ]
    for name, (transistors, function) in COMBINATIONAL.items():
        pins = [pin for pin in "ABCDS" if pin in function]
        # A mapper needs inverters and buffers to cost a little time, or it strings them together.
        delay = ceil(log2(len(pins))) * LEVEL_PS or 1
        lines += [f"  cell ({name}) {{", f"    area : {transistors / 4};", *map(_input, pins)]
        lines += ["    pin (Y) {", "      direction : output;", f'      function : "{function}";']
        for pin in pins:
            lines += _timing(pin, "combinational", DELAYS, delay)
        lines += ["    }", "  }"]
    for name, (transistors, asynchronous) in FLIPFLOPS.items():
        lines += [f"  cell ({name}) {{", f"    area : {transistors / 4};", "    ff (IQ, IQN) {"]
        lines += ['      clocked_on : "CK";', '      next_state : "D";']
        lines += [f'      {kind} : "!{pin}";' for kind, pin in asynchronous.items()]
        if len(asynchronous) == 2:
            lines += ["      clear_preset_var1 : L;", "      clear_preset_var2 : L;"]
        lines += ["    }", *map(_input, ["CK", *asynchronous.values()])]
        lines += ["    pin (D) {", "      direction : input;", "      capacitance : 1;"]
        lines += _timing("CK", "setup_rising", ("rise_constraint", "fall_constraint"), 0)
        lines += ["    }", "    pin (Q) {", "      direction : output;", '      function : "IQ";']
        lines += [*_timing("CK", "rising_edge", DELAYS, 0), "    }", "  }"]
    lines += ["  cell (LATCH) {", f"    area : {LATCH / 4};"]
    lines += ['    latch (IQ, IQN) { enable : "G"; data_in : "D"; }', *map(_input, "GD")]
    lines += ['    pin (Q) { direction : output; function : "IQ"; }', "  }"]
    return "\n".join([*lines, "}", ""])


def _input(pin: str) -> str:
    clock = " clock : true;" if pin == "CK" else ""
    return f"    pin ({pin}) {{ direction : input; capacitance : 1;{clock} }}"


def _timing(pin: str, kind: str, tables: tuple[str, ...], value: int) -> list[str]:
    """An arc from `pin`; transitions take no time."""
    values = {table: 0 if table.endswith("transition") else value for table in tables}
    return [
        f'      timing () {{ related_pin : "{pin}"; timing_type : {kind};',
        *(f'        {table} (scalar) {{ values ("{time}"); }}' for table, time in values.items()),
        "      }",
    ]


@cache
def library() -> Library:
    """The library of `liberty_text`."""
    return parse(liberty_text(), "gates")


def unmapped_area(cell: str) -> float | None:
    """NAND2 equivalents of one of Yosys's own cells, or None."""
    for start, transistors in UNMAPPED.items():
        if cell.startswith(start):
            return transistors / 4
    return None
