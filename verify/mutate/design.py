"""All mutants of a unit in one Verilog module: an input says which of them lives."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ...hw.hierarchy import used
from ...hw.verilog import TOPS, default_top, generate
from ...synth.tools import run_yosys
from ...util.files import write_file
from ..formal.aig import Aig
from ..small_units import Unit
from . import rtlil
from .operators import sample

SELECT = "mutant"
"""The input, and the file that the simulation reads it from; 0 is the unit as it is."""
LIMIT = 300.0  # seconds of Yosys

_FLATTEN = """
read_verilog design.v
hierarchy -check -top {top}
proc
flatten
opt_clean
delete t:$scopeinfo
mutate -list {count} -seed {seed} -ctrl {select} {bits} {first} -o list.txt
rename {top} {inner}
write_rtlil flat.il
"""
WRITE = """
read_rtlil mutants.il
{mutations}
opt_clean
write_verilog -noattr mutants.v
memory_map
opt_clean
techmap
opt_clean
dffunmap
setundef -undriven -zero
aigmap
opt_clean
write_aiger -symbols mutants.aig
"""
"""Yosys script that turns mutants.il, flat, into Verilog and a graph of all mutants."""
_MODES = {
    "inv": "inverted",
    "const0": "stuck at 0",
    "const1": "stuck at 1",
    "cnot0": "inverted while {} is 0",
    "cnot1": "inverted while {} is 1",
}


@dataclass(frozen=True)
class Mutant:
    """One change. number: from 1 on, of the input. where: the cell, or the net; source: a line.

    cell: its name in the flat RTLIL; command: what makes it in Yosys, empty for operators of ours.
    """

    number: int
    operator: str
    where: str
    what: str
    source: str
    cell: str
    command: str

    @property
    def text(self) -> str:
        """The mutant in a line."""
        return f"{self.operator}: {self.what} at {self.where} ({self.source})"


@dataclass(frozen=True)
class Design:
    """A unit and its mutants. verilog: of all; original: of the unit alone; aiger: of all."""

    unit: Unit
    mutants: tuple[Mutant, ...]
    original: str
    verilog: Path
    aiger: Path
    reset: str
    """Reset of the module; active low with "n" at its end."""


def make(unit: Unit, count: int, seed: int, directory: Path) -> Design:
    """Half of the mutants are Yosys' own, half ours; the same ones for the same unit and seed.

    SynthesisError when Yosys fails, ModuleNotFoundError without it.
    """
    directory.mkdir(parents=True, exist_ok=True)
    top = default_top(unit.config)
    inner, bits = f"{top}_mutants", (count + 1).bit_length()
    original = generate(unit.config, top)
    (directory / "design.v").write_text(original)
    names = {"top": top, "inner": inner, "select": SELECT, "bits": bits}
    ours = count // 2
    script = _FLATTEN.format(count=count - ours, seed=seed, first=1, **names)
    run_yosys(script, directory, unit.name, LIMIT)
    commands = (directory / "list.txt").read_text().replace(f"-module {top} ", f"-module {inner} ")
    lines = commands.splitlines()
    mutants = [_of_yosys(number, line) for number, line in enumerate(lines, 1)]
    text = (directory / "flat.il").read_text()
    port = f"  wire width {bits} input 9999 \\{SELECT}\n"
    changed = re.sub(r"^(module .*\n)", lambda m: m[1] + port, text, count=1, flags=re.M)
    for number, change in enumerate(sample(text, ours, f"{unit.name}/{seed}"), len(lines) + 1):
        cells, name = change.cells(number), change.cell.name
        changed = rtlil.with_alternative(changed, name, number, f"\\{SELECT}", bits, cells)
        source = _line(change.cell.source)
        what = plain(change.what)
        mutants.append(Mutant(number, change.operator, plain(name), what, source, name, ""))
    (directory / "mutants.il").write_text(changed)
    script = WRITE.format(mutations="\n".join(named(lines)))
    run_yosys(script, directory, unit.name, LIMIT)
    ports = used(TOPS[type(unit.config)](unit.config))
    wrapper = _wrapper(
        top, inner, [(str(s.name), side, len(s)) for s, side, _ in ports.ports], bits
    )
    verilog = directory / f"{top}.v"
    write_file(verilog, wrapper + (directory / "mutants.v").read_text())
    return Design(unit, tuple(mutants), original, verilog, directory / "mutants.aig", ports.reset)


def named(commands: list[str]) -> Iterator[str]:
    """Commands of Yosys, with names for registers whose outputs they change.

    A changed bit of a register leaves on a new wire, named as `registers_of` reads it.
    """
    outputs = {c: re.search(r" -port Q .*-wire \\?(\S+) -wirebit (\d+)", c) for c in commands}
    for command, register in outputs.items():
        if register is not None:
            yield command
            name = f"{register[1]}_changed{register[2]}_%"
            yield f"rename -enumerate -pattern {name} w:$auto$mutate*"
    yield from (command for command, register in outputs.items() if register is None)


def registers_of(graph: Aig) -> list[tuple[str, int] | None]:
    """Names of the registers of a graph of mutants, also of those whose outputs mutants change."""
    names = []
    for name in graph.registers:
        changed = name and re.fullmatch(r"(.+)_changed(\d+)_\d+", name[0])
        names.append((changed[1], int(changed[2])) if changed else name)
    return names


def _of_yosys(number: int, command: str) -> Mutant:
    """Output of a command of Yosys."""
    options = dict(re.findall(r"-(mode|cell|port|portbit|ctrlbit|src) (\S+)", command))
    where = f"{plain(options['cell'])}.{options['port']}[{options['portbit']}]"
    condition = f"{options['port']}[{options.get('ctrlbit')}]"
    change = _MODES[options["mode"]].format(condition)
    what = f"{options['port']}[{options['portbit']}] {change}"
    operator = "stuck net" if options["mode"].startswith("const") else "inverted net"
    source = _line(options.get("src", ""))
    return Mutant(number, operator, where, what, source, options["cell"], command)


def _line(source: str) -> str:
    """The first line of the unit's Verilog."""
    return source.split("|")[0].replace("design.v", "line ").replace(":", "").partition(".")[0]


def plain(name: str) -> str:
    """A name of RTLIL without its marks."""
    name = re.sub(r"\$flatten|\\|design\.v:", "", name)
    return name.removeprefix("$").replace("|", "/")


def _wrapper(top: str, inner: str, ports: list[tuple[str, str, int]], bits: int) -> str:
    """The unit's own ports around the module with the mutants; a file says which one lives."""
    lines = [
        f"  {'input' if side == 'in' else 'output'} wire [{width - 1}:0] {name}"
        for name, side, width in ports
    ]
    pins = ", ".join(f".{name}({name})" for name, _, _ in ports)
    return "\n".join([
        f"module {top} (", ",\n".join(lines), ");",
        f"  reg [{bits - 1}:0] {SELECT} = 0;",
        "  integer file, count;",
        "  initial begin",
        f'    file = $fopen("{SELECT}", "r");',
        f'    if (file != 0) count = $fscanf(file, "%d", {SELECT});',
        "  end",
        f"  {inner} mutants ({pins}, .{SELECT}({SELECT}));",
        "endmodule", "",
    ])  # fmt: skip
