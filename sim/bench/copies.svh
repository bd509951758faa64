// Copies of the pins of pins.svh for the unit, under the same names, made when the clock falls; to be
// included in a block around the unit. TOP is the name of the bench top.
//
// Whatever hangs on a variable that may be written from outside is compiled once more, and
// evaluated in every time step: on a pin that is the copy alone.

    logic rst = 1;  // until the clock has fallen once
    always @(negedge clk) rst = `TOP.rst;
    `define INPUT(RANGE, NAME) \
      logic RANGE NAME = 0; \
      always @(negedge clk) NAME = `TOP.NAME;
    `INPUTS
    `undef INPUT
