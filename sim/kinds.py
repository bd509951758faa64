"""The kinds of units that a regression takes.

To add one: a row here with its configuration, names, runner and predictor, and rows of units in
matrix.py. A runner does all that is the kind's own; unit.py has what runners share, stream_unit.py
what those of units with one stream in and one out do.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from operator import attrgetter
from typing import Any

from ..model import DotConfig, DotQuantizeConfig, QuantizeConfig
from ..model.matmul_config import MatmulConfig
from .names import dot_name, dot_quantize_name, file_name, matmul_name, quantize_name


@dataclass(frozen=True)
class Kind:
    """What a regression must know of a kind of unit.

    of: the configuration of its `arguments`. full_name: a name that differs for different
    configurations, of any length. compared: what is compared with the model, in words. runner:
    "module:function" called with (UnitJob, Progress, UnitResult), which simulates and adds to the
    result. predictor: "module:function" of the golden model.
    """

    config: type
    of: Callable[..., Any]
    full_name: Callable[[Any], str]
    compared: str
    runner: str
    predictor: str

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
        "mxdot.sim.dot_unit:DotStream.run",
        "mxdot.sim.item:predict",
    ),
    "quantize": Kind(
        QuantizeConfig,
        QuantizeConfig,
        quantize_name,
        "blocks",
        "mxdot.sim.quantize.unit:QuantizeStream.run",
        "mxdot.sim.quantize.item:predict",
    ),
    "dot-quantize": Kind(
        DotQuantizeConfig,
        DotQuantizeConfig.of,
        dot_quantize_name,
        "requantised blocks",
        "mxdot.sim.dot_quantize.unit:DotQuantizeStream.run",
        "mxdot.sim.dot_quantize.item:predict",
    ),
    "matmul": Kind(
        MatmulConfig,
        MatmulConfig.of,
        matmul_name,
        "results of products",
        "mxdot.sim.matmul.unit:run",
        "mxdot.sim.matmul.product:predict",
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
