"""Containers of codes and scales: what they hold, how they are packed, laid out and stored."""
