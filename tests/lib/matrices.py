"""The units of regressions, configured once for all tests of a process."""

from functools import cache

from mxdot.sim.engine.regression_units import Unit, full_matrix


@cache
def every_unit() -> tuple[Unit, ...]:
    """Units of `make sim FULL=1`."""
    return tuple(full_matrix())
