"""Co-simulation of the matrix unit: its streams and registers, in bulk, and a real layer."""
