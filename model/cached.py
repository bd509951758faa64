"""`cached_property`, which type checkers take for a property, as protocols ask for one."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    cached_property = property
else:
    from functools import cached_property

__all__ = ["cached_property"]
