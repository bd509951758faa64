"""Options of units, each described once: by the field of the configuration that holds it.

The constructor, the one line that names a unit, the command line, study files and the tables of the
documentation read the description. To add an option, add a field to a configuration.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, TypeVar, dataclass_transform

from ..errors import flag, integer

T = TypeVar("T")


def as_it_is(value: Any) -> Any:
    """`value`."""
    return value


@dataclass(frozen=True)
class Option:
    """Description of one option.

    The range is `convert`, `choices` or `limits`; a bool has none. With `joint` it depends on other
    options, and the configuration checks it when all are known.
    """

    keyword: str
    """Name of the field and of the constructor's parameter."""
    default: Any
    """Default of the constructor; None where other options decide."""
    help: str
    """Effect and legal values."""
    flag: str
    """Spelling on the command line."""
    metavar: str | None = None
    parse: Callable[[str], Any] = str
    """Value of a text of the command line, except for switches."""
    default_text: str = ""
    """Default in words."""
    convert: Callable[[Any], Any] | None = None
    """Value of the field for a legal argument; ValueError or TypeError for another."""
    choices: tuple[str | int, ...] = ()
    limits: tuple[int, int] | None = None
    joint: bool = False
    plain: Callable[[Any], Any] = as_it_is
    """Value of JSON that the constructor takes for a value of the field."""
    words: str = ""
    """Format of the value in the line that describes a unit."""
    part: str = ""
    """Format of the value in a unit's name."""

    @property
    def is_switch(self) -> bool:
        """True for an option without argument."""
        return isinstance(self.default, bool)

    @property
    def is_number(self) -> bool:
        """True for an option whose argument is an integer."""
        return not self.is_switch and self.parse is not str

    @property
    def key(self) -> str:
        """Name in a study file: a switch is its keyword there."""
        return self.keyword if self.is_switch else self.argument

    @property
    def argument(self) -> str:
        """Name among parsed arguments of the command line."""
        return self.flag.removeprefix("--").replace("-", "_")

    def check(self, value: Any) -> Any:
        """Value of the field for `value`; TypeError or ValueError when it is never legal."""
        value = value if self.convert is None else self.convert(value)
        if self.is_switch:
            return flag(self.keyword, value)
        if self.limits is not None:
            return integer(self.keyword, value, *self.limits)
        if self.choices and (type(value) is not type(self.choices[0]) or value not in self.choices):
            names = ", ".join(map(str, self.choices))
            raise ValueError(f"{self.keyword} must be one of {names}, not {value!r}")
        return value

    def spelled(self, value: Any) -> list[str]:
        """Words of a command line that set the option to a plain value."""
        return [self.flag] if self.is_switch else [self.flag, str(value)]


def option(*, default: Any, converter: Callable[[Any], Any] | None = None, **details: Any) -> Any:
    """Field of a configuration that is an option.

    details: fields of `Option`; those left out follow from the field's name and default.
    converter: `Option.convert`, under the name by which type checkers find the parameter's type.
    """
    return field(default=default, metadata={"option": (details | {"convert": converter})})


def shared(kind: type, keyword: str) -> Any:
    """Field of a configuration that shares its option with another `kind`."""
    original = options_of(kind)[keyword]
    return field(default=original.default, metadata={"option": vars(original)})


def resolved(value: T | None) -> T:
    """`value`: converter of options whose None the configuration replaces."""
    return value  # type: ignore[return-value]  # a promise


@dataclass_transform(frozen_default=True, field_specifiers=(option,))
def unit(kind: type[T]) -> type[T]:
    """Make a configuration a frozen dataclass, and list its options in its docstring."""
    made = dataclass(frozen=True)(kind)
    lines = [f"{o.keyword}: {o.help}.{default_of(o)}" for o in options_of(made).values()]
    made.__doc__ = "\n\n    ".join([str(kind.__doc__).strip(), *lines])
    return made


def default_of(option: Option) -> str:
    """Sentence that names the default; empty for a switch."""
    return f" Default: {option.default_text}." if option.default_text else ""


@cache
def options_of(kind: type) -> Mapping[str, Option]:
    """Options that fields of `kind` describe, by keyword, in the order of its parameters."""
    made = {}
    for each in fields(kind):
        if "option" in each.metadata:
            made[each.name] = _completed(each.name, each.default, each.metadata["option"])
    return made


def _completed(keyword: str, default: Any, details: Mapping[str, Any]) -> Option:
    flag = details.get("flag", f"--{keyword.replace('_', '-')}")
    word = flag.removeprefix("--")
    is_switch = isinstance(default, bool)
    is_plain = default is not None and not is_switch
    follows = {
        "parse": int if type(default) is int else str,
        "default_text": str(default) if is_plain else "",
        "words": word if is_switch else f"{word} {{}}",
        "part": word.replace("-", "") if is_switch else f"{keyword}_{{}}",
    }
    return Option(**{"keyword": keyword, "default": default, "flag": flag, **follows, **details})
