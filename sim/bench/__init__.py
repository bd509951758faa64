"""What runs inside the simulator: the bench top and its cocotb test modules."""
