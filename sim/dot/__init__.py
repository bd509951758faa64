"""Dot units in a regression."""
