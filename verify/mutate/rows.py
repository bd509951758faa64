"""Whether a row of `make formal` kills a mutant: one about the module that the mutant changes."""

import re
from contextlib import suppress
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path

from ...hw.verilog import default_top
from ...synth.errors import SynthesisError
from ...synth.tools import run_yosys
from ...util.runs import scratch
from ..formal import arithmetic, matmul, software
from ..formal.claim import Claim
from ..formal.engine import Verdict
from ..formal.observer import SUBJECT, ObservedUnit
from . import operators, rtlil
from .design import LIMIT, Design, Mutant, plain

_READ = """
read_verilog design.v
hierarchy -check -top {top}
proc
write_rtlil whole.il
"""
_MODULE = """
read_rtlil mutant.il
{mutation}
hierarchy -check -top {module}
rename {module} {name}
write_verilog -noattr module.v
"""
_DUT = re.compile(rf"^  ({SUBJECT}_\w+) dut \(", re.M)
_INSTANCE = re.compile(rf"^  ({SUBJECT}_\w+) (\w+) \(", re.M)
_OPTION = re.compile(r"-(?:mode|port|portbit|ctrlbit) \S+")


def killer(
    design: Design, mutant: Mutant, directory: Path, limit: float, claims: list[Claim] | None = None
) -> str | None:
    """The name of a row that holds of the module as the unit has it and not of the mutant; None
    where no row speaks of it.

    Asked are rows about the module that is changed or one around it: of the same name, which says
    its widths, and of the same ports. Rows about whole matrix units speak of each of their modules
    outside the array. claims: those that there are when None; limit: seconds for each tool that
    runs.
    """
    path, cell = _place(mutant.cell)
    if not path:
        return None
    named = _rows() if claims is None else _by_module(claims)
    top = default_top(design.unit.config)
    text = whole(design.original, top)
    modules = _modules(text, top, path)
    directory.mkdir(parents=True, exist_ok=True)
    for module in reversed(modules[1:]):
        for claim, subject in named.get(module.removeprefix(f"{top}_"), []):
            with suppress(SynthesisError):  # other ports, or too long: the row says nothing
                changed = _changed(text, modules[-1], mutant, cell)
                if changed is None:
                    return None
                wrong = _with_module(subject, top, module, *changed, directory)
                if claim.decide(wrong, claim.rule, directory, limit) is not Verdict.REFUTED:
                    continue
                right = _with_module(subject, top, module, text, "", directory)
                if claim.decide(right, claim.rule, directory, limit) is Verdict.PROVED:
                    return claim.name
    return None


@lru_cache(maxsize=2)
def whole(verilog: str, top: str) -> str:
    """RTLIL of a unit, a module at a time; cells have the names of the flat one, without paths."""
    with scratch("mutate") as directory:
        (directory / "design.v").write_text(verilog)
        run_yosys(_READ.format(top=top), directory, top, LIMIT)
        return (directory / "whole.il").read_text()


@cache
def _rows() -> dict[str, list[tuple[Claim, ObservedUnit]]]:
    """Claims about components by themselves, then about whole matrix units."""
    return _by_module([*arithmetic.claims(), *software.claims(), *matmul.claims()])


def _by_module(claims: list[Claim]) -> dict[str, list[tuple[Claim, ObservedUnit]]]:
    """Claims and their subjects by module, named without the top: of a component by itself the
    component, of a matrix unit each one outside the array."""
    rows: dict[str, list[tuple[Claim, ObservedUnit]]] = {}
    for claim in claims:
        subject = claim.subject()
        component = _DUT.search(subject.text)
        for name in [component[1]] if component else _around_array(subject.text):
            rows.setdefault(name.removeprefix(f"{SUBJECT}_"), []).append((claim, subject))
    return rows


def _around_array(verilog: str) -> set[str]:
    """Modules of a matrix unit that are not in its array."""
    bodies = dict(re.findall(r"^module (\w+) \((.*?)^endmodule", verilog, re.M | re.S))
    found, todo = set[str](), [SUBJECT]
    while todo:
        for name, instance in _INSTANCE.findall(bodies[todo.pop()]):
            if instance != "array" and name not in found:
                found.add(name)
                todo.append(name)
    return found


def _place(cell: str) -> tuple[list[str], str]:
    r"""Instances, outermost first, and the own name: a, b, `$add` of `$flatten\a.\b.$add`."""
    path = re.match(r"(?:\$flatten)?((?:\\\w+\.(?:\$flatten)?)*)(.*)", cell)
    assert path is not None
    return re.findall(r"\\(\w+)\.", path[1]), path[2]


def _modules(text: str, top: str, path: list[str]) -> list[str]:
    """The top and the modules of the instances on the way."""
    modules = [top]
    for name in path:
        inside = rtlil.cells(body(text, modules[-1]))
        kind = next(c.type for c in inside if c.name == f"\\{name}")
        modules.append(kind.removeprefix("\\"))
    return modules


def body(text: str, module: str) -> str:
    """RTLIL of one module."""
    match = re.search(rf"^module \\{module}\n.*?^end\n", text, re.M | re.S)
    assert match is not None
    return match[0]


def _changed(text: str, module: str, mutant: Mutant, cell: str) -> tuple[str, str] | None:
    """RTLIL of the whole, and a command of Yosys for it, that make the mutant in its own module;
    None where the change is of what the module knows nothing of."""
    if mutant.command:
        options = " ".join(_OPTION.findall(mutant.command))
        return text, f"mutate -module {module} -cell {cell} {options}"
    own = body(text, module)
    for change in operators.changes(own, cell):
        same = change.operator == mutant.operator
        if same and _without_net(plain(change.what)) == _without_net(mutant.what):
            cells = change.cells(mutant.number)
            always = f"32'{mutant.number:032b}"
            wrong = rtlil.with_alternative(own, cell, mutant.number, always, 32, cells)
            return text.replace(own, wrong), ""
    return None


def _without_net(what: str) -> str:
    """A change in words without the name of a net, which is another one in the module by itself."""
    return what.partition(": ")[0]


def _with_module(
    subject: ObservedUnit, top: str, module: str, text: str, mutation: str, directory: Path
) -> ObservedUnit:
    """The row's subject with the unit's module in place of its own of that name."""
    name = module.replace(top, SUBJECT, 1)
    (directory / "mutant.il").write_text(text)
    script = _MODULE.format(module=module, name=name, mutation=mutation)
    run_yosys(script, directory, module, LIMIT)
    own = re.compile(rf"^module {name} \(.*?^endmodule\n", re.M | re.S)
    return replace(subject, text=own.sub("", subject.text) + (directory / "module.v").read_text())
