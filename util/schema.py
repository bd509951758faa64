"""Tables of a TOML file, checked against their schema: keys, types and ranges, by msgspec."""

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec
from msgspec import UNSET

from ..model.errors import reason_of
from ..model.files import read_text

WORDS = {int: "an integer", str: "text", bool: "true or false"}
"""Types in the words of a message; others are `Annotated` with a description of their own."""
LARGEST = 2**20  # bytes of a file
MOST_DOTS = 1000  # of a line: tomllib's time is quadratic in the parts of a key
MOST_TABLES = 1000  # of a name
DEEPEST = 16  # tables and lists inside one another


class Table(msgspec.Struct, forbid_unknown_fields=True):
    """A table of a file; what it leaves out is UNSET."""

    def given(self) -> dict[str, Any]:
        """Fields that are set, by name."""
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name: value for name, value in values.items() if value is not UNSET}


T = TypeVar("T", bound=Table)


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file; ValueError naming it when it cannot be read."""
    try:
        text = read_text(path, LARGEST)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {reason_of(error)}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not valid TOML: {error}") from None
    if max(line.count(".") for line in text.split("\n")) > MOST_DOTS:
        raise ValueError(f"{path} must have at most {MOST_DOTS} dots in a line")
    try:
        content = tomllib.loads(text)
    except ValueError as error:  # of tomllib, or of an integer of thousands of digits
        raise ValueError(f"{path} is not valid TOML: {error}") from None
    except RecursionError:
        content = None
    if content is None or _is_deeper(content, DEEPEST):
        raise ValueError(f"{path} must not nest its values more than {DEEPEST} deep")
    return content


def _is_deeper(value: Any, levels: int) -> bool:
    """Whether more than `levels` tables and lists are inside one another."""
    if not isinstance(value, dict | list):
        return False
    inside = value.values() if isinstance(value, dict) else value
    return not levels or any(_is_deeper(each, levels - 1) for each in inside)


def check_count(title: str, tables: Sequence[Any]) -> None:
    """ValueError for far more tables `title` than anyone writes."""
    if len(tables) > MOST_TABLES:
        raise ValueError(f"{title} must be there at most {MOST_TABLES} times, not {len(tables)}")


def checked(content: Any, kind: type[T], title: str = "") -> T:
    """`content` as a `kind`; ValueError in one line: the parameter, what it may be, its value.

    title: the table as messages name it, `[cost]` or `[[sweep]]`; may be empty.
    """
    if not isinstance(content, dict):
        raise ValueError(f"{title.strip('[]')} must be a table {title}, not {content!r}")
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
    if unknown := re.search(r"unknown field `(.*)`", message, re.DOTALL):
        keys = ", ".join(kind.__struct_fields__)
        raise ValueError(f"{title} keys are {keys}, not {unknown[1]!r}".lstrip())
    if missing := re.search(r"missing required field `(.*)`", message):
        raise ValueError(f"{title} {missing[1]} is missing".lstrip())
    name = re.findall(r"\w+", path)[0]
    words = _words(get_type_hints(kind, include_extras=True)[name])
    raise ValueError(f"{title} {name} must be {words}, not {content[name]!r}".lstrip())


def _words(hint: Any) -> str:
    """Type of a field with its range."""
    known = [each.description for each in getattr(hint, "__metadata__", ()) if each.description]
    return known[0] if known else WORDS.get(hint) or _words(get_args(hint)[0])
