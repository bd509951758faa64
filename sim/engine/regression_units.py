"""The units that are simulated: the default, full and smoke matrices."""

import hashlib
from dataclasses import dataclass
from itertools import cycle
from typing import Any

from ...model import (
    MACHINES,
    MX_FORMATS,
    DotConfig,
    DotQuantizeConfig,
    MatmulConfig,
    QuantizeConfig,
    accumulator,
)
from ...model.accumulators import KINDS, PRESETS
from ...model.formats import ROUNDINGS
from ...model.pipeline.placement import stage_limits
from ...model.quantize import SCALE_RULES
from ...model.units.base import LANES
from ...model.units.dot import EVERY_FORMAT, MAX_INTERLEAVE
from ..quantize.stimulus import every_pair

LONGEST = 80
"""Characters of a file name: file systems take 255, a line of the summary little more than 80."""
_DIGEST = 16


def file_name(name: str) -> str:
    """`name`, or the beginning and a digest of a name that is too long for a file."""
    if len(name) <= LONGEST:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGEST]
    return f"{name[: LONGEST - _DIGEST - 1]}-{digest}"


EVERY_ELEMENT = ",".join(MX_FORMATS)
WIDER = ("e4m3fnuz", "e5m2fnuz", "fp16", "bf16", "tf32", "bf16xint4", "fp16xe2m1")
BULK = 30_000
SMOKE_LANES = 8
FULL_BULK = 100_000


@dataclass(frozen=True)
class Unit:
    """A row of the matrix: a unit of any kind, and the number of items in bulk mode."""

    config: Any
    bulk: int = BULK

    @property
    def name(self) -> str:
        """Name of the row and of its files."""
        return file_name(self.config.name)


def _unit(
    rule: str, formats: str, lanes: int, stages: int, bulk: int = BULK, **options: object
) -> Unit:
    arguments = {"formats": formats, "lanes": lanes, "accumulator": rule, "stages": stages}
    return Unit(DotConfig(**arguments, **options), bulk)  # type: ignore[arg-type]


def _matmul(rows: int, columns: int, dot: Unit, **options: Any) -> Unit:
    return Unit(MatmulConfig(dot.config, rows, columns, **options))


def default_matrix() -> list[Unit]:
    """A few minutes on two cores: every accumulator and preset with every format.

    Pipelines from the shallowest to the deepest, 2 to 128 lanes, every output format, registers
    that saturate, wrap, and hold everything.
    """
    return [*_dot_units(), *_quantize_units(), *_dot_quantize_units(), *_matmul_units()]


def _matmul_units() -> list[Unit]:
    """Streams of single bytes, of odd widths, of several steps per beat; with and without D.

    Tiles that take turns: of deep loops, with as many running values as registers, and with more. B
    that is kept. E4M3 scales, several per block.
    """
    return [
        _matmul(4, 4, _unit("aligned:13", "e4m3", 8, 4), depth=16),
        _matmul(1, 2, _unit("fused:25", "e2m1,e3m2xe2m3,int8", 8, 3), depth=8, initial_c=True,
                a_bytes=36, b_bytes=54, c_bytes=12, d_bytes=5),
        _matmul(1, 2, _unit("exact", "e5m2,e2m1", 4, 2, out="bfloat16", interleave=3), depth=8,
                initial_c=True, keep_b=True, b_bytes=5, d_bytes=9),
        _matmul(1, 3, _unit("fused:25", "bf16", 4, 4), depth=4, a_bytes=1, b_bytes=7, c_bytes=1),
        _matmul(2, 1, _unit("blackwell", "e2m1,e4m3", 8, 6, scales="e4m3", scale_block=4,
                interleave=2), depth=4, initial_c=True),
    ]  # fmt: skip


def _quantize(formats: str, bulk: int, **options: Any) -> Unit:
    return Unit(QuantizeConfig(formats, **options), bulk)


def _quantize_units() -> list[Unit]:
    """Every format, source, rule, rounding and policy; blocks of one beat and of several.

    Scales of E4M3, micro-exponents, and formats that the unit chooses. The first unit meets every
    bfloat16 value under at least five scales, both ends among them.
    """
    return [
        _quantize(EVERY_ELEMENT, 190_000, block=16, source="bfloat16", scale_rule="floor,ceil,even",
                  nonfinite="element", stages=5),
        _quantize("e4m3", 30_000),
        _quantize("e2m1,int8", 15_000, block=16, scale_rule="even", rounding="stochastic", beats=4,
                  random="lfsr", stages=7),
        _quantize("e5m2,e3m2", 15_000, block=8, source="float16", scale_rule="ceil",
                  rounding="stochastic", nonfinite="element", beats=8, stages=1),
        _quantize("e2m3", 30_000, block=4, scale_rule="floor,even", rounding="toward_zero",
                  stages=1),
        _quantize("e4m3,e5m2,int8", 15_000, block=8, source="bfloat16", scale_rule="floor,twice",
                  stages=2),
        _quantize("e4m3fnuz,e5m2fnuz", 30_000, block=4, nonfinite="element", stages=3),
        _quantize("e2m1", 15_000, block=16, scales="e4m3", stages=10),
        _quantize("sm8,sm5,sm3,int5,int3", 15_000, block=16, beats=4, micro=True),
        _quantize("e2m1,int4_symmetric", 5_000, block=8, select=8, stages=6),
        _quantize("e3m2,e2m3,sm6", 5_000, block=4, source="bfloat16", scale_rule="ceil,even",
                  rounding="stochastic", nonfinite="element", select=6),
    ]  # fmt: skip


def _more_quantize_units() -> list[Unit]:
    """Other formats, sources and policies for E4M3 scales, micro-exponents and choices."""
    return [
        _quantize("e4m3,int8", FULL_BULK, block=4, source="bfloat16", nonfinite="element", beats=2,
                  scales="e4m3", stages=3),
        _quantize("e2m1,e3m2", FULL_BULK, block=32, source="float16", rounding="toward_zero",
                  beats=32, scales="e4m3", stages=1),
        _quantize("int8,sm5,int4", FULL_BULK, block=16, source="bfloat16", nonfinite="element",
                  scale_rule="floor,ceil,even", rounding="stochastic", micro=True, stages=8),
        _quantize("e4m3,e5m2,int8", FULL_BULK, block=32, select=8),
        _quantize("e4m3fnuz,int8", FULL_BULK, block=4, source="float16",
                  rounding="toward_zero", nonfinite="element", select=16, stages=9),
    ]  # fmt: skip


def _dot_quantize(dot: Unit, to: str, block: int, **options: Any) -> Unit:
    return Unit(DotQuantizeConfig(dot.config, to, block, **options))


def _dot_quantize_units() -> list[Unit]:
    """Each output of the dot unit, scale rule and rounding; a loop of one cycle and of several."""
    return [
        _dot_quantize(_unit("aligned:13", "e4m3,e2m1", 4, 3), "e4m3", 8),
        _dot_quantize(_unit("hopper", "e5m2xe4m3", 4, 5, out="bfloat16"), "e2m1", 4,
                      scale_rule="even", rounding="stochastic", nonfinite="element", seed=5),
        _dot_quantize(_unit("int32", "int8", 8, 1, out="float16"), "int8", 16, scale_rule="ceil",
                      rounding="toward_zero", quantizer_stages=2),
        _dot_quantize(_unit("exact", "e4m3", 4, 1, gate_idle=True), "e3m2", 8),
    ]  # fmt: skip


def _every_value_units() -> list[Unit]:
    """Every bfloat16 value under every scale: each format to nearest even, and another rounding.

    Rules of scales take turns.
    """
    nearest, *others = ROUNDINGS
    units = []
    for index, fmt in enumerate(MX_FORMATS):
        for turn, rounding in enumerate((nearest, others[index % len(others)])):
            rule = SCALE_RULES[(index + turn) % len(SCALE_RULES)]
            config = QuantizeConfig(fmt, 32, "bfloat16", rule, rounding, stages=1 + index)
            units.append(Unit(config, every_pair(config)))
    return units


def _dot_units() -> list[Unit]:
    return [
        _unit("ada", EVERY_FORMAT, 16, 6),
        _unit("fixed:48:-20", EVERY_FORMAT, 8, 6),
        _unit("fixed:640:-300", "e5m2,e4m3", 4, 3),
        _unit("exact", EVERY_FORMAT, 8, 1),
        _unit("float32", EVERY_FORMAT, 8, 5),
        _unit("rvbna:8", EVERY_FORMAT, 8, 5),
        _unit("blackwell", EVERY_FORMAT, 8, 2),
        _unit("hopper", EVERY_FORMAT, 16, 5),
        _unit("aligned:13", EVERY_FORMAT, 8, 16),
        _unit("fused:25", EVERY_FORMAT, 8, 3),
        _unit("hopper-promoted", EVERY_FORMAT, 8, 4),
        _unit("hopper-mx", EVERY_FORMAT, 8, 3),
        _unit("hopper-fp16", EVERY_FORMAT, 8, 4),
        _unit("aligned:13", "e4m3", 32, 4),
        _unit("fixed:20:-8:wrap", "e4m3,int8,e2m1", 8, 1),
        _unit("exact", "e5m2", 4, 21, out="float16"),
        _unit("int32", "int8", 16, 5),
        _unit("int32", "int4", 128, 3, out="int8_full:shift"),
        _unit("aligned:13", "int8", 16, 3, micro=True),
        _unit("aligned:13", "int5,int3", 8, 4, micro=True),
        _unit("int32", "int8xint4", 16, 6, out="uint8:multiply", scales="u4", zero_points="ab"),
        _unit("int32", "int8", 8, 4, out="int8_full:multiply:8"),
        _unit("int32", "int8", 4, 5, out="float16:scale", zero_points="a"),
        _unit("aligned:30", "e2m3", 4, 1, out="bfloat16"),
        _unit("fused:0", "e3m2", 4, 4),
        _unit("aligned:13", "e4m3", 8, 25, interleave=15),
        _unit("hopper-promoted", "e4m3,e5m2", 8, 6, interleave=3),
        _unit("exact", "e3m2,int8", 4, 9, interleave=2, out="float16"),
        _unit("int32", "int8", 4, 3, interleave=2, out="int8_full:shift"),
        _unit("aligned:13", "e3m2", 8, 2, status=False, load_c=False),
        _unit("fused:25", "e4m3,e2m1", 4, 4, interleave=2, gate_idle=True),
        # Elements of 16 bits and more, alone and mixed with narrow ones; FNUZ formats.
        _unit("exact", "fp16", 4, 5),
        _unit("aligned:13", "bf16,bf16xint4,tf32", 8, 6),
        _unit("float32", "e4m3,fp16xe2m1,bf16", 4, 3),
        _unit("rvbna:4:0", "bf16,fp16,bf16xint4", 4, 4),
        _unit("hopper-fp16", "bf16", 8, 5, interleave=2),
        _unit("ada", "e4m3fnuz,e5m2fnuz,e4m3fnuzxe5m2fnuz", 16, 4),
        # Running values of 16 bits, and a machine whose steps permute the elements.
        _unit("fused:13:float16", "e4m3,fp16", 4, 4),
        _unit("fused:25:bfloat16", "e5m2", 4, 3, out="bfloat16"),
        _unit("aligned:13:float16", "e4m3", 4, 6, out="float16"),
        _unit("aligned:13:bfloat16", "bf16", 4, 4, interleave=2),
        _unit("float16", EVERY_FORMAT, 4, 4),
        _unit("bfloat16", f"{EVERY_FORMAT},bf16", 4, 3),
        _unit("hopper-mma-float16", "e4m3,e5m2", 8, 6),
        # E4M3 scales, alone and several per beat; groups that meet in one alignment.
        _unit("blackwell-mxf4nvf4", "e2m1", 64, 5, scales="e4m3", scale_block=16),
        _unit("exact", "e2m1", 16, 6, scales="e4m3"),
        _unit("aligned:13", "e2m1,e4m3", 16, 5, scales="e4m3"),
        _unit("fixed:32:-12", "e2m1,e4m3", 8, 5, scales="e4m3"),
        _unit("float32", "e2m1,e4m3", 8, 5, scales="e4m3"),
        _unit("rvbna:16", "e2m1", 16, 6, scales="e4m3", interleave=2),
        _unit("bfloat16", "e2m1", 4, 6, scales="e4m3", out="bfloat16"),
        _unit("fused:13", "e2m1", 16, 4, scales="e4m3", interleave=2),
        _unit("blackwell", "e4m3,e2m1", 8, 8, scales="e4m3", scale_block=4),
        _unit("hopper-promoted", "e5m2", 16, 6, scale_block=8),
        # AMD's machines: a beat is a step, except for two with steps side by side. CDNA1's BF16
        # takes as long as four others: `_large_units` has it.
        _unit("cdna1-fp16", "fp16", 4, 5),
        _unit("cdna2-fp16", "fp16,bf16", 4, 3),
        _unit("cdna2-bf16", "bf16", 2, 2),
        _unit("cdna3-fp16", "fp16,bf16", 8, 5),
        _unit("cdna3-xf32", "tf32", 4, 7, interleave=2),
        _unit("cdna3-fp8", "e5m2fnuz,e5m2fnuzxe4m3fnuz", 32, 6, scale_block=16),
        # Sums and products by `+` and `*`: cut finely, and with integer results.
        _unit("exact", "e4m3", 4, 20, target="fpga"),
        _unit("int32", "int8", 4, 3, out="int8_full:shift", zero_points="ab", target="fpga"),
    ]


def _large_units() -> list[Unit]:
    """Units for `FULL=1`: datapaths that narrower units of the default matrix have.

    CDNA1's BF16 is here for its long time.
    """
    fnuz = "e4m3fnuz,e5m2fnuz,e4m3fnuzxe5m2fnuz,e5m2fnuzxe4m3fnuz"
    return [
        _unit("hopper-promoted", "e4m3", 128, 15),
        _unit("hopper", "e4m3", 64, 6),
        _unit("exact", "e4m3", 32, 5),
        _unit("blackwell", "e2m1", 64, 8),
        _unit("int32", "int8", 32, 2),
        _unit("int32", "int8", 32, 3, out="int8_full:shift"),
        _unit("hopper-fp16", "e5m2", 32, 7, interleave=5),
        _unit("blackwell-mxf4nvf4", "e2m1", 128, 9, scale_block=32),
        _unit("ada", EVERY_FORMAT, 32, 8),
        _unit("hopper-fp16", EVERY_FORMAT, 32, 4),
        _unit("hopper", "e4m3", 32, 1),
        _unit("fused:13", "e5m2xe4m3", 16, 5, out="bfloat16"),
        _unit("float32", "e4m3", 16, 1),
        _unit("exact", "e5m2", 16, 23, out="float16"),
        _unit("fixed:96:-60", "fp16", 4, 3),
        _unit("blackwell-mxf4nvf4", "e2m1", 64, 8, scale_block=32),
        _unit("aligned:30:bfloat16", "e4m3", 4, 3, scales="e4m3", out="bfloat16"),
        _unit("cdna3-fp8", fnuz, 32, 6, scale_block=16),
        _unit("fixed:640:-300", "e5m2,e4m3", 8, 3),
        _unit("cdna1-bf16", "bf16", 2, 6),
        _unit("aligned:13", EVERY_FORMAT, 16, 16),
        _unit("blackwell", EVERY_FORMAT, 16, 2),
        _unit("hopper-mx", EVERY_FORMAT, 16, 3),
        _unit("hopper-fp16", "bf16", 16, 5, interleave=2),
        _unit("aligned:13", "e4m3", 16, 27, interleave=15),
        _unit("exact", "fp16", 8, 5),
        _unit("blackwell", "e4m3,e2m1", 16, 8, scales="e4m3", scale_block=4),
        _matmul(4, 4, _unit("aligned:13", "e4m3", 16, 4), depth=16),
        _matmul(2, 3, _unit("exact", EVERY_FORMAT, 4, 3), depth=4, a_bytes=1, b_bytes=7, c_bytes=1),
        _matmul(
            1,
            2,
            _unit("blackwell-mxf4nvf4", "e2m1", 64, 5, scales="e4m3", scale_block=16),
            depth=4,
            b_bytes=24,
        ),
        _matmul(
            2,
            2,
            _unit("aligned:13", "e2m1,e4m3", 8, 5, scales="e4m3", interleave=2),
            depth=4,
            initial_c=True,
        ),
        _matmul(
            4, 2, _unit("hopper", "e5m2", 8, 5, out="bfloat16"), depth=4, c_bytes=3, initial_c=True
        ),
        _matmul(2, 1, _unit("fused:25", "bf16", 4, 4), depth=4, a_bytes=3),
        _matmul(2, 2, _unit("aligned:13", "e4m3", 4, 8, interleave=3), depth=4),
    ]


def _machine_units() -> list[Unit]:
    """Every machine with its own operands and as many lanes as its step takes."""
    units = []
    for machine in MACHINES.values():
        if not machine.has_unit:
            continue
        options = {"formats": ",".join(machine.operands), "accumulator": machine}
        low, high = DotConfig(**options, **machine.own_unit).stage_limits
        config = DotConfig(**options, **machine.own_unit, stages=(low + high) // 2)
        units.append(Unit(config, FULL_BULK))
    return units


ACCUMULATORS = (*(text for kind in KINDS.values() for text in kind.examples), *PRESETS)


def full_matrix() -> list[Unit]:
    """The default matrix, large units, and every accumulator with every format.

    Each accumulator has the shallowest, a middle and the deepest pipeline, several lanes, a matrix
    unit, one whose tiles take turns, one for FPGAs, and a unit before a quantiser. Every machine is
    there too.
    """
    units = [*default_matrix(), *_large_units()]
    units = [Unit(unit.config, max(unit.bulk, FULL_BULK)) for unit in units]
    units += [*_every_value_units(), *_more_quantize_units(), *_machine_units()]
    for rule, to in zip(ACCUMULATORS, cycle(MX_FORMATS)):
        formats = ["int8"] if accumulator(rule).takes_integers else EVERY_FORMAT.split(",")
        for pair in formats:
            low, high = DotConfig(pair, 16, rule).stage_limits
            units += [
                _unit(rule, pair, 16, stages, FULL_BULK)
                for stages in sorted({low, (low + high) // 2, high})
            ]
        for pair in () if accumulator(rule).takes_integers else WIDER:
            low, high = DotConfig(pair, 4, rule).stage_limits
            units.append(_unit(rule, pair, 4, (low + high) // 2, FULL_BULK))
        most = accumulator(rule).most_lanes or max(LANES)
        for lanes in (n for n in (4, 32, 64, 128) if n <= most):
            _, high = DotConfig(formats[0], lanes, rule).stage_limits
            units.append(_unit(rule, formats[0], lanes, high - 1, FULL_BULK))
        low, high = DotConfig(formats[0], 8, rule).stage_limits
        units.append(_unit(rule, formats[0], 8, (low + high) // 2, FULL_BULK, target="fpga"))
        interval = DotConfig(formats[0], 8, rule, high).interval
        units.append(_unit(rule, formats[0], 8, high, FULL_BULK, interleave=max(2, interval)))
        dot = Unit(DotConfig(formats[0], 8, rule))
        units.append(_dot_quantize(dot, to, 8))
        units.append(_matmul(2, 2, dot, depth=4))
        tiles = min(max(2, 2 * interval - 1), MAX_INTERLEAVE)
        turns = _unit(rule, formats[0], 8, high, interleave=tiles)
        units.append(_matmul(2, 2, turns, depth=4, keep_b=True))
    return list({unit.name: unit for unit in units}.values())


def smoke_matrix() -> list[Unit]:
    """Small units for a second simulator, minutes on two cores.

    Every accumulator and preset, then inputs and outputs that few units have.
    """
    return [*map(_smoke_unit, ACCUMULATORS), *_smoke_options(), *_smoke_quantizers()]


def stream_matrix() -> list[Unit]:
    """The smoke matrix, and the units of the default one with one stream in and one out."""
    units = [*smoke_matrix(), *default_matrix()]
    chosen = [unit for unit in units if not isinstance(unit.config, MatmulConfig)]
    return list({unit.name: unit for unit in chosen}.values())


def _smoke_unit(rule: str) -> Unit:
    formats = "int8" if accumulator(rule).takes_integers else "e4m3,e2m1"
    low, high = stage_limits(DotConfig(formats, SMOKE_LANES, rule).pipeline.sections)
    return Unit(DotConfig(formats, SMOKE_LANES, rule, (low + high) // 2), BULK)


def _smoke_options() -> list[Unit]:
    """Side inputs, scales, micro-exponents, products in flight, no flags."""
    dot = DotConfig("e4m3", 4, "aligned:13", 3)
    configs = [
        DotConfig("int8xint4", 8, "int32", 4, "uint8:multiply", scales="u4", zero_points="ab"),
        DotConfig("int8", 4, "int32", 5, "float16:scale", zero_points="a"),
        DotConfig("int8", 4, "int32", 3, "int8_full:shift"),
        DotConfig("int5,int3", 8, "aligned:13", 4, micro=True),
        DotConfig("e2m1", 16, "blackwell", 5, scales="e4m3", scale_block=4),
        DotConfig("e4m3", 8, "aligned:13", 9, interleave=4),
        DotConfig("bf16", 4, "fused:25:bfloat16", 3, "bfloat16"),
        DotConfig("e3m2", 8, "aligned:13", 2, status=False, load_c=False),
        DotQuantizeConfig(dot, "e4m3", 8),
    ]
    return [Unit(config, BULK) for config in configs]


def _smoke_quantizers() -> list[Unit]:
    configs = [
        QuantizeConfig(EVERY_ELEMENT, 4, "bfloat16", "floor,ceil,even", nonfinite="element"),
        QuantizeConfig("e2m1,int8", 8, scale_rule="even", rounding="stochastic", beats=4),
        QuantizeConfig("e5m2", 4, "float16", rounding="stochastic", random="lfsr", stages=1),
        QuantizeConfig("e2m1", 16, scales="e4m3", stages=10),
        QuantizeConfig("sm8,int3", 8, micro=True, beats=2),
        QuantizeConfig("e2m1,int4_symmetric", 4, "bfloat16", select=4),
    ]
    return [Unit(config, BULK) for config in configs]
