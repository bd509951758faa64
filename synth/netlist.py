"""Netlists of a synthesis: areas, depth, clocks, and the order of their gates."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..util.yosys import Bit, Cell, Netlist, read_modules
from .errors import SynthesisError
from .liberty import Library, LibraryCell

IGNORED = ("$scopeinfo", "$print", "$check", "$assert", "$assume", "$cover", "$specify")
"""Cells of Yosys that are not hardware."""


def load(path: Path) -> dict[str, Netlist]:
    """The modules of a file of `write_json`, the top under the name "".

    SynthesisError where the file breaks off: Yosys does not tell that the disk was full.
    """
    try:
        content = read_modules(path.read_bytes())
    except ValueError:
        raise SynthesisError(f"the netlist {path} breaks off: is the disk full?") from None
    modules = {}
    for name, module in content.items():
        if "blackbox" in module.attributes or "whitebox" in module.attributes:
            continue  # a cell of the library
        hardware = [cell for cell in module.cells if not cell.type.startswith(IGNORED)]
        modules[name] = Netlist(name, module.ports, hardware)
        if int(module.attributes.get("top", "0"), 2):
            modules[""] = modules[name]
    if "" not in modules:
        raise SynthesisError("the synthesised design has no top module")
    return modules


@dataclass(frozen=True)
class Count:
    """Cells of a module and of everything below it."""

    area: float
    sequential: float
    """Area of flip-flops and latches."""
    flipflops: int
    latches: int


Measure = Callable[[str], tuple[float, str]]
"""Function from a cell type to its area and kind: `gate`, `flipflop` or `latch`."""


def count(modules: dict[str, Netlist], name: str, measure: Measure) -> Count:
    """Count the cells of module `name`, instances included; `measure` gives area and kind."""
    area = sequential = 0.0
    flipflops = latches = 0
    for kind, number in modules[name].types.items():
        if kind in modules:
            inner = count(modules, kind, measure)
        else:
            size, role = measure(kind)
            held = role != "gate"
            inner = Count(size, size * held, role == "flipflop", role == "latch")
        area += number * inner.area
        sequential += number * inner.sequential
        flipflops += number * inner.flipflops
        latches += number * inner.latches
    return Count(area, sequential, flipflops, latches)


def sections(modules: dict[str, Netlist], measure: Measure) -> dict[str, Count]:
    """Count of each instance in the top module; `(top)` holds the top's own cells."""
    top = modules[""]
    found = {}
    for cell in top.cells:
        if cell.type in modules:
            found[cell.name] = count(modules, cell.type, measure)
    total = count(modules, "", measure)
    parts = found.values()
    found["(top)"] = Count(
        total.area - sum(part.area for part in parts),
        total.sequential - sum(part.sequential for part in parts),
        total.flipflops - sum(part.flipflops for part in parts),
        total.latches - sum(part.latches for part in parts),
    )
    return found


def in_order(netlist: Netlist, library: Library) -> list[tuple[Cell, LibraryCell]]:
    """Sort combinational cells so that drivers come first; SynthesisError for a loop."""
    drivers: dict[Bit, int] = {}
    gates = [(cell, library.cells[cell.type]) for cell in netlist.cells]
    gates = [(cell, kind) for cell, kind in gates if kind.clock is None]
    for index, (cell, kind) in enumerate(gates):
        for pin in kind.outputs:
            drivers |= dict.fromkeys(cell.pins.get(pin, []), index)
    waiting = []
    readers: list[list[int]] = [[] for _ in gates]
    for index, (cell, kind) in enumerate(gates):
        sources = {
            drivers[b] for pin in kind.inputs for b in cell.pins.get(pin, []) if b in drivers
        }
        waiting.append(len(sources))
        for source in sources:
            readers[source].append(index)
    order = [index for index, number in enumerate(waiting) if number == 0]
    for index in order:
        for reader in readers[index]:
            waiting[reader] -= 1
            if waiting[reader] == 0:
                order.append(reader)
    if len(order) < len(gates):
        loop = next(index for index, number in enumerate(waiting) if number > 0)
        raise SynthesisError(f"the design has a combinational loop near {gates[loop][0].name}")
    return [gates[index] for index in order]


def fanouts(netlist: Netlist, library: Library) -> Counter[Bit]:
    """Number of pins that each net drives, outputs of the design included."""
    found = Counter(bit for _, _, bit in netlist.outputs())
    for cell in netlist.cells:
        for pin in library.cells[cell.type].inputs:
            found.update(cell.pins.get(pin, ()))
    return found


def depth(netlist: Netlist, library: Library) -> int:
    """Two-input gates in series on the longest path between ports and flip-flops."""
    level: dict[Bit, int] = {}
    for cell, kind in in_order(netlist, library):
        bits = (bit for pin in kind.inputs for bit in cell.pins.get(pin, []))
        here = max((level.get(bit, 0) for bit in bits), default=0) + kind.levels
        for pin in kind.outputs:
            level |= dict.fromkeys(cell.pins.get(pin, []), here)
    return max(level.values(), default=0)


def clocks(netlist: Netlist, library: Library) -> set[str]:
    """Names of input bits that clock flip-flops, such as `clk` or `clks[1]`.

    A clock may pass inverters and buffers; SynthesisError when it comes from other logic.
    """
    drivers: dict[Bit, Bit] = {}
    for cell in netlist.cells:
        kind = library.cells[cell.type]
        if len(kind.inputs) == 1 and kind.clock is None:
            (pin,) = kind.inputs
            outputs = [bit for out in kind.outputs for bit in cell.pins.get(out, [])]
            drivers |= dict.fromkeys(outputs, cell.pins[pin][0])
    names = {bit: name for name, bit in named_inputs(netlist).items()}
    found = set()
    for cell in netlist.cells:
        kind = library.cells[cell.type]
        if kind.clock is None:
            continue
        for pin in kind.clock.names:
            bit = cell.pins[pin][0]
            while bit in drivers:
                bit = drivers[bit]
            if bit not in names:
                raise SynthesisError(f"{cell.name} is clocked by logic, not by an input of the top")
            found.add(names[bit])
    return found


def named_inputs(netlist: Netlist) -> dict[str, Bit]:
    """Net of each input bit, by its name in Verilog: `clk`, `data[3]`."""
    return {
        name if len(netlist.ports[name][1]) == 1 else f"{name}[{place}]": bit
        for name, place, bit in netlist.inputs()
    }


def verilog_net(bit: Bit) -> str:
    """A net's name in Verilog of single-bit wires; an undefined one is 0."""
    if isinstance(bit, int):
        return f"n{bit}"
    return "1'b1" if bit == "1" else "1'b0"
