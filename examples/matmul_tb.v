// A bench without Python: programs a matrix unit over AXI4-Lite, streams a product through it, checks
// every result. docs/matrix-unit.md has the commands.
//
// The unit: 2 x 2 dot units of 4 lanes in E4M3, 8 bytes a beat in every stream. The product: A (4 x 8)
// times B (8 x 6), small whole numbers, so that float32 results are exact and easily predicted.
// It ends with a line "PASS: ...", or with $fatal after a wrong result or when nothing happens.

`timescale 1ns / 1ps

module matmul_tb;
  localparam ROWS = 2, COLUMNS = 2, LANES = 4, BYTES = 8;
  localparam M = 4, N = 6, K = 8;
  localparam M_TILES = M / ROWS, N_TILES = N / COLUMNS, K_BLOCKS = K / LANES;
  localparam RECORD = LANES + 1;  // a block in a stream: its codes, then its scale
  localparam A_SIZE = M * K_BLOCKS * RECORD;  // sent once, for K_BLOCKS is not above the depth
  localparam B_SIZE = M_TILES * N * K_BLOCKS * RECORD;  // sent for each row of tiles
  localparam C_SIZE = M * N * 4;

  // Offsets of registers; bits of STATUS.
  localparam CONTROL = 8'h20, STATUS = 8'h24, IRQ_ENABLE = 8'h28;
  localparam M_TILES_AT = 8'h2C, N_TILES_AT = 8'h30, K_BLOCKS_AT = 8'h34;
  localparam CYCLES = 8'h80, STEPS = 8'h88;
  localparam DONE = 2;

  reg aclk, aresetn;
  initial aclk = 0;
  always #5 aclk = !aclk;

  // The operands: whole numbers from -2 to 3, rows of A doubled by the scale of odd rows.
  function integer a_value(input integer m, input integer k);
    a_value = (3 * m + k) % 6 - 2;
  endfunction
  function integer b_value(input integer k, input integer n);
    b_value = (k + 5 * n) % 4 - 1;
  endfunction
  function [7:0] e4m3(input integer value);
    case (value)
      -2: e4m3 = 8'hC0;
      -1: e4m3 = 8'hB8;
      0: e4m3 = 8'h00;
      1: e4m3 = 8'h38;
      2: e4m3 = 8'h40;
      default: e4m3 = 8'h44;  // 3
    endcase
  endfunction

  // The packets, in the order of work: rows of tiles, tiles in one, blocks of K, records of a step.
  reg [7:0] a_packet[0:A_SIZE-1];
  reg [7:0] b_packet[0:B_SIZE-1];
  integer i, j, k, r, lane, at;
  initial begin
    at = 0;
    for (i = 0; i < M_TILES; i = i + 1)
      for (k = 0; k < K_BLOCKS; k = k + 1)
        for (r = 0; r < ROWS; r = r + 1) begin
          for (lane = 0; lane < LANES; lane = lane + 1)
            a_packet[at+lane] = e4m3(a_value(ROWS * i + r, LANES * k + lane));
          a_packet[at+LANES] = 8'd127 + r[7:0];  // 2^r
          at = at + RECORD;
        end
    at = 0;
    for (i = 0; i < M_TILES; i = i + 1)
      for (j = 0; j < N_TILES; j = j + 1)
        for (k = 0; k < K_BLOCKS; k = k + 1)
          for (r = 0; r < COLUMNS; r = r + 1) begin
            for (lane = 0; lane < LANES; lane = lane + 1)
              b_packet[at+lane] = e4m3(b_value(LANES * k + lane, COLUMNS * j + r));
            b_packet[at+LANES] = 127;  // 1
            at = at + RECORD;
          end
  end

  // The streams of A and B: the next beat is offered until the unit takes it.
  integer a_at, b_at;
  initial begin
    a_at = 0;
    b_at = 0;
  end
  wire a_valid = aresetn && a_at < A_SIZE, b_valid = aresetn && b_at < B_SIZE;
  wire a_ready, b_ready;
  wire a_last = a_at + BYTES >= A_SIZE, b_last = b_at + BYTES >= B_SIZE;
  wire [8*BYTES-1:0] a_data, b_data;
  wire [BYTES-1:0] a_keep, b_keep;
  genvar g;
  generate
    for (g = 0; g < BYTES; g = g + 1) begin : beat
      assign a_keep[g] = a_at + g < A_SIZE;
      assign b_keep[g] = b_at + g < B_SIZE;
      assign a_data[8*g+:8] = a_keep[g] ? a_packet[a_at+g] : 8'h00;
      assign b_data[8*g+:8] = b_keep[g] ? b_packet[b_at+g] : 8'h00;
    end
  endgenerate
  always @(posedge aclk) begin
    if (a_valid && a_ready) a_at <= a_at + BYTES;
    if (b_valid && b_ready) b_at <= b_at + BYTES;
  end

  // The stream of C: taken in two of three cycles.
  reg [7:0] c_packet[0:C_SIZE-1];
  wire [8*BYTES-1:0] c_data;
  wire [BYTES-1:0] c_keep;
  wire c_valid, c_last;
  reg [1:0] c_turn;
  wire c_ready = c_turn != 2;
  integer c_at, c_byte, c_packets;
  initial begin
    c_turn = 0;
    c_at = 0;
    c_packets = 0;
  end
  always @(posedge aclk) begin
    c_turn <= c_turn == 2 ? 0 : c_turn + 1;
    if (c_valid && c_ready) begin
      for (c_byte = 0; c_byte < BYTES; c_byte = c_byte + 1)
        if (c_keep[c_byte]) c_packet[c_at+c_byte] <= c_data[8*c_byte+:8];
      c_at <= c_at + $countones(c_keep);
      if (c_last) c_packets <= c_packets + 1;
    end
  end

  // The registers: one access at a time, pins changed and read at falling edges. Nothing is under way
  // when one begins, so that address and data are taken at the same rising edge.
  reg [7:0] awaddr, araddr;
  reg [31:0] wdata;
  reg awvalid = 0, wvalid = 0, arvalid = 0;
  wire awready, wready, bvalid, arready, rvalid;
  wire [1:0] bresp, rresp;
  wire [31:0] rdata;
  wire irq;
  task write(input [7:0] address, input [31:0] word);
    begin
      awaddr = address;
      wdata = word;
      awvalid = 1;
      wvalid = 1;
      while (!awready || !wready) @(negedge aclk);
      @(negedge aclk);
      awvalid = 0;
      wvalid = 0;
      while (!bvalid) @(negedge aclk);
      if (bresp != 0) $fatal(1, "FAIL: a write to %h was refused", address);
      @(negedge aclk);
    end
  endtask
  task read(input [7:0] address, output [31:0] word);
    begin
      araddr = address;
      arvalid = 1;
      while (!arready) @(negedge aclk);
      @(negedge aclk);
      arvalid = 0;
      while (!rvalid) @(negedge aclk);
      word = rdata;
      if (rresp != 0) $fatal(1, "FAIL: a read of %h was refused", address);
      @(negedge aclk);
    end
  endtask

  mxdot_matmul unit (
      .aclk(aclk),
      .aresetn(aresetn),
      .irq(irq),
      .s_axil_awaddr(awaddr),
      .s_axil_awprot(3'b000),
      .s_axil_awvalid(awvalid),
      .s_axil_awready(awready),
      .s_axil_wdata(wdata),
      .s_axil_wstrb(4'b1111),
      .s_axil_wvalid(wvalid),
      .s_axil_wready(wready),
      .s_axil_bresp(bresp),
      .s_axil_bvalid(bvalid),
      .s_axil_bready(1'b1),
      .s_axil_araddr(araddr),
      .s_axil_arprot(3'b000),
      .s_axil_arvalid(arvalid),
      .s_axil_arready(arready),
      .s_axil_rdata(rdata),
      .s_axil_rresp(rresp),
      .s_axil_rvalid(rvalid),
      .s_axil_rready(1'b1),
      .s_axis_a_tdata(a_data),
      .s_axis_a_tkeep(a_keep),
      .s_axis_a_tlast(a_last),
      .s_axis_a_tvalid(a_valid),
      .s_axis_a_tready(a_ready),
      .s_axis_b_tdata(b_data),
      .s_axis_b_tkeep(b_keep),
      .s_axis_b_tlast(b_last),
      .s_axis_b_tvalid(b_valid),
      .s_axis_b_tready(b_ready),
      .m_axis_c_tdata(c_data),
      .m_axis_c_tkeep(c_keep),
      .m_axis_c_tlast(c_last),
      .m_axis_c_tvalid(c_valid),
      .m_axis_c_tready(c_ready)
  );

  // A whole number as float32.
  function [31:0] float32(input integer value);
    integer magnitude, exponent;
    begin
      magnitude = value < 0 ? -value : value;
      exponent = 150;  // of 2^23, with its bias
      float32 = 0;
      if (magnitude != 0) begin
        while (magnitude < 1 << 23) begin
          magnitude = magnitude << 1;
          exponent = exponent - 1;
        end
        float32 = {value < 0, exponent[7:0], magnitude[22:0]};
      end
    end
  endfunction

  // What software does: shape, start, wait; then the results.
  integer m, n, sum, place, errors = 0;
  reg [31:0] value, cycles, got;
  initial begin
    aresetn = 0;
    repeat (3) @(negedge aclk);
    aresetn = 1;
    write(M_TILES_AT, M_TILES);
    write(N_TILES_AT, N_TILES);
    write(K_BLOCKS_AT, K_BLOCKS);
    write(IRQ_ENABLE, 3);  // done, and errors: a job that breaks is never done
    write(CONTROL, 1);
    while (!irq) @(negedge aclk);
    read(STATUS, value);
    if (value != DONE) $fatal(1, "FAIL: STATUS is %h", value);
    write(STATUS, DONE);  // written ones clear it, and irq falls
    if (irq) $fatal(1, "FAIL: irq stays");

    if (c_at != C_SIZE || c_packets != 1) $fatal(1, "FAIL: %0d bytes of C", c_at);
    for (m = 0; m < M; m = m + 1)
      for (n = 0; n < N; n = n + 1) begin
        sum = 0;
        for (k = 0; k < K; k = k + 1) sum = sum + a_value(m, k) * b_value(k, n);
        sum = sum << m % ROWS;
        // Tile after tile, rows of COLUMNS results.
        place = 4 * (((m / ROWS * N_TILES + n / COLUMNS) * ROWS + m % ROWS) * COLUMNS + n % COLUMNS);
        got = {c_packet[place+3], c_packet[place+2], c_packet[place+1], c_packet[place]};
        if (got !== float32(sum)) begin
          errors = errors + 1;
          $display("C[%0d][%0d]: got %h, want %h (%0d)", m, n, got, float32(sum), sum);
        end
      end
    if (errors != 0) $fatal(1, "FAIL: %0d results differ", errors);
    read(STEPS, value);
    read(CYCLES, cycles);
    if (value != M_TILES * N_TILES * K_BLOCKS) $fatal(1, "FAIL: %0d steps", value);
    $display("PASS: %0d results, %0d steps in %0d cycles", M * N, value, cycles);
    $finish;
  end

  initial begin
    #100000 $fatal(1, "FAIL: nothing happens any more");
  end
endmodule
