"""Operators on containers: quantisation and matrix products."""
