// A bench without Python: streams the blocks of test vectors through a unit, compares every result.
//
//   $ mxdot verilog --format e4m3 --accumulator aligned:13 --lanes 32 -o dot.v
//   $ mxdot vectors --format e4m3 --accumulator aligned:13 --lanes 32 --hex .
//   $ verilator --binary -Wno-fatal readmemh_tb.v dot.v --top readmemh_tb && obj_dir/Vreadmemh_tb
//   $ iverilog -g2012 -s readmemh_tb -o tb readmemh_tb.v dot.v && ./tb
//
// The files of the vectors are read from the current directory. It prints a line for each tenth of the
// dot products, for Icarus takes minutes. It ends with a line "PASS: ...", or with $fatal after a
// wrong or a missing result.

`timescale 1ns / 1ps
`include "vectors.vh"
`ifndef MXDOT_SCALE_BITS
`define MXDOT_SCALE_BITS 8  // one E8M0
`endif

module readmemh_tb;
  reg clk, rst;
  always #5 clk = !clk;

  // The vectors: a line for each block, or for each dot product.
  reg [`MXDOT_A_BITS-1:0] a[0:`MXDOT_BLOCKS-1];
  reg [`MXDOT_B_BITS-1:0] b[0:`MXDOT_BLOCKS-1];
  reg [`MXDOT_SCALE_BITS-1:0] scale_a[0:`MXDOT_BLOCKS-1];
  reg [`MXDOT_SCALE_BITS-1:0] scale_b[0:`MXDOT_BLOCKS-1];
  reg [7:0] control[0:`MXDOT_BLOCKS-1];  // {mode, last, first}
  reg [`MXDOT_RESULT_BITS-1:0] expected[0:`MXDOT_PRODUCTS-1];
`ifdef MXDOT_C
  reg [31:0] c[0:`MXDOT_BLOCKS-1];
  initial $readmemh("c.hex", c);
`endif
`ifdef MXDOT_STATUS
  reg [7:0] flags[0:`MXDOT_PRODUCTS-1];
  initial $readmemh("flags.hex", flags);
`endif
  initial begin
    $readmemh("a.hex", a);
    $readmemh("b.hex", b);
    $readmemh("scale_a.hex", scale_a);
    $readmemh("scale_b.hex", scale_b);
    $readmemh("control.hex", control);
    $readmemh("expected.hex", expected);
    clk = 0;
    rst = 1;
    #22 rst = 0;  // after two rising edges
  end

  // Input: the next block is offered until the unit takes it.
  integer block;
  initial block = 0;
  wire in_valid = !rst && block < `MXDOT_BLOCKS;
  wire in_ready;
  wire [31:0] index = in_valid ? block : 0;
  always @(posedge clk) if (in_valid && in_ready) block <= block + 1;

  // Output: always taken, but for one cycle in four, so that the unit must wait.
  reg [1:0] cycle;
  initial cycle = 0;
  wire out_valid;
  wire out_ready = cycle != 0;
  wire [`MXDOT_RESULT_BITS-1:0] result;
  wire [4:0] status;  // {saturated, inexact, underflow, overflow, invalid}
  always @(posedge clk) cycle <= cycle + 1;

  mxdot_dot dut (
      .clk(clk),
      .rst(rst),
      .in_valid(in_valid),
      .in_ready(in_ready),
      .in_a(a[index]),
      .in_b(b[index]),
      .in_scale_a(scale_a[index]),
      .in_scale_b(scale_b[index]),
      .in_first(control[index][0]),
      .in_last(control[index][1]),
`ifdef MXDOT_MODE_BITS
      .in_mode(control[index][1+`MXDOT_MODE_BITS:2]),
`endif
`ifdef MXDOT_C
      .in_c(c[index]),
`endif
`ifdef MXDOT_STATUS
      .out_invalid(status[0]),
      .out_overflow(status[1]),
      .out_underflow(status[2]),
      .out_inexact(status[3]),
      .out_saturated(status[4]),
`endif
      .out_valid(out_valid),
      .out_ready(out_ready),
      .out_result(result)
  );

  integer product, errors, idle;
  initial begin
    product = 0;
    errors = 0;
    idle = 0;
  end
`ifdef MXDOT_STATUS
  wire same = result === expected[product] && status === flags[product][4:0];
`else
  wire same = result === expected[product];
`endif
  always @(posedge clk) begin
    idle <= idle + 1;
    if (idle == 1000) $fatal(1, "FAIL: no result for 1000 cycles after %0d results", product);
    if (out_valid && out_ready) begin
      idle <= 0;
      product <= product + 1;
      if (!same) begin
        errors <= errors + 1;
        $display("dot product %0d: got %h, want %h", product, result, expected[product]);
`ifdef MXDOT_STATUS
        $display("  flags %b, want %b", status, flags[product][4:0]);
`endif
      end
      if ((product + 1) * 10 / `MXDOT_PRODUCTS != product * 10 / `MXDOT_PRODUCTS) begin
        $display("%0d of %0d dot products", product + 1, `MXDOT_PRODUCTS);
        $fflush;
      end
      if (product == `MXDOT_PRODUCTS - 1) begin
        if (errors != 0 || !same) $fatal(1, "FAIL: results differ from the golden model's");
        $display("PASS: %0d dot products", `MXDOT_PRODUCTS);
        $finish;
      end
    end
  end
endmodule
