"""Regenerate the tables of the documentation from the code.

    python tools/tables.py          rewrite them
    python tools/tables.py --check  exit with 1, naming the files, when one is out of date

A table stands between `<!-- table: NAME -->` and `<!-- end -->`.
"""

import csv
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from mxdot.model import E8M0, FORMATS, MACHINES, PRESETS, DotConfig, ElementFormat
from mxdot.model.accumulators import KINDS, accumulator
from mxdot.model.formats import Specials
from mxdot.model.products import Pair
from mxdot.model.schemes import SCHEMES, bits_per_element
from mxdot.model.units import MatmulConfig, QuantizeConfig, UnitConfig
from mxdot.model.units.matmul.registers import COUNTERS, REGISTERS

ROOT = Path(__file__).parent.parent
FILES = (
    "docs/numerics.md",
    "docs/dot-unit.md",
    "docs/architecture.md",
    "docs/machines.md",
    "docs/matrix-unit.md",
    "docs/recipes.md",
    "docs/quantizer.md",
    "docs/matmul.md",
)


def power(value: float) -> str:
    """A power of two as text, or the number itself."""
    exponent = value.hex().split("p")[1]
    return f"2^{int(exponent)}" if value == 2.0 ** int(exponent) and value < 1 else f"{value:g}"


def rows(header: str, lines: list[str]) -> str:
    """A Markdown table."""
    columns = header.count("|") - 1
    return "\n".join([header, "|" + "---|" * columns, *lines])


def special_codes(fmt: ElementFormat) -> tuple[str, str]:
    """Codes of infinity and NaN, by fields."""
    ones, zero = "1" * fmt.exponent_bits, "0" * fmt.mantissa_bits
    if fmt.specials is Specials.NAN_ONLY:
        return "none", f"`s.{ones}.{'1' * fmt.mantissa_bits}`"
    if fmt.specials is Specials.FNUZ:
        return "none", f"`1.{'0' * fmt.exponent_bits}.{zero}`"
    if fmt.specials is Specials.IEEE:
        others = "{01,10,11}" if fmt.mantissa_bits == 2 else "others"
        return f"`s.{ones}.{zero}`", f"`s.{ones}.{others}`"
    return "none", "none"


def formats() -> str:
    """The element formats and the scale."""
    lines = []
    for fmt in FORMATS.values():
        fields = (
            "two's complement" if fmt.is_integer else f"1.{fmt.exponent_bits}.{fmt.mantissa_bits}"
        )
        one = 2**fmt.mantissa_bits
        largest = f"{fmt.largest_code}/{one}" if fmt.is_integer else f"{fmt.largest_finite:g}"
        inf, nan = special_codes(fmt)
        bias = "-" if fmt.is_integer else fmt.bias
        lines.append(
            f"| `{fmt.name}` | {fmt.bits} | {fields} | {bias} | {fmt.emax} | {largest} "
            f"| {power(fmt.smallest)} | {inf} | {nan} |"
        )
    low, high = E8M0.exponent_range
    lines.append(
        f"| `{E8M0.name}` (scale) | {E8M0.bits} | exponent | {E8M0.bias} | - | 2^{high} "
        f"| 2^{low} | none | `0x{E8M0.nan_code:X}` |"
    )
    return rows(
        "| format | bits | fields s.e.m | bias | emax | largest finite | smallest positive "
        "| Inf | NaN |",
        lines,
    )


def accumulators() -> str:
    """The accumulators, a line each; machines have a table of their own."""
    lines = []
    for kind in KINDS.values():
        formats = "int8" if kind.takes_integers else "e4m3"
        low, high = DotConfig(formats, accumulator=kind.examples[0]).stage_limits
        lines.append(f"| `{kind.syntax}` | {kind.summary} | {low}-{high} |")
    return rows("| accumulator | rule | `--stages` at 32 lanes |", lines)


def presets() -> str:
    """The presets' data."""
    lines = [
        f"| `{p.name}` | {p.terms} | `fused:{p.fraction_bits}` "
        f"| {'float32' if p.result_bits == 23 else f'RZ to {p.result_bits} fraction bits'} "
        f"| {p.promote or '-'} | `0x{p.nan_bits:X}` | {p.source} |"
        for p in PRESETS.values()
    ]
    return rows(
        "| preset | terms a step | rule | step's result | promoted every | NaN | source |", lines
    )


def machines() -> str:
    """The machines, presets among them."""
    lines = []
    for machine in MACHINES.values():
        facts = machine.source + (f"; {machine.note}" if machine.note else "")
        rule = f"{machine.operands_text} | {machine.rule}"
        lines.append(f"| `{machine.name}` | {rule} | {facts} | {machine.status} |")
    return rows("| machine | operands | rule | source, and what else | status |", lines)


def machine_figures() -> str:
    """What tools/machine_figures.py measured."""
    with (ROOT / "docs" / "machines.csv").open(encoding="utf-8", newline="") as file:
        header, *measured = csv.reader(file)
    lines = [f"| `{name}` | " + " | ".join(losses) + " |" for name, *losses in measured]
    return rows(f"| {' | '.join(header)} |", lines)


def widths() -> str:
    """Bits of the exact sum of 32 products."""
    lines = []
    for fmt in FORMATS.values():
        pair = Pair(fmt, fmt)
        largest = max(pair.largest, -pair.least)
        total = int(32 * largest * 2.0**-pair.lsb).bit_length()
        lines.append(
            f"| {fmt.name} x {fmt.name} | 2^{pair.lsb} | 32 x {largest:.16g} | {total} + sign |"
        )
    return rows("| product | unit | largest sum of 32 | bits for the exact sum |", lines)


def sections() -> str:
    """The datapath of each accumulator."""
    lines = []
    for text in (*(kind.examples[0] for kind in KINDS.values() if kind.examples), *PRESETS):
        fmt = "int8" if accumulator(text).takes_integers else "e4m3"
        config = DotConfig(fmt, accumulator=text)
        parts = config.pipeline.sections
        low, high = config.stage_limits
        cuts = [len(s.cuts) if high > len(parts) else 0 for s in parts]
        path = " ".join(
            s.name + (f"/{count}" if count > 1 else "") + (" **\\|**" if s.holds else "")
            for s, count in zip(parts, cuts, strict=True)
        )
        intervals = [DotConfig(fmt, accumulator=text, stages=n).interval for n in (low, high)]
        interval = " to ".join(map(str, dict.fromkeys(intervals)))
        lines.append(f"| `{text}` | {path} | {low} to {high} | {interval} |")
    return rows("| accumulator | sections at 32 lanes | registers | interval when chained |", lines)


def schemes() -> str:
    """The schemes' data."""
    lines = []
    for scheme in SCHEMES.values():
        elements = ", ".join(map(str, scheme.elements))
        levels = "; ".join(map(str, scheme.levels))
        lines.append(
            f"| `{scheme.name}` | {elements} | {levels} | {'yes' if scheme.zero_point else '-'} "
            f"| {float(bits_per_element(scheme)):.9g} | {scheme.source} |"
        )
    return rows("| scheme | elements | scales, outermost first | z | bits | source |", lines)


def recipes() -> str:
    """The named recipes of networks, by a program of its own, for which PyTorch is stood in."""
    command = [sys.executable, str(ROOT / "tools" / "recipe_table.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    header, *lines = done.stdout.splitlines()
    return rows(header, lines)


def registers() -> str:
    """The matrix unit's register map, without its counters and the bits of STATUS."""
    lines = []
    for register in REGISTERS.values():
        if register.name.removesuffix("_HIGH") in COUNTERS:
            continue
        access = "/".join(dict.fromkeys(field.access for field in register.fields))
        alike: dict[str, list[str]] = {}
        for field in register.fields:
            alike.setdefault(field.meaning, []).append(f"{field.bits} `{field.name}`")
        fields = "; ".join(f"{', '.join(names)} {meaning}" for meaning, names in alike.items())
        if register.name == "STATUS":
            fields = "see below"
        name = f"`0x{register.offset:02X} {register.name}`"
        lines.append(f"| {name} | {access}: {register.meaning}; {fields} |")
    return rows("| register | access: what; bits |", lines)


def counters() -> str:
    """The matrix unit's counters."""
    return rows(
        "| counter | counts |",
        [f"| `0x{REGISTERS[n].offset:02X} {n}` | {REGISTERS[n].meaning} |" for n in COUNTERS],
    )


def status() -> str:
    """The bits of the matrix unit's STATUS; bits of equal meaning, one per stream, share a row."""
    alike: dict[str, list[str]] = {}
    for field in REGISTERS["STATUS"].fields:
        alike.setdefault(field.meaning, []).append(f"{field.bits} `{field.name}`")
    return rows(
        "| bit | meaning |",
        [f"| {', '.join(names)} | {meaning} |" for meaning, names in alike.items()],
    )


LINKED = {"accumulator": "a rule of [the table below](#accumulators), or [a machine](machines.md)"}
"""Effects of options whose values are a table of their own."""


def options(kind: type[UnitConfig], others: Iterable[str] = ()) -> str:
    """The options of a kind of unit except `others`."""
    lines = []
    for keyword, option in kind.options().items():
        if keyword not in others:
            default = option.default_text or ("off" if option.is_switch else "-")
            lines.append(f"| `{option.flag}` | {default} | {LINKED.get(keyword, option.help)} |")
    return rows("| option | default | effect and values |", lines)


TABLES: dict[str, Callable[[], str]] = {
    "formats": formats,
    "accumulators": accumulators,
    "presets": presets,
    "machines": machines,
    "machine_figures": machine_figures,
    "widths": widths,
    "sections": sections,
    "schemes": schemes,
    "recipes": recipes,
    "registers": registers,
    "counters": counters,
    "status": status,
    "options_dot": lambda: options(DotConfig),
    "options_quantize": lambda: options(QuantizeConfig),
    "options_matmul": lambda: options(MatmulConfig, DotConfig.options()),
}


def render(text: str) -> str:
    """`text` with every marked table made anew."""

    def table(match: re.Match[str]) -> str:
        return f"<!-- table: {match[1]} -->\n{TABLES[match[1]]()}\n<!-- end -->"

    return re.sub(r"<!-- table: (\w+) -->.*?<!-- end -->", table, text, flags=re.S)


def main() -> int:
    """Rewrite or check the files; the exit status."""
    stale = []
    for name in FILES:
        path = ROOT / name
        old = path.read_text(encoding="utf-8")
        new = render(old)
        if new != old:
            stale.append(name)
            if "--check" not in sys.argv:
                path.write_text(new, encoding="utf-8")
    if stale and "--check" in sys.argv:
        print(f"tables out of date in {', '.join(stale)}: run python tools/tables.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
