"""Other simulators than Verilator, which read the Verilog by Yosys and have bulk mode alone.

cxxrtl: Yosys's own, one run of the unit at a time. bitsliced: hundreds of runs at a time, a bit of
each in every machine word.
"""
