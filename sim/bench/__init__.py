"""The bench inside the simulator: pins, environment, coverage and cocotb test modules."""
