"""`mxdot compute`: results and flags of products, by a machine or another accumulator."""

import argparse
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..model import Accumulator, Machine, accumulator
from ..model.accumulators.hardware import hardware_of, machine_named, operands_of
from ..model.blocks import LARGEST_BLOCK
from ..model.errors import choice, integer, one_line
from ..model.formats import BLOCK_SCALES, E8M0, MX_FORMATS
from ..model.formats.table import pairs_text
from ..model.quantize import BLOCK, SCALE_RULES
from ..util.files import write_file
from .output import (
    add_json_option,
    check_json_file,
    is_json_printed,
    json_file,
    write_json_file,
)
from .places import different_files, output_file

if TYPE_CHECKING:
    from ..model import Trace
    from .operands import Pair, Scaling, Source

SHOWN = 32
"""Results that are printed; files have all."""
BLOCK_SCALED, UNSCALED = "block", "none"
ENDS = (".npz", ".npy")
EXAMPLES = """examples:
  mxdot compute --machine h100-fp8 a.npy b.npy
  mxdot compute --machine h100-bf16,mi300x-bf16 a.npy b.npy
  mxdot compute --accumulator aligned:13 --format e4m3 a.npy b.npy -o c.npz
  mxdot compute --machine mi300x-bf16 layer.safetensors --name x w --json c.json
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand to those of `mxdot`."""
    parser = subparsers.add_parser(
        "compute",
        help="what a machine or an accumulator computes for these operands",
        description="Multiply the rows of a (M, K) by the rows of b (N, K), or two vectors, with "
        "every bit of a machine or accumulator (docs/numerics.md), and print or write results "
        "and flags. Values (float32, float16, bfloat16, float64 without rounding) are quantised "
        "as the line of each operand says. Codes (FP8, FP6, FP4 of ml_dtypes or safetensors; "
        "uint8 or wider integers with --format) are taken as they are. Zeros fill the last block.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    group = parser.add_argument_group("accumulator, one of")
    who = group.add_mutually_exclusive_group(required=True)
    who.add_argument(
        "--machine",
        metavar="M,...",
        help="a machine, by its name (hopper) or hardware and operands (h100-fp8, mi300x-bf16); "
        "`mxdot machines` lists them; several are shown next to each other",
    )
    who.add_argument(
        "--accumulator", metavar="A,...", help="exact, aligned:13, fused:25, ..., or a machine"
    )
    group = parser.add_argument_group("operands")
    group.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="a and b: .npy, .npz or .safetensors; one file has both, or is multiplied by itself",
    )
    group.add_argument(
        "--name",
        nargs="+",
        default=[],
        metavar="TENSOR",
        help="tensors a and b in files of several",
    )
    group.add_argument(
        "--transpose", action="store_true", help="b is (K, N), so that the result is a @ b"
    )
    group.add_argument(
        "--format",
        metavar="F",
        help="format of the elements, or a pair such as e5m2xe4m3 (default: the first of the "
        "machine that fits the files; e4m3, or int8 with int32)",
    )
    group.add_argument(
        "--scales",
        nargs="+",
        metavar="S",
        help="block: an E8M0 scale per block, in any format, by docs/numerics.md, 2; none: "
        "scales of 1; or files of scale codes of a and of b, (rows, blocks), for operands that are "
        "codes (default: block for values in formats of MX, except where a machine takes "
        "no scales of blocks; none for others, formats of one's own among them)",
    )
    group.add_argument(
        "--scale-rule",
        metavar="R",
        help=f"of --scales block: {', '.join(SCALE_RULES)} (default: {SCALE_RULES[0]})",
    )
    group.add_argument(
        "--scale-format",
        metavar="F",
        help=f"of scales of files: {', '.join(BLOCK_SCALES)} (default: {E8M0})",
    )
    group.add_argument(
        "--block",
        type=int,
        metavar="N",
        help="elements under a scale, 1 to 65536; aligned and fused take a block at a time, a "
        f"machine one of its steps (default: {BLOCK}, or what the files of scales have)",
    )
    group.add_argument(
        "--c",
        type=Path,
        metavar="FILE",
        help="float32 values that results start from, (M, N) or less (default: +0)",
    )
    group = parser.add_argument_group("output")
    group.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="write results and flags as .npz, or results alone as .npy",
    )
    add_json_option(group, "results, their bits and flags")
    parser.set_defaults(run=run)


@dataclass(frozen=True)
class Computed:
    """Results of one accumulator, lines about it and its operands, and the shape of the results."""

    name: str
    about: dict[str, str]
    formats: str
    trace: "Trace"
    shape: list[int]

    @property
    def bits(self) -> list[str]:
        """The results in hex, in the order of their places."""
        return [f"0x{int(bits):08x}" for bits in self.trace.result.view(np.uint32).flat]

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        result = self.trace.result.reshape(self.shape)
        bits = np.vectorize("0x{:08x}".format)(result.view(np.uint32)).tolist()
        flags = {
            name: array.reshape(self.shape).tolist()
            for name, array in vars(self.trace.flags).items()
        }
        about = self.about | {"formats": self.formats}
        return about | {"result": result.tolist(), "bits": bits, "flags": flags}


def run(args: argparse.Namespace) -> int:
    """Multiply, print and write; 0."""
    from .operands import load_sources

    output_file("output", args.output)
    check_json_file(args)
    different_files(output=args.output, json=json_file(args))
    if args.output is not None and args.output.suffix not in ENDS:
        raise ValueError(f"output must end with {' or '.join(ENDS)}, not {str(args.output)!r}")
    rules = _rules(args)
    if args.output is not None and len(rules) > 1:
        raise ValueError(f"output is for one accumulator, not {len(rules)}; --json FILE takes all")
    sources = load_sources(args.files, args.name)
    if args.transpose:
        sources[1] = replace(sources[1], array=sources[1].array.T)
    _check_lengths(sources, args.transpose)
    computed = [_computed(args, rule, name, sources) for name, rule in rules.items()]
    if not is_json_printed(args):
        for one in computed:
            for name, text in one.about.items():
                print(one_line(f"{name:12}{text}"))
            if len(computed) > 1:
                print(f"{'flags':12}{_flags(one.trace)}")
        if len(computed) == 1:
            _print(computed[0].trace, computed[0].shape)
        else:
            _print_several(computed)
    _write(args, computed)
    return 0


def _check_lengths(sources: "list[Source]", transposed: bool) -> None:
    length, other = (source.array.shape[1] for source in sources)
    if length == other:
        return
    fits = length == sources[1].array.shape[0]
    if transposed:
        text = f"b must have as many rows as a has columns, {length}, not {other}"
        raise ValueError(text + "; without --transpose b is (N, K)" * fits)
    text = f"a and b must have equal last axes, not {length} and {other}"
    raise ValueError(text + "; --transpose takes b as (K, N)" * fits)


def _rules(args: argparse.Namespace) -> dict[str, Accumulator]:
    """The accumulators by the names that were given."""
    names = (args.accumulator if args.machine is None else args.machine).split(",")
    make = accumulator if args.machine is None else machine_named
    return {name.strip(): make(name.strip()) for name in names}


def _computed(
    args: argparse.Namespace, rule: Accumulator, name: str, sources: "list[Source]"
) -> Computed:
    """Results of `rule`, given as `name`, for these operands."""
    from ..model.matmul import matmul
    from ..util.data.tensors import load_array
    from .operands import formats_for, operand

    of_hardware = operands_of("" if args.machine is None else name)
    pair = formats_for(rule, args.format, sources, of_hardware)
    scalings = _scalings(args, rule, pair, sources)
    made = [operand(*each) for each in zip(sources, pair, scalings, strict=True)]
    (a, about_a), (b, about_b) = made
    c = None if args.c is None else load_array(args.c)[0]
    kind = scalings[0].format
    trace = matmul(a, b, rule, c, trace=True, stages=False, scale_format=kind)
    shape = [n for n, x in zip(trace.result.shape, sources, strict=True) if not x.is_vector]
    about = {"accumulator": _title(rule), "a": about_a, "b": about_b}
    return Computed(name, about, pairs_text([pair]), trace, shape)


def _title(rule: Accumulator) -> str:
    if not isinstance(rule, Machine):
        return f"{rule}: {rule.rule}"
    hardware = f" ({', '.join(hardware_of(rule))})" * bool(hardware_of(rule))
    return f"{rule}{hardware}: {rule.rule}"


def _scalings(
    args: argparse.Namespace, rule: Accumulator, pair: "Pair", sources: "list[Source]"
) -> "list[Scaling]":
    """How both operands are scaled; ValueError for options that do not go together."""
    from .operands import Scaling, load_scales

    words = args.scales or [_default_scales(rule, pair)]
    _check_scales(args, words, sources)
    name = choice("scale-rule", args.scale_rule or SCALE_RULES[0], SCALE_RULES)
    kind = choice("scale-format", args.scale_format or E8M0.name, BLOCK_SCALES)
    block = BLOCK if args.block is None else integer("block", args.block, 1, LARGEST_BLOCK)
    if words[0] in (BLOCK_SCALED, UNSCALED):
        return [Scaling(words[0] == BLOCK_SCALED, block, name)] * 2
    (scales_a, own_a), (scales_b, own_b) = (load_scales(Path(word)) for word in words)
    for path, own in zip(words, (own_a, own_b), strict=True):
        wanted = args.scale_format or own_a or own
        if own not in (None, wanted):
            raise ValueError(f"scale-format must be {own} for scales of {path}, not {wanted}")
    kind = args.scale_format or own_a or own_b or kind
    if args.block is None:
        block = _block(sources[0].array.shape[1], scales_a.shape[1])
    return [Scaling(False, block, name, scales, kind) for scales in (scales_a, scales_b)]


def _check_scales(args: argparse.Namespace, words: list[str], sources: "list[Source]") -> None:
    is_file = words[0] not in (BLOCK_SCALED, UNSCALED)
    if all(source.is_codes for source in sources):
        if args.scales == [BLOCK_SCALED]:
            raise ValueError(f"scales {BLOCK_SCALED} is for values, and a and b hold codes")
        if args.scale_rule is not None:
            raise ValueError("scale-rule is for values, and a and b hold codes")
    if len(words) != (2 if is_file else 1):
        raise ValueError(
            f"scales must be {BLOCK_SCALED}, {UNSCALED}, or two files, not {' '.join(words)}"
        )
    if args.scale_rule is not None and words[0] != BLOCK_SCALED:
        raise ValueError(f"scale-rule is for --scales {BLOCK_SCALED}, not for {' '.join(words)}")
    if args.scale_format is not None and not is_file:
        raise ValueError(f"scale-format is for --scales FILE FILE, not for {words[0]}")


def _block(length: int, scales: int) -> int:
    """Elements under a scale, by the scales of a row; ValueError where they may be several."""
    if -(-length // BLOCK) == scales:
        return BLOCK
    if length % scales:
        raise ValueError(f"block must be given: {scales} scales are for {length} elements")
    return length // scales


def _default_scales(rule: Accumulator, pair: "Pair") -> str:
    has_scales = not isinstance(rule, Machine) or rule.block_scales
    is_mx = all(fmt.name in MX_FORMATS for fmt in pair)
    return BLOCK_SCALED if has_scales and is_mx else UNSCALED


def _names(trace: "Trace", place: tuple[int, ...]) -> str:
    """Flags of one result."""
    return " ".join(name for name, flags in vars(trace.flags).items() if flags[place])


def _print(trace: "Trace", shape: list[int]) -> None:
    print(f"{'result':12}{_size(shape)}, float32; flags: {_flags(trace)}\n")
    places = list(np.ndindex(trace.result.shape))
    for place in places[:SHOWN]:
        value = trace.result[place]
        bits = f"0x{int(value.view(np.uint32)):08x}"
        print(f"{_where(place, shape)}{value!s:16}{bits}  {_names(trace, place)}".rstrip())
    if len(places) > SHOWN:
        print(f"... {len(places) - SHOWN} more: -o FILE and --json FILE write all")


def _print_several(computed: Sequence[Computed]) -> None:
    """A column of results per accumulator, results that differ first."""
    shape = computed[0].shape
    columns = [list(zip(one.trace.result.flat, one.bits, strict=True)) for one in computed]
    places = list(np.ndindex(computed[0].trace.result.shape))
    rows = list(zip(places, *columns, strict=True))
    is_equal = [len({bits for _, bits in results}) == 1 for _, *results in rows]
    differ = [row for row, equal in zip(rows, is_equal, strict=True) if not equal]
    if len({(one.about["a"], one.about["b"]) for one in computed}) > 1:
        print(f"{'operands':12}not the same for all: --format and --scales make them so")
    print(f"{'result':12}{_size(shape)}, float32; {len(differ)} of {len(rows)} differ\n")
    print(f"{'':12}{''.join(f'{one.name:28}' for one in computed)}".rstrip())
    same = [row for row, equal in zip(rows, is_equal, strict=True) if equal]
    for index, (place, *results) in enumerate((differ + same)[:SHOWN]):
        texts = (f"{value!s:16}{bits:12}" for value, bits in results)
        end = "differ" if index < len(differ) else ""
        print(f"{_where(place, shape)}{''.join(texts)}{end}".rstrip())
    if len(rows) > SHOWN:
        print(f"... {len(rows) - SHOWN} more: --json FILE writes all")


def _size(shape: list[int]) -> str:
    return " x ".join(map(str, shape)) or "one"


def _where(place: tuple[int, ...], shape: list[int]) -> str:
    return f"{' '.join(map(str, place[len(place) - len(shape) :])):12}"


def _flags(trace: "Trace") -> str:
    """Flags and their numbers of results."""
    counts = {name: int(flags.sum()) for name, flags in vars(trace.flags).items()}
    return ", ".join(f"{name} {n}" for name, n in counts.items() if n) or "none"


def _write(args: argparse.Namespace, computed: Sequence[Computed]) -> None:
    """Write the results of one accumulator as NumPy does, and of all as JSON."""
    if args.output is not None:
        (one,) = computed
        result = one.trace.result.reshape(one.shape)
        buffer = io.BytesIO()
        if args.output.suffix == ".npy":
            np.save(buffer, result)
        else:
            flags = {name: x.reshape(one.shape) for name, x in vars(one.trace.flags).items()}
            np.savez(buffer, allow_pickle=False, result=result, **flags)
        write_file(args.output, buffer.getvalue())
        if not is_json_printed(args):
            print(one_line(str(args.output)))
    written = [one.to_dict() for one in computed]
    write_json_file(args, written[0] if len(written) == 1 else written)
