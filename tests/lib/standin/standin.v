// A stand-in for the dot-product unit, with its ports and an answer that is easy to predict:
//   result = sum over the blocks from first to last of sum_i a_i * b_i (bytes, unsigned)
//            + scale_a + scale_b, starting from c, modulo 2^32.
// Flags: invalid for a scale of 0xFF in the last block, the others from the low result bits.
module mxdot_dot (
    input clk,
    input rst,
    input in_valid,
    output in_ready,
    input [255:0] in_a,
    input [255:0] in_b,
    input [7:0] in_scale_a,
    input [7:0] in_scale_b,
    input [31:0] in_c,
    input in_first,
    input in_last,
    output reg out_valid,
    input out_ready,
    output reg [31:0] out_result,
    output reg out_invalid,
    output out_overflow,
    output out_underflow,
    output out_inexact,
    output out_saturated
);
  // Two register stages, each moving when the next one is empty or moves.
  reg stage_valid, stage_first, stage_last, stage_nan;
  reg [31:0] stage_sum, stage_c, running;
  wire stage_ready = !stage_valid || out_ready || !out_valid;
  assign in_ready = stage_ready;

  integer i;
  reg [31:0] sum;
  always @* begin
    sum = {24'b0, in_scale_a} + {24'b0, in_scale_b};
    for (i = 0; i < 32; i = i + 1) sum = sum + {24'b0, in_a[8*i+:8]} * {24'b0, in_b[8*i+:8]};
  end

  wire [31:0] next = (stage_first ? stage_c : running) + stage_sum;
  always @(posedge clk) begin
    if (stage_ready) begin
      stage_valid <= in_valid;
      stage_first <= in_first;
      stage_last <= in_last;
      stage_nan <= &in_scale_a || &in_scale_b;
      stage_sum <= sum;
      stage_c <= in_c;
    end
    if (out_ready || !out_valid) begin
      out_valid <= stage_valid && stage_last;
      out_result <= next;
      out_invalid <= stage_nan;
      if (stage_valid) running <= next;
    end
    if (rst) begin
      stage_valid <= 0;
      out_valid <= 0;
    end
  end
  assign {out_saturated, out_inexact, out_underflow, out_overflow} = out_result[3:0];
endmodule
