// The bench top: one dot-product unit with every port as a variable of the same name. With UNIT
// defined, another unit with the same inputs: one whose results leave through a quantiser.
//
// Two ways to drive it:
//   - per cycle: cocotb writes the variables, the clock included, as if they were ports;
//   - bulk: with +bulk_input=FILE everything runs here, without Python: the clock, operand records
//     from that file, results to +bulk_output=FILE. Both file formats are defined in
//     sim/dot/unit.py, that of codes in sim/quantize/item.py.
//
// bulk.svh has the bulk options.

`timescale 1ns / 1ps

`define TOP mxdot_bench

`ifndef UNIT
`define UNIT mxdot_dot
`endif

module mxdot_bench #(
    parameter int LANES = 32,
    parameter int A_BITS = 8,
    parameter int B_BITS = 8,
    parameter int MODE_BITS = 1,
    parameter int RESULT_BITS = 32,
    parameter int CODE_BITS = 0,  // of a quantiser's codes; 0 for results
    parameter int SCALE_BITS = 8,
    // Side inputs; 0 for those that the unit has not.
    parameter int ZERO_A_BITS = 0,
    parameter int ZERO_B_BITS = 0,
    parameter int MULTIPLIER_BITS = 0,
    parameter int SHIFT_BITS = 0,
    parameter int ZERO_OUT_BITS = 0,
    parameter int RESULT_SCALE_BITS = 0,
    parameter int MICRO_A_BITS = 0,
    parameter int MICRO_B_BITS = 0,
    parameter int SLOT_BITS = 0
);
  function automatic int at_least_one(int bits);
    return bits > 0 ? bits : 1;
  endfunction

  // Driven from outside (cocotb) or by the bulk process below, never by both.
  `define INPUTS \
    `INPUT(, in_valid) \
    `INPUT([LANES*A_BITS-1:0], in_a) \
    `INPUT([LANES*B_BITS-1:0], in_b) \
    `INPUT([at_least_one(SCALE_BITS)-1:0], in_scale_a) \
    `INPUT([at_least_one(SCALE_BITS)-1:0], in_scale_b) \
    `INPUT([at_least_one(ZERO_A_BITS)-1:0], in_zero_a) \
    `INPUT([at_least_one(ZERO_B_BITS)-1:0], in_zero_b) \
    `INPUT([at_least_one(MULTIPLIER_BITS)-1:0], in_multiplier) \
    `INPUT([at_least_one(SHIFT_BITS)-1:0], in_shift) \
    `INPUT([at_least_one(ZERO_OUT_BITS)-1:0], in_zero_out) \
    `INPUT([at_least_one(RESULT_SCALE_BITS)-1:0], in_result_scale) \
    `INPUT([at_least_one(MICRO_A_BITS)-1:0], in_micro_a) \
    `INPUT([at_least_one(MICRO_B_BITS)-1:0], in_micro_b) \
    `INPUT([31:0], in_c) \
    `INPUT(, in_first) \
    `INPUT(, in_last) \
    `INPUT([MODE_BITS-1:0], in_mode) \
    `INPUT([at_least_one(SLOT_BITS)-1:0], in_slot) \
    `INPUT(, out_ready)
  `include "pins.svh"

  logic in_ready /*verilator public_flat_rd*/;
  logic out_valid /*verilator public_flat_rd*/;
  logic [RESULT_BITS-1:0] out_result /*verilator public_flat_rd*/;
  // What a unit has not, its flags for one, is zero.
  logic out_invalid /*verilator public_flat_rd*/ = 0;
  logic out_overflow /*verilator public_flat_rd*/ = 0;
  logic out_underflow /*verilator public_flat_rd*/ = 0;
  logic out_inexact /*verilator public_flat_rd*/ = 0;
  logic out_saturated /*verilator public_flat_rd*/ = 0;
  logic [at_least_one(SLOT_BITS)-1:0] out_slot /*verilator public_flat_rd*/ = 0;
  logic [at_least_one(CODE_BITS)-1:0] out_code /*verilator public_flat_rd*/ = 0;
  logic [7:0] out_scale /*verilator public_flat_rd*/ = 0;
  logic out_last /*verilator public_flat_rd*/ = 0;

  if (1) begin : ports
    `include "copies.svh"
    `UNIT dut (.*);  // what a configuration lacks (in_mode, in_c, scales, flags) stays unconnected
  end

  // ---------------------------------------------------------------------------------- bulk mode

  localparam int A_BYTES = (LANES * A_BITS + 7) / 8;
  localparam int B_BYTES = (LANES * B_BITS + 7) / 8;
  localparam int SCALE_BYTES = (at_least_one(SCALE_BITS) + 7) / 8;
  localparam int SIDE_BITS = ZERO_A_BITS + ZERO_B_BITS + MULTIPLIER_BITS + SHIFT_BITS
      + ZERO_OUT_BITS + RESULT_SCALE_BITS + MICRO_A_BITS + MICRO_B_BITS + SLOT_BITS;
  localparam int SIDE_BYTES = (SIDE_BITS + 7) / 8;

  // A record, most significant byte first in the file, so that one $fread fills it. The side inputs
  // lie above it, in the order of the parameters.
  typedef struct packed {
    logic [5:0] mode;
    logic last;
    logic first;
    logic [31:0] c;
    logic [8*SCALE_BYTES-1:0] scale_b;
    logic [8*SCALE_BYTES-1:0] scale_a;
    logic [8*B_BYTES-1:0] b;
    logic [8*A_BYTES-1:0] a;
  } record_t;
  localparam int RECORD_BYTES = $bits(record_t) / 8 + SIDE_BYTES;

  task automatic put_record(logic [8*RECORD_BYTES-1:0] data);
    record_t block;
    logic [8*RECORD_BYTES-1:0] side;
    block = record_t'(data[$bits(record_t)-1:0]);
    side = data >> $bits(record_t);
    in_a = block.a[LANES*A_BITS-1:0];
    in_b = block.b[LANES*B_BITS-1:0];
    in_scale_a = block.scale_a[$bits(in_scale_a)-1:0];
    in_scale_b = block.scale_b[$bits(in_scale_b)-1:0];
    in_zero_a = side[$bits(in_zero_a)-1:0];
    side = side >> ZERO_A_BITS;
    in_zero_b = side[$bits(in_zero_b)-1:0];
    side = side >> ZERO_B_BITS;
    in_multiplier = side[$bits(in_multiplier)-1:0];
    side = side >> MULTIPLIER_BITS;
    in_shift = side[$bits(in_shift)-1:0];
    side = side >> SHIFT_BITS;
    in_zero_out = side[$bits(in_zero_out)-1:0];
    side = side >> ZERO_OUT_BITS;
    in_result_scale = side[$bits(in_result_scale)-1:0];
    side = side >> RESULT_SCALE_BITS;
    in_micro_a = side[$bits(in_micro_a)-1:0];
    side = side >> MICRO_A_BITS;
    in_micro_b = side[$bits(in_micro_b)-1:0];
    side = side >> MICRO_B_BITS;
    in_slot = side[$bits(in_slot)-1:0];
    in_c = block.c;
    in_first = block.first;
    in_last = block.last;
    in_mode = block.mode[MODE_BITS-1:0];
  endtask

  function automatic int results_of_record();
    return int'(in_last);
  endfunction

  task automatic write_result(int file);
    if (CODE_BITS > 0)
      $fwrite(file, "%u", {23'b0, out_last, out_scale, 32'(out_code)});
    else
      $fwrite(file, "%u", {
        SLOT_BITS > 0 ? 24'(out_slot) : 24'b0, 3'b0, out_saturated, out_inexact, out_underflow, out_overflow, out_invalid,
        32'(out_result)
      });
  endtask

  `include "bulk.svh"
endmodule
