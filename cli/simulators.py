"""The simulators by name, and what the others than Verilator are asked to do."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..model.errors import choice

if TYPE_CHECKING:
    from ..sim.engine.regression_units import Unit

SIMULATORS = {
    "verilator": None,
    "cxxrtl": "mxdot.verify.simulators.cxxrtl:build",
    "bitsliced": "mxdot.verify.simulators.bitsliced:build",
}
"""Names, and what builds a simulation; None is Verilator's."""
_WITH_STATE = [name for name in SIMULATORS if name != "bitsliced"]


def is_alternative(args: argparse.Namespace) -> bool:
    """Whether another simulator than Verilator is named.

    ValueError for none of them; ModuleNotFoundError, before any work, where Yosys is missing.
    """
    if args.simulator is None or choice("simulator", args.simulator, SIMULATORS) == "verilator":
        return False
    from ..synth.tools import yosys_version

    args.needs = "compare"
    yosys_version()
    return True


def supported_units(simulator: str | None, units: "Sequence[Unit]") -> "list[Unit]":
    """The units that it can simulate; ValueError where that is none."""
    from ..sim.engine.stream_unit import restarts

    if simulator is None or simulator in _WITH_STATE:
        return list(units)
    chosen = [unit for unit in units if restarts(unit.config)]
    if not chosen:
        names = " or ".join(_WITH_STATE)
        raise ValueError(f"simulator must be {names} for {units[0].name}: its items share state")
    return chosen
