"""Quantisers in a regression."""
