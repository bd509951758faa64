"""UnitConfig: what the configuration of a unit has, whatever its kind."""

from abc import ABC, abstractmethod
from inspect import signature
from typing import Any, ClassVar, Self

from ..errors import integer

LANES = (4, 8, 16, 32, 64, 128)
"""Elements of a block that a unit takes."""
DEFAULT_STAGES = 4


class UnitConfig(ABC):
    """The one description of a unit, for the model, the RTL, the bench and the command line.

    Values of it are immutable and compare by what they hold; `str` is one line that names the unit,
    and that the command line's options repeat.
    """

    kind: ClassVar[str]
    """What the kind of unit is called where one is chosen."""
    title: ClassVar[str]
    """What such a unit is, in words."""
    items: ClassVar[str]
    """What such a unit computes, in the plural."""

    @property
    @abstractmethod
    def latency(self) -> int:
        """Cycles from the last input of a result to the result."""

    @property
    @abstractmethod
    def interval(self) -> int:
        """Cycles from one input to the next where nothing else holds it up."""

    @property
    def timing(self) -> str:
        """Latency and interval in words."""
        return f"latency {self.latency}, interval {self.interval}"

    @property
    @abstractmethod
    def name(self) -> str:
        """Another one for every other configuration: no spaces nor slashes, of any length."""

    @property
    @abstractmethod
    def arguments(self) -> dict[str, Any]:
        """The constructor's arguments as plain values of JSON."""

    @classmethod
    def of(cls, **arguments: Any) -> Self:
        """The unit of its `arguments`."""
        return cls(**arguments)

    @classmethod
    def keywords(cls) -> tuple[str, ...]:
        """What there is to choose about a unit of this kind, by name."""
        return tuple(signature(cls).parameters)

    @classmethod
    def of_keywords(cls, **keywords: Any) -> Self:
        """The unit of these of its `keywords`."""
        return cls(**keywords)


def block_size(name: str, value: object, least: int = LANES[0]) -> int:
    """`value` if it is a number of elements in `LANES`, or `least`, else ValueError."""
    legal = sorted({least, *LANES})
    if type(value) is not int or value not in legal:
        raise ValueError(f"{name} must be one of {', '.join(map(str, legal))}, not {value!r}")
    return value


def stage_count(name: str, stages: object, limits: tuple[int, int]) -> int:
    """`stages` if within the limits; of None, what is nearest to `DEFAULT_STAGES`."""
    low, high = limits
    if stages is None:
        return min(max(DEFAULT_STAGES, low), high)
    return integer(name, stages, low, high)
