"""Dot units with a quantiser after them, in a regression."""
