"""The matrix units of a real GPU, compared with the rules."""
