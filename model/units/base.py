"""UnitConfig: what the configurations of all kinds of units have."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, Self

from ..errors import integer
from .options import Option, options_of

LANES = (4, 8, 16, 32, 64, 128)
"""Elements of a block that a unit takes."""
DEFAULT_STAGES = 4


class UnitConfig(ABC):
    """The one description of a unit, for the model, the RTL, the bench and the command line.

    A kind is a class with the decorator `unit` whose fields are made by `option`. Its values are
    immutable and compare by their fields; `str` is one line that names the unit.
    """

    kind: ClassVar[str]
    """Name of the kind where one is chosen."""
    title: ClassVar[str]
    """The kind in words."""
    items: ClassVar[str]
    """Name of the results, in the plural."""

    def __post_init__(self) -> None:
        for name, option in options_of(type(self)).items():
            if not option.joint:
                vars(self)[name] = option.check(vars(self)[name])
        self._resolve()

    @abstractmethod
    def _resolve(self) -> None:
        """Check `joint` options and what options are together, and replace None."""

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
        """Text that differs between any two configurations: no spaces nor slashes, any length."""

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of `of` as plain values of JSON."""
        options = options_of(type(self))
        return {name: option.plain(getattr(self, name)) for name, option in options.items()}

    @classmethod
    def of(cls, **arguments: Any) -> Self:
        """The unit of its `arguments`."""
        return cls(**arguments)

    @classmethod
    def options(cls) -> dict[str, Option]:
        """Options that choose a unit of this kind, by keyword."""
        return dict(options_of(cls))

    @classmethod
    def of_options(cls, **values: Any) -> Self:
        """The unit of values of `options`, by keyword."""
        return cls(**values)

    def default_of(self, name: str) -> Any:
        """Value of the option where it is not given."""
        option = options_of(type(self))[name]
        return option.check(option.default)

    def is_shown(self, name: str) -> bool:
        """Whether the option is part of the unit's line and name."""
        return getattr(self, name) != self.default_of(name)

    def words_of(self, names: Iterable[str]) -> str:
        """Options of these names in the line that describes the unit, each after a space."""
        return "".join(f" {text}" for text in self._shown(names, "words"))

    def parts_of(self, names: Iterable[str]) -> list[str]:
        """Options of these names in the unit's name."""
        return [text.replace(":", "_") for text in self._shown(names, "part")]

    def command_words(self, names: Iterable[str]) -> list[str]:
        """Options of these names as a command line sets them."""
        options = options_of(type(self))
        given = {name: options[name].plain(getattr(self, name)) for name in names}
        return [word for name, value in given.items() for word in options[name].spelled(value)]

    def _shown(self, names: Iterable[str], form: str) -> Iterable[str]:
        for name in filter(self.is_shown, names):
            option = options_of(type(self))[name]
            yield getattr(option, form).format(option.plain(getattr(self, name)))


def block_size(name: str, value: object, least: int = LANES[0]) -> int:
    """`value` if it is a number of elements in `LANES`, or `least`, else ValueError."""
    legal = sorted({least, *LANES})
    if type(value) is not int or value not in legal:
        raise ValueError(f"{name} must be one of {', '.join(map(str, legal))}, not {value!r}")
    return value


def stage_count(name: str, stages: object, limits: tuple[int, int]) -> int:
    """`stages` if within the limits; for None, the legal number nearest to `DEFAULT_STAGES`."""
    low, high = limits
    if stages is None:
        return min(max(DEFAULT_STAGES, low), high)
    return integer(name, stages, low, high)
