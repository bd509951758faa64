"""`mxdot machines`: real machines whose results the model has."""

import argparse
import textwrap
from typing import Any

from ..model.accumulators import MACHINES, Machine
from ..model.accumulators.hardware import hardware_of, machine_on, machines_on, without_machine
from ..model.errors import nearest
from .output import add_json_option, check_json_file, is_json_printed, write_json_file

WIDTH = 100


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand to those of `mxdot`."""
    parser = subparsers.add_parser(
        "machines",
        help="matrix units of real machines: hardware, formats, accumulator",
        description="List the machines that the model reproduces: name, GPUs, formats of operands "
        "and the rule of the accumulator. A machine is an accumulator of every command.",
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="machines (hopper), hardware (h100, 'RTX 4090') or both (h100-fp8), with the source "
        "of each row (default: every machine)",
    )
    add_json_option(parser, "the machines")
    parser.set_defaults(run=run)


def _typed(name: str) -> str:
    return name.lower().replace(" ", "")


def _hardware() -> list[str]:
    return [name for machine in MACHINES.values() for name in hardware_of(machine)]


def run(args: argparse.Namespace) -> int:
    """Print the machines; 0."""
    check_json_file(args)
    chosen = [machine for name in args.names for machine in _named(name)]
    rows = list(dict.fromkeys(chosen)) if args.names else list(MACHINES.values())
    write_json_file(args, {"machines": [facts(row) for row in rows]})
    if is_json_printed(args):
        return 0
    width = max(len(row.name) for row in rows) + 2
    for row in rows:
        print("\n".join(_lines(row, width, with_source=bool(args.names))))
    if not args.names:
        others = ", ".join(without_machine())
        print(
            "\n" + f"No machine here: {others}. " * bool(others) + "`mxdot machines h100` has more."
        )
    return 0


def _named(name: str) -> tuple[Machine, ...]:
    if name.strip().lower() in MACHINES:
        return (MACHINES[name.strip().lower()],)
    machine = machine_on(name)
    rows = machines_on(name) if machine is None else (machine,)
    if not rows:
        known = [*MACHINES, *dict.fromkeys(map(_typed, _hardware()))]
        raise ValueError(
            f"name must be a machine or hardware of `mxdot machines`, not {name!r}"
            f"{nearest(name, known)}"
        )
    return rows


def facts(machine: Machine) -> dict[str, Any]:
    """A machine's names, operands and rules, as plain values."""
    return {
        "name": machine.name,
        "hardware": list(hardware_of(machine)),
        "operands": list(machine.operands),
        "each_with_each": machine.mixed,
        "block_scales": machine.block_scales,
        "rule": machine.rule,
        "terms": machine.terms,
        "status": machine.status,
        "source": machine.source,
        "note": machine.note,
    }


def _lines(machine: Machine, width: int, *, with_source: bool) -> list[str]:
    hardware = f"{', '.join(hardware_of(machine))}: " * bool(hardware_of(machine))
    texts = [hardware + machine.operands_text, machine.rule]
    if with_source:
        texts.append(f"{machine.status}: {machine.source}")
        texts += [machine.note] * bool(machine.note)
    lines = [line for text in texts for line in textwrap.wrap(text, WIDTH - width)]
    return [f"{'' if i else machine.name:{width}}{line}" for i, line in enumerate(lines)]
