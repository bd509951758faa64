// The bench top: one dot-product unit with every port as a variable of the same name.
//
// Two ways to drive it:
//   - per cycle: cocotb writes the variables, the clock included, as if they were ports;
//   - bulk: a cocotb test raises bulk_start and waits for bulk_done, and everything in between
//     runs here, without Python: the clock, operand records from +bulk_input=FILE, results to
//     +bulk_output=FILE. Both file formats are defined in sim/bulk.py.
//
// Bulk options: +bulk_gap=N and +bulk_stall=N give the chance, in 1/256, that the input is
// withheld and that the output is not taken in a cycle; +bulk_seed=N seeds both; +bulk_timeout=N
// is the number of cycles without any transfer after which the run is given up; +bulk_drain=N is
// how many cycles are waited at the end for results that nobody asked for.

`timescale 1ns / 1ps

module mxdot_bench #(
    parameter int LANES = 32,
    parameter int A_BITS = 8,
    parameter int B_BITS = 8,
    parameter int MODE_BITS = 1,
    parameter int RESULT_BITS = 32,
    parameter int SCALE_BITS = 8,
    // Side inputs; 0 for those that the unit has not.
    parameter int ZERO_A_BITS = 0,
    parameter int ZERO_B_BITS = 0,
    parameter int MULTIPLIER_BITS = 0,
    parameter int SHIFT_BITS = 0,
    parameter int ZERO_OUT_BITS = 0,
    parameter int MICRO_A_BITS = 0,
    parameter int MICRO_B_BITS = 0
);
  function automatic int at_least_one(int bits);
    return bits > 0 ? bits : 1;
  endfunction

  // Driven from outside (cocotb) or by the bulk process below, never by both.
  logic clk = 0;
  logic rst = 0;
  logic in_valid = 0;
  logic in_ready;
  logic [LANES*A_BITS-1:0] in_a = 0;
  logic [LANES*B_BITS-1:0] in_b = 0;
  logic [at_least_one(SCALE_BITS)-1:0] in_scale_a = 0;
  logic [at_least_one(SCALE_BITS)-1:0] in_scale_b = 0;
  logic [at_least_one(ZERO_A_BITS)-1:0] in_zero_a = 0;
  logic [at_least_one(ZERO_B_BITS)-1:0] in_zero_b = 0;
  logic [at_least_one(MULTIPLIER_BITS)-1:0] in_multiplier = 0;
  logic [at_least_one(SHIFT_BITS)-1:0] in_shift = 0;
  logic [at_least_one(ZERO_OUT_BITS)-1:0] in_zero_out = 0;
  logic [at_least_one(MICRO_A_BITS)-1:0] in_micro_a = 0;
  logic [at_least_one(MICRO_B_BITS)-1:0] in_micro_b = 0;
  logic [31:0] in_c = 0;
  logic in_first = 0;
  logic in_last = 0;
  logic [MODE_BITS-1:0] in_mode = 0;
  logic out_valid;
  logic out_ready = 0;
  logic [RESULT_BITS-1:0] out_result;
  logic out_invalid;
  logic out_overflow;
  logic out_underflow;
  logic out_inexact;
  logic out_saturated;

  // Whatever hangs on a variable that may be written from outside is evaluated several times per
  // cycle. The operands therefore reach the unit as copies, made when they change.
  logic [LANES*A_BITS-1:0] a;
  logic [LANES*B_BITS-1:0] b;

  initial
    forever begin
      a = in_a;
      b = in_b;
      @(in_a or in_b);
    end

  // The rest by name: what a configuration lacks (in_mode, in_c, scales, flags) stays unconnected.
  mxdot_dot dut (.*, .in_a(a), .in_b(b));

  // ---------------------------------------------------------------------------------- bulk mode

  logic bulk_start = 0;
  logic bulk_done = 0;
  // 0 success, 1 a file cannot be opened, 2 the input ends inside a record, 3 no transfer for
  // +bulk_timeout cycles, 4 more results than dot products.
  int bulk_status = 0;
  int bulk_blocks = 0;   // accepted by the unit
  int bulk_results = 0;  // taken from the unit
  int bulk_cycles = 0;   // from the first offer to the last result

  localparam int A_BYTES = (LANES * A_BITS + 7) / 8;
  localparam int B_BYTES = (LANES * B_BITS + 7) / 8;
  localparam int SIDE_BITS = ZERO_A_BITS + ZERO_B_BITS + MULTIPLIER_BITS + SHIFT_BITS
      + ZERO_OUT_BITS + MICRO_A_BITS + MICRO_B_BITS;
  localparam int SIDE_BYTES = (SIDE_BITS + 7) / 8;

  // A record, most significant byte first in the file, so that one $fread fills it. The side inputs
  // lie above it, in the order of the parameters.
  typedef struct packed {
    logic [5:0] mode;
    logic last;
    logic first;
    logic [31:0] c;
    logic [7:0] scale_b;
    logic [7:0] scale_a;
    logic [8*B_BYTES-1:0] b;
    logic [8*A_BYTES-1:0] a;
  } record_t;
  localparam int RECORD_BYTES = $bits(record_t) / 8 + SIDE_BYTES;

  logic [8*RECORD_BYTES-1:0] buffer[1];  // $fread fills an unpacked array
  int input_file, output_file;
  int gap = 0, stall = 0, seed = 1, timeout = 10000, drain = 256;
  int idle;      // cycles since the last transfer
  int expected;  // results owed for the accepted blocks
  logic [31:0] random;

  function automatic logic [31:0] xorshift32(logic [31:0] state);
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
  endfunction

  // Offers the next record, or nothing at the end of the file or in a random gap.
  task automatic offer;
    int count;
    record_t block;
    logic [8*RECORD_BYTES-1:0] side;
    if ({1'b0, random[7:0]} < gap[8:0]) return;
    count = $fread(buffer, input_file);
    block = record_t'(buffer[0][$bits(record_t)-1:0]);
    side = buffer[0] >> $bits(record_t);
    if (count == 0) begin
      $fclose(input_file);
      input_file = 0;
    end else if (count != RECORD_BYTES) begin
      bulk_status = 2;
    end else begin
      in_valid = 1;
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
      in_micro_a = side[$bits(in_micro_a)-1:0];
      side = side >> MICRO_A_BITS;
      in_micro_b = side[$bits(in_micro_b)-1:0];
      in_c = block.c;
      in_first = block.first;
      in_last = block.last;
      in_mode = block.mode[MODE_BITS-1:0];
    end
  endtask

  // One clock cycle: inputs change while the clock is low, transfers are decided just before the
  // rising edge.
  task automatic cycle;
    logic sent;
    random = xorshift32(random);
    if (!in_valid && input_file != 0) offer;
    out_ready = {1'b0, random[15:8]} >= stall[8:0];
    #1;
    idle = idle + 1;
    sent = in_valid && in_ready;
    if (sent) begin
      bulk_blocks = bulk_blocks + 1;
      if (in_last) expected = expected + 1;
      idle = 0;
    end
    if (out_valid && out_ready) begin
      $fwrite(output_file, "%u", {
        27'b0, out_saturated, out_inexact, out_underflow, out_overflow, out_invalid,
        32'(out_result)
      });
      bulk_results = bulk_results + 1;
      idle = 0;
    end
    clk = 1;
    #1;
    clk = 0;
    if (sent) in_valid = 0;
  endtask

  initial begin
    string input_path, output_path;
    wait (bulk_start);
    if ($value$plusargs("bulk_input=%s", input_path)) input_file = $fopen(input_path, "rb");
    if ($value$plusargs("bulk_output=%s", output_path)) output_file = $fopen(output_path, "wb");
    void'($value$plusargs("bulk_gap=%d", gap));
    void'($value$plusargs("bulk_stall=%d", stall));
    void'($value$plusargs("bulk_seed=%d", seed));
    void'($value$plusargs("bulk_timeout=%d", timeout));
    void'($value$plusargs("bulk_drain=%d", drain));
    random = seed == 0 ? 32'd1 : seed;
    if (input_file == 0 || output_file == 0) begin
      bulk_status = 1;
    end else begin
      rst = 1;
      repeat (2) begin
        #1 clk = 1;
        #1 clk = 0;
      end
      rst = 0;
      while (bulk_status == 0 && (input_file != 0 || in_valid || bulk_results < expected)) begin
        cycle;
        bulk_cycles = bulk_cycles + 1;
        if (idle > timeout) bulk_status = 3;
      end
      stall = 0;
      repeat (drain) cycle;
      if (bulk_results > expected) bulk_status = 4;
      $fclose(output_file);
    end
    bulk_done = 1;
  end
endmodule
