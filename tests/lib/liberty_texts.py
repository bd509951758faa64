"""Liberty libraries and netlists of their cells, written by hand."""

from mxdot.util.yosys import Cell, Netlist

SMALL = """
/* a library, with what real ones have: comments, continued lines, missing semicolons */
library (small) {
  time_unit : "10ps"; capacitive_load_unit (2, ff) ;
  nom_voltage : 1.1
  lu_table_template (t) { variable_1 : input_net_transition; index_1 ("1, 2"); }
  cell (NAND2_X2) { area : 3.0 ; pin (A) { direction : input; } pin (B) { direction : input; }
    pin (Z) { direction : output; function : "!(A B)"; } }
  cell ("NAND2_X1") {
    area : 2.5;
    pin (A, B) { direction : input; capacitance : 1.5; } // both at once
    pin (Z) { direction : output; function : "(A' + B')";
      timing () { related_pin : "A"; cell_rise (t) { values ("1, \\
        2"); } } }
  }
  cell (DFFRQ) { area : 9; ff (Q1, Q1N) { clocked_on : "CP"; next_state : "D"; clear : "RN'"; }
    pin (CP) { direction : input; clock : true; capacitance : 1; }
    pin (D) { direction : input; } pin (RN) { direction : input; }
    pin (Q) { direction : output; function : "Q1"; } }
  cell (LATX) { area : 6; latch (L, LN) { enable : "G"; data_in : "D"; }
    pin (G) { direction : input; } pin (D) { direction : input; }
    pin (Q) { direction : output; function : "L"; } }
  cell (NAND2_TINY) { area : 1; dont_use : true; pin (A) { direction : input; } }
}
"""

TABLES = """
    cell_rise (t) {{ values ("{0}, {1}", "{2}, {3}"); }}
    cell_fall (t) {{ values ("{0}, {1}", "{2}, {3}"); }}
    rise_transition (t) {{ values ("1, 3", "2, 4"); }}
    fall_transition (t) {{ values ("1, 3", "2, 4"); }}
"""

RISE = TABLES.format(10, 20, 12, 22)  # 10 + slew / 5 + load

SLOW = TABLES.format(30, 40, 30, 40)

LIBRARY = f"""
library (hand) {{
  time_unit : "1ps"; capacitive_load_unit (1, ff);
  lu_table_template (t) {{
    variable_1 : input_net_transition; variable_2 : total_output_net_capacitance;
    index_1 ("0, 10"); index_2 ("0, 10");
  }}
  cell (INV) {{
    area : 1;
    pin (A) {{ direction : input; capacitance : 2; rise_capacitance : 1; fall_capacitance : 3; }}
    pin (Y) {{ direction : output; function : "!A";
      timing () {{ related_pin : "A"; timing_sense : negative_unate; {RISE} }} }}
  }}
  cell (NAND2) {{
    area : 1;
    pin (A) {{ direction : input; capacitance : 1; }}
    pin (B) {{ direction : input; capacitance : 1; }}
    pin (Y) {{ direction : output; function : "!(A & B)";
      timing () {{ related_pin : "A"; timing_sense : negative_unate; {RISE} }}
      timing () {{ related_pin : "B"; timing_sense : negative_unate; {SLOW} }} }}
  }}
  cell (HALF) {{
    area : 1;
    pin (A) {{ direction : input; capacitance : 1; }}
    pin (B) {{ direction : input; capacitance : 1; }}
    pin (SN) {{ direction : output; function : "!(A ^ B)";
      timing () {{ related_pin : "CON"; timing_sense : negative_unate; {RISE} }} }}
    pin (CON) {{ direction : output; function : "!(A & B)";
      timing () {{ related_pin : "A"; timing_sense : negative_unate; {RISE} }} }}
  }}
  cell (DFF) {{
    area : 1; ff (IQ, IQN) {{ clocked_on : "CK"; next_state : "D"; }}
    pin (CK) {{ direction : input; capacitance : 1; clock : true; }}
    pin (D) {{ direction : input; capacitance : 1;
      timing () {{ related_pin : "CK"; timing_type : setup_rising;
        rise_constraint (scalar) {{ values ("5"); }}
        fall_constraint (scalar) {{ values ("7"); }} }} }}
    pin (Q) {{ direction : output; function : "IQ";
      timing () {{ related_pin : "CK"; timing_type : rising_edge; {SLOW} }} }}
  }}
}}
"""


def numbered_netlist(cells, inputs="a b", outputs="y"):
    """Cells as `INV A=a Y=y`; nets are numbers, which are returned too."""
    numbers = {}

    def net(name):
        return name if name in "01" else numbers.setdefault(name, len(numbers) + 2)

    made = []
    for index, line in enumerate(cells):
        kind, *pins = line.split()
        pairs = dict(pin.split("=") for pin in pins)
        made.append(Cell(f"c{index}", kind, {pin: [net(name)] for pin, name in pairs.items()}))
    ports = {name: ("input", [net(name)]) for name in inputs.split()}
    ports |= {name: ("output", [net(name)]) for name in outputs.split()}
    return Netlist("m", ports, made), numbers
