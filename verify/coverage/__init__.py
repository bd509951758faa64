"""Coverage of the generated Verilog: what a bench reaches of its lines, branches and toggles."""
