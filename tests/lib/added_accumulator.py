"""An accumulator that is added to the model, with results of its own: half of its parent's."""

from dataclasses import dataclass

import numpy as np
import pytest

from mxdot.model.accumulators import KINDS, Aligned


@dataclass(frozen=True)
class Halved(Aligned):
    """Half of what `aligned:F` gives."""

    syntax = "halved:F"

    def run(self, steps, c, record):
        """Every executor that takes the parent's rule gives twice this."""
        return super().run(steps, c, record) / np.float32(2)


@pytest.fixture
def halved(monkeypatch):
    """The accumulator, registered in the model alone."""
    monkeypatch.setitem(KINDS, "halved", Halved)
    return Halved(13)
