"""Quantisers in a regression: blocks as data, stimulus, features, and how they are simulated."""
