"""`cached_property`, which type checkers take for a property, as protocols ask for one."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    cached_property = property
else:

    class cached_property:  # noqa: N801  # as functools has it, whose lock no compiler traces
        """A property that is found once and kept in the object's `__dict__`."""

        def __init__(self, find: Callable[[Any], Any]) -> None:
            self.find, self.__doc__ = find, find.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self.name = name

        def __get__(self, x: Any, owner: type | None = None) -> Any:
            if x is None:
                return self
            found = vars(x)[self.name] = self.find(x)
            return found


__all__ = ["cached_property"]
