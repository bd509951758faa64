"""Rules of scales, by name: functions of the largest magnitude of a group.

To add a rule, register it. docs/numerics-schemes.md, section 6, states the package's own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from ..arrays import FLOAT64_BIAS, FLOAT64_FRACTION, Array, cast, namespace, view
from ..errors import choice, flag, integer
from ..formats import ElementFormat
from ..plugins import load_plugins
from ..rounding import quotient

SCALE_RULES = ("floor", "ceil", "even", "twice")
"""Rules of scales that are powers of two (section 2 of docs/numerics.md), of units and kernels."""
AMAX = "amax"
ERRORS = ("squared", "absolute")
MOST_CANDIDATES = 256

Function = Callable[[Array, Array, ElementFormat], Any]


@dataclass(frozen=True)
class ScaleRule:
    """A rule of scales: `function` of (amax, room, element).

    amax: the largest magnitude of each group, float64. room: the product of the group's outer
    scales, as kept, and of the largest scales of all levels inside; a scale times room times an
    element makes a value. Both are arrays of NumPy or tensors of equal shape.
    powers: whether scales are powers of two, whose exponents the function returns as int64; else it
    returns float64 scales, which are rounded once to the level's format (RNE). Both are limited to
    the format's range; an amax of 0 has the smallest scale.
    candidates: number of arrays that the function returns, in a tuple if more than 1; each group
    takes the one with the least `error`, the first of equals.
    """

    name: str
    function: Function
    powers: bool = False
    candidates: int = 1
    error: str = ERRORS[0]

    def __call__(self, amax: Array, room: Array, element: ElementFormat) -> tuple[Array, ...]:
        """The candidates."""
        made = self.function(amax, room, element)
        made = made if isinstance(made, tuple) else (made,)
        if len(made) != self.candidates or any(each.shape != amax.shape for each in made):
            shapes = [tuple(each.shape) for each in made]
            raise ValueError(
                f"rule {self.name} must return {self.candidates} arrays of shape "
                f"{tuple(amax.shape)}, not of {shapes}"
            )
        return made


RULES: dict[str, ScaleRule] = {}


def register_scale_rule(
    name: str,
    function: Function,
    *,
    powers: bool = False,
    candidates: int = 1,
    error: str = ERRORS[0],
) -> ScaleRule:
    """Make a rule of scales known by its name; returns it. `ScaleRule` describes the arguments.

    Raises TypeError or ValueError for a wrong argument and for a name that is taken.
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise ValueError(f"name of a rule must be an identifier, not {name!r}")
    if not callable(function):
        raise TypeError(f"function of rule {name} must be callable, not {function!r}")
    flag("powers", powers)
    integer("candidates", candidates, 1, MOST_CANDIDATES)
    choice("error", error, ERRORS)
    known = RULES.get(name)
    # A notebook that runs a cell again makes its function anew.
    if known is not None and _place(known.function) != _place(function):
        raise ValueError(f"name of a rule must be new, not {name!r}")
    rule = RULES[name] = ScaleRule(name, function, powers, candidates, error)
    return rule


def _place(function: Any) -> tuple[object, object]:
    kind = type(function)
    return tuple(getattr(function, x, kind) for x in ("__module__", "__qualname__"))  # type: ignore[return-value]


def rule_named(name: str, value: object, powers: bool) -> ScaleRule:
    """The rule `value` of powers of two, or of other scales; ValueError lists their names."""
    if isinstance(value, str) and value not in RULES:
        load_plugins()
    return RULES[choice(name, value, [r.name for r in RULES.values() if r.powers == powers])]


# The package's rules ------------------------------------------------------------------------------


class Range(Protocol):
    """Facts of a format that a shared exponent depends on."""

    @property
    def emax(self) -> int: ...
    @property
    def mantissa_bits(self) -> int: ...
    @property
    def largest_finite(self) -> float: ...


def shared_exponent(amax: Array, fmt: Range, scale_rule: str) -> Array:
    """A block's exponent before clamping, int64; far below every exponent for an `amax` of 0.

    It comes from the bits of float64, in which float32's subnormals are normal, without a
    logarithm.
    """
    if scale_rule == "even":
        return _exponent_of_rounded(amax, fmt.mantissa_bits) - fmt.emax
    bits = view(cast(amax, "float64"), "int64")
    if scale_rule == "ceil":
        # The least e with amax <= largest x 2^e: compares the two significands in [1, 2).
        one = 1 << FLOAT64_FRACTION
        bits = bits + (2 * one - 1 - int(fmt.largest_finite / 2.0**fmt.emax * one))
    return _field(bits) - fmt.emax + (scale_rule == "twice")


def _exponent_of_rounded(amax: Array, bits: int) -> Array:
    """Exponent of `amax` rounded to `bits` mantissa bits, half away from zero."""
    # Half of the last place; the exponent takes a carry.
    return _field(view(cast(amax, "float64"), "int64") + (1 << (FLOAT64_FRACTION - bits - 1)))


def _field(bits: Array) -> Array:
    return namespace(bits).bitwise_right_shift(bits, FLOAT64_FRACTION) - FLOAT64_BIAS


def _floor(amax: Array, room: Array, element: ElementFormat) -> Array:
    return shared_exponent(quotient(amax, room), element, "floor")


def _ceil(amax: Array, room: Array, element: ElementFormat) -> Array:
    return shared_exponent(quotient(amax, room), element, "ceil")


def _even(amax: Array, room: Array, element: ElementFormat) -> Array:
    return shared_exponent(quotient(amax, room), element, "even")


def _twice(amax: Array, room: Array, element: ElementFormat) -> Array:
    return shared_exponent(quotient(amax, room), element, "twice")


def _even1(amax: Array, room: Array, element: ElementFormat) -> Array:
    return _exponent_of_rounded(quotient(amax, room), 1) - element.emax


def _amax(amax: Array, room: Array, element: ElementFormat) -> Array:
    return quotient(amax, room * element.largest_finite)


def _amax256(amax: Array, room: Array, element: ElementFormat) -> Array:
    return quotient(amax, namespace(amax).full_like(amax, 256 * element.largest_finite))


def _four_over_six(amax: Array, room: Array, element: ElementFormat) -> tuple[Array, ...]:
    return quotient(amax, room * 6.0), quotient(amax, room * 4.0)


register_scale_rule(AMAX, _amax)
register_scale_rule("amax256", _amax256)
register_scale_rule("four_over_six", _four_over_six, candidates=2, error="absolute")
for _name, _function in zip(SCALE_RULES, (_floor, _ceil, _even, _twice), strict=True):
    register_scale_rule(_name, _function, powers=True)
register_scale_rule("even1", _even1, powers=True)
