"""mxdot.verify.formal: proofs about the Verilog, by Yosys and ABC (`make formal`)."""
