"""The syntax of Liberty files: groups of attributes, and Boolean functions.

A group is `name (arguments) { ... }`, an attribute `name : value ;` or `name (arguments);`.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate

from .errors import SynthesisError

_CONTINUED = re.compile(r"\\\r?\n")
_TOKEN = re.compile(
    r'"(?:[^"\\]|\\.)*"|(?P<skipped>/\*.*?(?:\*/|\Z)|//[^\n]*|\\\r?\n)'
    r'|[{}();:,\n]|(?:(?!/[*/]|\\\r?\n)[^\s{}();:,"])+',
    re.DOTALL,
)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
REPEATED = ("fanout_length",)
"""Attributes that a group may repeat; all values count, separated by `;`."""
GROUP_NESTING = 50
"""Limit for nested groups; real libraries have about six levels."""


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
        """Set an attribute; one of REPEATED keeps earlier values."""
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
    """Parse a number; ValueError for other text, for `nan`, and beyond the range of float64."""
    value = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(value):
        raise ValueError(f"{text!r} is no finite number")
    return value


def number_of(group: Group, name: str, source: str) -> float:
    """The number of an attribute, 0 where it is absent; SynthesisError for other text."""
    text = group.attributes.get(name, "0")
    try:
        return finite(text)
    except ValueError:
        raise SynthesisError(
            f"library {source}, line {group.line}: {name} must be a number, not {text!r}"
        ) from None


class _Tokens:
    """Tokens of a text in order; newlines only on request."""

    def __init__(self, text: str) -> None:
        self._tokens: Iterator[re.Match] = _TOKEN.finditer(text)
        self._back = ""
        self.line = 1

    def back(self, token: str) -> None:
        """Return `token` again at the next call of `next`."""
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
    """Read statements into `group`, at nesting `depth`, up to its closing brace."""
    if depth > GROUP_NESTING:
        raise ValueError(f"groups must be at most {GROUP_NESTING} deep in one another")
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


_FUNCTION_TOKEN = re.compile(r"\s*([A-Za-z_]\w*(?:\[\d+\])?|[01]|[!'&*|+^()])", re.ASCII)

FUNCTION_NESTING = 100
"""Limit for nested parentheses in an expression; Python reads 200."""


@dataclass(frozen=True)
class Function:
    """A Boolean function as a Python expression.

    `expression` combines names in braces, `ones` (all bits set), `0`, `&`, `|` and `^`, so that
    each name can stand for as many cases as an integer has bits.
    """

    expression: str
    names: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> "Function":
        """Parse Liberty's notation.

        `!a` or `a'` is NOT. Binary operators from the strongest: `^` XOR; `&`, `*` or a space AND;
        `|` or `+` OR. ValueError when `text` is not a Boolean function.
        """
        parser = _Parser(text)
        expression = parser.either()
        if parser.tokens:
            raise ValueError(f"{text!r} is no Boolean function")
        parser.check_depth(_depth(expression))
        return cls(expression, tuple(sorted(parser.names)))

    @property
    def pin(self) -> str | None:
        """Its name if it is a single pin without operation, else None."""
        name = "".join(self.names)
        return name if self.expression == f"{{{name}}}" else None

    def substitute(self, values: Mapping[str, str]) -> str:
        """The expression with each name replaced by its entry of `values`."""
        return re.sub(r"\{(.*?)\}", lambda found: values[found[1]], self.expression)

    def evaluate(self, values: Mapping[str, int], ones: int) -> int:
        """Evaluate with these values; each is an integer whose bits are separate cases."""
        texts = {name: str(values[name]) for name in self.names}
        return eval(self.substitute(texts), {"ones": ones})


class _Parser:
    """Recursive descent over the tokens, which are in reverse order."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.names: set[str] = set()
        self.depth = 0
        tokens = _FUNCTION_TOKEN.findall(text)
        if "".join(tokens) != re.sub(r"\s", "", text) or not tokens:
            raise ValueError(f"{text!r} is no Boolean function")
        self.tokens = tokens[::-1]

    def either(self) -> str:
        terms = [self.both()]
        while self._take("|+"):
            terms.append(self.both())
        return _join(" | ", terms)

    def both(self) -> str:
        terms = [self.differ()]
        while self._take("&*") or (self.tokens and self.tokens[-1] not in ")|+^'"):
            terms.append(self.differ())
        return _join(" & ", terms)

    def differ(self) -> str:
        terms = [self.operand()]
        while self._take("^"):
            terms.append(self.operand())
        return _join(" ^ ", terms)

    def operand(self) -> str:
        self.depth += 1
        self.check_depth(self.depth)
        value = self._operand()
        self.depth -= 1
        return value

    def check_depth(self, depth: int) -> None:
        if depth > FUNCTION_NESTING:
            raise ValueError(f"a Boolean function must be nested at most {FUNCTION_NESTING} deep")

    def _operand(self) -> str:
        if self._take("!"):
            return f"({self.operand()} ^ ones)"
        if self._take("("):
            value = self.either()
            if not self._take(")"):
                raise ValueError(f"{self.text!r} is no Boolean function")
        else:
            value = self._name()
        while self._take("'"):
            value = f"({value} ^ ones)"
        return value

    def _name(self) -> str:
        token = self.tokens.pop() if self.tokens else ""
        if token in ("0", "1"):
            return "ones" if token == "1" else "0"
        if not re.match(r"[A-Za-z_]", token):
            raise ValueError(f"{self.text!r} is no Boolean function")
        self.names.add(token)
        return f"{{{token}}}"

    def _take(self, tokens: str) -> bool:
        if self.tokens and self.tokens[-1] in tokens:
            self.tokens.pop()
            return True
        return False


def _depth(expression: str) -> int:
    """Greatest nesting of parentheses."""
    steps = ({"(": 1, ")": -1}.get(character, 0) for character in expression)
    return max(accumulate(steps))


def _join(operator: str, terms: list[str]) -> str:
    return terms[0] if len(terms) == 1 else f"({operator.join(terms)})"
