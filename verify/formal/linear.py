"""Sums by linear algebra: what full adders make of terms is shown without trying any input.

Every full adder keeps 2 carry + sum = a + b + c (claim `full-adder-row`), a half adder the same of
two. Going back from the digits of a sum, a pair of a sum with weight w and a carry with weight 2w
becomes its inputs with weight w, and an inverted digit its digit with weight -w, until nothing of
that kind is left. If each net that remains depends on one
lane alone, the sum is one of a function of each lane; what those functions are, a proof with all
other lanes at zero says.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...synth.tools import run_yosys
from ...util.yosys import Bit as Net
from ...util.yosys import Cell, read_modules
from .observer import SUBJECT

SCRIPT = f"""
read_verilog subject.v
hierarchy -check -top {SUBJECT}
proc
setattr -mod -set keep_hierarchy 1 *_full_adder_* *_half_adder_*
flatten
opt_clean
write_json subject.json
"""
_OPERANDS = {"full_adder": ("a", "b", "c"), "half_adder": ("a", "b")}


@dataclass(frozen=True)
class Netlist:
    """Netlist of one module.

    ports: nets, lowest first. drivers: nets that each net depends on. adders: nets of the carry and
    the operands, by the net of the sum. inverters: by output.
    """

    ports: Mapping[str, Sequence[Net]]
    drivers: Mapping[Net, Sequence[Net]]
    adders: Mapping[Net, tuple[Net, Sequence[Net]]]
    inverters: Mapping[Net, Net]


def read(text: str, directory: Path, limit: float) -> Netlist:
    """The netlist of a subject, whose adders stay what they are; SynthesisError as `decide`'s."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "subject.v").write_text(text)
    run_yosys(SCRIPT, directory, "the subject", limit)
    module = read_modules((directory / "subject.json").read_bytes())[SUBJECT]
    drivers: dict[Net, Sequence[Net]] = {}
    adders: dict[Net, tuple[Net, Sequence[Net]]] = {}
    inverters: dict[Net, Net] = {}
    for cell in module.cells:
        pins = cell.pins
        kind = next((kind for kind in _OPERANDS if f"_{kind}_" in cell.type), None)
        if cell.type == "$not":
            inverters |= dict(zip(pins["Y"], pins["A"], strict=True))
            drivers |= {y: (a,) for y, a in zip(pins["Y"], pins["A"], strict=True)}
            continue
        if kind is None:
            _gates(cell, drivers)
            continue
        operands = zip(*(pins[name] for name in _OPERANDS[kind]), strict=True)
        for total, carry, inputs in zip(pins["sum"], pins["carry"], operands, strict=True):
            adders[total] = carry, inputs
            drivers[total], drivers[carry] = inputs, (total, *inputs)
    ports = {name: bits for name, (_, bits) in module.ports.items()}
    return Netlist(ports, drivers, adders, inverters)


def _gates(cell: Cell, drivers: dict[Net, Sequence[Net]]) -> None:
    """Every output depends on every input."""
    pins, sides = cell.pins, cell.directions
    inputs = [net for name, nets in pins.items() if sides[name] == "input" for net in nets]
    for name, nets in pins.items():
        if sides[name] == "output":
            drivers |= dict.fromkeys(nets, inputs)


def is_sum_of_lanes(
    netlist: Netlist,
    words: Iterable[Sequence[Net]],
    lanes: Sequence[Iterable[Net]],
    shared: Iterable[Net] = (),
) -> bool:
    """Whether `words`, lowest digits first, add up, modulo 2^digits, to a sum of functions of one
    lane each. lanes: the nets of each lane's inputs; shared: those that all functions depend on;
    other inputs must not take part."""
    words = list(words)
    modulus = 1 << len(words[0])
    weights: dict[Net, int] = {}
    for word in words:
        for place, net in enumerate(word):
            weights[net] = weights.get(net, 0) + (1 << place)
    order = _from_outputs(netlist)
    zeros = _zeros(netlist, order)
    for net in order:
        weight = weights.get(net, 0)
        if net in netlist.inverters:  # 1 - x; what is constant counts for all lanes alike
            operands, weight = (netlist.inverters[net],), -weight
        else:
            carry, operands = netlist.adders[net]
            if carry not in zeros and (weights.get(carry, 0) - 2 * weight) % modulus:
                continue
            weights.pop(carry, None)
        weights.pop(net, None)
        for operand in operands:
            weights[operand] = (weights.get(operand, 0) + weight) % modulus
    owners: dict[Net, set[int]] = {net: {lane} for lane, nets in enumerate(lanes) for net in nets}
    owners |= {net: set() for net in shared}
    return all(len(_owners(netlist, net, owners)) <= 1 for net, weight in weights.items() if weight)


def _from_outputs(netlist: Netlist) -> list[Net]:
    """Sums of all adders and outputs of inverters, each before those that it depends on."""
    done: list[Net] = []
    seen: set[Net] = set()
    for start in (*netlist.adders, *netlist.inverters):
        stack = [(start, False)]
        while stack:
            net, after = stack.pop()
            if after:
                done.append(net)
            elif net not in seen:
                seen.add(net)
                stack.append((net, True))
                stack += [(n, False) for n in netlist.drivers.get(net, ()) if n not in seen]
    kept = netlist.adders.keys() | netlist.inverters.keys()
    return [net for net in reversed(done) if net in kept]


def _zeros(netlist: Netlist, order: Sequence[Net]) -> set[Net]:
    """Nets that are always 0 because operands of adders are: a carry that is dropped may be."""
    zeros: set[Net] = {"0"}
    for total in reversed(order):
        if total in netlist.inverters:
            continue
        carry, operands = netlist.adders[total]
        others = sum(net not in zeros for net in operands)
        zeros |= {carry} if others < 2 else set()
        zeros |= {total} if others < 1 else set()
    return zeros


def _owners(netlist: Netlist, net: Net, owners: Mapping[Net, set[int]]) -> set[int]:
    """Lanes that a net depends on; -1 and -2 stand for an input that no lane owns."""
    lanes: set[int] = set()
    seen, stack = {net}, [net]
    while stack:
        here = stack.pop()
        if here in netlist.drivers:
            fresh = set(netlist.drivers[here]) - seen
            seen |= fresh
            stack += fresh
        elif not isinstance(here, str):
            lanes |= owners.get(here, {-1, -2})
    return lanes
