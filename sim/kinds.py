"""The kinds of units in a regression: a row for each configuration (model/units/).

Each kind has a folder, with files of the same names:

    item, stimulus, features   items and their prediction, traffic, coverage
    unit, bench.sv             the bench top, its files in bulk mode, and the runner; dot-quantize
                               takes dot's bench top
    failures                   simpler items, to find the simplest that fails, and the report
    subject                    pins and beats, for the environment in bench/

An item of matmul is a whole job: this kind has a bench of its own, and no failures.py.

To add a kind, see also engine/regression_units.py. engine/unit.py holds steps that runners share,
engine/stream_unit.py the runner of units with one stream in and one out.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from operator import attrgetter

from ..model.units import DotConfig, DotQuantizeConfig, MatmulConfig, QuantizeConfig, UnitConfig


@dataclass(frozen=True)
class Kind:
    """Names of a kind's parts; some of them can be imported in the simulator alone.

    runner: "module:function" called with (UnitJob, Progress, UnitResult), which simulates and adds
    to the result. predictor: "module:function" of the golden model. subject: "module:class", the
    `Subject` that the environment in bench/ drives; "" for a kind with a bench of its own.
    """

    runner: str
    predictor: str
    subject: str = ""

    @property
    def run(self) -> Callable[..., None]:
        return named(self.runner)


KINDS: dict[type[UnitConfig], Kind] = {
    DotConfig: Kind(
        "mxdot.sim.dot.unit:DotStream.run",
        "mxdot.sim.dot.item:predict",
        "mxdot.sim.dot.subject:DotSubject",
    ),
    QuantizeConfig: Kind(
        "mxdot.sim.quantize.unit:QuantizeStream.run",
        "mxdot.sim.quantize.item:predict",
        "mxdot.sim.quantize.subject:QuantizeSubject",
    ),
    DotQuantizeConfig: Kind(
        "mxdot.sim.dot_quantize.unit:DotQuantizeStream.run",
        "mxdot.sim.dot_quantize.item:predict",
        "mxdot.sim.dot_quantize.subject:DotQuantizeSubject",
    ),
    MatmulConfig: Kind("mxdot.sim.matmul.unit:run", "mxdot.sim.matmul.item:predict"),
}


def kind_of(config: UnitConfig) -> Kind:
    """The kind of unit that `config` describes."""
    return KINDS[type(config)]


def named(function: str) -> Callable:
    """The function called "module:function", or "module:Class.function"."""
    module, _, name = function.partition(":")
    return attrgetter(name)(import_module(module))
