"""The options that describe a unit, whatever is done with it."""

import argparse
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ..model.accumulators import KINDS as ACCUMULATORS
from ..model.accumulators import MACHINES, PRESETS
from ..model.formats import FORMATS, ROUNDINGS
from ..model.outputs import OUTPUTS
from ..model.pipeline.delays import DEFAULT_DELAYS, DELAYS
from ..model.quantize import NONFINITE, SCALE_RULES
from ..model.units import UnitConfig
from .parser import Renamed


@dataclass(frozen=True)
class Option:
    """A unit's option and the keyword of the configuration that it sets.

    value: what an option without argument stands for. default: what the configuration takes without
    the option, in words.
    """

    flag: str
    keyword: str
    help: str
    metavar: str | None = None
    convert: Callable[[str], object] = str
    value: object = None
    default: str = ""

    @property
    def name(self) -> str:
        """Its name among parsed arguments."""
        return self.flag[2:].replace("-", "_")

    def add(self, parser: argparse._ActionsContainer) -> None:
        """Add the option; None when it is not given."""
        text = f"{self.help} (default: {self.default})" if self.default else self.help
        if self.value is None:
            parser.add_argument(self.flag, help=text, metavar=self.metavar, type=self.convert)
        else:
            self._add_switch(parser)

    def add_list(self, parser: argparse._ActionsContainer) -> None:
        """Add it as the text of a list of such values."""
        if self.value is None:
            metavar = f"{(self.metavar or 'N').removesuffix('[,F...]')},..."
            parser.add_argument(self.flag, help=self.help, metavar=metavar)
        else:
            self._add_switch(parser)

    def _add_switch(self, parser: argparse._ActionsContainer) -> None:
        parser.add_argument(self.flag, help=self.help, action="store_const", const=self.value)

    def add_renamed(self, parser: argparse._ActionsContainer, new: str) -> None:
        """Add it as one that goes elsewhere now."""
        count = "?" if self.value is None else 0
        parser.add_argument(self.flag, action=Renamed, new=f"{new} {self.flag} {{}}", nargs=count)

    def words(self, value: object) -> list[str]:
        """What to type for it."""
        return [self.flag] if self.value is not None else [self.flag, str(value)]


def _number(text: str) -> int:
    """An integer, hexadecimal with 0x."""
    return int(text, 0)


OPTIONS: tuple[Option, ...] = (
    Option(
        "--format",
        "formats",
        f"element formats: {', '.join(FORMATS)}, of a dot unit also pairs such as e5m2xe4m3, of a "
        "quantiser sm3 to sm8, int8_symmetric, int4_symmetric, or a list that the mode input (or "
        "--select) selects from",
        "F[,F...]",
        default="e4m3",
    ),
    Option(
        "--accumulator",
        "accumulator",
        f"{', '.join(kind.syntax for kind in ACCUMULATORS.values())}; a preset: "
        f"{', '.join(PRESETS)}; or another machine of docs/machines.md: "
        f"{', '.join(name for name in MACHINES if name not in PRESETS)}",
        "A",
        default="aligned:13",
    ),
    Option(
        "--lanes",
        "lanes",
        "block size, 4 to 128; 2 too with machines whose steps have 2 elements",
        convert=int,
        default="32",
    ),
    Option(
        "--stages",
        "stages",
        "registers, and so latency",
        convert=int,
        default="4 or the nearest possible",
    ),
    Option(
        "--result",
        "out",
        "float32, bfloat16, float16; of int32 sums int32, or an integer format requantised by "
        "a multiplier (of 31 bits, or 4 to 31) and a shift, or by a shift: int8_full:multiply, "
        "int8_full:multiply:16, int8_full:shift, and so on "
        "for int8_symmetric, uint8, int4_full, int4_symmetric; or a float that a float32 "
        "scales them to: float32:scale, bfloat16:scale, float16:scale",
        "FORMAT",
        default="float32",
    ),
    Option("--no-status", "status", "leave the flag outputs out", value=False),
    Option("--no-c", "load_c", "leave the input in_c out", value=False),
    Option(
        "--scales",
        "scales",
        "scales of blocks; e8m0 or e4m3 (of a quantiser under an outer float32 scale, an input), "
        "and for integer results none or u2 to u8",
        "FORMAT",
        default="e8m0, or none for integer results",
    ),
    Option(
        "--scale-block",
        "scale_block",
        "elements under one scale, 4 to the lanes; fewer than those with fused:F and machines",
        convert=int,
        default="the lanes",
    ),
    Option(
        "--zero-points",
        "zero_points",
        "operands with a zero point, for integer results: a, b, ab",
        "OPERANDS",
        default="none",
    ),
    Option(
        "--interleave",
        "interleave",
        "dot products in flight, 1 to 16, whose blocks take turns in a loop (default: 1)",
        convert=int,
    ),
    Option(
        "--delays",
        "delays",
        f"process by whose delays registers are placed: {', '.join(DELAYS)}",
        "P",
        default=DEFAULT_DELAYS,
    ),
    Option("--micro", "micro", "a micro-exponent for every two elements", value=True),
    Option(
        "--select",
        "select",
        "digits of the errors by which a quantiser chooses each block's format, 2 to 16, best "
        "more than its mantissa bits (default: the input in_mode chooses)",
        convert=int,
    ),
    Option("--block", "block", "elements of a block, 4 to 128", convert=int, default="32"),
    Option(
        "--scale-rule",
        "scale_rule",
        f"{', '.join(SCALE_RULES)}; of a quantiser alone also a list that an input selects from; "
        "E4M3 scales have amax",
        "R",
        default="floor",
    ),
    Option("--rounding", "rounding", f"{', '.join(ROUNDINGS)}", "R", default="nearest_even"),
    Option("--nonfinite", "nonfinite", f"{', '.join(NONFINITE)}", "POLICY", default="poison"),
    Option("--lfsr-seed", "seed", "state of the shift register after a reset", convert=_number),
    Option("--source", "source", f"values: {', '.join(OUTPUTS)}", "FORMAT", default="float32"),
    Option("--beats", "beats", "transfers of a block: 1, 2, 4, ...", convert=int, default="1"),
    Option("--random", "random", "random words: stream, or lfsr inside", "FROM", default="stream"),
    Option("--to", "format", "element format of the results' blocks", "F", default="e4m3"),
    Option("--quantizer-stages", "quantizer_stages", "the quantiser's registers", convert=int),
    Option("--rows", "rows", "dot units down the array, 1 to 64", convert=int, default="8"),
    Option("--columns", "columns", "dot units across it, 1 to 64", convert=int, default="8"),
    Option(
        "--depth",
        "depth",
        "blocks of K up to which a panel of A is kept, 4 to 1024",
        convert=int,
        default="32",
    ),
    *(
        Option(
            f"--{side}-bytes",
            f"{side}_bytes",
            f"bytes a beat of {side.upper()}",
            convert=int,
            default=what,
        )
        for side, what in (
            ("a", "a whole step"),
            ("b", "a whole step"),
            ("c", "a row of a tile"),
            ("d", "a row of a tile"),
        )
    ),
    Option("--initial-c", "initial_c", "add the stream D of initial values of C", value=True),
    Option("--keep-b", "keep_b", "B is sent once where 2 x depth steps hold all of it", value=True),
)
"""The options of units of every kind: one for each of their keywords."""
BY_KEYWORD = {option.keyword: option for option in OPTIONS}


def options_of(kind: type[UnitConfig]) -> tuple[Option, ...]:
    """The options of a kind of unit, in the order of its keywords."""
    return tuple(BY_KEYWORD[keyword] for keyword in kind.keywords())


def given(args: argparse.Namespace, options: Iterable[Option]) -> dict[str, Any]:
    """The configuration's keywords that were given on the command line."""
    values = {option.keyword: getattr(args, option.name) for option in options}
    return {keyword: value for keyword, value in values.items() if value is not None}


def add_options(parser: argparse.ArgumentParser, options: Iterable[Option]) -> None:
    """Options that describe one unit; defaults are those of its configuration."""
    group = parser.add_argument_group("unit")
    for option in options:
        option.add(group)
