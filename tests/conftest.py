"""Settings and fixtures shared by all tests."""

import gc
from collections import Counter
from pathlib import Path

import hypothesis
import pytest

hypothesis.settings.register_profile("mxdot", deadline=None, print_blob=True)
hypothesis.settings.load_profile("mxdot")

# Elaboration makes millions of objects that all stay for a while: looking for garbage among them
# as often as Python does by itself takes a third of its time. A process takes up to 2 GB so.
gc.set_threshold(6_000_000, 20, 50)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark slow cases of tests. Run tests that build simulations first: they take longest, and
    short ones are left for the end of a run, when workers would wait for each other."""
    cases: Counter[str] = Counter()
    for item in items:
        if mark := item.get_closest_marker("slow_except"):
            test = item.nodeid.partition("[")[0]
            if cases[test] % mark.args[0]:
                item.add_marker("slow")
            cases[test] += 1
    items.sort(key=lambda item: "simulation_dir" not in getattr(item, "fixturenames", ()))
    gc.freeze()  # the items stay


def pytest_sessionfinish() -> None:
    """Keep pytest from a last search for open files, which takes seconds after elaboration."""
    gc.freeze()


@pytest.fixture(scope="session")
def simulation_dir() -> Path:
    """Directory of the simulations of tests, which later runs do not build again.

    Builds lock their directory: workers of pytest-xdist can share one.
    """
    return Path("build/tests")
