"""Programs of `rules.py` for one rule: functions with types, without branches never taken.

program = specialised(parameters)      functions from callees to callers, constants that they use
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from . import numbers, rules

INT, WIDE, BOOL = "int", "Wide", "bool"
ARRAYS = ("CodesA", "CodesB", "Scales")
BUILT_IN = {"wide": WIDE, "narrow": INT, "length": INT, "low_part": WIDE}
"""Types of the results of functions that every language has of its own."""


@dataclass(frozen=True)
class Function:
    """One function. parameters, variables: types by name; loops: names of loops' counters."""

    name: str
    text: str
    parameters: dict[str, str]
    result: str
    variables: dict[str, str]
    loops: frozenset[str]
    body: list[ast.stmt]


@dataclass(frozen=True)
class Program:
    """Functions, each after those that it calls, and the constants that they read."""

    functions: list[Function]
    constants: dict[str, int]

    @property
    def results(self) -> dict[str, str]:
        """Types of results of all functions."""
        return BUILT_IN | {f.name: f.result for f in self.functions}


@cache
def _source() -> dict[str, ast.FunctionDef]:
    files = numbers.__file__, rules.__file__
    texts = [Path(file).read_text(encoding="utf-8") for file in files]
    nodes = [node for text in texts for node in ast.parse(text).body]
    return {node.name: node for node in nodes if isinstance(node, ast.FunctionDef)}


def constants() -> dict[str, int]:
    """Constants and parameters of `numbers.py` with the values that they have there."""
    return {name: value for name, value in vars(numbers).items() if name.isupper()}


def specialised(parameters: Mapping[str, int], main: str) -> Program:
    """The program of the function `main`, with values for some parameters of `numbers.py`."""
    known = {**constants(), **parameters}
    source = {name: _folded(node.body, known) for name, node in _source().items()}
    order: list[str] = []
    _visit(main, source, order)
    functions = [_function(_source()[name], source[name]) for name in order]
    names = {
        n.id for f in functions for s in f.body for n in ast.walk(s) if isinstance(n, ast.Name)
    }
    names.add("WIDE_BITS")  # of the wide integers' type
    return Program(functions, {name: known[name] for name in known if name in names})


def _visit(name: str, source: Mapping[str, list[ast.stmt]], order: list[str]) -> None:
    """Append the functions that `name` calls, then `name`."""
    for called in _calls(source[name]):
        if called not in (*order, *BUILT_IN, name):
            _visit(called, source, order)
    order.append(name)


def _calls(body: list[ast.stmt]) -> Iterator[str]:
    for statement in body:
        for node in ast.walk(statement):
            match node:
                case ast.Call(func=ast.Name(id=name)) if name != "range":
                    yield name


def _folded(body: list[ast.stmt], known: Mapping[str, int]) -> list[ast.stmt]:
    """Statements without docstring, and without branches that constants decide."""
    kept: list[ast.stmt] = []
    for statement in body:
        if isinstance(statement, ast.Expr):
            continue
        statement = _Folder(known).visit(ast.parse(ast.unparse(statement)).body[0])
        if isinstance(statement, ast.If):
            branches = _folded(statement.body, known), _folded(statement.orelse, known)
            decided = _decided(statement.test, known)
            if decided is None:
                kept.append(ast.If(statement.test, *branches))
            else:
                kept += branches[0] if decided else branches[1]
        elif isinstance(statement, ast.For | ast.While):
            statement.body = _folded(statement.body, known)
            if statement.body:
                kept.append(statement)
        else:
            kept.append(statement)
        if kept and isinstance(kept[-1], ast.Return):
            break
    return kept


def _decided(test: ast.expr, known: Mapping[str, int]) -> bool | None:
    """Value of a test of constants; None for another one."""
    names = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
    if names <= set(known) and not any(isinstance(node, ast.Call) for node in ast.walk(test)):
        return bool(eval(ast.unparse(test), dict(known)))
    return None


class _Folder(ast.NodeTransformer):
    """Choice among values by constants: one value; a false constant ends a conjunction."""

    def __init__(self, known: Mapping[str, int]) -> None:
        self.known = known

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:  # the name that ast calls
        node = ast.IfExp(self.visit(node.test), self.visit(node.body), self.visit(node.orelse))
        decided = _decided(node.test, self.known)
        return node if decided is None else node.body if decided else node.orelse

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        values = [self.visit(value) for value in node.values]
        stops = isinstance(node.op, ast.Or)
        kept = []
        for value in values:
            decided = _decided(value, self.known)
            if decided is stops:
                return ast.Constant(stops)
            if decided is None:
                kept.append(value)
        if not kept:
            return ast.Constant(not stops)
        return kept[0] if len(kept) == 1 else ast.BoolOp(node.op, kept)


def _function(node: ast.FunctionDef, body: list[ast.stmt]) -> Function:
    parameters = {a.arg: ast.unparse(a.annotation) for a in node.args.args if a.annotation}
    assert node.returns is not None
    function = Function(
        node.name,
        " ".join((ast.get_docstring(node) or "").split()),
        parameters,
        ast.unparse(node.returns),
        {},
        frozenset(_loops(body)),
        body,
    )
    for statement in _statements(body):
        if isinstance(statement, ast.Assign):
            target = statement.targets[0]
            assert isinstance(target, ast.Name)
            kind = type_of(statement.value, function)
            function.variables.setdefault(target.id, kind)
    return function


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        yield statement
        if isinstance(statement, ast.If | ast.For | ast.While):
            yield from _statements(statement.body + statement.orelse)


def _loops(body: list[ast.stmt]) -> Iterator[str]:
    for statement in _statements(body):
        if isinstance(statement, ast.For):
            assert isinstance(statement.target, ast.Name)
            yield statement.target.id


@cache
def _results() -> dict[str, str]:
    returns = {name: node.returns for name, node in _source().items()}
    return {name: ast.unparse(kind) for name, kind in returns.items() if kind is not None}


def type_of(node: ast.expr, function: Function) -> str:
    """Type of an expression in a function."""
    match node:
        case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
            return BOOL
        case ast.Constant(value=bool()):
            return BOOL
        case ast.BinOp():
            return type_of(node.left, function)
        case ast.IfExp():
            return type_of(node.body, function)
        case ast.Call(func=ast.Name(id=name)):
            return (_results() | BUILT_IN)[name]
        case ast.Name(id=name):
            return (function.variables | function.parameters).get(name, INT)
    return INT
