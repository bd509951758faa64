"""Test vectors: dot products and what units compute for them, for benches that know no Python.

`draw` makes operands, `evaluate` asks the golden model, `save` and `load` are the npz file, and
readmemh.py writes the same as text for Verilog. docs/vectors.md describes both for their users.
"""

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...model import DotConfig
from ...model.errors import integer, one_line
from ...model.files import opened
from ...model.formats.codes import code_dtype
from ...model.packing import pack_rows
from ...model.trace import FLAG_NAMES
from ...util.files import write_file
from .item import Batch, predict
from .stimulus import traffic

SCHEMA = 1
LARGEST_COUNT = 1_000_000
LARGEST_BLOCKS = 1024
LARGEST = 2**34  # bytes of a file

# Array: dtype and shape, in n dot products, t blocks in all, k lanes and u units.
# Codes are of the least dtype that holds the widest of the unit's. Blocks of s scales each have an
# axis s more of these.
ARRAYS = {
    "a": (None, "tk"),
    "b": (None, "tk"),
    "scale_a": (np.uint8, "t"),
    "scale_b": (np.uint8, "t"),
    "blocks": (np.uint16, "n"),
    "mode": (np.uint8, "n"),
    "c": (np.uint32, "n"),
    "case": (np.uint8, "n"),
    "result": (np.uint32, "un"),
    "flags": (np.uint8, "un"),
}


@dataclass(frozen=True, eq=False)
class Vectors:
    """n dot products of t blocks in all, in order, and what u units compute for them.

    configs: the units, alike except for the accumulator. cases: names of the cases. origin: the
    command that made the vectors, and whatever else is worth knowing of it.
    a, b: element codes (t, lanes). scale_a, scale_b: scale codes (t,), or (t, s) of s scales of a
    block. blocks: number of blocks of
    each dot product (n,). mode: index of its format pair (n,). c: float32 bits (n,). case: index
    of its case (n,). result: output bits (u, n). flags: FLAG_NAMES[i] in bit i (u, n).
    """

    configs: tuple[DotConfig, ...]
    cases: tuple[str, ...]
    origin: dict[str, str]
    a: NDArray
    b: NDArray
    scale_a: NDArray[np.uint8]
    scale_b: NDArray[np.uint8]
    blocks: NDArray[np.uint16]
    mode: NDArray[np.uint8]
    c: NDArray[np.uint32]
    case: NDArray[np.uint8]
    result: NDArray[np.uint32]
    flags: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.c)

    @property
    def arrays(self) -> dict[str, NDArray]:
        return {name: getattr(self, name) for name in ARRAYS}

    @property
    def last(self) -> NDArray[np.int64]:
        """Index of the last block of each dot product (n,)."""
        return np.cumsum(self.blocks, dtype=np.int64) - 1

    @property
    def first(self) -> NDArray[np.int64]:
        """Index of the first block of each dot product (n,)."""
        return self.last - self.blocks + 1

    def manifest(self) -> dict[str, object]:
        """Everything except the arrays, as plain values, without the unit's registers."""
        config = self.configs[0]
        return {
            "schema": SCHEMA,
            "formats": config.formats_text,
            "lanes": config.lanes,
            **_own_scales(config),
            "accumulators": [str(unit.accumulator) for unit in self.configs],
            "out": config.out.name,
            "status": config.status,
            "load_c": config.load_c,
            "flags": list(FLAG_NAMES),
            "cases": list(self.cases),
            "origin": self.origin,
        }


def _own_scales(config: DotConfig) -> dict[str, object]:
    """Entries of the manifest for scales that are not the one E8M0 of a block."""
    own = {"scales": config.scales, "scale_block": config.scale_block}
    return own if config.has_own_scales else {}


def draw(
    config: DotConfig, count: int, blocks: int, seed: int
) -> tuple[list[Batch], NDArray[np.int64]]:
    """Every sequence of the regression by its share, and `count` dot products of them in an order.

    No dot product has more than `blocks` blocks: longer ones are cut. The same arguments give the
    same dot products. ValueError for a count, number of blocks or seed out of range.
    """
    if config.has_integers:
        raise ValueError(f"out must be a float to write vectors, not {config.out.name}")
    if config.micro:
        raise ValueError("micro must be False to write vectors, not True")
    if config.interleave > 1:
        raise ValueError(f"interleave must be 1 to write vectors, not {config.interleave}")
    integer("count", count, 1, LARGEST_COUNT)
    integer("blocks", blocks, 1, LARGEST_BLOCKS)
    rng = np.random.default_rng(integer("seed", seed, 0))
    made: list[Batch] = []
    total = 0
    while total < count:
        more = traffic(config, rng, count - total)
        made += [_cut(batch, blocks) for batch in more]
        total += sum(map(len, more))
    return made, rng.permutation(total)[:count]


def _cut(batch: Batch, blocks: int) -> Batch:
    names = ("a", "b", "scale_a", "scale_b")
    return replace(batch, **{name: getattr(batch, name)[:, :blocks] for name in names})


def evaluate(
    configs: Sequence[DotConfig],
    batches: Sequence[Batch],
    order: NDArray[np.int64],
    origin: dict[str, str],
) -> Vectors:
    """The dot products of `batches`, in `order`, with the golden model's results.

    A batch's sequence names its case.
    """
    batches = [batch for batch in batches if len(batch)]
    cases = tuple(dict.fromkeys(batch.sequence for batch in batches))
    lengths = _per_product(batches, lambda batch: batch.blocks, order)
    index = _block_index(batches, lengths, order)
    outcomes = [[predict(config, batch) for batch in batches] for config in configs]

    def block_array(name: str) -> NDArray:
        parts = [getattr(batch, name) for batch in batches]
        return np.concatenate([part.reshape(-1, *part.shape[2:]) for part in parts])[index]

    def results(name: str) -> NDArray:
        rows = [np.concatenate([getattr(o, name) for o in unit]) for unit in outcomes]
        return np.stack(rows)[:, order]

    return Vectors(
        tuple(configs),
        cases,
        origin,
        *(block_array(name) for name in ("a", "b", "scale_a", "scale_b")),
        blocks=lengths.astype(np.uint16),
        mode=_per_product(batches, lambda batch: batch.mode, order).astype(np.uint8),
        c=np.concatenate([batch.c for batch in batches])[order],
        case=_per_product(batches, lambda b: cases.index(b.sequence), order).astype(np.uint8),
        result=results("result"),
        flags=results("flags"),
    )


def _per_product(batches: Sequence[Batch], value, order: NDArray[np.int64]) -> NDArray[np.int64]:
    """value(batch) for each dot product of each batch, in `order`."""
    return np.repeat([value(batch) for batch in batches], [len(b) for b in batches])[order]


def _block_index(
    batches: Sequence[Batch], lengths: NDArray[np.int64], order: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Places of the blocks of the dot products in `order` among the blocks of all batches."""
    before = np.concatenate([np.full(len(batch), batch.blocks) for batch in batches])
    starts = (np.cumsum(before) - before)[order]
    places = np.cumsum(lengths) - lengths
    return np.arange(lengths.sum()) + np.repeat(starts - places, lengths)


def save(vectors: Vectors, path: Path) -> None:
    """Write an npz file: the same bytes for the same vectors, on any machine."""
    manifest = json.dumps(vectors.manifest(), indent=1)
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, manifest=np.array(manifest), **vectors.arrays)
    write_file(path, buffer.getvalue())  # not compressed, for compressors differ


def load(path: Path) -> Vectors:
    """The vectors that `save` wrote, checked; ValueError, with the file's name, for other files."""
    try:
        with opened(path, LARGEST) as file:
            arrays = {name: file[name] for name in file.names}
        manifest = json.loads(str(arrays.pop("manifest")))
    except (KeyError, RecursionError, ValueError) as error:
        reason = one_line(str(error))
        raise ValueError(f"{path} cannot be read as test vectors: {reason}") from None
    if not isinstance(manifest, dict) or manifest.get("schema") != SCHEMA:
        raise ValueError(f"schema of {path} must be {SCHEMA}")
    try:
        vectors = Vectors(
            _configs(manifest), tuple(manifest["cases"]), manifest["origin"], **arrays
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} does not hold what its schema says: {error}") from None
    if vectors.manifest() != manifest:
        raise ValueError(f"{path} does not hold what its schema says: manifest")
    _check(vectors, path)
    return vectors


def _configs(manifest: dict) -> tuple[DotConfig, ...]:
    names = {f.name for f in fields(DotConfig)}
    values = {name: manifest[name] for name in manifest if name in names}
    return tuple(DotConfig(accumulator=text, **values) for text in manifest["accumulators"])


def _check(vectors: Vectors, path: Path) -> None:
    """ValueError unless dtypes, shapes and ranges are those of the schema."""
    config = vectors.configs[0]
    codes = {"a": code_dtype(config.bits_a), "b": code_dtype(config.bits_b)}
    axes_of = {name: axes for name, (_, axes) in ARRAYS.items()}
    if config.scale_blocks > 1:
        axes_of |= {"scale_a": "ts", "scale_b": "ts"}
    for name, (plain, _) in ARRAYS.items():
        axes = axes_of[name]
        array, dtype = getattr(vectors, name), plain or codes[name]
        if array.dtype != dtype or array.ndim != len(axes):
            want = f"{np.dtype(dtype)} of {len(axes)} axes"
            raise ValueError(f"{name} of {path} must be {want}, not {array.dtype} {array.shape}")
    sizes = {
        "n": len(vectors),
        "t": int(vectors.blocks.sum(dtype=np.int64)),
        "k": vectors.configs[0].lanes,
        "u": len(vectors.configs),
        "s": config.scale_blocks,
    }
    for name, axes in axes_of.items():
        shape, want = getattr(vectors, name).shape, tuple(sizes[axis] for axis in axes)
        if shape != want:
            raise ValueError(f"{name} of {path} must have shape {want}, not {shape}")
    limits = {
        **dict.fromkeys(("scale_a", "scale_b"), (0, 2**config.scale_bits - 1)),
        "mode": (0, len(config.formats) - 1),
        "blocks": (1, LARGEST_BLOCKS),
        "case": (0, len(vectors.cases) - 1),
        "result": (0, 2**config.out.bits - 1),
        "flags": (0, 2 ** len(FLAG_NAMES) - 1 if config.status else 0),
        "c": (0, 2**32 - 1 if config.load_c else 0),
    }
    for name, (low, high) in limits.items():
        _check_range(name, getattr(vectors, name), low, high, path)
    mode = np.repeat(vectors.mode, vectors.blocks)
    for i, (a, b) in enumerate(config.formats):
        _check_range("a", vectors.a[mode == i], 0, 2**a.bits - 1, path)
        _check_range("b", vectors.b[mode == i], 0, 2**b.bits - 1, path)


def _check_range(name: str, array: NDArray, low: int, high: int, path: Path) -> None:
    if array.size and not (low <= array.min() and array.max() <= high):
        raise ValueError(
            f"{name} of {path} must be from {low} to {high}, "
            f"not from {array.min()} to {array.max()}"
        )


HEADER = "vectors.vh"
MANIFEST = "manifest.json"
_CHUNK = 1 << 15  # blocks converted at a time, to bound the memory used for single bits

# File: one line per block or dot product, and what a line holds.
FILES = {
    "a.hex": ("block", "element codes of a, element 0 in the lowest bits"),
    "b.hex": ("block", "element codes of b, element 0 in the lowest bits"),
    "scale_a.hex": ("block", "{scales} of a"),
    "scale_b.hex": ("block", "{scales} of b"),
    "c.hex": ("block", "float32 bits of c, the same in all blocks of a dot product"),
    "control.hex": ("block", "bit 0: first block, bit 1: last block, bits 2 to 7: mode"),
    "expected.hex": ("dot product", "bits of the result"),
    "flags.hex": ("dot product", "status flags: bit i is flags[i] of the manifest"),
}
MAX_PAIRS = 64  # modes in 6 bits of control.hex

README = """\
Test vectors of an MX dot-product unit, for Verilog's $readmemh.

{made}

Every file holds hexadecimal words, one to a line, in the order in which the unit takes blocks and
gives results: a line for each of {blocks} blocks, or for each of {products} dot products.

{table}

manifest.json holds the same facts, and the unit, for programs; vectors.vh holds the sizes as
Verilog macros.
"""


def check_hex(config: DotConfig) -> None:
    """ValueError for a unit whose mode has no room in text files."""
    pairs = len(config.formats)
    if pairs > MAX_PAIRS:
        raise ValueError(f"formats must be at most {MAX_PAIRS} pairs in text files, not {pairs}")


def save_hex(vectors: Vectors, directory: Path) -> None:
    """Write the files of one unit's vectors into `directory`, in place of older ones.

    ValueError for vectors of several units, and as `check_hex`.
    """
    if len(vectors.configs) != 1:
        raise ValueError(f"vectors must be of one unit, not of {len(vectors.configs)}")
    check_hex(vectors.configs[0])
    words = _words(vectors)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / MANIFEST).unlink(missing_ok=True)  # written last: with it, the files are whole
    for name in FILES:
        if name not in words:
            (directory / name).unlink(missing_ok=True)
    for name, (_, lines) in words.items():
        write_file(directory / name, lines)
    scales = _scales_text(vectors.configs[0])
    table = {
        name: {"lines": lines.count(b"\n"), "bits": bits, "for each": FILES[name][0]}
        | {"holds": FILES[name][1].format(scales=scales)}
        for name, (bits, lines) in words.items()
    }
    write_file(directory / HEADER, _header(vectors).encode())
    write_file(directory / "README.txt", _readme(vectors, table).encode())
    manifest = vectors.manifest() | {"files": table}
    write_file(directory / MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())


def _words(vectors: Vectors) -> dict[str, tuple[int, bytes]]:
    """Bits of a word and all lines, for each file."""
    config = vectors.configs[0]
    blocks = len(vectors.scale_a)
    control = np.repeat(vectors.mode << np.uint8(2), vectors.blocks)
    control[vectors.first] |= np.uint8(1)
    control[vectors.last] |= np.uint8(2)
    c = np.repeat(vectors.c, vectors.blocks)
    width_a, width_b = config.bits_a * config.lanes, config.bits_b * config.lanes
    scale_bits = config.scale_blocks * config.scale_bits
    scales = [codes.reshape(blocks, -1) for codes in (vectors.scale_a, vectors.scale_b)]
    words = {
        "a.hex": (width_a, _packed(vectors.a, config.bits_a)),
        "b.hex": (width_b, _packed(vectors.b, config.bits_b)),
        "scale_a.hex": (scale_bits, _packed(scales[0], config.scale_bits)),
        "scale_b.hex": (scale_bits, _packed(scales[1], config.scale_bits)),
        "c.hex": (32, _lines(c.astype("<u4").view(np.uint8).reshape(blocks, 4))),
        "control.hex": (8, _lines(control[:, None])),
        "expected.hex": (config.out.bits, _lines(_result_bytes(vectors))),
        "flags.hex": (5, _lines(vectors.flags[0][:, None])),
    }
    absent = {"c.hex": not config.load_c, "flags.hex": not config.status}
    return {name: entry for name, entry in words.items() if not absent.get(name)}


def _scales_text(config: DotConfig) -> str:
    """The contents of a line of scales, in words."""
    name = f"{config.scales.upper()} scale code"
    return name if config.scale_blocks == 1 else f"{name}s, that of lane 0 in the lowest bits,"


def _result_bytes(vectors: Vectors) -> NDArray[np.uint8]:
    size = vectors.configs[0].out.bits // 8
    return vectors.result[0].astype("<u4").view(np.uint8).reshape(-1, 4)[:, :size]


def _packed(codes: NDArray, width: int) -> bytes:
    """Lines of (blocks, lanes) codes, element i in the bits from i * width on."""
    chunks = (codes[start : start + _CHUNK] for start in range(0, len(codes), _CHUNK))
    return b"".join(_lines(pack_rows(chunk, width)) for chunk in chunks)


def _lines(words: NDArray[np.uint8]) -> bytes:
    """(n, bytes), least significant byte first, as n lines of hexadecimal digits."""
    digits = 2 * words.shape[1]
    text = np.frombuffer(words[:, ::-1].tobytes().hex().encode(), np.uint8)
    newline = np.full((len(words), 1), ord("\n"), np.uint8)
    return np.hstack([text.reshape(-1, digits), newline]).tobytes()


def _header(vectors: Vectors) -> str:
    config = vectors.configs[0]
    macros = {
        "BLOCKS": len(vectors.scale_a),
        "PRODUCTS": len(vectors),
        "A_BITS": config.bits_a * config.lanes,
        "B_BITS": config.bits_b * config.lanes,
        "RESULT_BITS": config.out.bits,
    }
    if config.has_own_scales:
        macros["SCALE_BITS"] = config.scale_blocks * config.scale_bits
    if config.mode_bits:
        macros["MODE_BITS"] = config.mode_bits
    macros |= {"C": 1} if config.load_c else {}
    macros |= {"STATUS": 1} if config.status else {}
    lines = [f"`define MXDOT_{name} {value}\n" for name, value in macros.items()]
    return "// Sizes of the vectors and of the unit's ports; see README.txt.\n" + "".join(lines)


def _readme(vectors: Vectors, table: dict[str, dict]) -> str:
    config = vectors.configs[0]
    unit = f"{config.formats_text} {config.accumulator} x{config.lanes}, result {config.out.name}"
    made = [f"{name:12} {value}" for name, value in {"unit": unit, **vectors.origin}.items()]
    rows = [f"{'file':14}{'lines':>8}{'bits':>6}  a line holds"]
    for name, entry in table.items():
        rows.append(f"{name:14}{entry['lines']:8}{entry['bits']:6}  {entry['holds']}")
    return README.format(
        made="\n".join(made),
        blocks=len(vectors.scale_a),
        products=len(vectors),
        table="\n".join(rows),
    )
