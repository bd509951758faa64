"""The kinds of units that a regression takes.

To add one: a folder beside those of the others with the same files (item, stimulus, features,
subject, unit, report, build, bench.sv), a row here, and rows of units in engine/matrix.py. A runner
does all that is the kind's own; engine/unit.py has what runners share, engine/stream_unit.py what
those of units with one stream in and one out do.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from operator import attrgetter
from typing import Any

from ..model import DotConfig, DotQuantizeConfig, QuantizeConfig
from ..model.matmul_config import MatmulConfig
from .engine.names import dot_name, dot_quantize_name, file_name, matmul_name, quantize_name


@dataclass(frozen=True)
class Kind:
    """What a regression must know of a kind of unit.

    of: the configuration of its `arguments`. full_name: a name that differs for different
    configurations, of any length. compared: what is compared with the model, in words. runner:
    "module:function" called with (UnitJob, Progress, UnitResult), which simulates and adds to the
    result. predictor: "module:function" of the golden model. subject: "module:class", the `Subject`
    that the environment in bench/ drives; "" for a kind with a bench of its own.
    """

    config: type
    of: Callable[..., Any]
    full_name: Callable[[Any], str]
    compared: str
    runner: str
    predictor: str
    subject: str = ""

    def unit_name(self, config: Any) -> str:
        """A file name that differs for different configurations."""
        return file_name(self.full_name(config))

    @property
    def run(self) -> Callable[..., None]:
        """The runner."""
        return named(self.runner)


KINDS = {
    "dot": Kind(
        DotConfig,
        DotConfig,
        dot_name,
        "dot products",
        "mxdot.sim.dot.unit:DotStream.run",
        "mxdot.sim.dot.item:predict",
        "mxdot.sim.dot.subject:DotSubject",
    ),
    "quantize": Kind(
        QuantizeConfig,
        QuantizeConfig,
        quantize_name,
        "blocks",
        "mxdot.sim.quantize.unit:QuantizeStream.run",
        "mxdot.sim.quantize.item:predict",
        "mxdot.sim.quantize.subject:QuantizeSubject",
    ),
    "dot-quantize": Kind(
        DotQuantizeConfig,
        DotQuantizeConfig.of,
        dot_quantize_name,
        "requantised blocks",
        "mxdot.sim.dot_quantize.unit:DotQuantizeStream.run",
        "mxdot.sim.dot_quantize.item:predict",
        "mxdot.sim.dot_quantize.subject:DotQuantizeSubject",
    ),
    "matmul": Kind(
        MatmulConfig,
        MatmulConfig.of,
        matmul_name,
        "results of products",
        "mxdot.sim.matmul.unit:run",
        "mxdot.sim.matmul.item:predict",
    ),
}


def kind_name(config: Any) -> str:
    """The name of the kind of unit that `config` describes."""
    return next(name for name, kind in KINDS.items() if type(config) is kind.config)


def kind_of(config: Any) -> Kind:
    """The kind of unit that `config` describes."""
    return KINDS[kind_name(config)]


def named(function: str) -> Callable:
    """The function called "module:function", or "module:Class.function"."""
    module, _, name = function.partition(":")
    return attrgetter(name)(import_module(module))
