"""The subset of Sail that exports use, checked and turned into Python functions.

    functions = load(text)      # {"mxdot_exact_e4m3": <function>, ...}

A fragment has constants, signatures and functions of integers and truth values, and bits at the
interface. Names, numbers of arguments and types are checked as Sail's type checker would; a chain
of different operators without brackets is refused, because its meaning would depend on precedence.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

_TOKEN = re.compile(r"\s*(?://[^\n]*|(-?\d+|[A-Za-z_$][\w$.]*|->|==|!=|<=|>=|<[\w.]+>|[^\s\w]))")
_LIBRARY: dict[str, tuple[list[str], str, str]] = {
    "shl_int": (["int", "int"], "int", "_shl({}, {})"),
    "shr_int": (["int", "int"], "int", "_shr({}, {})"),
    "tdiv_int": (["int", "int"], "int", "_tdiv({}, {})"),
    "tmod_int": (["int", "int"], "int", "_tmod({}, {})"),
    "not_bool": (["bool"], "bool", "(not {})"),
    "get_slice_int": (["int", "int", "int"], "bits", "_slice({}, {}, {})"),
    "unsigned": (["bits"], "int", "{}"),
}
"""Functions of Sail's library: types of arguments, type of the result, Python."""
_OPERATORS = {
    **dict.fromkeys(("+", "-", "*"), ("int", "int")),
    **dict.fromkeys(("==", "!=", "<", ">", "<=", ">="), ("int", "bool")),
    **dict.fromkeys(("&", "|"), ("bool", "bool")),
}


def _shl(x: int, count: int) -> int:
    assert count >= 0
    return x << count


def _shr(x: int, count: int) -> int:
    assert count >= 0
    return x >> count


def _tdiv(x: int, y: int) -> int:
    assert x >= 0
    assert y > 0
    return x // y


def _tmod(x: int, y: int) -> int:
    return x - y * _tdiv(x, y)


def _slice(width: int, x: int, start: int) -> int:
    return (x >> start) & ((1 << width) - 1)


def load(text: str) -> dict[str, Callable[..., int]]:
    """Functions of a fragment by their names; SyntaxError or TypeError for what Sail refuses."""
    reader = _Reader(tokens(text))
    reader.file()
    space: dict = {f.__name__: f for f in (_shl, _shr, _tdiv, _tmod, _slice)}
    exec("\n".join(reader.python), space)
    return {name: space[name] for name in reader.signatures if name in space}


def tokens(text: str) -> list[str]:
    """Words and symbols, without comments."""
    words, place = [], 0
    text = text.rstrip()
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise SyntaxError(f"no word of Sail: {text[place : place + 20]!r}")
        if match[1] is not None:
            words.append(match[1])
        place = match.end()
    return words


@dataclass
class _Reader:
    words: list[str]
    at: int = 0
    signatures: dict[str, tuple[list[str], str]] = field(default_factory=dict)
    constants: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    result: str = ""
    python: list[str] = field(default_factory=list)

    def peek(self) -> str:
        return self.words[self.at] if self.at < len(self.words) else ""

    def take(self, expected: str | None = None) -> str:
        word = self.peek()
        if expected is not None and word != expected:
            raise SyntaxError(f"{expected!r} expected, not {self.words[self.at : self.at + 8]}")
        self.at += 1
        return word

    # Definitions --------------------------------------------------------------------------------

    def file(self) -> None:
        while self.peek():
            word = self.take()
            if word == "default":
                assert [self.take(), self.take()] == ["Order", "dec"]
            elif word == "$include":
                assert self.take() == "<prelude.sail>"
            elif word == "let":
                name = self.take()
                self.take(":")
                kind = self.kind()
                self.take("=")
                text = self.expression(kind)
                self.constants[name] = kind
                self.python.append(f"{name} = {text}")
            elif word == "val":
                self.signature()
            elif word == "function":
                self.define()
            else:
                raise SyntaxError(f"no definition begins with {word!r}")

    def kind(self) -> str:
        word = self.take()
        if word == "bits":
            self.take("(")
            self.take()
            self.take(")")
        elif word not in ("int", "bool"):
            raise SyntaxError(f"no type of the subset: {word!r}")
        return word

    def signature(self) -> None:
        name = self.take()
        self.take(":")
        kinds = []
        if self.peek() == "(":
            self.take()
            kinds.append(self.kind())
            while self.peek() == ",":
                self.take()
                kinds.append(self.kind())
            self.take(")")
        else:
            kinds.append(self.kind())
        self.take("->")
        self.signatures[name] = kinds, self.kind()

    def define(self) -> None:
        name = self.take()
        kinds, self.result = self.signatures[name]
        self.take("(")
        parameters = [self.take()]
        while self.peek() == ",":
            self.take()
            parameters.append(self.take())
        self.take(")")
        self.take("=")
        self.names = self.constants | dict(zip(parameters, kinds, strict=True))
        self.python.append(f"def {name}({', '.join(parameters)}):")
        if self.peek() == "{":
            self.block(1, returns=True)
        else:
            self.python.append(f" return {self.expression(self.result)}")

    # Statements ---------------------------------------------------------------------------------

    def block(self, depth: int, returns: bool = False) -> None:
        self.take("{")
        start = len(self.python)
        while self.peek() != "}":
            self.statement(depth, returns)
        self.take("}")
        if len(self.python) == start:
            self.python.append(" " * depth + "pass")

    def statement(self, depth: int, returns: bool) -> None:
        pad, word = " " * depth, self.peek()
        following = self.words[self.at + 1]
        if word == "var":
            self.take()
            name = self.take()
            self.take(":")
            kind = self.kind()
            self.take("=")
            self.python.append(f"{pad}{name} = {self.expression(kind)}")
            self.names[name] = kind
        elif word == "return":
            self.take()
            self.python.append(f"{pad}return {self.expression(self.result)}")
        elif word == "foreach":
            self.take()
            self.take("(")
            name = self.take()
            self.take("from")
            low = self.expression("int")
            self.take("to")
            high = self.expression("int")
            self.take(")")
            self.python.append(f"{pad}for {name} in range({low}, {high} + 1):")
            outside = dict(self.names)
            self.names[name] = "int"
            self.block(depth + 1)
            self.names = outside
        elif word == "while":
            self.take()
            self.python.append(f"{pad}while {self.expression('bool')}:")
            self.take("do")
            self.block(depth + 1)
        elif word == "if" and self._is_statement():
            self.take()
            self.python.append(f"{pad}if {self.expression('bool')}:")
            self.take("then")
            self.block(depth + 1)
            if self.peek() == "else":
                self.take()
                self.python.append(f"{pad}else:")
                self.block(depth + 1)
        elif following == "=":
            self.take()
            self.take()
            self.python.append(f"{pad}{word} = {self.expression(self.names[word])}")
        else:
            assert returns, f"a value that is not used: {word}"
            self.python.append(f"{pad}return {self.expression(self.result)}")
            assert self.peek() == "}", "statements after the value of a block"
            return
        if self.peek() != "}":
            self.take(";")
            if self.peek() == "}":
                raise SyntaxError("a semicolon at the end of a block")
        else:
            assert not returns, "the last statement of a function has no value"

    def _is_statement(self) -> bool:
        depth = 0
        for place in range(self.at, len(self.words)):
            depth += (self.words[place] == "(") - (self.words[place] == ")")
            if self.words[place] == "then" and depth == 0:
                return self.words[place + 1] == "{"
        return False

    # Expressions --------------------------------------------------------------------------------

    def expression(self, kind: str) -> str:
        text, own = self.chain()
        if own != kind:
            raise TypeError(f"{kind} expected, not {own}: {text}")
        return text

    def chain(self) -> tuple[str, str]:
        text, kind = self.atom()
        symbol = self.peek()
        while self.peek() in _OPERATORS:
            if self.take() != symbol:
                raise SyntaxError(f"brackets are missing around {text}")
            right, other = self.atom()
            operands, result = _OPERATORS[symbol]
            operands, result = ("bits", "bits") if kind == "bits" else (operands, result)
            if (kind, other) != (operands, operands):
                raise TypeError(f"{text} {symbol} {right} has {kind} and {other}")
            python = {"&": "and", "|": "or"}.get(symbol, symbol) if kind == "bool" else symbol
            text, kind = f"({text} {python} {right})", result
        return text, kind

    def atom(self) -> tuple[str, str]:
        word = self.take()
        if word == "(":
            text, kind = self.chain()
            self.take(")")
            return text, kind
        if word == "if":
            test = self.expression("bool")
            self.take("then")
            yes, kind = self.chain()
            self.take("else")
            return f"({yes} if {test} else {self.expression(kind)})", kind
        if word in ("true", "false"):
            return word.title(), "bool"
        if re.fullmatch(r"-?\d+", word):
            return f"({word})", "int"
        if self.peek() == "(":
            return self.call(word)
        return word, self.names[word]

    def call(self, name: str) -> tuple[str, str]:
        kinds, result, *_ = _LIBRARY.get(name) or self.signatures[name]
        self.take("(")
        arguments = []
        for place, kind in enumerate(kinds):
            if place:
                self.take(",")
            arguments.append(self.expression(kind))
        self.take(")")
        if name in _LIBRARY:
            return _LIBRARY[name][2].format(*arguments), result
        return f"{name}({', '.join(arguments)})", result
