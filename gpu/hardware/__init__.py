"""The matrix units of a real GPU, beside the rules."""
