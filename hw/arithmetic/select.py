"""Choice by a number that also names the last entry when it is past it."""

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

from amaranth.hdl import Mux, Value, ValueLike

Key = TypeVar("Key", bound=Hashable)


def select_by_mode(
    mode: Value, keys: Sequence[Key], value: Callable[[Key], ValueLike]
) -> ValueLike:
    """`value(keys[mode])`, or that of the last key for a larger `mode`.

    A chain of two-way choices with one branch per distinct key.
    """
    distinct = list(dict.fromkeys(keys))
    # With a key for every number, any branch can be the default.
    default = distinct[-1] if len(keys) == 1 << len(mode) else keys[-1]
    chosen = value(default)
    for key in distinct:
        if key != default:
            modes = [number for number, selected in enumerate(keys) if selected == key]
            chosen = Mux(mode.matches(*modes), value(key), chosen)
    return chosen
