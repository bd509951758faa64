"""Names of units in a regression: of their rows, their files, and to repeat one of them."""

import hashlib

from ...model import FORMATS, DotConfig, DotQuantizeConfig, QuantizeConfig
from ...model.matmul_config import MatmulConfig

EVERY_FORMAT = ",".join([*FORMATS, "e5m2xe4m3", "e4m3xe5m2"])
"""Every element format, and the mixed FP8 pairs, in one unit with a mode input."""


LONGEST = 80
"""Characters of a name: file systems take 255, and a line of the summary little more than this."""
_DIGEST = 16


def file_name(name: str) -> str:
    """`name`, or of one that is too long for a file its beginning and a digest of it all."""
    if len(name) <= LONGEST:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGEST]
    return f"{name[: LONGEST - _DIGEST - 1]}-{digest}"


def dot_name(config: DotConfig) -> str:
    """A name that differs for different configurations."""
    formats = config.formats_text
    formats = "all" if formats == EVERY_FORMAT else formats.replace(",", "+")
    parts = [
        str(config.accumulator).replace(":", "_"),
        formats,
        f"x{config.lanes}",
        f"s{config.stages}",
    ]
    if config.out.name != "float32":
        parts.append(config.out.name.replace(":", "_"))
    if config.has_integers:
        parts += [f"scales_{config.scales}"] * (config.scales != "none")
        parts += [f"zero_{config.zero_points}"] * (config.zero_points != "none")
    parts += ["micro"] * config.micro
    parts += ["nostatus"] * (not config.status) + ["noc"] * (not config.load_c)
    return "-".join(parts)


def matmul_name(config: MatmulConfig) -> str:
    """The array, its depth, the streams' widths unless all are a step or row, the dot units."""
    parts = ["matmul", f"{config.rows}x{config.columns}x{config.depth}"]
    sides = (*config.inputs, "c")
    widths = [config.stream_bytes(side) for side in sides]
    if widths != [config.unit_bytes(side) for side in sides]:
        parts.append("w" + "_".join(map(str, widths)))
    parts += ["d"] * config.initial_c
    return "-".join([*parts, dot_name(config.dot).removesuffix("-noc")])


def dot_quantize_name(config: DotQuantizeConfig) -> str:
    """The dot unit, the format, and what of the quantiser is not as it is by default."""
    quantizer = config.quantizer
    parts = ["dot-quantize", dot_name(config.dot).replace("-nostatus", ""), "to"]
    parts += [quantizer.formats_text, f"x{quantizer.block}", f"s{quantizer.stages}"]
    parts += [*quantizer.scale_rules]
    parts += [quantizer.rounding] * (quantizer.rounding == "toward_zero")
    parts += [quantizer.nonfinite] * (quantizer.nonfinite != "poison")
    parts += [f"lfsr_{quantizer.seed:x}"] * quantizer.is_stochastic
    return "-".join(parts)


def quantize_name(config: QuantizeConfig) -> str:
    """The formats, the block and its beats, the source, and what else there is to choose."""
    formats = "+".join(fmt.name for fmt in config.formats)
    parts = [
        "quantize",
        "all" if formats == "+".join(FORMATS) else formats,
        f"x{config.block}",
        f"s{config.stages}",
        config.source.name,
        "+".join(config.scale_rules),
        config.rounding,
        config.nonfinite,
    ]
    parts += [f"b{config.beats}"] * (config.beats > 1)
    parts += [f"{config.random}_{config.seed:x}"] * (config.random == "lfsr")
    return "-".join(parts)
