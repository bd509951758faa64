// The bench top of the matrix unit: every port as a variable of the same name.
//
// Two ways to drive it:
//   - per cycle: cocotb writes the variables, the clock included, as if they were ports; ends_rst
//     resets the bench's own ends of the streams, and is no port of the unit;
//   - bulk: with +bulk_program=FILE everything runs here, without Python: the clock, the register
//     accesses of that file, the operands of +bulk_a=FILE, +bulk_b=FILE and +bulk_d=FILE, C to
//     +bulk_c=FILE and what registers hold to +bulk_registers=FILE. The files are defined in
//     sim/matmul/unit.py.
//
// Bulk options: +bulk_a_bytes=N, +bulk_b_bytes=N and +bulk_d_bytes=N give the length of the packets;
// +bulk_gap=N and +bulk_stall=N the chance, in 1/256, that a stream offers nothing new and that C is
// not taken in a cycle; +bulk_seed=N seeds both; +bulk_timeout=N is the number of cycles without
// any transfer after which the run is given up.

`timescale 1ns / 1ps

`define TOP mxdot_matmul_bench

module mxdot_matmul_bench #(
    parameter int A_BYTES = 1,
    parameter int B_BYTES = 1,
    parameter int C_BYTES = 1,
    parameter int D_BYTES = 1,
    parameter int ADDRESS_BITS = 8
);
  // Driven from outside (cocotb) or by the bulk process below, never by both.
  `define INPUTS \
    `INPUT([8*A_BYTES-1:0], s_axis_a_tdata) \
    `INPUT([A_BYTES-1:0], s_axis_a_tkeep) \
    `INPUT(, s_axis_a_tlast) \
    `INPUT(, s_axis_a_tvalid) \
    `INPUT([8*B_BYTES-1:0], s_axis_b_tdata) \
    `INPUT([B_BYTES-1:0], s_axis_b_tkeep) \
    `INPUT(, s_axis_b_tlast) \
    `INPUT(, s_axis_b_tvalid) \
    `INPUT([8*D_BYTES-1:0], s_axis_d_tdata) \
    `INPUT([D_BYTES-1:0], s_axis_d_tkeep) \
    `INPUT(, s_axis_d_tlast) \
    `INPUT(, s_axis_d_tvalid) \
    `INPUT(, m_axis_c_tready) \
    `INPUT([ADDRESS_BITS-1:0], s_axil_awaddr) \
    `INPUT([2:0], s_axil_awprot) \
    `INPUT(, s_axil_awvalid) \
    `INPUT([31:0], s_axil_wdata) \
    `INPUT([3:0], s_axil_wstrb) \
    `INPUT(, s_axil_wvalid) \
    `INPUT(, s_axil_bready) \
    `INPUT([ADDRESS_BITS-1:0], s_axil_araddr) \
    `INPUT([2:0], s_axil_arprot) \
    `INPUT(, s_axil_arvalid) \
    `INPUT(, s_axil_rready)
  logic ends_rst /*verilator public_flat_rw*/ = 0;
  `include "pins.svh"

  logic irq /*verilator public_flat_rd*/;
  logic s_axis_a_tready /*verilator public_flat_rd*/;
  logic s_axis_b_tready /*verilator public_flat_rd*/;
  logic s_axis_d_tready /*verilator public_flat_rd*/ = 0;  // of a unit without this stream
  logic [8*C_BYTES-1:0] m_axis_c_tdata /*verilator public_flat_rd*/;
  logic [C_BYTES-1:0] m_axis_c_tkeep /*verilator public_flat_rd*/;
  logic m_axis_c_tlast /*verilator public_flat_rd*/;
  logic m_axis_c_tvalid /*verilator public_flat_rd*/;
  logic s_axil_awready /*verilator public_flat_rd*/;
  logic s_axil_wready /*verilator public_flat_rd*/;
  logic [1:0] s_axil_bresp /*verilator public_flat_rd*/;
  logic s_axil_bvalid /*verilator public_flat_rd*/;
  logic s_axil_arready /*verilator public_flat_rd*/;
  logic [31:0] s_axil_rdata /*verilator public_flat_rd*/;
  logic [1:0] s_axil_rresp /*verilator public_flat_rd*/;
  logic s_axil_rvalid /*verilator public_flat_rd*/;

  if (1) begin : ports
    `include "copies.svh"
    // The stream D of a unit that has none stays unconnected.
    mxdot_matmul dut (.*, .aclk(clk), .aresetn(!rst));
  end

  // ---------------------------------------------------------------------------------- bulk mode

  // 0 success, 1 a file cannot be opened, 2 an operand file is too short, 3 no transfer for
  // +bulk_timeout cycles, 4 a line of the program is not understood, 5 a register access is refused,
  // 6 an operand file cannot be read.
  int bulk_status = 0;
  int bulk_cycles = 0;

  int gap = 0, stall = 0, seed = 1, timeout = 10000;
  int idle = 0;  // cycles since the last transfer of a stream
  logic streaming = 0;
  logic [31:0] random;

  function automatic logic [31:0] xorshift32(logic [31:0] state);
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
  endfunction

  // Beats as $fread fills them, the most significant byte first in the file, and what is left of
  // the packets in bytes.
  logic [8*A_BYTES-1:0] a_beat[1];
  logic [8*B_BYTES-1:0] b_beat[1];
  logic [8*D_BYTES-1:0] d_beat[1];
  int a_file = 0, b_file = 0, d_file = 0, c_file = 0;
  int a_left = 0, b_left = 0, d_left = 0;

  // The next beat of a stream, unless one is offered, none is left, or a random gap comes.
  `define OFFER(X, BYTES, CHANCE) \
    if (X``_left > 0 && !s_axis_``X``_tvalid && {1'b0, CHANCE} >= gap[8:0]) begin \
      if ($fread(X``_beat, X``_file) != BYTES) bulk_status = $feof(X``_file) ? 2 : 6; \
      s_axis_``X``_tdata = X``_beat[0]; \
      s_axis_``X``_tlast = X``_left <= BYTES; \
      s_axis_``X``_tkeep = {BYTES{1'b1}}; \
      if (X``_left < BYTES) s_axis_``X``_tkeep = s_axis_``X``_tkeep >> (BYTES - X``_left); \
      s_axis_``X``_tvalid = 1; \
      X``_left = X``_left - BYTES; \
    end

  localparam int C_WORDS = (C_BYTES + 3) / 4;  // $fwrite writes words

  logic aw_taken, w_taken, b_taken, ar_taken, r_taken;
  logic [1:0] response;  // as it was taken
  logic [31:0] read_data;

  // One clock cycle: inputs change as the clock falls, transfers are decided just before the
  // rising edge.
  task automatic cycle;
    logic a_sent, b_sent, d_sent, last;
    random = xorshift32(random);
    if (streaming) begin
      `OFFER(a, A_BYTES, random[7:0])
      `OFFER(b, B_BYTES, random[15:8])
      `OFFER(d, D_BYTES, random[23:16])
    end
    m_axis_c_tready = streaming && {1'b0, random[31:24]} >= stall[8:0];
    clk = 0;
    #1;
    a_sent = s_axis_a_tvalid && s_axis_a_tready;
    b_sent = s_axis_b_tvalid && s_axis_b_tready;
    d_sent = s_axis_d_tvalid && s_axis_d_tready;
    aw_taken = s_axil_awvalid && s_axil_awready;
    w_taken = s_axil_wvalid && s_axil_wready;
    b_taken = s_axil_bvalid && s_axil_bready;
    ar_taken = s_axil_arvalid && s_axil_arready;
    r_taken = s_axil_rvalid && s_axil_rready;
    response = b_taken ? s_axil_bresp : s_axil_rresp;
    read_data = s_axil_rdata;
    last = 0;
    idle = a_sent || b_sent || d_sent ? 0 : idle + 1;
    if (m_axis_c_tvalid && m_axis_c_tready) begin
      // A beat of C in whole words, and how many of its bytes there are.
      $fwrite(c_file, "%u", {32'($countones(m_axis_c_tkeep)), (32 * C_WORDS)'(m_axis_c_tdata)});
      idle = 0;
      last = m_axis_c_tlast;
    end
    clk = 1;
    #1;
    bulk_cycles = bulk_cycles + 1;
    if (a_sent) s_axis_a_tvalid = 0;
    if (b_sent) s_axis_b_tvalid = 0;
    if (d_sent) s_axis_d_tvalid = 0;
    if (aw_taken) s_axil_awvalid = 0;
    if (w_taken) s_axil_wvalid = 0;
    if (b_taken) s_axil_bready = 0;
    if (ar_taken) s_axil_arvalid = 0;
    if (r_taken) s_axil_rready = 0;
    if (last) streaming = 0;
    if (idle > timeout) bulk_status = 3;
  endtask

  task automatic write(input int address, input int data);
    s_axil_awaddr = address[ADDRESS_BITS-1:0];
    s_axil_wdata = data;
    s_axil_wstrb = 4'hF;
    s_axil_awvalid = 1;
    s_axil_wvalid = 1;
    s_axil_bready = 1;
    while (s_axil_bready && bulk_status == 0) begin
      cycle;
      if (b_taken && response != 0) bulk_status = 5;
    end
  endtask

  task automatic read(input int address, output int data);
    s_axil_araddr = address[ADDRESS_BITS-1:0];
    s_axil_arvalid = 1;
    s_axil_rready = 1;
    while (s_axil_rready && bulk_status == 0) begin
      cycle;
      data = read_data;
      if (r_taken && response != 0) bulk_status = 5;
    end
  endtask

  // Opens the file of a plusarg; 0 when it is not given or cannot be opened.
  function automatic int open(string option, string mode);
    string path;
    if (!$value$plusargs({option, "=%s"}, path)) return 0;
    return $fopen(path, mode);
  endfunction

  // Runs the program, a line at a time: `w ADDRESS DATA` and `r ADDRESS` in hexadecimal; `s` streams
  // until C has come to its end.
  task automatic run(input int program_file, input int registers_file);
    string command;
    int address, data;
    while (bulk_status == 0 && $fscanf(program_file, "%s", command) == 1) begin
      idle = 0;
      if (command == "w" && $fscanf(program_file, "%h %h", address, data) == 2) begin
        write(address, data);
      end else if (command == "r" && $fscanf(program_file, "%h", address) == 1) begin
        read(address, data);
        $fdisplay(registers_file, "%h %h", address, data);
      end else if (command == "s") begin
        streaming = 1;
        while (streaming && bulk_status == 0) cycle;
      end else begin
        bulk_status = 4;
      end
    end
  endtask

  initial begin
    int program_file, registers_file;
    if ($test$plusargs("bulk_program")) begin
      program_file = open("bulk_program", "r");
      registers_file = open("bulk_registers", "w");
      a_file = open("bulk_a", "rb");
      b_file = open("bulk_b", "rb");
      d_file = open("bulk_d", "rb");
      c_file = open("bulk_c", "wb");
      void'($value$plusargs("bulk_a_bytes=%d", a_left));
      void'($value$plusargs("bulk_b_bytes=%d", b_left));
      void'($value$plusargs("bulk_d_bytes=%d", d_left));
      void'($value$plusargs("bulk_gap=%d", gap));
      void'($value$plusargs("bulk_stall=%d", stall));
      void'($value$plusargs("bulk_seed=%d", seed));
      void'($value$plusargs("bulk_timeout=%d", timeout));
      random = seed == 0 ? 32'd1 : seed;
      if (program_file == 0 || registers_file == 0 || c_file == 0 || (a_file == 0 && a_left > 0)
          || (b_file == 0 && b_left > 0) || (d_file == 0 && d_left > 0)) begin
        bulk_status = 1;
      end else begin
        rst = 1;
        repeat (2) cycle;
        rst = 0;
        run(program_file, registers_file);
        $fclose(registers_file);
        $fclose(c_file);
      end
      $display("bulk status %0d", bulk_status);
      $display("bulk cycles %0d", bulk_cycles);
      $finish;
    end
  end
endmodule
