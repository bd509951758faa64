"""Tables of results for pages, from the files that the commands of figures write."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

from tables import rows

Line = dict[str, str]


def read(path: Path) -> list[Line]:
    """Lines of a CSV file by their columns."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def markdown(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    return rows(f"| {' | '.join(header)} |", [f"| {' | '.join(line)} |" for line in lines])


def log(out: Path) -> str:
    """The rows of a table that a command printed, without anything around them."""
    text = (out / "log").read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in text if line.startswith("|"))


def reported(out: Path) -> str:
    """A table of `area-report`, with units as code."""
    lines = log(out).splitlines()
    return "\n".join(
        [*lines[:2], *(f"| `{line[2:].replace(' |', '` |', 1)}" for line in lines[2:])]
    )


def of_units(out: Path) -> str:
    """The same of whole units, without their flip-flops."""
    lines = (line for line in reported(out).splitlines() if " products`" not in line)
    return "\n".join(f"{line.rsplit('|', 2)[0]}|" for line in lines)


def clocked(out: Path) -> str:
    """The same with a clock in MHz for each delay in ps."""
    header, rule, *lines = reported(out).splitlines()
    cells = [line.strip("| ").split(" | ") for line in lines]
    for line in cells:
        for place in (2, 4):
            line[place] = f"{1e6 / float(line[place].replace(',', '')):,.0f}"
    return "\n".join(
        [header.replace("| ps |", "| MHz |"), rule, *(f"| {' | '.join(line)} |" for line in cells)]
    )


# Accumulators -------------------------------------------------------------------------------------

SIGNS_BALANCE = ("normal", "outliers", "real")
FRACTION_DATA = (*SIGNS_BALANCE, "log-normal")
AIMS = (
    ("total within 1 dB of exact", lambda line: _loss(line) <= 1.0),
    ("total within 0.1 dB of exact", lambda line: _loss(line) <= 0.1),
    (
        "accumulator's error 10 dB below the format's",
        lambda line: _db(line, "accumulator") >= _db(line, "format") + 10,
    ),
)


def _db(line: Line, part: str) -> float:
    return float(line[f"sqnr_{part}_db"])


def _loss(line: Line) -> float:
    """What the accumulator takes from the SQNR, in dB."""
    return _db(line, "format") - _db(line, "total")


def fraction_bits(out: Path) -> str:
    """The smallest F of aligned:F that meets each aim, and goes on to meet it, at all lengths."""
    measured = read(out / "lengths.csv")

    def smallest(fmt: str, data: str, aim: int) -> str:
        chosen = [line for line in measured if (line["format"], line["data"]) == (fmt, data)]
        misses = [_fraction(line) for line in chosen if not AIMS[aim][1](line)]
        enough = max(misses, default=-1) + 1
        return str(enough) if enough <= max(map(_fraction, chosen)) else "-"

    lines = [
        [
            says,
            *(
                " / ".join(smallest(fmt, data, n) for fmt in ("e4m3", "e5m2"))
                for data in FRACTION_DATA
            ),
        ]
        for n, (says, _) in enumerate(AIMS)
    ]
    return markdown(["F of `aligned:F`, E4M3 / E5M2", *FRACTION_DATA], lines)


def _fraction(line: Line) -> int:
    return int(line["accumulator"].partition(":")[2])


LENGTHS = (128, 512, 1024, 4096, 16384)
LENGTH_DATA = ("normal", "real", "cancellation", "log-normal")


def lengths(out: Path) -> str:
    """What hopper and its promotion lose of the total SQNR, by data and length."""
    measured = {
        (line["accumulator"], line["data"], int(line["length"])): _loss(line)
        for line in read(out / "lengths.csv")
        if line["format"] == "e4m3"
    }
    lines = []
    for data in LENGTH_DATA:
        losses = [measured["hopper", data, length] for length in LENGTHS]
        losses.append(measured["hopper-promoted", data, LENGTHS[-1]])
        lines.append([data, *map(_lost, losses)])
    header = ["dB lost by `hopper`", *map(str, LENGTHS), f"promoted, {LENGTHS[-1]}"]
    return markdown(header, lines)


def _lost(loss: float) -> str:
    """A loss in dB; 0 below what is to be seen."""
    if loss < 0.005:
        return "0"
    return f"{loss:.2f}" if loss < 1 else f"{loss:.1f}" if loss < 10 else f"{loss:.0f}"


FORMATS = ("e4m3", "e5m2", "int8", "e3m2", "e2m3", "e2m1")
UNITS = ("exact", "aligned:6", "aligned:8", "aligned:9", "aligned:14", "aligned:20", "float32")


def units(out: Path) -> str:
    """Areas of units of 32 lanes with all options, in gates; `-` where the study has no unit."""
    areas = {
        (line["format"], line["accumulator"]): f"{float(line['area']):,.0f}"
        for line in reversed(read(out / "compare.csv"))
        if line["generated"].lower() == "true" and line["lanes"] == "32" and line["stages"] == "4"
    }
    lines = [[f"`{fmt}`", *(areas.get((fmt, name), "-") for name in UNITS)] for fmt in FORMATS]
    return markdown(["NAND2", *(f"`{name}`" for name in UNITS)], lines)


NARROW = (("normal", 1024), ("normal", 16384), ("log-normal", 16384))


def narrow(out: Path) -> str:
    """Running values of 16 bits: area and clock in ASAP7, SQNR of the accumulator and in all."""
    units, dbs = read(out / "compare.csv"), read(out / "lengths.csv")
    lines = []
    for unit in {line["accumulator"]: line for line in units}.values():
        name = unit["accumulator"]
        of_unit = {(d["data"], int(d["length"])): d for d in dbs if d["accumulator"] == name}
        cells = [f"{float(unit['area']):,.0f}", f"{float(unit['delay_ps']):,.0f}"]
        cells += [f"{_db(of_unit[where], 'accumulator'):.1f}" for where in NARROW[:2]]
        cells += [f"{_db(of_unit[where], 'total'):.1f}" for where in NARROW[1:]]
        lines.append([f"`{name}`", *cells])
    header = ["accumulator", "um2", "ps", *(f"{d}, {n:,}" for d, n in NARROW[:2])]
    header += [f"with the format's error: {d}, {n:,}" for d, n in NARROW[1:]]
    return markdown(header, lines)


IN_NETWORKS = (
    *(f"aligned:{f}" for f in (3, 4, 5, 6, 7, 8, 10, 13)),
    *("hopper", "exact", "bfloat16", "float32"),
)
"""Rows of the table; the picture has more."""
MEASURES = (
    ("perplexity", "perplexity of the language model", 3),
    ("sqnr_db", "SQNR of the encoder, dB", 1),
    ("area", "um2 at 1 GHz", 0),
)


def perplexity(out: Path) -> str:
    """Networks through accumulators, and areas of units at a clock."""
    found = {line["name"]: line for line in read(out / "perplexity.csv")}
    missing = [name for name in IN_NETWORKS if name not in found]
    if missing:
        raise ValueError(f"perplexity.csv must have {', '.join(missing)}")
    lines = []
    for name in IN_NETWORKS:
        line = found[name]
        clock = f"{line['reached_mhz']} MHz" if line["reached_mhz"] else "-"
        numbers = [_number(line[column], digits) for column, _, digits in MEASURES]
        lines.append([f"`{name}`" if line["area"] else name, *numbers, clock])
    header = ["accumulator", *(says for _, says, _ in MEASURES), "clock reached instead"]
    return markdown(header, lines)


# Schemes ------------------------------------------------------------------------------------------

SHOWN = (
    *("int4_channel", "int4_g128", "mxfp4:even", "vsquant4_u4", "nvfp4", "mx6", "mxfp6_e2m3:even"),
    *("mxfp6_e3m2:ceil", "int8_tensor", "fp8_e4m3_tensor", "int8_channel", "mxint8"),
    *("mxfp8_e4m3:ceil", "vsquant8_u6", "mx9"),
)
"""Schemes of the table; the command has all."""


def products(out: Path) -> str:
    """SQNR of products under each scheme."""
    found = {(line["scheme"], line["data"]): line for line in read(out / "schemes.csv")}
    data = list(dict.fromkeys(line["data"] for line in read(out / "schemes.csv")))
    missing = [name for name in SHOWN if (name, data[0]) not in found]
    if missing:
        raise ValueError(f"schemes.csv must have {', '.join(missing)}")
    lines = []
    for name in SHOWN:
        dbs = [f"{float(found[name, where]['sqnr_product_db']):.1f}" for where in data]
        lines.append([f"`{name}`", f"{float(found[name, data[0]]['bits']):.2f}", *dbs])
    return markdown(["scheme", "bits", *(name.replace("real ", "") for name in data)], lines)


LIMITS = ("amax", "mse", "kl", "octav")
"""Calibrators of the table; the command has all."""


def clipping(out: Path) -> str:
    """SQNR of new rows under the limits of calibrators, for INT4 with one scale a tensor."""
    measured = read(out / "clipping.csv")
    found = [r for r in measured if r["setting"] in LIMITS and r["scheme"] == "int4_tensor"]
    data = list(dict.fromkeys(line["data"] for line in found))
    lines = []
    for setting in dict.fromkeys(line["setting"] for line in found):
        dbs = {
            line["data"]: f"{float(line['sqnr_db']):.1f}"
            for line in found
            if line["setting"] == setting
        }
        lines.append([f"`{setting}`", *(dbs[name] for name in data)])
    return markdown(["limit", *(name.replace("real ", "") for name in data)], lines)


IN_NETWORK = (
    *("int4_channel", "int4_g128", "int4_affine_g128", "mxfp4", "vsquant4_u4", "nvfp4", "mx6"),
    *("int4_g128/int8_affine_channel", "mxfp6_e2m3", "int8_tensor", "int8_channel"),
    *("int8_affine_channel", "fp8_e4m3_tensor", "mxfp8_e4m3", "mxint8", "vsquant8_u6", "mx9"),
    *("int4_g128/bfloat16",),
)
"""Pairings of the table, in order; the command and the picture have more."""
LITTLE = 0.05
"""Bits that scales of tokens add to those of a weight."""


def network(out: Path) -> str:
    """Pairings in an encoder, and the area of each one's unit."""
    found = {line["scheme"].partition(":")[0]: line for line in read(out / "schemes.csv")}
    missing = [name for name in IN_NETWORK if name not in found]
    if missing:
        raise ValueError(f"schemes.csv must have {', '.join(missing)}")
    lines = []
    for line in (found[name] for name in IN_NETWORK):
        weights, activations = (float(line[f"bits_{w}"]) for w in ("weights", "activations"))
        bits = [weights, activations] if abs(weights - activations) > LITTLE else [weights]
        area = _number(line["area_per_lane"], 0)
        lines.append(
            [
                f"`{line['scheme']}`",
                ", ".join(f"{each:.2f}" for each in bits),
                f"{_number(line['sqnr_db'], 1)}, {_number(line['sqnr_least_db'], 1)}",
                _number(line["encoder_sqnr_db"], 1),
                _number(line["encoder_cosine"], 4),
                area,
            ]
        )
    header = [
        "weights/activations",
        "bits",
        "layers, least",
        "embeddings",
        "cosine",
        "NAND2 a lane",
    ]
    return markdown(header, lines)


def _number(text: str, digits: int) -> str:
    return f"{float(text):,.{digits}f}" if text else "-"


# Training -----------------------------------------------------------------------------------------


def losses(out: Path) -> str:
    """Losses against bfloat16's and errors of single steps, the least loss first."""
    ((base, by_variant),) = _sizes(out)
    lines = [
        [f"`{name}`", each["minus bfloat16"], each["standard error"], each["gradient error"]]
        for name, each in by_variant.items()
    ]
    header = [f"variant (bfloat16: {base})", "loss minus bfloat16", "standard error"]
    return markdown([*header, "gradient error"], lines)


def losses_by_size(out: Path) -> str:
    """The same at every size, side by side."""
    sizes = [by_variant for _, by_variant in _sizes(out)]
    columns = ("minus bfloat16", "standard error", "gradient error")
    lines = [
        [f"`{name}`", *(", ".join(each[name][column] for each in sizes) for column in columns)]
        for name in sorted(sizes[0])
    ]
    return markdown(["variant", "loss minus bfloat16", "standard error", "gradient error"], lines)


def _sizes(out: Path) -> list[tuple[str, dict[str, Line]]]:
    """bfloat16's loss, and the cells of each other variant by their columns, for each size."""
    tables: list[list[Line]] = []
    header: list[str] = []
    for text in (out / "losses.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in text.strip("|").split("|")]
        if not text.startswith("|"):
            header = []
        elif not header:
            header = cells
            tables.append([])
        elif not text.startswith("|-"):
            tables[-1].append(dict(zip(header, cells, strict=True)))
    sizes = []
    for trained, steps in zip(tables[::2], tables[1::2], strict=True):
        by_variant = {line["variant"]: line for line in trained}
        for line in steps:
            first, *_ = line.values()
            by_variant[first] = {**line, **by_variant[first]}
        base = by_variant.pop("bfloat16")
        sizes.append((base["validation loss"], by_variant))
    return sizes
