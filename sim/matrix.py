"""The regression matrix: which units are simulated, by default and in full."""

from dataclasses import dataclass

from ..model import DotConfig, accumulator
from ..model.config import LANES
from ..model.pipeline import sections, stage_limits

EVERY_FORMAT = "e4m3,e5m2,e3m2,e2m3,e2m1,int8,int4,e5m2xe4m3,e4m3xe5m2"
"""Every element format, and the mixed FP8 pairs, in one unit with a mode input."""

BULK = 45_000
FULL_BULK = 100_000


@dataclass(frozen=True)
class Unit:
    """A row of the matrix. bulk: dot products simulated in bulk mode."""

    config: DotConfig
    bulk: int = BULK

    @property
    def name(self) -> str:
        """Names the row, its files, and the row to repeat."""
        return unit_name(self.config)


def unit_name(config: DotConfig) -> str:
    """A name that is a file name and differs for different configurations."""
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


def _unit(
    rule: str, formats: str, lanes: int, stages: int, bulk: int = BULK, **options: object
) -> Unit:
    arguments = {"formats": formats, "lanes": lanes, "accumulator": rule, "stages": stages}
    return Unit(DotConfig(**arguments, **options), bulk)  # type: ignore[arg-type]


def default_matrix() -> list[Unit]:
    """A few minutes on two cores: every accumulator and preset with every format.

    Pipelines from the shallowest to the deepest, 4 to 128 lanes, every output format, registers
    that saturate, wrap, and hold everything. The slowest builds come first.
    """
    return [
        _unit("hopper-promoted", "e4m3", 128, 15, bulk=15_000),
        _unit("ada", EVERY_FORMAT, 32, 8, bulk=30_000),
        _unit("fixed:48:-20", EVERY_FORMAT, 8, 6),
        _unit("hopper", "e4m3", 64, 6, bulk=30_000),
        _unit("fixed:640:-300", "e5m2,e4m3", 8, 3, bulk=20_000),
        _unit("exact", EVERY_FORMAT, 8, 1),
        _unit("float32", EVERY_FORMAT, 8, 5),
        _unit("blackwell", EVERY_FORMAT, 16, 2),
        _unit("hopper", EVERY_FORMAT, 16, 5),
        _unit("aligned:13", EVERY_FORMAT, 16, 6),
        _unit("fused:25", EVERY_FORMAT, 8, 3),
        _unit("hopper-promoted", EVERY_FORMAT, 8, 4),
        _unit("hopper-mx", EVERY_FORMAT, 16, 3, bulk=30_000),
        _unit("hopper-fp16", EVERY_FORMAT, 32, 4, bulk=30_000),
        _unit("exact", "e4m3", 32, 5),
        _unit("aligned:13", "e4m3", 32, 4),
        _unit("hopper", "e4m3", 32, 1),
        _unit("fused:13", "e5m2xe4m3", 16, 5, out="bfloat16"),
        _unit("exact", "e5m2", 16, 3, out="float16"),
        _unit("blackwell", "e2m1", 64, 8),
        _unit("float32", "e4m3", 16, 1),
        _unit("fixed:20:-8:wrap", "e4m3,int8,e2m1", 8, 1, bulk=60_000),
        _unit("int32", "int8", 128, 5),
        _unit("int32", "int8", 32, 2, bulk=80_000),
        _unit("int32", "int8", 32, 3, out="int8_full:shift"),
        _unit("aligned:13", "int8", 16, 3, bulk=30_000, micro=True),
        _unit("int32", "int8xint4", 16, 6, out="uint8:multiply", scales="u4", zero_points="ab"),
        _unit("aligned:30", "e2m3", 4, 1, bulk=80_000, out="bfloat16"),
        _unit("fused:0", "e3m2", 4, 4, bulk=80_000),
        _unit("aligned:13", "e3m2", 8, 2, bulk=80_000, status=False, load_c=False),
    ]


ACCUMULATORS = (
    "exact",
    "aligned:13",
    "fused:13",
    "fused:25",
    "fixed:48:-20",
    "fixed:24:-10:wrap",
    "float32",
    "int32",
    "hopper",
    "hopper-promoted",
    "hopper-mx",
    "hopper-fp16",
    "ada",
    "blackwell",
)


def full_matrix() -> list[Unit]:
    """The default matrix, every accumulator x format x (shallowest, middle, deepest), and lanes."""
    units = [Unit(unit.config, max(unit.bulk, FULL_BULK)) for unit in default_matrix()]
    for rule in ACCUMULATORS:
        formats = ["int8"] if rule == "int32" else EVERY_FORMAT.split(",")
        for pair in formats:
            low, high = stage_limits(sections(accumulator(rule), 16, "float32"))
            units += [
                _unit(rule, pair, 16, stages, FULL_BULK)
                for stages in sorted({low, (low + high) // 2, high})
            ]
        promote = getattr(accumulator(rule), "promote", None) or max(LANES)
        for lanes in (n for n in (4, 32, 64, 128) if n <= promote):
            _, high = stage_limits(sections(accumulator(rule), lanes, "float32"))
            units.append(_unit(rule, formats[0], lanes, high - 1, FULL_BULK))
    return list({unit.name: unit for unit in units}.values())
