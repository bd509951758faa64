// The inputs of a bench top, once as pins, written from outside or by the bench itself, and once as
// copies of the same names for the unit, made when the clock falls.
//
// Whatever hangs on a variable that may be written from outside is compiled once more, and
// evaluated in every time step: on a pin that is the copy alone.
//
// The bench top names its inputs in a macro INPUTS, `INPUT(RANGE, NAME) each, and makes INPUT a PIN
// where the pins are declared, then a COPY in a block around the unit.

`define PIN(RANGE, NAME) logic RANGE NAME /*verilator public_flat_rw*/ = 0;
`define COPY(TOP, RANGE, NAME) \
  logic RANGE NAME = 0; \
  always @(negedge clk) NAME = TOP.NAME;
