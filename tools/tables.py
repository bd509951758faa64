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

from mxdot.model import E8M0, FORMATS, MACHINES, DotConfig, ElementFormat
from mxdot.model.accumulators import KINDS, Machine
from mxdot.model.accumulators.machine import CHECKED, MEASURED, MODELLED
from mxdot.model.formats import Specials
from mxdot.model.products import Pair
from mxdot.model.schemes import SCHEMES, Scheme, bits_per_element
from mxdot.model.units import MatmulConfig, QuantizeConfig, UnitConfig
from mxdot.model.units.matmul.registers import COUNTERS, REGISTERS

ROOT = Path(__file__).parent.parent
FILES = (
    "docs/numerics.md",
    "docs/numerics-schemes.md",
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


def special_codes(fmt: ElementFormat) -> str:
    """Codes of infinity and NaN, by fields."""
    ones, zero = "1" * fmt.exponent_bits, "0" * fmt.mantissa_bits
    if fmt.specials is Specials.NAN_ONLY:
        return f"NaN `s.{ones}.{'1' * fmt.mantissa_bits}`"
    if fmt.specials is Specials.FNUZ:
        return f"NaN `1.{'0' * fmt.exponent_bits}.{zero}`"
    if fmt.specials is Specials.IEEE:
        return f"Inf `s.{ones}.{zero}`, NaN other `s.{ones}.*`"
    return "none"


def exact_sum_bits(fmt: ElementFormat) -> int:
    """Magnitude bits of the exact sum of 32 products."""
    pair = Pair(fmt, fmt)
    return int(32 * max(pair.largest, -pair.least) * 2.0**-pair.lsb).bit_length()


def formats() -> str:
    """The element formats and the scale."""
    lines = []
    for fmt in FORMATS.values():
        fields = (
            "two's complement" if fmt.is_integer else f"1.{fmt.exponent_bits}.{fmt.mantissa_bits}"
        )
        one = 2**fmt.mantissa_bits
        largest = f"{fmt.largest_code}/{one}" if fmt.is_integer else f"{fmt.largest_finite:g}"
        bias = "-" if fmt.is_integer else fmt.bias
        lines.append(
            f"| `{fmt.name}` | {fmt.bits} | {fields} | {bias} | {fmt.emax} | {largest} "
            f"| {power(fmt.smallest)} | {special_codes(fmt)} | {exact_sum_bits(fmt)} |"
        )
    low, high = E8M0.exponent_range
    lines.append(
        f"| `{E8M0.name}` (scale) | {E8M0.bits} | exponent | {E8M0.bias} | - | 2^{high} "
        f"| 2^{low} | NaN `0x{E8M0.nan_code:X}` | - |"
    )
    return rows(
        "| format | bits | s.e.m | bias | emax | largest finite | smallest positive "
        "| special codes | sum of 32 |",
        lines,
    )


def accumulators() -> str:
    """The accumulators, a line each; machines have a table of their own."""
    lines = []
    for kind in KINDS.values():
        formats = "int8" if kind.takes_integers else "e4m3"
        limits: dict[str, str] = {}
        for text in kind.examples:
            limits.setdefault(stages(DotConfig(formats, accumulator=text)), text)
        alone = [*limits.values()] == [kind.syntax]
        shown = ", ".join(each if alone else f"{each} `{text}`" for each, text in limits.items())
        lines.append(f"| `{kind.syntax}` | {kind.summary} | {shown} |")
        if kind.takes_integers:
            sums = stages(DotConfig(formats, accumulator=kind.syntax, out="int32"))
            lines.append(
                f"| `{kind.syntax}`, `--result int32` | the same into an INT32 c | {sums} |"
            )
    return rows("| accumulator | rule | `--stages` of e4m3 (`int32`: int8), 32 lanes |", lines)


def stages(config: DotConfig) -> str:
    """Range of the stages of such a unit."""
    low, high = config.stage_limits
    return f"{low}-{high}"


STATUS = {MEASURED: "measured", CHECKED: "checked", MODELLED: "model"}
FIGURES = ("normal 1024", "normal 16384", "log-normal 16384")
"""Columns of docs/machines.csv, which tools/machine_figures.py measured."""
FP8 = "e4m3, e5m2, e4m3xe5m2, e5m2xe4m3"


def machines() -> str:
    """The machines, those of one rule and one set of operands in a row, with their figures."""
    with (ROOT / "docs" / "machines.csv").open(encoding="utf-8", newline="") as file:
        figures = {row["machine"]: row for row in csv.DictReader(file)}
    groups: dict[tuple[str, str], list[Machine]] = {}
    for machine in MACHINES.values():
        groups.setdefault((machine.operands_text, machine.rule), []).append(machine)
    lines = []
    for (operands, rule), same in groups.items():
        names = ", ".join(f"`{machine.name}`" for machine in same)
        status = listed(STATUS[machine.status] for machine in same)
        row = figures[same[0].name]
        losses = ", ".join(row[name] for name in FIGURES)
        lanes = row["unit"].removesuffix(" lanes")
        area = f"{row['NAND2']}/{lanes}" if lanes else "no RTL"
        shown = "FP8" if operands == FP8 else operands
        lines.append(f"| {names} | {shown} | {rule} | {status} | {losses} | {area} |")
    return rows("| machine | operands | rule | status | SNR, dB | NAND2/lanes |", lines)


PATHS = ("exact", "aligned:13", "fused:13", "fixed:48:-20", "float32", "hopper-promoted")
"""Accumulators of the table of datapaths; those of the others are alike."""


def sections() -> str:
    """The datapaths of accumulators."""
    lines = []
    for text in PATHS:
        config = DotConfig("e4m3", accumulator=text)
        parts = config.pipeline.sections
        low, high = config.stage_limits
        cuts = [len(s.cuts) if high > len(parts) else 0 for s in parts]
        path = " ".join(
            s.name + (f"/{count}" if count > 1 else "") + (" **\\|**" if s.holds else "")
            for s, count in zip(parts, cuts, strict=True)
        )
        intervals = [DotConfig("e4m3", accumulator=text, stages=n).interval for n in (low, high)]
        interval = " to ".join(map(str, dict.fromkeys(intervals)))
        lines.append(f"| `{text}` | {path} | {low} to {high} | {interval} |")
    return rows("| accumulator | sections at 32 lanes | registers | interval when chained |", lines)


def listed(texts: Iterable[str]) -> str:
    """Distinct texts, in their order; words that all begin with, once."""
    distinct = list(dict.fromkeys(texts))
    start = distinct[0].rpartition(" ")[0] + " "
    if all(text.startswith(start) for text in distinct):
        distinct[1:] = [text.removeprefix(start) for text in distinct[1:]]
    return ", ".join(distinct)


def schemes() -> str:
    """The schemes' data, alike ones in one row."""
    groups: dict[tuple[str, ...], list[Scheme]] = {}
    for scheme in SCHEMES.values():
        alike = re.sub(
            r"(?<!float)(?<!float\d)\d", "", "; ".join(map(str, (*scheme.elements, *scheme.levels)))
        )
        groups.setdefault((alike, str(scheme.zero_point), scheme.source), []).append(scheme)
    lines = []
    for (*_, source), same in groups.items():
        names = listed(f"`{scheme.name}`" for scheme in same)
        elements = listed(" / ".join(map(str, scheme.elements)) for scheme in same)
        zero = ", with z" if same[0].zero_point else ""
        levels = [[str(level) for level in scheme.levels] for scheme in same]
        scales = "; ".join(map(listed, zip(*levels, strict=True)))
        bits = listed(f"{float(bits_per_element(scheme)):.9g}" for scheme in same)
        lines.append(f"| {names} | {elements}{zero} | {scales} | {bits} | {cited(source)} |")
    return rows("| scheme | elements | scales, outermost first | bits | source |", lines)


def cited(source: str) -> str:
    """The number of a paper on arXiv, or the whole source of another."""
    number = re.search(r"arXiv:[\d.]*\d", source)
    after = "after " if source.startswith("after ") else ""
    return after + number[0] if number else source


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


LINKED = {
    "accumulator": "a rule of [the table below](#accumulators), or [a machine](machines.md)",
    "formats": "[element formats](numerics.md#1-element-formats), pairs such as e5m2xe4m3, or a "
    "list that the mode input selects from, with lanes as wide as the widest",
}
"""Effects of a dot unit's options whose values are a table of their own."""


def options(kind: type[UnitConfig], others: Iterable[str] = ()) -> str:
    """The options of a kind of unit except `others`."""
    lines, linked = [], LINKED if kind is DotConfig else {}
    for keyword, option in kind.options().items():
        if keyword not in others:
            default = option.default_text or ("off" if option.is_switch else "-")
            lines.append(f"| `{option.flag}` | {default} | {linked.get(keyword, option.help)} |")
    return rows("| option | default | effect and values |", lines)


TABLES: dict[str, Callable[[], str]] = {
    "formats": formats,
    "accumulators": accumulators,
    "machines": machines,
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
