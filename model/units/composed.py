"""What the configurations of units with dot units in them have in common."""

from typing import Any, ClassVar, Self

from .base import UnitConfig
from .dot import DotConfig


class ComposedUnitConfig(UnitConfig):
    """The configuration of a unit with dot units in it, all of them as `dot` says."""

    dot: DotConfig
    own_dot_keywords: ClassVar[tuple[str, ...]] = ()
    """Keywords of the dot units that the unit itself decides."""

    @property
    def interval(self) -> int:
        """Cycles between chained blocks of one dot product."""
        return self.dot.interval

    @classmethod
    def of(cls, **arguments: Any) -> Self:
        """The unit of its `arguments`, in which those of `dot` are a dict."""
        return cls(**{**arguments, "dot": DotConfig(**arguments["dot"])})

    @classmethod
    def keywords(cls) -> tuple[str, ...]:
        """Those of its dot units, then its own."""
        of_dot = [name for name in DotConfig.keywords() if name not in cls.own_dot_keywords]
        return (*of_dot, *(name for name in super().keywords() if name != "dot"))

    @classmethod
    def of_keywords(cls, **keywords: Any) -> Self:
        """The unit of these of its `keywords`."""
        shared = {name: keywords.pop(name) for name in DotConfig.keywords() if name in keywords}
        return cls.of(dot=shared, **keywords)
