"""Dot units in a regression: items, stimulus, features, the subject and its bench top."""
