"""Operands and checks that tests of vectors share with other tests."""

from pathlib import Path

GOLDEN = Path(__file__).parents[1] / "vectors"
