// The bench top of a quantiser: every port as a variable of the same name. sim/bench/bulk.svh says
// how it is driven in bulk mode, sim/quantize/unit.py what its files hold.

`timescale 1ns / 1ps

`define TOP mxdot_bench

module mxdot_bench #(
    parameter int LANES = 32,
    parameter int VALUE_BITS = 32,
    parameter int CODE_BITS = 8,
    // 0 for those that the unit has not.
    parameter int WORD_BITS = 0,
    parameter int MODE_BITS = 0,
    parameter int RULE_BITS = 0,
    parameter int OUTER_BITS = 0,
    parameter int MICRO_BITS = 0,
    parameter int SELECTOR_BITS = 0,
    parameter int SCALE_BITS = 8
);
  function automatic int at_least_one(int bits);
    return bits > 0 ? bits : 1;
  endfunction

  // Driven from outside (cocotb) or by the bulk process below, never by both.
  `define INPUTS \
    `INPUT(, in_valid) \
    `INPUT([LANES*VALUE_BITS-1:0], in_values) \
    `INPUT([at_least_one(LANES*WORD_BITS)-1:0], in_random) \
    `INPUT([at_least_one(MODE_BITS)-1:0], in_mode) \
    `INPUT([at_least_one(RULE_BITS)-1:0], in_rule) \
    `INPUT([at_least_one(OUTER_BITS)-1:0], in_outer) \
    `INPUT(, out_ready)
  `include "pins.svh"

  logic in_ready /*verilator public_flat_rd*/;
  logic out_valid /*verilator public_flat_rd*/;
  logic [LANES*CODE_BITS-1:0] out_codes /*verilator public_flat_rd*/;
  logic [SCALE_BITS-1:0] out_scale /*verilator public_flat_rd*/;
  logic [at_least_one(MICRO_BITS)-1:0] out_micro /*verilator public_flat_rd*/ = 0;
  logic [at_least_one(SELECTOR_BITS)-1:0] out_mode /*verilator public_flat_rd*/ = 0;
  logic out_last /*verilator public_flat_rd*/ = 1;  // of a block of one beat, without this output

  if (1) begin : ports
    `include "copies.svh"
    mxdot_quantize dut (.*);  // what a configuration lacks stays unconnected
  end

  // ---------------------------------------------------------------------------------- bulk mode

  localparam int VALUE_BYTES = (LANES * VALUE_BITS + 7) / 8;
  localparam int RANDOM_BYTES = (LANES * WORD_BITS + 7) / 8;
  localparam int OUTER_BYTES = OUTER_BITS / 8;
  localparam int RECORD_BYTES = VALUE_BYTES + RANDOM_BYTES + OUTER_BYTES + 1;
  // Codes, and micro-exponents and the format chosen above them.
  localparam int MODE_AT = LANES * CODE_BITS + MICRO_BITS;
  localparam int CODE_WORDS = (MODE_AT + SELECTOR_BITS + 31) / 32;
  typedef logic [32*CODE_WORDS-1:0] codes_t;

  task automatic put_record(logic [8*RECORD_BYTES-1:0] data);
    in_values = data[LANES*VALUE_BITS-1:0];
    data = data >> (8 * VALUE_BYTES);
    in_random = data[$bits(in_random)-1:0];
    data = data >> (8 * RANDOM_BYTES);
    in_outer = data[$bits(in_outer)-1:0];
    data = data >> (8 * OUTER_BYTES);
    in_mode = data[$bits(in_mode)-1:0];
    in_rule = data[4+:$bits(in_rule)];
  endtask

  function automatic int results_of_record();
    return 1;
  endfunction

  task automatic write_result(int file);
    $fwrite(file, "%u", {
      23'b0,
      out_last,
      8'(out_scale),
      codes_t'(out_codes) | codes_t'(out_micro) << (LANES * CODE_BITS)
          | codes_t'(out_mode) << MODE_AT
    });
  endtask

  `include "bulk.svh"
endmodule
