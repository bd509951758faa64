"""Mutants of Python source: one node of the syntax tree is another one."""

import ast
import random
from collections.abc import Collection, Iterator
from dataclasses import dataclass

_BINARY = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr, ast.Mod: ast.FloorDiv, ast.Div: ast.Mult, ast.Pow: ast.Mult,
}  # fmt: skip
_COMPARE = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip


@dataclass(frozen=True)
class Change:
    """One mutant: the whole text, its operator, the line of the original, right and wrong code."""

    text: str
    operator: str
    line: int
    right: str
    wrong: str

    @property
    def words(self) -> str:
        return f"{self.wrong} for {self.right}"


def sample(text: str, count: int, seed: str, kept: Collection[str] = ()) -> list[Change]:
    """`count` mutants, or all of them; of each operator as many, as far as there are.

    What no test of results can see stays: raised errors, assertions, `strict` of zip, docstrings,
    types, overloads, options of a launch, what only a GPU runs, values and functions in `kept`.
    """
    tree = ast.parse(text)
    places: dict[str, list[tuple[int, int]]] = {}
    for number, node in enumerate(_nodes(tree, kept)):
        for choice, (operator, _) in enumerate(_changes(node)):
            places.setdefault(operator, []).append((number, choice))
    for operator, changes in places.items():
        random.Random(f"{seed}/{operator}").shuffle(changes)
    chosen: list[tuple[int, int]] = []
    while len(chosen) < count and any(places.values()):
        chosen += [changes.pop() for changes in places.values() if changes]
    return [_mutant(text, *place, kept) for place in chosen[:count]]


def _mutant(text: str, node: int, choice: int, kept: Collection[str]) -> Change:
    tree = ast.parse(text)
    target = list(_nodes(tree, kept))[node]
    operator, other = _changes(target)[choice]
    right = ast.unparse(target)
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if value is target:
                setattr(parent, name, other)
            elif isinstance(value, list):
                setattr(parent, name, [other if item is target else item for item in value])
    ast.fix_missing_locations(tree)
    return Change(ast.unparse(tree), operator, target.lineno, right, ast.unparse(other))


def _nodes(tree: ast.AST, kept: Collection[str]) -> Iterator[ast.expr]:
    """Expressions that are computed, in the order of the text."""
    if _stays(tree, kept):
        return
    if isinstance(tree, ast.expr):
        yield tree
    for name, value in ast.iter_fields(tree):
        if name in {"annotation", "returns", "decorator_list", "type_params"}:
            continue
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, ast.AST):
                yield from _nodes(item, kept)


def _stays(tree: ast.AST, kept: Collection[str]) -> bool:
    """Whether mutants have a node and all below it as they are."""
    match tree:
        case ast.Raise() | ast.Assert() | ast.JoinedStr():
            return True
        case ast.keyword("strict", ast.Constant(True)) | ast.keyword("num_warps" | "num_stages"):
            return True
        case ast.FunctionDef(decorator_list=[ast.Name("overload")]):
            return True
        case ast.If(test):
            return ast.unparse(test) == "not device.interpreted()"
        case ast.Assign(targets=[target]):
            return ast.unparse(target) in kept
        case ast.FunctionDef(name):
            return name in kept
    return False


def _changes(node: ast.expr) -> list[tuple[str, ast.expr]]:
    """Replacements of an expression, each with the operator's name."""
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        if isinstance(node.op, ast.BitOr) and isinstance(node.right, ast.Constant):
            return []  # X | None, a type
        return [("swapped operator", ast.BinOp(node.left, _BINARY[type(node.op)](), node.right))]
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARE:
        operators = [_COMPARE[type(node.ops[0])](), *node.ops[1:]]
        return [("swapped comparison", ast.Compare(node.left, operators, node.comparators))]
    if isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        return [("swapped condition", ast.BoolOp(other, node.values))]
    if isinstance(node, ast.UnaryOp) and not isinstance(node.operand, ast.Constant):
        return [("dropped sign or negation", node.operand)]
    if isinstance(node, ast.IfExp):
        return [("swapped condition", ast.IfExp(node.test, node.orelse, node.body))]
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return [("off by one", ast.Constant(node.value + step)) for step in (1, -1)]
    if isinstance(node, ast.Constant) and type(node.value) is bool:
        return [("swapped condition", ast.Constant(not node.value))]
    return []
