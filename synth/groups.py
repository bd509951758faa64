"""The syntax of Liberty files.

A group is `name (arguments) { ... }`, an attribute `name : value ;` or `name (arguments);`.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from .errors import SynthesisError

_CONTINUED = re.compile(r"\\\r?\n")
_TOKEN = re.compile(
    r'"(?:[^"\\]|\\.)*"|(?P<skipped>/\*.*?(?:\*/|\Z)|//[^\n]*|\\\r?\n)'
    r'|[{}();:,\n]|(?:(?!/[*/]|\\\r?\n)[^\s{}();:,"])+',
    re.DOTALL,
)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
REPEATED = ("fanout_length",)
"""Attributes that a group has several of: each counts, divided by `;`."""
NESTING = 50
"""Groups in one another; real libraries have six or so."""


@dataclass
class Group:
    """One group with its attributes and subgroups; the last attribute of a name counts."""

    kind: str
    arguments: list[str]
    line: int
    attributes: dict[str, str] = field(default_factory=dict)
    groups: list["Group"] = field(default_factory=list)

    def of(self, *kinds: str) -> list["Group"]:
        """Subgroups of these kinds."""
        return [group for group in self.groups if group.kind in kinds]

    def add(self, name: str, value: str) -> None:
        """Set an attribute; one of REPEATED keeps its other values."""
        earlier = self.attributes.get(name) if name in REPEATED else None
        self.attributes[name] = value if earlier is None else f"{earlier};{value}"


def parse_groups(text: str, source: str) -> Group:
    """The outermost group of `text`."""
    tokens = _Tokens(text)
    top = Group("", [], 1)
    try:
        _statements(tokens, top, depth=0)
    except ValueError as error:
        raise SynthesisError(f"library {source}, line {tokens.line}: {error}") from None
    libraries = top.of("library")
    if not libraries:
        raise SynthesisError(f"library {source} has no library group: this is not a Liberty file")
    return libraries[0]


def finite(text: str) -> float:
    """The number that `text` is; ValueError for none, as for `nan`, and for one beyond a float."""
    value = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(value):
        raise ValueError(f"{text!r} is no finite number")
    return value


class _Tokens:
    """The tokens of a text one after the other, newlines only where they are asked for."""

    def __init__(self, text: str) -> None:
        self._tokens: Iterator[re.Match] = _TOKEN.finditer(text)
        self._back = ""
        self.line = 1

    def back(self, token: str) -> None:
        """Make `token` the next one."""
        self._back = token

    def next(self, newlines: bool = False) -> str:
        """The next token, empty at the end."""
        if self._back:
            token, self._back = self._back, ""
            return token
        for found in self._tokens:
            token = found[0]
            self.line += token.count("\n")
            if not found["skipped"] and (token != "\n" or newlines):
                return _CONTINUED.sub("\n", token)
        return ""


def _statements(tokens: _Tokens, group: Group, depth: int) -> None:
    """Read statements into `group`, which is in so many others, up to its closing brace."""
    if depth > NESTING:
        raise ValueError(f"groups must be at most {NESTING} deep in one another")
    closing = depth > 0
    while True:
        token = tokens.next()
        if token == "}" and closing:
            return
        if not token:
            if closing:
                raise ValueError(f"the group {group.kind} of line {group.line} is not closed")
            return
        if token == ";":
            continue
        if token in "{}():,":
            raise ValueError(f"a statement cannot begin with {token!r}")
        _statement(tokens, group, token, depth)


def _statement(tokens: _Tokens, group: Group, name: str, depth: int) -> None:
    line = tokens.line
    after = tokens.next()
    if after == ":":
        words = []
        while (token := tokens.next(newlines=True)) not in (";", "\n", ""):
            if token == "}":
                raise ValueError(f"the value of {name} has no end")
            words.append(token.strip('"'))
        group.attributes[name] = " ".join(words)
        return
    if after != "(":
        raise ValueError(f"{name[:40]!r} must be followed by ':' or '('")
    arguments = []
    while (token := tokens.next()) != ")":
        if token in ("", "{", "}", ";"):
            raise ValueError(f"the parenthesis after {name} is not closed")
        if token != ",":
            arguments.append(token.strip('"'))
    following = tokens.next()
    if following == "{":
        child = Group(name, arguments, line)
        _statements(tokens, child, depth + 1)
        group.groups.append(child)
        return
    group.add(name, ",".join(arguments))
    if following != ";":  # some libraries leave it out
        tokens.back(following)
