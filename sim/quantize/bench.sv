// The bench top of a quantiser: every port as a variable of the same name. sim/bench/bulk.svh says
// how it is driven in bulk mode. The parameters come from the `Layout` of the unit
// (sim/quantize/unit.py): for each port its width, and where its bits are in a record or a result.

`timescale 1ns / 1ps

`define TOP mxdot_bench

module mxdot_bench #(
    parameter int RECORD_BYTES = 1,
    parameter int RESULT_WORDS = 1,
    // Widths of 0 are those of ports that the unit has not.
    parameter int IN_VALUES_BITS = 0, IN_VALUES_AT = 0,
    parameter int IN_RANDOM_BITS = 0, IN_RANDOM_AT = 0,
    parameter int IN_OUTER_BITS = 0, IN_OUTER_AT = 0,
    parameter int IN_MODE_BITS = 0, IN_MODE_AT = 0,
    parameter int IN_RULE_BITS = 0, IN_RULE_AT = 0,
    parameter int OUT_CODES_BITS = 0, OUT_CODES_AT = 0,
    parameter int OUT_MICRO_BITS = 0, OUT_MICRO_AT = 0,
    parameter int OUT_MODE_BITS = 0, OUT_MODE_AT = 0,
    parameter int OUT_SCALE_BITS = 0, OUT_SCALE_AT = 0,
    parameter int OUT_LAST_BITS = 0, OUT_LAST_AT = 0
);
  function automatic int at_least_one(int bits);
    return bits > 0 ? bits : 1;
  endfunction

  // Driven from outside (cocotb) or by the bulk process below, never by both.
  `define INPUTS \
    `INPUT(, in_valid) \
    `INPUT([at_least_one(IN_VALUES_BITS)-1:0], in_values) \
    `INPUT([at_least_one(IN_RANDOM_BITS)-1:0], in_random) \
    `INPUT([at_least_one(IN_OUTER_BITS)-1:0], in_outer) \
    `INPUT([at_least_one(IN_MODE_BITS)-1:0], in_mode) \
    `INPUT([at_least_one(IN_RULE_BITS)-1:0], in_rule) \
    `INPUT(, out_ready)
  `include "pins.svh"

  logic in_ready /*verilator public_flat_rd*/;
  logic out_valid /*verilator public_flat_rd*/;
  logic [OUT_CODES_BITS-1:0] out_codes /*verilator public_flat_rd*/;
  logic [at_least_one(OUT_MICRO_BITS)-1:0] out_micro /*verilator public_flat_rd*/ = 0;
  logic [at_least_one(OUT_MODE_BITS)-1:0] out_mode /*verilator public_flat_rd*/ = 0;
  logic [OUT_SCALE_BITS-1:0] out_scale /*verilator public_flat_rd*/;
  logic out_last /*verilator public_flat_rd*/ = 1;  // of a block of one beat, without this output

  if (1) begin : ports
    `include "copies.svh"
    mxdot_quantize dut (.*);  // what a configuration lacks stays unconnected
  end

  // ---------------------------------------------------------------------------------- bulk mode

  task automatic put_record(logic [8*RECORD_BYTES-1:0] data);
    in_values = data[IN_VALUES_AT+:$bits(in_values)];
    in_random = data[IN_RANDOM_AT+:$bits(in_random)];
    in_outer = data[IN_OUTER_AT+:$bits(in_outer)];
    in_mode = data[IN_MODE_AT+:$bits(in_mode)];
    in_rule = data[IN_RULE_AT+:$bits(in_rule)];
  endtask

  function automatic int results_of_record();
    return 1;
  endfunction

  typedef logic [32*RESULT_WORDS-1:0] result_t;

  task automatic write_result(int file);
    result_t bits = 0;
    bits |= result_t'(out_codes) << OUT_CODES_AT;
    bits |= result_t'(out_micro) << OUT_MICRO_AT;
    bits |= result_t'(out_mode) << OUT_MODE_AT;
    bits |= result_t'(out_scale) << OUT_SCALE_AT;
    bits |= result_t'(out_last) << OUT_LAST_AT;
    $fwrite(file, "%u", bits);
  endtask

  `include "bulk.svh"
endmodule
