"""A second simulator: Yosys reads the Verilog and writes it as C++ (CXXRTL)."""
