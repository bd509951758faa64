"""Argument checks whose messages name the parameter, the allowed range and the value."""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from operator import index
from typing import SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

OUTSIDE = (ImportError, OSError, RuntimeError)
"""Errors of packages, files and tools: what they say is enough, without a traceback."""


def choice(name: str, value: object, allowed: Iterable[str]) -> str:
    """`value` if it is one of `allowed`, else ValueError."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")
    return value


def nearest(value: str, allowed: Iterable[str]) -> str:
    """Text for a message with the `allowed` names that resemble `value`; empty without one."""
    names = get_close_matches(value.strip().lower(), list(allowed))
    return f"; nearest: {', '.join(names)}" if names else ""


def unknown(name: str, value: str, allowed: Iterable[str], others: Iterable[str], kind: str) -> str:
    """Message for a name that is none of `allowed`, with the nearest of these and of `others`.

    kind: what the others are and who takes them.
    """
    allowed, others = list(allowed), list(others)
    text = f"{name} must be one of {', '.join(allowed)}, not {value!r}{nearest(value, allowed)}"
    close = get_close_matches(value.strip().lower(), others)
    return f"{text}; {kind}: {', '.join(close)}" if close else text


def identifier(name: str, value: object) -> str:
    """`value` if it is a Verilog identifier that needs no escape, else ValueError."""
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_$]*", value):
        raise ValueError(
            f"{name} must be a Verilog identifier (letters, digits, _, $), not {value!r}"
        )
    return value


def printable(name: str, value: str) -> str:
    """`value` if it is one line without control characters, else ValueError."""
    if not value.isprintable():
        raise ValueError(f"{name} must be one line of printable text, not {value!r}")
    return value


FORMULA = ("=", "+", "-", "@")
"""Characters that begin a formula in a cell of a spreadsheet."""


def cell_text(name: str, value: str) -> str:
    """`value` if it is `printable` and no formula of a spreadsheet, else ValueError."""
    if printable(name, value).startswith(FORMULA):
        raise ValueError(f"{name} must not begin a formula of a spreadsheet, as {value!r} does")
    return value


def one_line(text: str) -> str:
    """`text` with escapes for line ends and other characters that do not print."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def integer(name: str, value: object, low: int, high: int | None = None) -> int:
    """`value` as an int from `low` to `high` (no upper limit when None); NumPy's integers too."""
    limits = f"at least {low}" if high is None else f"from {low} to {high}"
    if type(value) is not int:  # the fastest check by far
        if isinstance(value, bool) or not isinstance(value, SupportsIndex):
            raise TypeError(f"{name} must be an integer {limits}, not {value!r}")
        value = index(value)
    if value < low or (high is not None and value > high):
        raise ValueError(f"{name} must be {limits}, not {value}")
    return value


def flag(name: str, value: object) -> bool:
    """`value` if it is a bool, else TypeError."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, not {value!r}")
    return value


def integer_array(name: str, value: ArrayLike, low: int, high: int) -> NDArray[np.int64]:
    """`value` as integers from `low` to `high`; TypeError or ValueError names a wrong one."""
    array = np.asarray(value)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be integers from {low} to {high}, not {array.dtype}")
    outside = (array < low) | (array > high)
    if outside.any():
        raise ValueError(f"{name} must be from {low} to {high}, not {array[outside].flat[0]}")
    return array.astype(np.int64)


def reason_of(error: BaseException) -> str:
    """Why a file cannot be read or written: the system's words, without the name of the file."""
    return str(getattr(error, "strerror", None) or error)


def missing_package(
    error: ModuleNotFoundError, package: str, needs: str, extra: str
) -> ModuleNotFoundError:
    """The error of an import that names the extra where `package`, which `needs` names, is missing.

    Another package's error stays as it is.
    """
    if not f"{error.name}.".startswith(f"{package}."):
        return error
    return ModuleNotFoundError(f"{needs}: pip install 'mxdot[{extra}]'", name=package)
