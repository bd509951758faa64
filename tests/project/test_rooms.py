"""The rooms of the package: imports run downward, those for types alone included."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BELOW = {
    "model": (),
    "util": ("model",),
    "hw": ("model", "util"),
    "sim": ("model", "util", "hw"),
    "gpu": ("model",),
    "nn": ("model", "util", "gpu"),
    "synth": ("model", "util", "hw", "sim"),
    "compare": ("model", "util", "hw", "synth"),
    "verify": ("model", "util", "hw", "sim", "synth"),
    "cli": ("model", "util", "hw", "sim", "gpu", "nn", "synth", "compare", "verify"),
}
"""Rooms that each room may import."""
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for room in BELOW
    for path in sorted((ROOT / room).rglob("*.py"))
}


def imported(module: str) -> Iterator[str]:
    """The modules of the package that `module` imports anywhere."""
    path = MODULES[module]
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*start, node.module or ""]).removeprefix("mxdot.").strip(".")
            for name in (origin, *(f"{origin}.{alias.name}".strip(".") for alias in node.names)):
                if name in MODULES:
                    yield name


def test_the_package_has_these_rooms():
    assert {path.parent.name for path in ROOT.glob("*/__init__.py")} == set(BELOW)


@pytest.mark.parametrize("room", BELOW)
def test_imports_run_downward(room):
    allowed = {room, *BELOW[room]}
    upward = [
        f"{module} imports {other}"
        for module in MODULES
        if module.split(".")[0] == room
        for other in imported(module)
        if other.split(".")[0] not in allowed
    ]
    assert upward == []
