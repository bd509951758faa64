"""Wire loads of Liberty files: the wire of a net, by the number of pins that it drives."""

import re
from dataclasses import dataclass
from itertools import pairwise

from .errors import SynthesisError
from .groups import Group, finite

MODES = ("top", "enclosed", "segmented")
"""Which module's wire load a net takes: all the same in a flat netlist."""
TREES = ("best_case_tree", "balanced_tree", "worst_case_tree")
"""Where the wire's resistance is: nowhere, in a branch per pin, before all pins."""
_NAME = re.compile(r"\w[\w.+-]*", re.ASCII)
"""Scripts of other tools hold the name."""


@dataclass(frozen=True)
class WireLoad:
    """A wire load, per unit of length in the library's units."""

    name: str
    capacitance: float
    resistance: float
    """Units of time per unit of capacitance."""
    slope: float
    """Length of each pin beyond the last of `lengths`."""
    lengths: tuple[tuple[float, float], ...]
    """Numbers of pins, ascending, and the length of a net that drives so many."""
    tree: str = "balanced_tree"

    def length(self, pins: int) -> float:
        """Linear between the entries, and by the slope outside of them."""
        (first, shortest), (last, longest) = self.lengths[0], self.lengths[-1]
        if pins <= first:
            return max(shortest - (first - pins) * self.slope, 0.0)
        for (low, short), (high, long) in pairwise(self.lengths):
            if pins <= high:
                return short + (long - short) * (pins - low) / (high - low)
        return longest + (pins - last) * self.slope

    def load(self, pins: int) -> float:
        """Capacitance of the wire."""
        return self.length(pins) * self.capacitance

    def delay(self, pins: int, pin: float, net: float) -> float:
        """Elmore delay to a pin of capacitance `pin`; `net` is all capacitance, wire included."""
        resistance = self.length(pins) * self.resistance
        if self.tree == "balanced_tree":
            return resistance / pins * (self.load(pins) / pins + pin)
        return resistance * net if self.tree == "worst_case_tree" else 0.0


def default_wire_load(library: Group, source: str, time_per_ohm: float) -> WireLoad | None:
    """The wire load that a library names; SynthesisError, with `source`, for a wrong one.

    time_per_ohm: units of time that one ohm takes with one unit of capacitance.
    """
    name = library.attributes.get("default_wire_load")
    if not name:
        return None
    groups = {group.arguments[0]: group for group in library.of("wire_load") if group.arguments}
    if name not in groups or not _NAME.fullmatch(name):
        raise SynthesisError(
            f"library {source}: default_wire_load must name a wire_load group in letters, digits "
            f"and _.+- ({', '.join(groups) or 'it has none'}), not {name!r}"
        )
    _one_of(library, "default_wire_load_mode", MODES, source)
    group = groups[name]
    where = f"library {source}, line {group.line}: wire_load {name}"
    ohms = _ohms(library, source)
    return WireLoad(
        name,
        _number(group, "capacitance", library, where),
        _number(group, "resistance", library, where) * ohms * time_per_ohm,
        _number(group, "slope", library, where),
        _lengths(group, where),
        _tree(library, source),
    )


def _number(group: Group, name: str, library: Group, where: str) -> float:
    """An attribute, which the library may give for all of its wire loads."""
    common = library.attributes.get(f"default_wire_load_{name}", "0")
    return _at_least_0(group.attributes.get(name, common), f"{where}: {name}")


def _at_least_0(text: str, what: str) -> float:
    try:
        value = finite(text)
    except ValueError:
        value = -1.0
    if value < 0:
        raise SynthesisError(f"{what} must be a number of at least 0, not {text!r}")
    return value


def _lengths(group: Group, where: str) -> tuple[tuple[float, float], ...]:
    """The entries `fanout_length (pins, length, ...)`; statistics after the length do not count."""
    found = []
    for text in filter(None, group.attributes.get("fanout_length", "").split(";")):
        words = text.split(",")
        if len(words) < 2:
            raise SynthesisError(f"{where}: fanout_length must be pins and a length, not {text!r}")
        found.append(tuple(_at_least_0(word, f"{where}: fanout_length") for word in words[:2]))
    found.sort()
    if not found or any(low[0] == high[0] for low, high in pairwise(found)):
        raise SynthesisError(f"{where} must have a fanout_length, and one for each number of pins")
    return tuple(found)


def _ohms(library: Group, source: str) -> float:
    """Ohms in the library's unit of resistance."""
    text = library.attributes.get("pulling_resistance_unit", "1kohm")
    found = re.fullmatch(r"(10{0,2})(k?)ohm", text.replace(" ", "").lower())
    if found is None:
        raise SynthesisError(
            f"library {source}: pulling_resistance_unit must be 1, 10 or 100 ohm or kohm, not "
            f"{text!r}"
        )
    return float(found[1]) * (1000.0 if found[2] else 1.0)


def _tree(library: Group, source: str) -> str:
    """The tree of the conditions that are the default ones."""
    name = library.attributes.get("default_operating_conditions")
    for conditions in library.of("operating_conditions"):
        if name in conditions.arguments:
            return _one_of(conditions, "tree_type", TREES, source) or "balanced_tree"
    return "balanced_tree"


def _one_of(group: Group, name: str, allowed: tuple[str, ...], source: str) -> str:
    """An attribute in lower case, empty where there is none; SynthesisError for other values."""
    text = group.attributes.get(name, "")
    if text and text.lower() not in allowed:
        raise SynthesisError(
            f"library {source}, line {group.line}: {name} must be one of {', '.join(allowed)}, "
            f"not {text!r}"
        )
    return text.lower()
