"""Accumulators: for each its parameters, its rule and the sections of its unit.

docs/numerics.md states the rules. To add an accumulator, `register` its class; docs/architecture.md
shows what else it needs, by an example. To add a real machine, add a row to `MACHINES`.
"""

from collections.abc import Container, Mapping
from typing import TypeVar

from ..errors import nearest
from ..plugins import load_plugins
from .aligned import Aligned
from .base import MAX_FRACTION_BITS, NAN_DEFAULT, NAN_NVIDIA, Accumulator, FixedRegister
from .bulk import BulkNormalized
from .exact import Exact, Int32
from .fixed import Fixed
from .float32 import BFloat16, Float16, Float32
from .fused import Fused, Preset
from .hardware import hint, machine_on
from .machine import Machine, OperandsWarning, any_operands, is_foreign, warn_of_operands
from .machines import MACHINES, PRESETS

__all__ = [
    "KINDS",
    "MACHINES",
    "MAX_FRACTION_BITS",
    "NAN_DEFAULT",
    "NAN_NVIDIA",
    "PRESETS",
    "Accumulator",
    "Aligned",
    "BFloat16",
    "BulkNormalized",
    "Exact",
    "Fixed",
    "FixedRegister",
    "Float16",
    "Float32",
    "Fused",
    "Int32",
    "Machine",
    "OperandsWarning",
    "Preset",
    "accumulator",
    "any_operands",
    "by_kind",
    "check_known",
    "is_foreign",
    "register",
    "warn_of_operands",
    "without_part",
]

KINDS: dict[str, type[Accumulator]] = {}
"""Accumulators by the first word of their text."""
Kind = TypeVar("Kind", bound=type[Accumulator])


def register(kind: Kind) -> Kind:
    """Make an accumulator known by the first word of its `syntax`; a decorator of its class.

    TypeError for another thing than a subclass of Accumulator, ValueError for a word that is taken.
    """
    if not (isinstance(kind, type) and issubclass(kind, Accumulator)):
        raise TypeError(f"kind must be a subclass of Accumulator, not {kind!r}")
    word = kind.syntax.split(":")[0]
    known = KINDS.get(word)
    # A notebook that runs a cell again makes its class anew.
    if word in MACHINES or (known and known.__qualname__ != kind.__qualname__):
        raise ValueError(f"syntax of {kind.__name__} must begin with a new word, not {word!r}")
    KINDS[word] = kind
    return kind


for _kind in (Exact, Aligned, Fused, Fixed, Float32, Float16, BFloat16, Int32, BulkNormalized):
    register(_kind)


Part = TypeVar("Part")


def accumulator(value: Accumulator | str) -> Accumulator:
    """The accumulator of its text (``"aligned:13"``, ``"fixed:48:-20"``, ``"hopper"``) or itself.

    A machine has names of hardware and operands too: ``"h100-fp8"`` is ``"hopper"``.
    Raises ValueError naming the text and what is accepted, TypeError for another type.
    """
    if isinstance(value, Accumulator):
        return value
    if not isinstance(value, str):
        raise TypeError(f"accumulator must be an Accumulator or its text, not {value!r}")
    keyword, *arguments = value.strip().lower().split(":")
    if keyword in MACHINES and not arguments:
        return MACHINES[keyword]
    if keyword not in KINDS:
        load_plugins()
        machine = machine_on(value.strip())
        if machine is not None:
            return machine
    try:
        return KINDS[keyword](*_arguments(arguments))
    except (KeyError, TypeError):
        accepted = ", ".join([*(kind.syntax for kind in KINDS.values()), *PRESETS])
        raise ValueError(
            f"accumulator must be one of {accepted}, or another of `mxdot machines`, not {value!r}"
            + (hint(value.strip()) or _nearest(keyword))
        ) from None


def _nearest(keyword: str) -> str:
    """Names that resemble a keyword; empty for a keyword that is known."""
    names = (*KINDS, *MACHINES)
    return "" if keyword in names else nearest(keyword, names)


def _arguments(texts: list[str]) -> list[int | str]:
    """`texts` with up to two leading integers converted."""
    numbers: list[int] = []
    for text in texts[:2]:
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 9):
            break
        numbers.append(int(text))
    return [*numbers, *texts[len(numbers) :]]


def by_kind(parts: Mapping[type[Accumulator], Part], rule: Accumulator, table: str) -> Part:
    """The part for exactly the class of `rule`: a subclass has results of its own.

    Raises ValueError naming the rule and the `table`, for a class that has no part.
    """
    reason = without_part(parts, rule, table)
    if reason is not None:
        raise ValueError(reason)
    return parts[type(rule)]


def without_part(parts: Container[type[Accumulator]], rule: Accumulator, table: str) -> str | None:
    """Reason why `parts`, called `table` in messages, cannot serve `rule`; None if they can."""
    if type(rule) not in parts:
        load_plugins()
    if type(rule) in parts:
        return None
    return f"accumulator {rule} must have its class {type(rule).__name__} in {table}"


def check_known(rule: Accumulator) -> Accumulator:
    """`rule` if its class is one of `KINDS` or of `MACHINES`, else TypeError."""
    if type(rule) not in (*KINDS.values(), Preset, *map(type, MACHINES.values())):
        raise TypeError(f"accumulator must be one of mxdot.model's, not {type(rule).__name__}")
    return rule
