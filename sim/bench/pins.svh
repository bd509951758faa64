// The pins of a bench top, to be included in its module: clock, reset, and the inputs that its macro
// INPUTS names, `INPUT(RANGE, NAME) each. They are written from outside or by the bench itself.

  logic clk /*verilator public_flat_rw*/ = 0;
  logic rst /*verilator public_flat_rw*/ = 0;
  `define INPUT(RANGE, NAME) logic RANGE NAME /*verilator public_flat_rw*/ = 0;
  `INPUTS
  `undef INPUT
