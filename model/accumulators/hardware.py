"""GPUs and CPUs by the names that people use, and the machines that describe their matrix units.

Product names and generations: NVIDIA's table of compute capabilities (CUDA C++ Programming Guide),
AMD's table of GPU architectures (ROCm documentation), Intel's table of instructions by processor
(Architecture Instruction Set Extensions Programming Reference).
"""

import re

from ..errors import nearest
from ..formats.table import format_pairs
from .machine import Machine
from .machines import MACHINES

GENERATIONS: dict[str, tuple[str, ...]] = {
    "volta": ("V100",),
    "turing": ("T4", "RTX 2080"),
    "ampere": ("A100", "A30", "A10", "A2", "RTX 3090"),
    "ada": ("L40S", "L4", "RTX 4090"),
    "hopper": ("H100", "H200"),
    "blackwell": ("B200", "GB200"),
    "rtx50": ("RTX 5090", "RTX 5080"),
    "cdna1": ("MI100",),
    "cdna2": ("MI210", "MI250", "MI250X"),
    "cdna3": ("MI300A", "MI300X", "MI325X"),
    "amx": ("Sapphire Rapids", "Emerald Rapids", "Granite Rapids"),
    "avx512": ("Cooper Lake",),
}
"""Hardware by generation, the first part of the name of a machine. Some have no machine."""
_KINDS = {
    "fp8": ("e4m3", "e5m2", "e4m3fnuz", "e5m2fnuz"),
    "fp6": ("e3m2", "e2m3"),
    "fp4": ("e2m1",),
}
"""Formats by the names of their kinds, in names such as ``h100-fp8``."""
_SHORT = {"nvfp4": "mxf4nvf4", "mxfp8": "fp8", "mxfp6": "fp6", "mxfp4": "fp4", "xf32": "tf32"}
"""Names of operands that machines call otherwise."""


def hardware_of(machine: Machine) -> tuple[str, ...]:
    """Names of the GPUs that have a machine; empty for a machine of no generation."""
    return GENERATIONS.get(_generation(machine), ())


def _generation(machine: Machine) -> str:
    return machine.name.split("-")[0]


def _typed(name: str) -> str:
    return name.lower().replace(" ", "")


def _rows(generation: str) -> tuple[Machine, ...]:
    return tuple(row for row in MACHINES.values() if _generation(row) == generation)


def without_machine() -> tuple[str, ...]:
    """Names of the GPUs that no machine describes."""
    return tuple(
        name for generation, names in GENERATIONS.items() for name in names if not _rows(generation)
    )


def _plain(name: str) -> str:
    return re.sub(r"[ _-]", "", name).lower()


_KIND = re.compile(r"(fp|mx|nv|bf|tf|xf|e\d|float|mma|promoted)")
"""Beginnings of what may follow the name of hardware: "a25" is no A2."""


def _split(text: str) -> tuple[str, str, str] | None:
    """(generation, name as people write it, rest) of a text that begins with hardware."""
    plain, known = _plain(text), []
    for generation, names in GENERATIONS.items():
        known += [(name, generation) for name in (*names, generation)]
    for name, generation in sorted(known, key=lambda pair: -len(pair[0])):
        rest = plain.removeprefix(_plain(name))
        if rest != plain and (not rest or _KIND.match(rest)):
            return generation, name, rest
    return None


def machines_on(text: str) -> tuple[Machine, ...]:
    """Machines of hardware (``h100``, ``RTX 4090``) or of a generation; empty for other texts."""
    split = _split(text)
    if split is None or split[2]:
        return ()
    return _rows(split[0])


def machine_on(text: str) -> Machine | None:
    """The machine of hardware and operands, as ``h100-fp8``; None for other texts.

    Where several machines take the operands, the one that has their name, or else the first.
    """
    split = _split(text)
    if split is None or not split[2]:
        return None
    generation, _, kind = split
    kind = _SHORT.get(kind, kind)
    rows = _rows(generation)
    named = [row for row in rows if _plain(row.name) == generation + kind]
    formats = operands_of(text)
    taking = [
        row
        for row in rows
        if any(fmt.name in formats for text in row.operands for fmt in format_pairs(text)[0])
    ]
    return next(iter((*named, *taking)), None)


def machine_named(text: str) -> Machine:
    """The machine of its name (``hopper``) or of hardware and operands (``h100-fp8``).

    Raises TypeError for another type, ValueError with the nearest names for other texts.
    """
    if not isinstance(text, str):
        raise TypeError(f"machine must be the name of a machine, not {text!r}")
    machine = MACHINES.get(text.strip().lower()) or machine_on(text.strip())
    if machine is None:
        near = hint(text.strip()) or nearest(text, [*MACHINES, *names_with_operands()])
        raise ValueError(f"machine must be one of `mxdot machines`, not {text!r}{near}")
    return machine


def operand_format(text: str) -> str:
    """Name of the format of `machine_named(text)` that the text names, or else of its first."""
    machine, wanted = machine_named(text), operands_of(text)
    taken = [format_pairs(operands)[0][0].name for operands in machine.operands]
    return next((name for name in taken if name in wanted), taken[0])


def operands_of(text: str) -> tuple[str, ...]:
    """Names of the formats that ``h100-fp8`` names; empty for other texts."""
    split = _split(text)
    if split is None or not split[2]:
        return ()
    kind = _SHORT.get(split[2], split[2])
    return _KINDS.get(kind, (kind,))


def hint(text: str) -> str:
    """Text for a message: the machines of the hardware that `text` names; empty for other texts."""
    split = _split(text)
    if split is None:
        return ""
    generation, name, _ = split
    names = ", ".join(row.name for row in _rows(generation))
    if not names:
        return f"; {name} has no machine here"
    short = [text for text in names_with_operands() if text.startswith(f"{_typed(name)}-")]
    return f"; {name} has {', '.join(short)}, and by their names {names}"


def names_with_operands() -> dict[str, Machine]:
    """Machines by names such as ``h100-fp8``."""
    kinds = ("fp8", "fp6", "fp4", "nvfp4", "fp16", "bf16", "tf32")
    names = {
        f"{_typed(name)}-{kind}": machine_on(f"{name}-{kind}")
        for hardware in GENERATIONS.values()
        for name in hardware
        for kind in kinds
    }
    return {name: machine for name, machine in names.items() if machine is not None}
