"""Reduce the Liberty files of a process to what mapping, timing and energy read.

    python tools/reduce_liberty.py NAME FILE...             write synth/libraries/NAME.lib.gz
    python tools/reduce_liberty.py NAME FILE... --compare   map units with whole and reduced files

Several files are one library. What is written does not depend on when or where: the same bytes
from the same files. No number of timing is rounded. Left out are

- cells: those that the process leaves out by name, or its file by `dont_use`; without a function
  (fillers, ties, taps), with three states, of scan chains, clock gates, level shifters; of
  flip-flops and latches of the same function all but the smallest;
- noise, pins of supplies, hold, recovery, pulse widths, asynchronous delays;
- internal power and leakage of ground pins, where a library states each for supply and ground: the
  sum would count every transition twice;
- wire loads: the shipped libraries have no wires;
- `when` of arcs: where several arcs lead from one pin to another in one sense, their tables are
  joined by the largest of each entry, which is how ABC reads them. A timer that looks up each
  table and takes the largest result gets less where two tables cross between entries.
  Internal power and leakage keep their `when`;
- in libraries of THIN, whose power has many conditions: every second point of each axis of the
  power tables that have one, and digits of power beyond DECIMALS and of leakage after the point.
"""

import argparse
import gzip
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from mxdot.hw.verilog import generate
from mxdot.model import DotConfig
from mxdot.synth import Flow, measure
from mxdot.synth.liberty_syntax import Group, parse_groups
from mxdot.synth.processes import Process, process
from mxdot.util.files import write_file

THRESHOLDS = tuple(
    f"{end}_threshold_pct_{edge}"
    for end in ("input", "output", "slew_lower", "slew_upper")
    for edge in ("rise", "fall")
)
LIBRARY = (
    "delay_model", "time_unit", "voltage_unit", "current_unit", "pulling_resistance_unit",
    "capacitive_load_unit", "nom_process", "nom_temperature", "nom_voltage",
    "default_max_transition", "default_max_capacitance", "default_input_pin_cap",
    "default_output_pin_cap", "slew_derate_from_library", "leakage_power_unit",
    "default_cell_leakage_power", "default_operating_conditions",
    *THRESHOLDS,
)  # fmt: skip
CONDITIONS = ("process", "temperature", "voltage")
CELL = ("area", "cell_leakage_power")
MEMORY = (
    "clocked_on", "next_state", "clear", "preset", "clear_preset_var1", "clear_preset_var2",
    "enable", "data_in",
)  # fmt: skip
PIN = (
    "direction", "function", "clock", "capacitance", "rise_capacitance", "fall_capacitance",
    "max_capacitance", "max_transition",
)  # fmt: skip
ARC = ("related_pin", "timing_sense", "timing_type")
LEAKAGE = ("value", "when")
POWER = ("related_pin", "when")
POWER_TABLES = ("rise_power", "fall_power", "power")
THIN = ("asap7",)
THINNED = "_thin"
DECIMALS = 3
"""Digits after the point in THIN: a transition takes 0.1 to 1 unit."""
GROUND = ("primary_ground", "backup_ground", "internal_ground")
TABLE = ("index_1", "index_2", "values")
TEMPLATE = ("variable_1", "variable_2", "index_1", "index_2")
COMPLEX = ("capacitive_load_unit", *TABLE)
TABLES = (
    "cell_rise", "cell_fall", "rise_transition", "fall_transition", "rise_constraint",
    "fall_constraint",
)  # fmt: skip
ARCS = (
    "combinational", "combinational_rise", "combinational_fall", "rising_edge", "falling_edge",
    "setup_rising", "setup_falling",
)  # fmt: skip
NO_LOGIC = ("statetable", "test_cell")
SPECIAL = ("clock_gating_integrated_cell", "is_isolation_cell", "is_level_shifter")
UNITS = (("e2m1", "aligned:8"), ("int8", "int32"))
"""Units that `--compare` maps: dot units of four lanes."""


def reduced(about: Process, libraries: list[Group]) -> Group:
    """One library of those given, of what mapping and timing read."""
    first = libraries[0]
    found = Group("library", [about.name], 0, _chosen(first, LIBRARY))
    for library in libraries[1:]:
        for name in ("time_unit", "capacitive_load_unit", "leakage_power_unit", *THRESHOLDS):
            if library.attributes.get(name) != first.attributes.get(name):
                raise ValueError(
                    f"{name} differs in {first.arguments[0]} and {library.arguments[0]}"
                )
    cells = [cell for library in libraries for cell in library.of("cell")]
    cells = _smallest([_cell(cell) for cell in cells if _wanted(about, cell)])
    if about.name in THIN:
        _thin(cells)
    _drop_zeros(cells)
    cells.sort(key=lambda cell: cell.arguments[0])
    used = {table.arguments[0] for cell in cells for table in _tables(cell)}
    templates: dict[str, Group] = {}
    for library in libraries:
        for template in library.of("lu_table_template", "power_lut_template"):
            (name,) = template.arguments
            whole = Group(template.kind, [name], 0, _chosen(template, TEMPLATE))
            thin = Group(template.kind, [name + THINNED], 0, dict(whole.attributes))
            _keep_points(thin)
            for kept in (whole, thin):
                (name,) = kept.arguments
                if name in used and vars(templates.setdefault(name, kept)) != vars(kept):
                    raise ValueError(f"two templates of the name {name} differ")
    conditions = [
        Group(group.kind, group.arguments, 0, _chosen(group, CONDITIONS))
        for group in first.of("operating_conditions")
        if first.attributes.get("default_operating_conditions") in group.arguments
    ]
    found.groups = [*conditions, *(templates[name] for name in sorted(templates)), *cells]
    return found


def _wanted(about: Process, cell: Group) -> bool:
    """Whether mapping may use a cell."""
    (name,) = cell.arguments
    pins = cell.of("pin")
    outputs = [pin for pin in pins if pin.attributes.get("direction") == "output"]
    return (
        about.has(name)
        and cell.attributes.get("dont_use") != "true"
        and bool(outputs)
        and any(pin.attributes.get("direction") == "input" for pin in pins)
        and all("function" in pin.attributes for pin in outputs)
        and not any("three_state" in pin.attributes for pin in pins)
        and not cell.of(*NO_LOGIC)
        and not any(name in cell.attributes for name in SPECIAL)
    )


def _smallest(cells: list[Group]) -> list[Group]:
    """All gates; of memories of the same function those of the fewest pins, then the smallest."""
    best: dict[object, Group] = {}
    for cell in cells:
        memory = [
            (m.kind, *m.arguments, *sorted(m.attributes.items())) for m in cell.of("ff", "latch")
        ]
        key = tuple(memory) if memory else cell.arguments[0]
        size = (len(cell.of("pin")), float(cell.attributes["area"]))
        other = best.get(key)
        if other is None or size < (len(other.of("pin")), float(other.attributes["area"])):
            best[key] = cell
    return list(best.values())


def _cell(cell: Group) -> Group:
    memories = [
        Group(memory.kind, memory.arguments, 0, _chosen(memory, MEMORY))
        for memory in cell.of("ff", "latch")
    ]
    leakages = [
        Group("leakage_power", [], 0, _chosen(state, LEAKAGE))
        for state in _of_supply(cell, cell, "leakage_power")
    ]
    return Group("cell", cell.arguments, 0, _chosen(cell, CELL), leakages + memories + _pins(cell))


def _of_supply(cell: Group, group: Group, kind: str) -> list[Group]:
    """Subgroups of a kind, without those of ground pins."""
    grounds = {
        name
        for pin in cell.of("pg_pin")
        if pin.attributes.get("pg_type") in GROUND
        for name in pin.arguments
    }
    return [
        child for child in group.of(kind) if child.attributes.get("related_pg_pin") not in grounds
    ]


def _pins(cell: Group) -> list[Group]:
    found = []
    for pin in cell.of("pin"):
        arcs: dict[tuple[str, ...], Group] = {}
        for timing in pin.of("timing"):
            attributes = {"timing_type": "combinational"} | timing.attributes
            if attributes["timing_type"] not in ARCS:
                continue
            arc = Group("timing", [], 0, {k: attributes[k] for k in ARC if k in attributes})
            arc.groups = [
                Group(table.kind, table.arguments, 0, _chosen(table, TABLE))
                for table in timing.of(*TABLES)
            ]
            other = arcs.setdefault(tuple(arc.attributes.values()), arc)
            if other is not arc:
                _join(other, arc)
        groups = [*arcs.values(), *_powers(cell, pin)]
        found.append(Group("pin", pin.arguments, 0, _chosen(pin, PIN), groups))
    return found


def _powers(cell: Group, pin: Group) -> Iterator[Group]:
    for power in _of_supply(cell, pin, "internal_power"):
        tables = [
            Group(table.kind, table.arguments, 0, _chosen(table, TABLE))
            for table in power.of(*POWER_TABLES)
        ]
        yield Group("internal_power", [], 0, _chosen(power, POWER), tables)


def _drop_zeros(cells: list[Group]) -> None:
    """Drop power tables of nothing but 0, and internal power that then says nothing."""
    for cell in cells:
        for pin in cell.of("pin"):
            for power in pin.of("internal_power"):
                power.groups = [t for t in power.groups if any(_numbers(t, "values"))]
                if not power.groups and "when" not in power.attributes:
                    pin.groups.remove(power)


def _thin(cells: list[Group]) -> None:
    """Shorten internal power and leakage."""
    for cell in cells:
        for state in cell.of("leakage_power"):
            state.attributes["value"] = _number(round(float(state.attributes["value"])))
        for pin in cell.of("pin"):
            for power in pin.of("internal_power"):
                for table in power.groups:
                    (name,) = table.arguments
                    has_points = "index_1" in table.attributes and not name.endswith(THINNED)
                    if "when" in power.attributes and has_points:
                        _keep_points(table)
                        table.arguments = [name + THINNED]
                    rounded = (round(value, DECIMALS) + 0.0 for value in _numbers(table, "values"))
                    table.attributes["values"] = ",".join(map(_number, rounded))


def _keep_points(table: Group) -> None:
    """Keep every second point of each axis, and their values; a template has none."""
    names = [name for name in ("index_1", "index_2") if name in table.attributes]
    axes = [_numbers(table, name) for name in names]
    for name, axis in zip(names, axes, strict=True):
        table.attributes[name] = ",".join(map(_number, axis[::2]))
    if "values" in table.attributes:
        values = _numbers(table, "values")
        width = len(axes[1]) if len(axes) > 1 else 1
        rows = [values[i : i + width][::2] for i in range(0, len(values), 2 * width)]
        table.attributes["values"] = ",".join(_number(value) for row in rows for value in row)


def _join(arc: Group, other: Group) -> None:
    """Make each entry of the tables of `arc` the largest of both arcs."""
    for table in other.groups:
        same = next((t for t in arc.groups if t.kind == table.kind), None)
        if same is None:
            arc.groups.append(table)
            continue
        for name in ("index_1", "index_2"):
            if same.attributes.get(name) != table.attributes.get(name):
                raise ValueError(f"tables {table.kind} to be joined differ in {name}")
        pairs = zip(_numbers(same, "values"), _numbers(table, "values"), strict=True)
        same.attributes["values"] = ",".join(_number(max(a, b)) for a, b in pairs)


def _chosen(group: Group, names: Iterable[str]) -> dict[str, str]:
    found = {name: group.attributes[name] for name in names if name in group.attributes}
    for name in ("index_1", "index_2", "values"):
        if name in found:
            found[name] = ",".join(map(_number, _numbers(group, name)))
    numbers = {"area", "cell_leakage_power", "value", *(n for n in PIN if "capacitance" in n)}
    for name in found.keys() & numbers:
        found[name] = _number(float(found[name]))
    return found


def _numbers(table: Group, name: str) -> list[float]:
    return [float(word) for word in table.attributes[name].replace(",", " ").split()]


def _number(value: float) -> str:
    """The shortest text that is read as the same number."""
    return repr(value).removesuffix(".0")


def _tables(cell: Group) -> Iterator[Group]:
    for pin in cell.of("pin"):
        for group in pin.of("timing", "internal_power"):
            yield from group.groups


def written(group: Group) -> str:
    """A group as Liberty; tables have a row of values a line."""
    return "".join(_lines(group, 0))


def _lines(group: Group, depth: int) -> Iterator[str]:
    space = " " * depth
    yield f"{space}{group.kind} ({', '.join(group.arguments)}) {{\n"
    axis = group.attributes.get("index_2", group.attributes.get("values", ""))
    columns = len(axis.split(","))
    for name, value in group.attributes.items():
        if name == "values":
            words = value.split(",")
            rows = [",".join(words[i : i + columns]) for i in range(0, len(words), columns)]
            quoted = ", \\\n".join(f'"{row}"' for row in rows)
            yield f"{space} {name} ({quoted});\n"
        elif name == "capacitive_load_unit":
            yield f"{space} {name} ({value});\n"
        elif name in COMPLEX:
            yield f'{space} {name} ("{value}");\n'
        else:
            yield f'{space} {name} : "{value}";\n'
    for child in group.groups:
        yield from _lines(child, depth + 1)
    yield f"{space}}}\n"


def read(path: Path) -> Group:
    """The library of a file, which may be compressed."""
    raw = path.read_bytes()
    text = gzip.decompress(raw) if path.suffix == ".gz" else raw
    return parse_groups(text.decode(errors="replace"), path.name)


def packed(about: Process, libraries: list[Group]) -> bytes:
    """The file that the package ships."""
    head = (
        f"/* {about.title}. Reduced by mxdot's tools/reduce_liberty.py from {about.origin}.\n"
        f"   Licence: {about.licence}; the notice is in {about.notice.name} beside this file. */\n"
    )
    return gzip.compress((head + written(reduced(about, libraries))).encode(), 9, mtime=0)


def without(about: Process, path: Path) -> str:
    """The text of a file less its default wire load and the cells that flows leave out."""
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode(errors="replace")

    def mark(found: re.Match[str]) -> str:
        kept = not any(fnmatchcase(found[1], pattern) for pattern in about.left_out)
        return found[0] if kept else f"{found[0]} dont_use : true;"

    text = re.sub(r"\bdefault_wire_load\s*:[^;\n]*;?", "", text)
    return re.sub(r'\bcell\s*\(\s*"?([\w.]+)"?\s*\)\s*\{', mark, text)


def compare(about: Process, files: list[Path]) -> None:
    """Print area and delay of units mapped with whole and with reduced files."""
    with tempfile.TemporaryDirectory(prefix="mxdot-liberty-") as name:
        whole = [Path(name) / f"whole{i}.lib" for i in range(len(files))]
        for path, file in zip(whole, files, strict=True):
            path.write_text(without(about, file))
        for format_, accumulator in UNITS:
            text = generate(DotConfig(format_, 4, accumulator), "mxdot_dot")
            for effort in ("area", "speed"):
                costs = [
                    measure(text, "mxdot_dot", flow, cache_dir=Path(name) / "cache")
                    for flow in (
                        Flow("cells", liberty=liberty, effort=effort, timing=timing, sections=False)
                        for timing in ("abc", "own")
                        for liberty in (tuple(whole), (about.file,))
                    )
                ]
                print(
                    f"{about.name}, {format_} {accumulator} x4 for {effort}, whole and reduced: "
                    f"{costs[0].area:,.4f} and {costs[1].area:,.4f} {costs[0].unit}; by ABC "
                    f"{costs[0].delay_ps:,.2f} and {costs[1].delay_ps:,.2f} ps; by mxdot "
                    f"{costs[2].delay_ps:,.3f} and {costs[3].delay_ps:,.3f} ps",
                    flush=True,
                )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Reduce the Liberty files of a process.")
    parser.add_argument("name")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--output", type=Path, help="file to write instead of the package's own")
    parser.add_argument("--compare", action="store_true", help="map units, write nothing")
    args = parser.parse_args()
    about = process(args.name)
    if args.compare:
        compare(about, args.files)
        sys.exit()
    content = packed(about, [read(path) for path in args.files])
    path = args.output or about.file
    write_file(path, content)
    print(f"{path}: {len(content):,} bytes")
