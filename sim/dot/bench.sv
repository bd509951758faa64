// The bench top: one dot-product unit with every port as a variable of the same name. With UNIT
// defined, another unit with the same inputs: one whose results leave through a quantiser.
//
// Two ways to drive it:
//   - per cycle: cocotb writes the variables, the clock included, as if they were ports;
//   - bulk: with +bulk_input=FILE everything runs here, without Python: the clock, operand records
//     from that file, results to +bulk_output=FILE.
//
// bulk.svh has the bulk options. The parameters come from the `Layout` of the unit
// (sim/dot/unit.py): for each port its width, and where its bits are in a record or a result.

`timescale 1ns / 1ps

`define TOP mxdot_bench

`ifndef UNIT
`define UNIT mxdot_dot
`endif

module mxdot_bench #(
    parameter int RECORD_BYTES = 1,
    parameter int RESULT_WORDS = 1,
    // Widths of 0 are those of ports that the unit has not.
    parameter int IN_A_BITS = 0, IN_A_AT = 0,
    parameter int IN_B_BITS = 0, IN_B_AT = 0,
    parameter int IN_SCALE_A_BITS = 0, IN_SCALE_A_AT = 0,
    parameter int IN_SCALE_B_BITS = 0, IN_SCALE_B_AT = 0,
    parameter int IN_C_BITS = 0, IN_C_AT = 0,
    parameter int IN_FIRST_BITS = 0, IN_FIRST_AT = 0,
    parameter int IN_LAST_BITS = 0, IN_LAST_AT = 0,
    parameter int IN_MODE_BITS = 0, IN_MODE_AT = 0,
    parameter int IN_ZERO_A_BITS = 0, IN_ZERO_A_AT = 0,
    parameter int IN_ZERO_B_BITS = 0, IN_ZERO_B_AT = 0,
    parameter int IN_MULTIPLIER_BITS = 0, IN_MULTIPLIER_AT = 0,
    parameter int IN_SHIFT_BITS = 0, IN_SHIFT_AT = 0,
    parameter int IN_ZERO_OUT_BITS = 0, IN_ZERO_OUT_AT = 0,
    parameter int IN_RESULT_SCALE_BITS = 0, IN_RESULT_SCALE_AT = 0,
    parameter int IN_MICRO_A_BITS = 0, IN_MICRO_A_AT = 0,
    parameter int IN_MICRO_B_BITS = 0, IN_MICRO_B_AT = 0,
    parameter int IN_SLOT_BITS = 0, IN_SLOT_AT = 0,
    parameter int OUT_RESULT_BITS = 0, OUT_RESULT_AT = 0,
    parameter int OUT_INVALID_BITS = 0, OUT_INVALID_AT = 0,
    parameter int OUT_OVERFLOW_BITS = 0, OUT_OVERFLOW_AT = 0,
    parameter int OUT_UNDERFLOW_BITS = 0, OUT_UNDERFLOW_AT = 0,
    parameter int OUT_INEXACT_BITS = 0, OUT_INEXACT_AT = 0,
    parameter int OUT_SATURATED_BITS = 0, OUT_SATURATED_AT = 0,
    parameter int OUT_SLOT_BITS = 0, OUT_SLOT_AT = 0,
    parameter int OUT_CODE_BITS = 0, OUT_CODE_AT = 0,
    parameter int OUT_SCALE_BITS = 0, OUT_SCALE_AT = 0,
    parameter int OUT_LAST_BITS = 0, OUT_LAST_AT = 0
);
  function automatic int at_least_one(int bits);
    return bits > 0 ? bits : 1;
  endfunction

  // Driven from outside (cocotb) or by the bulk process below, never by both.
  `define INPUTS \
    `INPUT(, in_valid) \
    `INPUT([at_least_one(IN_A_BITS)-1:0], in_a) \
    `INPUT([at_least_one(IN_B_BITS)-1:0], in_b) \
    `INPUT([at_least_one(IN_SCALE_A_BITS)-1:0], in_scale_a) \
    `INPUT([at_least_one(IN_SCALE_B_BITS)-1:0], in_scale_b) \
    `INPUT([31:0], in_c) \
    `INPUT(, in_first) \
    `INPUT(, in_last) \
    `INPUT([at_least_one(IN_MODE_BITS)-1:0], in_mode) \
    `INPUT([at_least_one(IN_ZERO_A_BITS)-1:0], in_zero_a) \
    `INPUT([at_least_one(IN_ZERO_B_BITS)-1:0], in_zero_b) \
    `INPUT([at_least_one(IN_MULTIPLIER_BITS)-1:0], in_multiplier) \
    `INPUT([at_least_one(IN_SHIFT_BITS)-1:0], in_shift) \
    `INPUT([at_least_one(IN_ZERO_OUT_BITS)-1:0], in_zero_out) \
    `INPUT([at_least_one(IN_RESULT_SCALE_BITS)-1:0], in_result_scale) \
    `INPUT([at_least_one(IN_MICRO_A_BITS)-1:0], in_micro_a) \
    `INPUT([at_least_one(IN_MICRO_B_BITS)-1:0], in_micro_b) \
    `INPUT([at_least_one(IN_SLOT_BITS)-1:0], in_slot) \
    `INPUT(, out_ready)
  `include "pins.svh"

  logic in_ready /*verilator public_flat_rd*/;
  logic out_valid /*verilator public_flat_rd*/;
  // What a unit has not, its flags for one, is zero.
  logic [at_least_one(OUT_RESULT_BITS)-1:0] out_result /*verilator public_flat_rd*/ = 0;
  logic out_invalid /*verilator public_flat_rd*/ = 0;
  logic out_overflow /*verilator public_flat_rd*/ = 0;
  logic out_underflow /*verilator public_flat_rd*/ = 0;
  logic out_inexact /*verilator public_flat_rd*/ = 0;
  logic out_saturated /*verilator public_flat_rd*/ = 0;
  logic [at_least_one(OUT_SLOT_BITS)-1:0] out_slot /*verilator public_flat_rd*/ = 0;
  logic [at_least_one(OUT_CODE_BITS)-1:0] out_code /*verilator public_flat_rd*/ = 0;
  logic [at_least_one(OUT_SCALE_BITS)-1:0] out_scale /*verilator public_flat_rd*/ = 0;
  logic out_last /*verilator public_flat_rd*/ = 0;

  if (1) begin : ports
    `include "copies.svh"
    `UNIT dut (.*);  // what a configuration lacks (in_mode, in_c, scales, flags) stays unconnected
  end

  // ---------------------------------------------------------------------------------- bulk mode

  task automatic put_record(logic [8*RECORD_BYTES-1:0] data);
    in_a = data[IN_A_AT+:$bits(in_a)];
    in_b = data[IN_B_AT+:$bits(in_b)];
    in_scale_a = data[IN_SCALE_A_AT+:$bits(in_scale_a)];
    in_scale_b = data[IN_SCALE_B_AT+:$bits(in_scale_b)];
    in_c = data[IN_C_AT+:$bits(in_c)];
    in_first = data[IN_FIRST_AT+:$bits(in_first)];
    in_last = data[IN_LAST_AT+:$bits(in_last)];
    in_mode = data[IN_MODE_AT+:$bits(in_mode)];
    in_zero_a = data[IN_ZERO_A_AT+:$bits(in_zero_a)];
    in_zero_b = data[IN_ZERO_B_AT+:$bits(in_zero_b)];
    in_multiplier = data[IN_MULTIPLIER_AT+:$bits(in_multiplier)];
    in_shift = data[IN_SHIFT_AT+:$bits(in_shift)];
    in_zero_out = data[IN_ZERO_OUT_AT+:$bits(in_zero_out)];
    in_result_scale = data[IN_RESULT_SCALE_AT+:$bits(in_result_scale)];
    in_micro_a = data[IN_MICRO_A_AT+:$bits(in_micro_a)];
    in_micro_b = data[IN_MICRO_B_AT+:$bits(in_micro_b)];
    in_slot = data[IN_SLOT_AT+:$bits(in_slot)];
  endtask

  function automatic int results_of_record();
    return int'(in_last);
  endfunction

  typedef logic [32*RESULT_WORDS-1:0] result_t;

  task automatic write_result(int file);
    result_t bits = 0;
    bits |= result_t'(out_result) << OUT_RESULT_AT;
    bits |= result_t'(out_invalid) << OUT_INVALID_AT;
    bits |= result_t'(out_overflow) << OUT_OVERFLOW_AT;
    bits |= result_t'(out_underflow) << OUT_UNDERFLOW_AT;
    bits |= result_t'(out_inexact) << OUT_INEXACT_AT;
    bits |= result_t'(out_saturated) << OUT_SATURATED_AT;
    bits |= result_t'(out_slot) << OUT_SLOT_AT;
    bits |= result_t'(out_code) << OUT_CODE_AT;
    bits |= result_t'(out_scale) << OUT_SCALE_AT;
    bits |= result_t'(out_last) << OUT_LAST_AT;
    $fwrite(file, "%u", bits);
  endtask

  `include "bulk.svh"
endmodule
