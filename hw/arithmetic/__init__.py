"""Pieces of arithmetic that units of several kinds are made of."""
