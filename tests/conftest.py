"""Settings and fixtures shared by all tests."""

from pathlib import Path

import hypothesis
import pytest

hypothesis.settings.register_profile("mxdot", deadline=None, print_blob=True)
hypothesis.settings.load_profile("mxdot")


@pytest.fixture(scope="session")
def simulation_dir() -> Path:
    """Where tests build simulations; kept between runs, so that an unchanged one is not rebuilt.

    Builds lock their directory: workers of pytest-xdist can share one.
    """
    return Path("build/tests")
