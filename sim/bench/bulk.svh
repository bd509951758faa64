// Bulk mode of a bench top, to be included in its module: the clock, records from +bulk_input=FILE
// and results to +bulk_output=FILE, without Python. What it counts goes to the log, as lines
// "bulk NAME VALUE". Without +bulk_input nothing happens here.
//
// Bulk options: +bulk_gap=N and +bulk_stall=N give the chance, in 1/256, that the input is
// withheld and that the output is not taken in a cycle; +bulk_seed=N seeds both; +bulk_timeout=N
// is the number of cycles without any transfer after which the run is given up; +bulk_drain=N is
// how many cycles are waited at the end for results that nobody asked for.
//
// The module has clk, rst, in_valid, in_ready, out_valid and out_ready, and says
//   RECORD_BYTES         bytes of a record, which is one transfer into the unit
//   put_record(data)     puts a record on the other inputs
//   results_of_record()  transfers out of the unit that the record on the inputs asks for
//   write_result(file)   writes the transfer on the outputs

  // 0 success, 1 a file cannot be opened, 2 the input ends inside a record, 3 no transfer for
  // +bulk_timeout cycles, 4 more results than were asked for, 5 the input cannot be read.
  int bulk_status = 0;
  int bulk_blocks = 0;   // accepted by the unit
  int bulk_results = 0;  // taken from the unit
  int bulk_cycles = 0;   // from the first offer to the last result

  logic [8*RECORD_BYTES-1:0] buffer[1];  // $fread fills an unpacked array
  int input_file, output_file;
  int gap = 0, stall = 0, seed = 1, timeout = 10000, drain = 256;
  int idle;      // cycles since the last transfer
  int expected;  // results owed for the accepted records
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
    if ({1'b0, random[7:0]} < gap[8:0]) return;
    count = $fread(buffer, input_file);
    if (count != RECORD_BYTES && !$feof(input_file)) begin
      bulk_status = 5;
    end else if (count == 0) begin
      $fclose(input_file);
      input_file = 0;
    end else if (count != RECORD_BYTES) begin
      bulk_status = 2;
    end else begin
      in_valid = 1;
      put_record(buffer[0]);
    end
  endtask

  // One clock cycle: inputs change as the clock falls, transfers are decided just before the
  // rising edge.
  task automatic cycle;
    logic sent;
    random = xorshift32(random);
    if (!in_valid && input_file != 0 && bulk_status == 0) offer;
    out_ready = {1'b0, random[15:8]} >= stall[8:0];
    clk = 0;
    #1;
    idle = idle + 1;
    sent = in_valid && in_ready;
    if (sent) begin
      bulk_blocks = bulk_blocks + 1;
      expected = expected + results_of_record();
      idle = 0;
    end
    if (out_valid && out_ready) begin
      write_result(output_file);
      bulk_results = bulk_results + 1;
      idle = 0;
    end
    clk = 1;
    #1;
    if (sent) in_valid = 0;
  endtask

  initial begin
    string input_path, output_path;
    if ($value$plusargs("bulk_input=%s", input_path)) begin
      input_file = $fopen(input_path, "rb");
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
          clk = 0;
          #1 clk = 1;
          #1;
        end
        rst = 0;
        while (bulk_status == 0 && (input_file != 0 || in_valid || bulk_results < expected)) begin
          cycle;
          bulk_cycles = bulk_cycles + 1;
          if (idle > timeout) bulk_status = 3;
          if (bulk_results > expected) bulk_status = 4;  // else it would go on without an end
        end
        stall = 0;
        repeat (drain) cycle;
        if (bulk_results > expected) bulk_status = 4;
        $fclose(output_file);
      end
      $display("bulk status %0d", bulk_status);
      $display("bulk blocks %0d", bulk_blocks);
      $display("bulk results %0d", bulk_results);
      $display("bulk cycles %0d", bulk_cycles);
      $finish;
    end
  end
