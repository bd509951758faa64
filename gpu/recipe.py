"""Recipe: how the matrix products of a network are quantised."""

from collections.abc import Iterable
from dataclasses import dataclass

from ..model.accumulators import Accumulator
from ..model.accumulators import accumulator as as_accumulator
from ..model.blocks import LARGEST_BLOCK
from ..model.errors import choice, integer
from ..model.formats import FORMATS, ROUNDINGS, ElementFormat, element_format
from ..model.quantize import SCALE_RULES

ROLES = ("weight", "activation", "gradient")
PRODUCTS = (("activation", "weight"), ("gradient", "weight"), ("gradient", "activation"))
FAST = "fast"


@dataclass(frozen=True)
class Recipe:
    """Formats and rules of the three products of a linear layer.

    weight, activation, gradient: the element format of each role, a name or an ElementFormat of
    mxdot.model (kept as its name); None leaves the role in the precision it has. `gradient` is the
    gradient of the layer's output.
    block_size: 1 to 65536; scale_rule: ``floor``, ``ceil`` or ``even``.
    gradient_rounding: ``stochastic`` draws from PyTorch's default generator; weights and
    activations are rounded to nearest even.
    accumulator: ``fast`` multiplies the quantised values by one ordinary matrix product; an
    accumulator of mxdot.model, or its text, computes every product with those bits (slow, for
    study; every role must have a format).
    high_precision: names of layers that `convert` leaves alone, with the wildcards of fnmatch.

    The default is the published MXFP8 pre-training recipe: E4M3 everywhere, scales rounded up.
    Raises TypeError or ValueError, naming the field.
    """

    weight: ElementFormat | str | None = "e4m3"
    activation: ElementFormat | str | None = "e4m3"
    gradient: ElementFormat | str | None = "e4m3"
    block_size: int = 32
    scale_rule: str = "ceil"
    gradient_rounding: str = "nearest_even"
    accumulator: Accumulator | str = FAST
    high_precision: Iterable[str] = ()

    def __post_init__(self) -> None:
        for role in ROLES:
            self._set(role, _format_name(role, getattr(self, role)))
        self._set("block_size", integer("block_size", self.block_size, 1, LARGEST_BLOCK))
        choice("scale_rule", self.scale_rule, SCALE_RULES)
        choice("gradient_rounding", self.gradient_rounding, ROUNDINGS)
        self._set("high_precision", layer_names("high_precision", self.high_precision))
        if self.accumulator != FAST:
            self._set("accumulator", as_accumulator(self.accumulator))
            self._check_accumulator()

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)  # the dataclass is frozen

    def _check_accumulator(self) -> None:
        for role in ROLES:
            if getattr(self, role) is None:
                raise ValueError(
                    f"{role} must have a format with accumulator {self.accumulator}, not None"
                )
        for a, b in PRODUCTS:
            as_accumulator(self.accumulator).check_formats(
                FORMATS[getattr(self, a)], FORMATS[getattr(self, b)]
            )

    @property
    def fast(self) -> bool:
        """Whether products are ordinary matrix products of quantised values."""
        return self.accumulator == FAST

    def rounding(self, role: str) -> str:
        """How elements of `role` are rounded."""
        return self.gradient_rounding if role == "gradient" else "nearest_even"


def _format_name(role: str, value: ElementFormat | str | None) -> str | None:
    if value is None:
        return None
    fmt = element_format(value, role)
    if FORMATS.get(fmt.name) != fmt:
        raise ValueError(f"{role} must be a format of mxdot.model.FORMATS, not {fmt.name}")
    return fmt.name


def layer_names(name: str, value: Iterable[str]) -> tuple[str, ...]:
    """`value` as a tuple of strings; one string alone would be read letter by letter."""
    several = isinstance(value, Iterable) and not isinstance(value, str)
    names = tuple(value) if several else ()
    if not several or not all(isinstance(x, str) for x in names):
        raise TypeError(f"{name} must be a sequence of layer names, not {value!r}")
    return names
