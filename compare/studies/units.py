"""Units of a comparison: those that this project generates, and any other Verilog."""

import hashlib
import shlex
from dataclasses import dataclass, field
from typing import Any

from ...model import Accumulator, DotConfig, ElementFormat, accumulator, format_pairs
from ..accuracy.scheme_units import is_known

TOP = "mxdot_dot"


@dataclass(frozen=True)
class Generated:
    """A unit of this project, of one pair of formats."""

    config: DotConfig

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle texts, so that formats stay the objects of the format table."""
        return _generated, (self.config.arguments,)

    @property
    def name(self) -> str:
        """One line that names the unit."""
        return str(self.config)

    @property
    def format(self) -> str:
        """Formats of the elements, as `DotConfig` reads them."""
        return self.config.formats_text

    @property
    def accumulator(self) -> str:
        return str(self.config.accumulator)

    @property
    def lanes(self) -> int:
        """Block size."""
        return self.config.lanes

    @property
    def stages(self) -> int:
        """Registers from input to output."""
        return self.config.stages

    @property
    def latency(self) -> int:
        """Cycles from the last block to the result."""
        return self.config.latency

    @property
    def interval(self) -> int:
        """Cycles between chained blocks of one dot product."""
        return self.config.interval

    @property
    def rule(self) -> tuple[tuple[ElementFormat, ElementFormat], Accumulator] | None:
        """Formats and accumulator where they tell its accuracy; None for integer results,
        micro-exponents and other scales than one of E8M0 for all lanes, whose operands are those of
        a scheme (`accuracy.scheme_units`)."""
        if is_known(self.config) or self.config.has_integers:
            return None
        return self.config.formats[0], self.config.accumulator

    @property
    def has_accuracy(self) -> bool:
        """Whether the golden model tells its accuracy."""
        return self.rule is not None or is_known(self.config)

    @property
    def key(self) -> Any:
        """Key of the unit's cost, besides the code that generates it."""
        return ["generated", self.name]

    @property
    def options(self) -> str:
        """The options of `mxdot compare` and `mxdot verilog` that make it again."""
        return self.options_without(())

    def options_without(self, left_out: tuple[str, ...]) -> str:
        """`options`, except those of the keywords `left_out`."""
        config = self.config
        named = ["scales", "zero_points"] if config.has_integers else []
        others = (n for n in config.named_options() if n in named or config.is_shown(n))
        names = ["formats", "accumulator", "lanes", "stages", *others]
        return shlex.join(config.command_words([n for n in names if n not in left_out]))


def _generated(arguments: dict[str, Any]) -> Generated:
    return Generated(DotConfig(**arguments))


@dataclass(frozen=True)
class Foreign:
    """A unit that this project did not generate: its Verilog, and what is said of it.

    Given a format, an accumulator and lanes, it is said to compute what that rule computes, and
    the golden model tells its accuracy; without them it has a cost only.
    """

    name: str
    verilog: str = field(repr=False)
    top: str
    files: tuple[str, ...]
    """Paths of the Verilog, for the command."""
    format: str | None = None
    accumulator: str | None = None
    lanes: int | None = None
    stages: int | None = None
    latency: int | None = None
    interval: int | None = None
    parameters: tuple[tuple[str, str | int], ...] = ()
    """Values of parameters of the top module."""

    @property
    def reading(self) -> dict[str, Any]:
        """How `synth.measure` reads the Verilog."""
        return {
            "parameters": dict(self.parameters),
            "systemverilog": any(file.endswith(".sv") for file in self.files),
            "source": self.files[0],
        }

    @property
    def rule(self) -> tuple[tuple[ElementFormat, ElementFormat], Accumulator] | None:
        """Formats and accumulator for the golden model; None when they were not given."""
        if self.format is None or self.accumulator is None or self.lanes is None:
            return None
        return format_pairs(self.format)[0], accumulator(self.accumulator)

    @property
    def has_accuracy(self) -> bool:
        """Whether the golden model tells its accuracy."""
        return self.rule is not None

    @property
    def key(self) -> Any:
        """Key of the unit's cost."""
        text = hashlib.sha256(self.verilog.encode()).hexdigest()
        return ["foreign", self.top, text, self.parameters, self.reading["systemverilog"]]


Unit = Generated | Foreign
