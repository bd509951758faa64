"""Units that compute something else, for benches to catch."""

from collections.abc import Callable
from functools import wraps

import pytest
from amaranth.hdl import Module


def overridden(patch: pytest.MonkeyPatch, component: type, override) -> None:
    """Let `override(component, m)` add statements, which win over those of the component."""
    right = component.elaborate  # type: ignore[attr-defined]

    def elaborate(self, platform) -> Module:
        m = right(self, platform)
        override(self, m)
        return m

    patch.setattr(component, "elaborate", elaborate)


def breaks(component: type) -> Callable[[Callable], Callable[[pytest.MonkeyPatch], None]]:
    """Of `override(component, m)`, what makes such units wrong: a function of pytest's patch."""

    def breaking(override: Callable) -> Callable[[pytest.MonkeyPatch], None]:
        @wraps(override)
        def broken(patch: pytest.MonkeyPatch) -> None:
            overridden(patch, component, override)

        return broken

    return breaking
