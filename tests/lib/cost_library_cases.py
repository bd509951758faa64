"""Operands and checks that tests of cost library share with other tests."""

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
