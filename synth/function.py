"""Boolean functions of library cells."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

_TOKEN = re.compile(r"\s*([A-Za-z_]\w*(?:\[\d+\])?|[01]|[!'&*|+^()])", re.ASCII)

NESTING = 100
"""Parentheses in one another that an expression may have; Python reads 200."""


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
        """The function of Liberty's notation.

        `!a` or `a'` is NOT; then, from the strongest, `^` XOR, `&` `*` or a space AND, `|` `+` OR.
        ValueError when `text` is no such function.
        """
        parser = _Parser(text)
        expression = parser.either()
        if parser.tokens:
            raise ValueError(f"{text!r} is no Boolean function")
        parser.check_depth(_depth(expression))
        return cls(expression, tuple(sorted(parser.names)))

    @property
    def pin(self) -> str | None:
        """The name that it is, without any operation; None for another function."""
        name = "".join(self.names)
        return name if self.expression == f"{{{name}}}" else None

    def substitute(self, values: Mapping[str, str]) -> str:
        """The expression with each name replaced by its entry of `values`."""
        return re.sub(r"\{(.*?)\}", lambda found: values[found[1]], self.expression)

    def evaluate(self, values: Mapping[str, int], ones: int) -> int:
        """The value where each name has the one given."""
        texts = {name: str(values[name]) for name in self.names}
        return eval(self.substitute(texts), {"ones": ones})


class _Parser:
    """Recursive descent over the tokens, which are in reverse order."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.names: set[str] = set()
        self.depth = 0
        tokens = _TOKEN.findall(text)
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
        if depth > NESTING:
            raise ValueError(f"a Boolean function must be nested at most {NESTING} deep")

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
    """Parentheses in one another, at the deepest place."""
    steps = ({"(": 1, ")": -1}.get(character, 0) for character in expression)
    return max(accumulate(steps))


def _join(operator: str, terms: list[str]) -> str:
    return terms[0] if len(terms) == 1 else f"({operator.join(terms)})"
