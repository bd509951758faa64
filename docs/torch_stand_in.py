"""A module `torch` of names alone, so that the reference of mxdot.gpu needs no PyTorch.

Capitalised names are classes, to inherit from and to annotate with; others stand for anything, also
as decorators, which leave docstrings as they are. Sphinx's own mocks make no `Tensor | None`.
"""

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import FunctionType, ModuleType
from typing import Any

OPERATOR = ("register_fake", "register_autograd", "register_kernel")
"""Decorators that a function has once it is an operator."""


class Class(type):
    """A class that has any name."""

    def __getattr__(cls, name: str) -> Any:
        return _named(name, cls.__module__)


class Anything:
    """A function, a constant or a type in lower case."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, name: str) -> Any:
        return _named(name, self.name)

    def __call__(self, *args: Any, **_: Any) -> Any:
        """The function or class that it decorates, else itself."""
        if not (len(args) == 1 and callable(args[0])):
            return self
        if isinstance(args[0], FunctionType):
            vars(args[0]).update(dict.fromkeys(OPERATOR, lambda function: function))
        return args[0]

    def __or__(self, other: Any) -> "Anything":
        return Anything(f"{self} | {getattr(other, '__name__', other)}")

    def __repr__(self) -> str:
        return self.name


def _named(name: str, inside: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return (
        Class(name, (), {"__module__": inside})
        if name[0].isupper()
        else Anything(f"{inside}.{name}")
    )


class Names(ModuleType):
    """A module that has any name."""

    def __getattr__(self, name: str) -> Any:
        return _named(name, self.__name__)


class Finder(MetaPathFinder, Loader):
    """Finds `torch` and all below it."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """The module, if it is one of torch's."""
        if fullname.split(".")[0] != "torch":
            return None
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Names alone."""
        return Names(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run."""


def install() -> None:
    """Make `import torch` find it, before any other."""
    sys.meta_path.insert(0, Finder())
