"""Test vectors as text for Verilog's $readmemh; docs/vectors.md describes the files."""

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...model import DotConfig
from ...model.packing import pack_rows
from ...util.files import write_file
from .vectors import Vectors

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

README = """\
Test vectors of an MX dot-product unit, for Verilog's $readmemh.

{made}

Every file holds hexadecimal words, one to a line, in the order in which the unit takes blocks and
gives results: a line for each of {blocks} blocks, or for each of {products} dot products.

{table}

manifest.json holds the same facts, and the unit, for programs; vectors.vh holds the sizes as
Verilog macros.
"""


def save_hex(vectors: Vectors, directory: Path) -> None:
    """Write the files of one unit's vectors into `directory`; those of an earlier call go.

    ValueError for vectors of several units.
    """
    if len(vectors.configs) != 1:
        raise ValueError(f"vectors must be of one unit, not of {len(vectors.configs)}")
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
    """For each file, the bits of a word and all lines."""
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
    """What a line of scales holds."""
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
