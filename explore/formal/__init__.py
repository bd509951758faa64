"""mxdot.explore.formal: proofs about the Verilog, by Yosys and ABC (`make formal`)."""
