"""Co-simulation: Verilator runs the generated Verilog, cocotb compares it with the model."""
